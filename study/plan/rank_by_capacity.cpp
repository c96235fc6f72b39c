// SPDX-License-Identifier: Apache-2.0
// Searches for the largest capacity: which of each family to try, first looks at all candidates, confirmed capacities
// of the best, their order.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "load/load_kind.h"
#include "study/plan/bounds.h"
#include "study/plan/capacity.h"
#include "study/plan/pool_counts.h"
#include "study/plan/ranking.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kStillPossible = 0.93;  // a deployment is confirmed from this share of the best screened capacity on
constexpr double kStillCheapest = 0.9;   // the same for the cost of a token: looks at parts of fleets differ by size
constexpr std::size_t kMaxNarrowed = 64;

// Output tokens/s at `load`, without the time in which the last requests of a run end: short runs of some deployments
// end later than those of others.
double tokens_per_s(const PointSpec& spec, double load, const sched::PointMetrics& run) {
  const auto ended = static_cast<double>(run.requests_completed + run.requests_rejected + run.requests_timed_out);
  if (!load::stationary_rate(spec.workload.load) || !(ended > 0)) return run.output_tokens_per_s;
  return load * run.output_tokens_mean * static_cast<double>(run.requests_completed) / ended;
}

// USD per million output tokens at the largest load, with its relative interval. Infinite if there is no such load.
Estimate cost_of_a_million(const PointSpec& spec, const Candidate& candidate, const Capacity& capacity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!capacity.at_passing || !(capacity.at_passing->output_tokens_per_s > 0) || !(capacity.load.mean > 0))
    return {kInfinity, 0, 1};
  const double here = run_cost(candidate, *capacity.at_passing) / 3600 /
                      tokens_per_s(spec, capacity.passing, *capacity.at_passing) * 1e6;
  const double mean = here * capacity.passing / capacity.load.mean;
  return {mean, mean * capacity.load.half_width / capacity.load.mean, capacity.load.values};
}

// Fills an entry of a search for capacity with the figures at the load that it carries. Its stage is already set.
void fill_entry(const Question& question, std::size_t candidate, Capacity capacity, Entry& entry) {
  const auto& shown = capacity.at_passing ? capacity.at_passing : capacity.at_failing;
  if (!shown && capacity.failing) {
    entry.stage = Stage::bounded;
    entry.reason = fmt::format("carries at most {:.3g} {}: full batches serve no more", *capacity.failing,
                               load_unit(question.spec.workload.load));
  }
  if (shown) {
    const sched::PointMetrics* const run = &*shown;
    entry.standing = standing_of(question.spec, std::span(&run, 1), question.search.confidence);
    entry.metrics = *shown;
  }
  // Each replication found its own largest load.
  entry.standing.runs = capacity.load.values;
  entry.standing.certain = entry.standing.meets && entry.stage == Stage::confirmed && capacity.load.low() > 0;
  entry.objective = question.search.objective == Objective::capacity
                        ? capacity.load
                        : cost_of_a_million(question.spec, question.candidates[candidate], capacity);
  // A single run may by chance be wrong about a load close to the limit.
  constexpr double kByChance = 1.05;
  if (!capacity.confirmed && capacity.failing) entry.capacity_at_most = kByChance * *capacity.failing;
  entry.capacity = std::move(capacity);
}

// Overlapping intervals are ties, unless long runs distinguished the two.
void settle_overlapping(const Question& question, Answer& answer, std::vector<std::size_t>& leaders) {
  const bool less = is_minimised(question.search.objective);
  const auto overlaps = [&](std::size_t a, std::size_t b) {
    const Estimate &mine = answer.entries[a].objective, &best = answer.entries[b].objective;
    const double worth = less ? best.mean / mine.mean : mine.mean / best.mean;
    if (worth < kSurelyLess) return false;
    return less ? mine.low() <= best.high() + kTellsApart * best.mean
                : mine.high() >= best.low() - kTellsApart * best.mean;
  };
  // First looks were made at different loads, so their latencies cannot be compared.
  const auto is_sure = [&](std::size_t c) { return answer.entries[c].stage == Stage::confirmed; };
  const auto as_fast = [&](std::size_t a, std::size_t b) {
    return !is_sure(a) || !is_sure(b) ||
           answer.entries[a].standing.latency_p90.mean == answer.entries[b].standing.latency_p90.mean;
  };
  settle(question, answer, leaders, {.by_objective = overlaps, .by_latency = as_fast});
}

