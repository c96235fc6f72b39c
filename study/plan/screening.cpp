// SPDX-License-Identifier: Apache-2.0
#include "study/plan/screening.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "study/plan/bounds.h"
#include "study/plan/ranking.h"

namespace plimsoll::study::plan {
namespace {

// A run that exceeds a limit by this factor is not worth confirming. A short run may exceed it because of its start
// (all clients at once) or its end (the time of its last requests). So, unless its queue grows, the candidate gets a
// longer run before it is left out.
constexpr double kHopeless = 1.5;

}  // namespace

Screening::Screening(const Question& question, Trials& trials, Answer& answer)
    : question_(question), trials_(trials), answer_(answer) {}

bool Screening::was_run(std::size_t candidate) const {
  const Stage stage = answer_.entries[candidate].stage;
  return stage == Stage::screened || stage == Stage::confirmed;
}

// Within a family more replicas never hurt (more_replicas_help()): if a fleet fails, so do all smaller ones.
const PoolCounts* Screening::larger_that_misses(std::size_t candidate) const {
  const auto found = too_few_.find(question_.candidates[candidate].family);
  if (found == too_few_.end()) return nullptr;
  const PoolCounts mine = counts(candidate);
  for (const PoolCounts& others : found->second)
    if (mine != others && mine.fits_into(others)) return &others;
  return nullptr;
}

void Screening::fill(std::size_t candidate, const Trial& trial) {
  const sched::PointMetrics* const run = &trials_.of(trial);
  Entry& entry = answer_.entries[candidate];
  entry.stage = Stage::screened;
  entry.standing = standing_of(question_.spec, std::span(&run, 1), question_.search.confidence);
  entry.metrics = *run;
  entry.objective = objective_of(question_, question_.candidates[candidate], entry.standing);
  if (!is_hopeful(candidate) && !is_doubtful(candidate)) learn(candidate);
}

void Screening::learn(std::size_t candidate) {
  const Candidate& c = question_.candidates[candidate];
  const Entry& entry = answer_.entries[candidate];
  const bool misses = !entry.standing.meets && (entry.stage == Stage::screened || entry.standing.certain);
  if (!misses || !more_replicas_help(c.spec)) return;
  std::vector<PoolCounts>& known = too_few_[c.family];
  const PoolCounts mine = counts(candidate);
  std::erase_if(known, [&](const PoolCounts& others) { return others.fits_into(mine); });
  known.push_back(mine);
}

void Screening::screen(const std::vector<std::size_t>& candidates) {
  std::vector<Trial> todo;
  for (const std::size_t i : candidates) {
    Entry& entry = answer_.entries[i];
    if (entry.stage != Stage::waiting) continue;
    if (const PoolCounts* const larger = larger_that_misses(i)) {
      entry.stage = Stage::outranked;
      entry.reason = larger->prefill > 0
                         ? fmt::format("not simulated: the same misses the SLO with prefill {} + decode {}",
                                       larger->prefill, larger->decode)
                         : fmt::format("not simulated: the same misses the SLO with {} replicas", larger->decode);
      continue;
    }
    todo.push_back(first_trial(question_.spec, i));
  }
  trials_.run(todo);
  for (const Trial& trial : todo) fill(trial.candidate, trial);
}

// Other questions of the same search may have run these trials already.
void Screening::take_what_is_known() {
  for (std::size_t i = 0; i < answer_.entries.size(); ++i) {
    const Trial first = first_trial(question_.spec, i);
    if (answer_.entries[i].stage == Stage::waiting && trials_.knows(first)) fill(i, first);
  }
}

bool Screening::is_hopeful(std::size_t candidate) const {
  const Entry& entry = answer_.entries[candidate];
  return entry.stage == Stage::screened && entry.standing.ratio <= kHopeless;
}

bool Screening::is_doubtful(std::size_t candidate) const {
  const Entry& entry = answer_.entries[candidate];
  if (entry.stage != Stage::screened || entry.standing.ratio <= kHopeless || entry.metrics->steady.grows) return false;
  return can_be_longer(question_.spec) &&
         !trials_.knows({.candidate = candidate, .requests = confirming_requests(question_.spec)});
}

std::vector<std::size_t> Screening::worth_confirming(const std::vector<std::size_t>& members) {
  std::vector<Trial> todo;
  for (const std::size_t i : members) {
    if (is_doubtful(i)) todo.push_back({.candidate = i, .requests = confirming_requests(question_.spec)});
  }
  trials_.run(todo);
  for (const Trial& trial : todo) fill(trial.candidate, trial);
  std::vector<std::size_t> out;
  std::copy_if(members.begin(), members.end(), std::back_inserter(out),
               [&](std::size_t i) { return is_hopeful(i) || answer_.entries[i].stage == Stage::confirmed; });
  return out;
}

// A ladder holds the members of a family by their number of replicas. The lowest rung that passes is found by
// bisection.
std::vector<Screening::Ladder> Screening::ladders_of(const std::vector<std::size_t>& members) const {
  std::map<std::pair<std::size_t, std::int32_t>, Ladder> ladders;
  for (const std::size_t i : members) {
    const bool is_open = was_run(i) || answer_.entries[i].stage == Stage::waiting;
    if (is_open && more_replicas_help(question_.candidates[i].spec))
      ladders[{question_.candidates[i].family, counts(i).prefill}].rungs.push_back(i);
  }
  std::vector<Ladder> out;
  for (auto& [family, ladder] : ladders) {
    std::sort(ladder.rungs.begin(), ladder.rungs.end(),
              [&](std::size_t a, std::size_t b) { return counts(a).decode < counts(b).decode; });
    ladder.high = ladder.rungs.size();
    out.push_back(std::move(ladder));
  }
  return out;
}

// Probes all ladders side by side in rounds. `next` returns a rung to test, or the number of rungs if the ladder is
// done.
void Screening::probe(std::vector<Ladder>& ladders, const std::function<std::size_t(Ladder&)>& next) {
  for (;;) {
    std::vector<std::pair<Ladder*, std::size_t>> asked;
    std::vector<std::size_t> todo;
    for (Ladder& ladder : ladders) {
      const std::size_t rung = next(ladder);
      if (rung >= ladder.rungs.size()) continue;
      asked.emplace_back(&ladder, rung);
      todo.push_back(ladder.rungs[rung]);
    }
    if (asked.empty()) return;
    screen(todo);
    for (const auto& [ladder, rung] : asked) {
      const std::size_t i = ladder->rungs[rung];
      if (was_run(i) && answer_.entries[i].standing.meets)
        ladder->high = rung;
      else
        ladder->low = rung + 1;
    }
  }
}

// Returns one family for each kind of hardware and its degrees: the last one, which usually has the widest limits.
std::vector<Screening::Ladder> Screening::guides_of(const std::vector<Ladder>& ladders) const {
  using Degrees = std::pair<std::int32_t, std::int32_t>;
  const auto degrees = [](const PointSpec& spec) { return Degrees(spec.deployment.tp, spec.deployment.pp); };
  std::map<std::tuple<std::string, Degrees, Degrees>, Ladder> guides;
  for (const Ladder& ladder : ladders) {
    const Candidate& first = question_.candidates[ladder.rungs.front()];
    const auto& prefill = first.spec.prefill;
    Ladder& guide = guides[{label_of(first), degrees(first.spec), prefill ? degrees(*prefill) : Degrees()}];
    const bool joins =
        prefill && !guide.rungs.empty() && question_.candidates[guide.rungs.front()].family == first.family;
    if (joins)
      guide.rungs.insert(guide.rungs.end(), ladder.rungs.begin(), ladder.rungs.end());
    else
      guide = ladder;
  }
  std::vector<Ladder> out;
  for (auto& [kind, guide] : guides)
    out.push_back(counts(guide.rungs.front()).prefill > 0 ? balanced(guide.rungs) : std::move(guide));
  return out;
}

// With two pools, returns for each total the split that may carry most, by the bound. Along these splits both pools
// grow in proportion.
Screening::Ladder Screening::balanced(const std::vector<std::size_t>& members) const {
  std::map<std::int32_t, std::size_t> best;
  const auto most = [&](std::size_t i) { return answer_.entries[i].capacity_at_most.value_or(0); };
  const auto evenness = [&](std::size_t i) { return -std::abs(counts(i).prefill - counts(i).decode); };
  for (const std::size_t i : members) {
    const auto [at, is_new] = best.try_emplace(counts(i).total(), i);
    const bool better = std::pair(most(i), evenness(i)) > std::pair(most(at->second), evenness(at->second));
    if (!is_new && better) at->second = i;
  }
  Ladder ladder;
  for (const auto& [total, i] : best) ladder.rungs.push_back(i);
  ladder.high = ladder.rungs.size();
  return ladder;
}

void Screening::scout(const std::vector<std::size_t>& members, const Level& level) {
  std::vector<Ladder> all = ladders_of(members);
  std::vector<Ladder> some = guides_of(all);
  // First halve the replicas of one family per kind of hardware: this finds a first price that is low enough to prune
  // by.
  probe(some, [](const Ladder& l) { return l.low < l.high ? (l.low + l.high) / 2 : l.rungs.size(); });
  const auto cheapest = [&](const std::vector<Ladder>& ladders) {
    double best = std::numeric_limits<double>::infinity();
    for (const Ladder& l : ladders) best = l.high < l.rungs.size() ? std::min(best, level(l.rungs[l.high])) : best;
    return best;
  };
  double best = cheapest(some);
  // In each other family, first try its largest member that is cheaper than the best so far: usually it already misses.
  probe(all, [&](Ladder& l) {
    best = std::min(best, cheapest(all));
    // Rungs that cost as much as the best found cannot win, so only those below are probed.
    const auto cheaper = std::find_if(l.rungs.begin(), l.rungs.end(), [&](std::size_t i) { return level(i) >= best; });
    const std::size_t end = std::min<std::size_t>(l.high, static_cast<std::size_t>(cheaper - l.rungs.begin()));
    if (l.low >= end) return l.rungs.size();
    // The most expensive rung that could still win is tested first: if it fails, one run settles the whole ladder.
    return std::exchange(l.is_fresh, false) ? end - 1 : (l.low + end) / 2;
  });
}

}  // namespace plimsoll::study::plan
