// SPDX-License-Identifier: Apache-2.0
#include "study/plan/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "study/plan/pool_counts.h"
#include "study/plan/ranking.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kOff = 0.1;
constexpr std::size_t kMaxRivals = 4, kMaxNearMisses = 6;
constexpr std::int64_t kRequests = 4000;  // enough for the latencies of an open loop

struct World {
  const char* what;
  double load = 1, length = 1, step = 1;
};
// Each scenario changes one assumption of a plan, by as much as forecasts and fits are often wrong.
constexpr std::array<World, 6> kWorlds = {{{"load +10 %", 1 + kOff, 1, 1},
                                           {"load -10 %", 1 - kOff, 1, 1},
                                           {"lengths +10 %", 1, 1 + kOff, 1},
                                           {"lengths -10 %", 1, 1 - kOff, 1},
                                           {"step time +10 %", 1, 1, 1 + kOff},
                                           {"step time -10 %", 1, 1, 1 - kOff}}};

bool is_harder(const World& world) { return world.load >= 1 && world.length >= 1 && world.step >= 1; }

// Candidates that may lead in one of the scenarios: near misses with a better objective, and those that follow the
// winner with another deployment, not just another batch limit.
struct Rivals {
  std::vector<std::size_t> preferred, others;
};

Rivals rivals_of(const Question& question, const Answer& answer) {
  constexpr double kNear = 2;  // within this factor of the limit, or slightly beyond capacity
  std::vector<std::size_t> out{*answer.winner}, misses;
  const auto same_fleet = [&](std::size_t a, std::size_t b) {
    const Candidate &c = question.candidates[a], &d = question.candidates[b];
    const auto degree = [](const Candidate& x) { return x.spec.prefill ? x.spec.prefill->deployment.tp : 0; };
    return label_of(c) == label_of(d) && c.spec.deployment.tp == d.spec.deployment.tp && degree(c) == degree(d) &&
           counts_of(c.spec) == counts_of(d.spec);
  };
  const auto is_new = [&](const std::vector<std::size_t>& known, std::size_t i) {
    return std::none_of(known.begin(), known.end(), [&](std::size_t k) { return same_fleet(k, i); });
  };
  const double best = answer.entries[*answer.winner].objective.mean;
  // In the order of the ranking, so that the nearest rivals are taken first.
  for (const std::size_t i : answer.order) {
    const Entry& entry = answer.entries[i];
    if (entry.standing.meets) {
      if (out.size() <= kMaxRivals && is_new(out, i)) out.push_back(i);
      continue;
    }
    const bool preferred =
        is_minimised(question.search.objective) ? entry.objective.mean <= best : entry.objective.mean >= best;
    const bool near = entry.standing.ratio < kNear ||
                      (entry.metrics &&
                       entry.metrics->requests_per_s > (1 - 2 * kOff) * load::load_value(question.spec.workload.load));
    if (preferred && near && misses.size() < kMaxNearMisses && is_new(misses, i)) misses.push_back(i);
  }
  return {std::move(misses), {out.begin() + 1, out.end()}};
}

// A difference within the accuracy of one run does not count as a change.
bool is_as_good(const Entry& entry, const Entry& best) {
  constexpr double kSame = 0.01;
  return entry.standing.meets &&
         std::abs(entry.objective.mean - best.objective.mean) <= kSame * std::abs(best.objective.mean);
}

// Returns the number of requests: that of a confirming run for closed loops and throughput goals, where a short run
// does not suffice.
std::int64_t requests_of(const PointSpec& spec) {
  if (!can_be_longer(spec)) return 0;
  const bool long_ones = keeps_rate(spec.slo) || load::is_closed_loop(spec.workload.load);
  return long_ones ? confirming_requests(spec) : std::max(spec.workload.requests, kRequests);
}