// Takes first looks at all waiting candidates. Returns the results of those that may carry most.
std::map<std::size_t, Capacity> look_at_all(const Question& question, Trials& trials, Answer& answer) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < answer.entries.size(); ++i) {
    if (answer.entries[i].stage == Stage::waiting) candidates.push_back(i);
  }
  const std::vector<CapacityStart> starts(candidates.size(), {load::load_value(question.spec.workload.load), 0});
  const bool per_token = question.search.objective == Objective::cost_per_token;
  const CapacityPlan coarse{.confirms = false,
                            .replications = 1,
                            .stride = 2,
                            .tolerance = 0.05,
                            .worth_following = !per_token || question.spec.is_fixed() ? kStillPossible : 0,
                            .for_its_rent = per_token,
                            .part = 0};
  std::vector<Capacity> found = find_capacities(trials, candidates, starts, coarse);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Entry& entry = answer.entries[candidates[i]];
    entry.stage = Stage::screened;
    fill_entry(question, candidates[i], std::move(found[i]), entry);
  }

  const auto before = [&](std::size_t a, std::size_t b) { return goes_before(question, answer, a, b); };
  std::sort(candidates.begin(), candidates.end(), before);
  std::map<std::size_t, Capacity> contenders;
  // In order of rank, so the first candidate that is too far behind the best ends the list.
  for (const std::size_t c : candidates) {
    const double load = answer.entries[c].capacity->load.mean;
    const double mine = answer.entries[c].objective.mean, best = answer.entries[candidates.front()].objective.mean;
    const bool too_far = per_token ? kStillCheapest * mine > best : mine < kStillPossible * best;
    if (contenders.size() == kMaxNarrowed || load <= 0 || too_far) break;
    contenders.emplace(c, *answer.entries[c].capacity);
  }
  return contenders;
}

// Short runs, or runs of part of a fleet, may all be wrong in the same way. So the bounds from them are widened by as
// much as they underestimated a confirmed capacity.
void widen_bounds(Answer& answer, const std::map<std::size_t, Capacity>& first,
                  const std::map<std::size_t, Capacity>& confirmed) {
  double missed = 1;
  for (const auto& [candidate, capacity] : confirmed) {
    const double looked = first.at(candidate).load.mean;
    if (capacity.confirmed && looked > 0) missed = std::max(missed, capacity.load.mean / looked);
  }
  for (Entry& entry : answer.entries) {
    if (entry.capacity_at_most) *entry.capacity_at_most *= missed;
  }
}

// Takes first looks at all waiting candidates and fills their entries. Returns those that may carry most, best first.
std::vector<std::size_t> likely_leaders(const Question& question, Trials& trials, Answer& answer) {
  std::map<std::size_t, Capacity> contenders = look_at_all(question, trials, answer);
  return narrow_largest(question, trials, contenders, question.search.objective == Objective::cost_per_token);
}

// Families of deployments that differ in their number of replicas. A larger fleet carries more in total and no less per
// replica, because random fluctuations average out. So only the largest fleet of each family is run. For the cost per
// token, that is the largest among those with the cheapest replicas; smaller fleets of the best families follow, since
// at an equal cost per token the cheaper fleet is preferred. Gaps between tokens need not get shorter in larger fleets,
// so if the SLO limits them, the smallest of the cheapest fleets is run too.
class Families {
 public:
  Families(const Question& question, Trials& trials, Answer& answer)
      : question_(question),
        trials_(trials),
        answer_(answer),
        per_token_(question.search.objective == Objective::cost_per_token) {}

  // Leaves out the candidates that cannot be the answer.
  void leave_out_lesser() {
    const std::map<std::size_t, Candidates> families = families_that_grow();
    if (question_.spec.prefill) {
      // The lowest cost per token may occur with any matching pair of pool sizes. Bounds leave out the other pairs.
      for (const auto& [family, members] : families)
        if (!per_token_) keep_largest(members);
      return;
    }
    for (const auto& [family, members] : families) keep_extremes(members);
    if (!per_token_ ||
        std::none_of(families.begin(), families.end(), [](const auto& f) { return f.second.size() > 1; }))
      return;
    // Ranks all members of the best families together; runs made before are remembered.
    const Candidates likely = likely_leaders(question_, trials_, answer_);
    for (const std::size_t i : likely) answer_.entries[i] = Entry();
    for (const std::size_t family : best_families(likely)) {
      const auto found = families.find(family);
      if (found == families.end()) continue;
      for (const std::size_t i : found->second) answer_.entries[i] = Entry();
    }
  }

 private:
  using Candidates = std::vector<std::size_t>;

  // With two pools, keeps the members that no other exceeds in both pools.
  void keep_largest(const Candidates& members) {
    const Candidates largest = largest_of(question_, members);
    const auto counts = [this](std::size_t i) { return counts_of(question_.candidates[i].spec); };
    for (const std::size_t i : members) {
      if (std::find(largest.begin(), largest.end(), i) != largest.end()) continue;
      const PoolCounts more = counts(
          *std::find_if(largest.begin(), largest.end(), [&](std::size_t l) { return counts(i).fits_into(counts(l)); }));
      answer_.entries[i].stage = Stage::outranked;
      answer_.entries[i].reason = fmt::format(
          "not simulated: it carries no more than the same with prefill {} + decode {}", more.prefill, more.decode);
    }
  }

