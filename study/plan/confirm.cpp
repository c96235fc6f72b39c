// SPDX-License-Identifier: Apache-2.0
#include "study/plan/confirm.h"

#include <algorithm>
#include <cmath>

#include "study/plan/capacity.h"
#include "study/plan/ranking.h"

namespace plimsoll::study::plan {
namespace {

// Stable open loops of one rate have equal throughput; smaller differences than this are chance.
constexpr double kSameThroughput = 0.01;

}  // namespace

Trial Confirm::trial(std::size_t candidate, std::size_t run) const {
  return {.candidate = candidate,
          .replication = static_cast<std::int32_t>(run),
          .requests = requests_[candidate],
          .lives = kConfirmingLives};
}

// Returns the number of requests that the first run shows to be needed, because a run that is too short would have to
// be repeated.
std::int64_t Confirm::requests_of(std::size_t candidate) const {
  const std::int64_t least = confirming_requests(question_.spec);
  const Trial first = first_trial(question_.spec, candidate);
  if (least == 0 || !trials_.knows(first)) return least;
  const double load = load::load_value(question_.spec.workload.load);
  return std::max<std::int64_t>(
      least, std::llround(load * start_from(question_.spec, load, load, trials_.of(first)).requests_per_load));
}

std::vector<const sched::PointMetrics*> Confirm::runs_of(std::size_t candidate) const {
  std::vector<const sched::PointMetrics*> runs;
  for (std::size_t r = 0; r < runs_[candidate]; ++r) runs.push_back(&trials_.of(trial(candidate, r)));
  return runs;
}

void Confirm::update(std::size_t candidate) {
  const auto runs = runs_of(candidate);
  Entry& entry = answer_.entries[candidate];
  entry.stage = Stage::confirmed;
  entry.standing = standing_of(question_.spec, runs, confidence_);
  entry.metrics = *runs.front();
  entry.objective = objective_of(question_, question_.candidates[candidate], entry.standing);
}

// All runs of all candidates go into one batch, so that no core waits for the last run of one candidate.
void Confirm::add_runs(const std::vector<std::size_t>& candidates, std::size_t runs) {
  std::vector<Trial> todo;
  for (const std::size_t c : candidates) {
    for (std::size_t r = 0; r < runs; ++r) todo.push_back(trial(c, r));
  }
  trials_.run(todo);
  for (const std::size_t c : candidates) {
    runs_[c] = std::max(runs_[c], runs);
    update(c);
  }
}

std::vector<double> Confirm::values(std::size_t candidate, bool objective) const {
  std::vector<double> out;
  for (const sched::PointMetrics* run : runs_of(candidate)) {
    const bool tokens = objective && question_.search.objective == Objective::throughput;
    const bool cost = objective && question_.search.objective == Objective::cost;
    out.push_back(tokens ? -run->output_tokens_per_s
                  : cost ? run_cost(question_.candidates[candidate], *run)
                         : p90_latency(question_.spec, *run));
  }
  return out;
}

// Smaller values rank first.
Confirm::Relation Confirm::compare(const std::vector<double>& a, const std::vector<double>& b,
                                   double indifference) const {
  const Estimate difference = paired_difference(a, b, confidence_);
  if (difference.mean == 0 && difference.half_width == 0) return Relation::equal;
  const double zone = indifference * std::abs(estimate(a, confidence_).mean);
  if (difference.high() < 0 && -difference.low() > zone) return Relation::before;
  if (difference.low() > 0 && difference.high() > zone) return Relation::after;
  return difference.low() >= -zone && difference.high() <= zone && zone > 0 ? Relation::equal : Relation::unknown;
}

Confirm::Relation Confirm::by_objective(std::size_t a, std::size_t b) const {
  if (!is_known(question_)) {
    return compare(values(a, true), values(b, true),
                   question_.search.objective == Objective::throughput ? kSameThroughput : 0);
  }
  const double x = answer_.entries[a].objective.mean, y = answer_.entries[b].objective.mean;
  return x < y ? Relation::before : x > y ? Relation::after : Relation::equal;
}

Confirm::Relation Confirm::by_latency(std::size_t a, std::size_t b) const {
  return compare(values(a, false), values(b, false), 0);
}

// Returns whether more runs may still rank the candidate before the leader or prove it equal.
bool Confirm::could_lead(std::size_t candidate, std::size_t leader) const {
  return by_objective(candidate, leader) == Relation::unknown;
}

std::vector<std::size_t> Confirm::unsettled(const std::vector<std::size_t>& contenders) const {
  const std::vector<std::size_t> able = meeting(contenders);
  std::vector<std::size_t> out;
  const auto before = [&](std::size_t a, std::size_t b) { return goes_before(question_, answer_, a, b); };
  const auto leader = std::min_element(able.begin(), able.end(), before);
  for (const std::size_t c : contenders) {
    const SloVerdict& standing = answer_.entries[c].standing;
    // A contender with a worse objective than the leader cannot win, so its verdict need not be certain.
    const bool worth_it = leader == able.end() || c == *leader || by_objective(c, *leader) != Relation::after;
    const bool verdict_open = !standing.certain && worth_it;
    const bool order_open = standing.meets && c != *leader && could_lead(c, *leader);
    if (verdict_open || order_open) out.push_back(c);
  }
  // Comparisons are paired, so the leader gets as many runs as its rivals.
  if (!out.empty() && leader != able.end() && std::find(out.begin(), out.end(), *leader) == out.end())
    out.push_back(*leader);
  return out;
}

std::vector<std::size_t> Confirm::order_of(const std::vector<std::size_t>& contenders) {
  runs_.assign(question_.candidates.size(), 0);
  requests_.assign(question_.candidates.size(), 0);
  for (const std::size_t c : contenders) requests_[c] = requests_of(c);
  // Bonferroni: the level of each comparison with the leader is raised so that all hold together.
  const auto comparisons = static_cast<double>(std::max<std::size_t>(1, contenders.size()));
  confidence_ = 1 - (1 - question_.search.confidence) / comparisons;
  add_runs(contenders, kFirstRuns);
  for (std::size_t runs = 2 * kFirstRuns; runs <= most_runs_; runs *= 2) {
    const std::vector<std::size_t> open = unsettled(contenders);
    if (open.empty()) break;
    add_runs(open, runs);
  }
  std::vector<std::size_t> order = meeting(contenders);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return goes_before(question_, answer_, a, b); });
  return order;
}

std::vector<std::size_t> Confirm::meeting(const std::vector<std::size_t>& contenders) const {
  std::vector<std::size_t> out;
  for (const std::size_t c : contenders) {
    if (answer_.entries[c].standing.meets) out.push_back(c);
  }
  return out;
}

void Confirm::settle_ties(std::vector<std::size_t>& order) {
  const auto is_open = [](Relation relation) { return relation == Relation::equal || relation == Relation::unknown; };
  settle(question_, answer_, order,
         {.by_objective = [&](std::size_t a, std::size_t b) { return is_open(by_objective(a, b)); },
          .by_latency = [&](std::size_t a, std::size_t b) { return is_open(by_latency(a, b)); }});
}

}  // namespace plimsoll::study::plan