// Runs all scenarios ("worlds") side by side; each one gets an answer of its own.
class Worlds {
 public:
  Worlds(const Question& question, Trials& trials, const Answer& answer)
      : question_(question), trials_(trials), answer_(answer), requests_(requests_of(question.spec)) {
    others_.resize(kWorlds.size());
    for (Answer& other : others_) other.entries.resize(answer.entries.size());
  }

  enum class Where { everywhere, easier, unanswered };  // unanswered: no candidate meets the SLO there yet

  void add(std::span<const std::size_t> candidates, Where where) {
    std::vector<Trial> todo;
    std::vector<std::size_t> worlds;
    for (std::size_t w = 0; w < kWorlds.size(); ++w) {
      if (where == Where::unanswered && others_[w].winner) continue;
      if (where == Where::easier && is_harder(kWorlds[w])) continue;
      worlds.push_back(w);
      // All worlds go into one batch: they differ in length, and cores would wait between them.
      for (const std::size_t c : candidates) todo.push_back(trial(c, kWorlds[w]));
    }
    trials_.run(todo);
    for (const std::size_t w : worlds) {
      for (const std::size_t c : candidates) fill(w, c);
      rank(question_, others_[w], {});
    }
  }

  [[nodiscard]] std::vector<Sensitivity> results() const {
    std::vector<Sensitivity> out;
    const std::size_t best = *answer_.winner;
    for (std::size_t w = 0; w < kWorlds.size(); ++w) {
      const Answer& other = others_[w];
      const SloVerdict& standing = other.entries[best].standing;
      Sensitivity result;
      result.what = kWorlds[w].what;
      result.winner = other.winner;
      result.ratio = standing.ratio;
      if (!standing.checks.empty()) {
        result.check = standing.checks[standing.worst].name;
        result.check_kind = standing.checks[standing.worst].kind;
        result.at_least = standing.checks[standing.worst].at_least;
      }
      if (other.winner && is_as_good(other.entries[best], other.entries[*other.winner])) result.winner = best;
      out.push_back(std::move(result));
    }
    return out;
  }

 private:
  [[nodiscard]] Trial trial(std::size_t candidate, const World& world) const {
    return {.candidate = candidate,
            .requests = requests_,
            .load_scale = world.load,
            .length_scale = world.length,
            .step_scale = world.step,
            .replicas = sampled_replicas(question_.candidates[candidate].spec, kSampledPart)};
  }

  void fill(std::size_t world, std::size_t candidate) {
    const Trial asked = trial(candidate, kWorlds[world]);
    const PointSpec spec =
        trial_spec(question_.candidates[candidate].spec, asked);  // its clock and limits may be scaled
    const sched::PointMetrics* const run = &trials_.of(asked);
    Entry& entry = others_[world].entries[candidate];
    entry.stage = Stage::screened;
    entry.standing = standing_of(spec, std::span(&run, 1), question_.search.confidence);
    entry.objective = objective_of(question_, question_.candidates[candidate], entry.standing);
  }

  const Question& question_;
  Trials& trials_;
  const Answer& answer_;
  std::int64_t requests_;
  std::vector<Answer> others_;
};

}  // namespace

std::vector<Sensitivity> sensitivities(const Question& question, Trials& trials, const Answer& answer) {
  const Rivals rivals = rivals_of(question, answer);
  const std::vector<std::size_t> winner{*answer.winner};
  Worlds worlds(question, trials, answer);
  worlds.add(winner, Worlds::Where::everywhere);
  // A candidate that already misses its limits also misses them in a harder scenario. But more load may bring the
  // throughput that an SLO asks for.
  worlds.add(rivals.preferred, keeps_rate(question.spec.slo) ? Worlds::Where::everywhere : Worlds::Where::easier);
  // If the objective is known without a run, the order after the winner is the same in every scenario.
  worlds.add(rivals.others, is_known(question) ? Worlds::Where::unanswered : Worlds::Where::everywhere);
  return worlds.results();
}

}  // namespace plimsoll::study::plan