  // Leaves out all members of a family except those that determine its capacity.
  void keep_extremes(const Candidates& members) {
    const auto replicas = [this](std::size_t i) { return question_.candidates[i].spec.deployment.replicas; };
    const std::size_t best = *std::min_element(members.begin(), members.end(),
                                               [&](std::size_t a, std::size_t b) { return carries_for_less(a, b); });
    std::size_t small = best;
    if (per_token_ && limits_gaps()) {
      for (const std::size_t i : members)
        if (replicas(i) < replicas(small) && costs_alike(i, best)) small = i;
    }
    const std::string why =
        small != best
            ? fmt::format("it lies between the same deployment with {} and with {} replicas", replicas(small),
                          replicas(best))
            : fmt::format("{} the same deployment with {} replicas",
                          per_token_ ? "a token costs no less than for" : "it carries no more than", replicas(best));
    for (const std::size_t i : members)
      if (i != best && i != small) {
        answer_.entries[i].stage = Stage::outranked;
        answer_.entries[i].reason = "not simulated: " + why;
      }
  }

  [[nodiscard]] bool limits_gaps() const {
    const auto& bounds = question_.spec.slo.bounds;
    return std::any_of(bounds.begin(), bounds.end(),
                       [](const sched::Slo::Bound& b) { return b.metric == sched::Slo::Metric::itl; });
  }

  [[nodiscard]] std::map<std::size_t, Candidates> families_that_grow() const {
    std::map<std::size_t, Candidates> families;
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) {
      const Candidate& c = question_.candidates[i];
      if (answer_.entries[i].stage == Stage::waiting && more_replicas_help(c.spec)) families[c.family].push_back(i);
    }
    return families;
  }

  // Returns whether each replica of both costs the same.
  [[nodiscard]] bool costs_alike(std::size_t a, std::size_t b) const {
    const Candidate &c = question_.candidates[a], &d = question_.candidates[b];
    return c.rent * d.spec.deployment.replicas == d.rent * c.spec.deployment.replicas;
  }

  [[nodiscard]] bool carries_for_less(std::size_t a, std::size_t b) const {
    const Candidate &c = question_.candidates[a], &d = question_.candidates[b];
    const std::int32_t mine = c.spec.deployment.replicas, others = d.spec.deployment.replicas;
    const double rent = c.rent * others, other_rent = d.rent * mine;  // cost of an equal number of replicas
    if (mine == others) return c.rent < d.rent;
    return per_token_ && rent != other_rent ? rent < other_rent : mine > others;
  }

  [[nodiscard]] std::vector<std::size_t> best_families(const Candidates& leaders) const {
    constexpr std::size_t kMaxCount = 3;
    std::vector<std::size_t> best;
    for (const std::size_t i : leaders) {
      const std::size_t family = question_.candidates[i].family;
      if (best.size() < kMaxCount && std::find(best.begin(), best.end(), family) == best.end()) best.push_back(family);
    }
    return best;
  }

  const Question& question_;
  Trials& trials_;
  Answer& answer_;
  bool per_token_;
};

}  // namespace

std::vector<std::size_t> rank_by_capacity(const Question& question, Trials& trials, Answer& answer) {
  Families(question, trials, answer).leave_out_lesser();
  std::map<std::size_t, Capacity> contenders = look_at_all(question, trials, answer);
  const bool per_token = question.search.objective == Objective::cost_per_token;
  std::map<std::size_t, Capacity> confirmed = confirm_largest(question, trials, contenders, per_token);
  widen_bounds(answer, contenders, confirmed);
  std::vector<std::size_t> leaders;
  for (auto& [candidate, first] : contenders) {
    const auto at = confirmed.find(candidate);
    const bool is_leader = at != confirmed.end();
    Entry& entry = answer.entries[candidate];
    entry.stage = is_leader && at->second.confirmed ? Stage::confirmed : Stage::screened;
    fill_entry(question, candidate, is_leader ? std::move(at->second) : std::move(first), entry);
    if (is_leader) leaders.push_back(candidate);
  }
  // At its load, a leader may miss a throughput goal.
  std::erase_if(leaders, [&](std::size_t c) { return !answer.entries[c].standing.meets; });
  settle_overlapping(question, answer, leaders);
  // Among equals, a confirmed candidate is the answer, since the figures of the others come from short runs.
  const auto sure = std::find_if(leaders.begin(), leaders.end(),
                                 [&](std::size_t c) { return answer.entries[c].stage == Stage::confirmed; });
  if (sure != leaders.end() && sure != leaders.begin() && answer.entries[*sure].ties) {
    answer.entries[leaders.front()].ties = true;
    answer.entries[*sure].ties = false;
    std::rotate(leaders.begin(), sure, sure + 1);
  }
  return leaders;
}

}  // namespace plimsoll::study::plan
