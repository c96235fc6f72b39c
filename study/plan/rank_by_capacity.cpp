// SPDX-License-Identifier: Apache-2.0
// Searches for the largest capacity: first looks at all candidates, confirmed capacities of the best, their order.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "load/load_kind.h"
#include "study/plan/capacity.h"
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

// In a search for capacity, an entry's figures are those at the load that it carries.
void fill_entry(const Question& question, Answer& answer, std::size_t candidate, Capacity capacity, Stage stage) {
  Entry& entry = answer.entries[candidate];
  entry.stage = stage;
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
  // Each replication found a load of its own that passes.
  entry.standing.runs = capacity.load.values;
  entry.standing.certain = entry.standing.meets && stage == Stage::confirmed && capacity.load.low() > 0;
  entry.objective = question.search.objective == Objective::capacity
                        ? capacity.load
                        : cost_of_a_million(question.spec, question.candidates[candidate], capacity);
  // A single run may by chance be wrong about a load close to the limit.
  constexpr double kByChance = 1.05;
  if (!capacity.confirmed && capacity.failing) entry.capacity_at_most = kByChance * *capacity.failing;
  entry.capacity = std::move(capacity);
}

// Overlapping intervals are ties, unless long runs told the two apart.
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

// Takes first looks at all waiting candidates. Returns those that may carry most, with the results.
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
                            .worth_following = !per_token || question.spec.deployment.is_fixed() ? kStillPossible : 0,
                            .for_its_rent = per_token,
                            .part = 0};
  std::vector<Capacity> found = find_capacities(trials, candidates, starts, coarse);
  for (std::size_t i = 0; i < candidates.size(); ++i)
    fill_entry(question, answer, candidates[i], std::move(found[i]), Stage::screened);

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

}  // namespace

std::vector<std::size_t> likely_leaders(const Question& question, Trials& trials, Answer& answer) {
  std::map<std::size_t, Capacity> contenders = look_at_all(question, trials, answer);
  return narrow_largest(question, trials, contenders, question.search.objective == Objective::cost_per_token);
}

std::vector<std::size_t> rank_by_capacity(const Question& question, Trials& trials, Answer& answer) {
  std::map<std::size_t, Capacity> contenders = look_at_all(question, trials, answer);
  const bool per_token = question.search.objective == Objective::cost_per_token;
  std::map<std::size_t, Capacity> confirmed = confirm_largest(question, trials, contenders, per_token);
  widen_bounds(answer, contenders, confirmed);
  std::vector<std::size_t> leaders;
  for (auto& [candidate, first] : contenders) {
    const auto at = confirmed.find(candidate);
    const bool is_leader = at != confirmed.end();
    const Stage stage = is_leader && at->second.confirmed ? Stage::confirmed : Stage::screened;
    fill_entry(question, answer, candidate, is_leader ? std::move(at->second) : std::move(first), stage);
    if (is_leader) leaders.push_back(candidate);
  }
  std::erase_if(leaders,
                [&](std::size_t c) { return !answer.entries[c].standing.meets; });  // too little throughput there
  settle_overlapping(question, answer, leaders);
  // Among equals, a confirmed one is the answer: the figures of the others come from short runs.
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
