// SPDX-License-Identifier: Apache-2.0
#include "study/plan/ranking.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "load/load_kind.h"
#include "study/plan/pool_counts.h"

namespace plimsoll::study::plan {
namespace {

struct Corner {  // a smaller value is better in each dimension
  std::size_t candidate = 0;
  std::array<double, 3> values{};

  [[nodiscard]] bool beats(const Corner& other) const {  // or equals it
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] > other.values[i]) return false;
    }
    return true;
  }
};

// Returns the largest load, if it was searched for; infinity if nothing limits it.
double carried(const Entry& entry) {
  if (!entry.capacity) return 0;
  return entry.capacity->is_open() ? std::numeric_limits<double>::infinity() : entry.capacity->load.mean;
}

// Two loads count as equal within their intervals, and within the width at which brackets end.
bool carry_alike(const Entry& a, const Entry& b) {
  constexpr double kFine = 0.01;
  if (!a.capacity || !b.capacity || a.capacity->is_open() || b.capacity->is_open()) return carried(a) == carried(b);
  const Estimate &x = a.capacity->load, &y = b.capacity->load;
  return std::abs(x.mean - y.mean) <= std::max(kFine * y.mean, x.half_width + y.half_width);
}

}  // namespace

bool is_known(const Question& question) {
  const Objective objective = question.search.objective;
  return objective == Objective::gpus || (objective == Objective::cost && question.spec.is_fixed());
}

// A fleet that comes and goes pays for the instances that it used. A fixed fleet pays for all of them.
double run_cost(const Candidate& candidate, const sched::PointMetrics& run) {
  if (!run.instance_s || !(run.duration_s > 0)) return candidate.rent;
  const double prefill_s = run.pools ? run.pools->prefill_instance_s.value_or(0) : 0;
  return rent_of(candidate, *run.instance_s / run.duration_s, prefill_s / run.duration_s);
}

double rent_of(const Candidate& candidate, double instances, double of_prefill) {
  const PointResult& p = candidate.point;
  if (!candidate.spec.prefill) return candidate.rent / p.instances * instances;
  return candidate.prefill_rent / p.prefill_instances * of_prefill +
         (candidate.rent - candidate.prefill_rent) / (p.instances - p.prefill_instances) * (instances - of_prefill);
}

std::vector<std::size_t> largest_of(const Question& question, const std::vector<std::size_t>& candidates) {
  std::vector<std::pair<PoolCounts, std::size_t>> sorted;
  for (const std::size_t i : candidates) sorted.emplace_back(counts_of(question.candidates[i].spec), i);
  // Sorted by falling prefill replicas, a candidate is exceeded if an earlier one has at least as many for decode.
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::size_t> out;
  std::int32_t most = -1;
  for (const auto& [counts, i] : sorted) {
    if (counts.decode <= most) continue;
    most = counts.decode;
    out.push_back(i);
  }
  return out;
}

bool finds_load(Objective objective) {
  return objective == Objective::capacity || objective == Objective::cost_per_token;
}

bool is_minimised(Objective objective) {
  return objective != Objective::capacity && objective != Objective::throughput;
}

std::string_view objective_name(Objective objective) {
  constexpr std::array<std::string_view, 6> kNames = {"cost",    "capacity",   "gpus",
                                                      "latency", "throughput", "cost_per_token"};
  return kNames[static_cast<std::size_t>(objective)];
}

std::string_view load_unit(const load::LoadSpec& load) {
  switch (load::kind_of(load).quantity) {
    case load::LoadQuantity::clients: return "clients";
    case load::LoadQuantity::rate_scale: return "x";
    case load::LoadQuantity::requests: return "requests";
    case load::LoadQuantity::sessions_per_s: return "sessions/s";
    case load::LoadQuantity::requests_per_s:
    case load::LoadQuantity::none: break;
  }
  return "/s";
}

std::string_view objective_unit(const Question& question) {
  switch (question.search.objective) {
    case Objective::cost: return question.is_priced ? "USD/h" : counted(question);
    case Objective::gpus: return counted(question);
    case Objective::latency: return "s";
    case Objective::throughput: return "tokens/s";
    case Objective::capacity: return load_unit(question.spec.workload.load);
    case Objective::cost_per_token: return question.is_priced ? "USD/M output tokens" : "GPU h/M output tokens";
  }
  return "";
}

Estimate objective_of(const Question& question, const Candidate& candidate, const SloVerdict& standing) {
  switch (question.search.objective) {
    case Objective::cost: {
      const Estimate &used = standing.instances, &prefill = standing.prefill_instances;
      if (used.values == 0) return {candidate.rent, 0, 1};
      // Both pools follow the same load, so their intervals add up.
      return {rent_of(candidate, used.mean, prefill.mean), rent_of(candidate, used.half_width, prefill.half_width),
              used.values};
    }
    case Objective::gpus: return {static_cast<double>(candidate.gpus), 0, 1};
    case Objective::latency: return standing.latency_p90;
    case Objective::throughput: return standing.output_tokens_per_s;
    case Objective::capacity:
    case Objective::cost_per_token: return {};
  }
  return {};
}

// Candidates that keep the SLO come first. The others follow by how little they miss it, then by how much they serve.
bool goes_before(const Question& question, const Answer& answer, std::size_t a, std::size_t b) {
  const Entry &x = answer.entries[a], &y = answer.entries[b];
  if (x.standing.meets != y.standing.meets) return x.standing.meets;
  if (!x.standing.meets && x.standing.ratio != y.standing.ratio) return x.standing.ratio < y.standing.ratio;
  if (!x.standing.meets && x.metrics && y.metrics && x.metrics->requests_per_s != y.metrics->requests_per_s) {
    return x.metrics->requests_per_s > y.metrics->requests_per_s;  // both miss infinitely: their queues grow
  }
  const Objective objective = question.search.objective;
  if (x.objective.mean != y.objective.mean) return (x.objective.mean < y.objective.mean) == is_minimised(objective);
  return breaks_tie(question, answer, a, b);
}

bool breaks_tie(const Question& question, const Answer& answer, std::size_t a, std::size_t b) {
  const Entry &x = answer.entries[a], &y = answer.entries[b];
  const Candidate &c = question.candidates[a], &d = question.candidates[b];
  if (c.rent != d.rent) return c.rent < d.rent;
  if (carried(x) != carried(y)) return carried(x) > carried(y);
  if (x.standing.latency_p90.mean != y.standing.latency_p90.mean)
    return x.standing.latency_p90.mean < y.standing.latency_p90.mean;
  if (c.gpus != d.gpus) return c.gpus < d.gpus;
  return c.name != d.name ? name_before(c.name, d.name) : a < b;
}

// Applies one criterion after the other, each only among candidates that the earlier criteria cannot distinguish from
// the first. So a difference within the noise never outweighs a certain difference in the next criterion.
void settle(const Question& question, Answer& answer, std::vector<std::size_t>& order, const Ties& ties) {
  if (order.empty()) return;
  const std::vector<Candidate>& all = question.candidates;
  auto end = order.end();  // the candidates before `end` are so far indistinguishable from the first
  const auto narrow = [&](const auto& before, const auto& alike) {
    std::stable_sort(order.begin(), end, before);
    const std::size_t first = order.front();
    end = std::stable_partition(order.begin(), end, [&](std::size_t c) { return c == first || alike(c, first); });
  };
  const auto p90 = [&](std::size_t c) { return answer.entries[c].standing.latency_p90.mean; };
  narrow([&](std::size_t a, std::size_t b) { return goes_before(question, answer, a, b); }, ties.by_objective);
  narrow([&](std::size_t a, std::size_t b) { return all[a].rent < all[b].rent; },
         [&](std::size_t a, std::size_t b) { return all[a].rent == all[b].rent; });
  narrow([&](std::size_t a, std::size_t b) { return carried(answer.entries[a]) > carried(answer.entries[b]); },
         [&](std::size_t a, std::size_t b) { return carry_alike(answer.entries[a], answer.entries[b]); });
  narrow([&](std::size_t a, std::size_t b) { return p90(a) < p90(b); }, ties.by_latency);
  narrow([&](std::size_t a, std::size_t b) { return all[a].gpus < all[b].gpus; },
         [&](std::size_t a, std::size_t b) { return all[a].gpus == all[b].gpus; });
  std::sort(order.begin(), end, [&](std::size_t a, std::size_t b) { return name_before(all[a].name, all[b].name); });
  for (auto c = order.begin(); c != order.end(); ++c) answer.entries[*c].ties = c != order.begin() && c < end;
}

// Confirmed leaders keep the order that long runs gave them; the rest follows by its short runs.
void rank(const Question& question, Answer& answer, const std::vector<std::size_t>& leaders) {
  answer.order.clear();
  for (std::size_t i = 0; i < answer.entries.size(); ++i) {
    const Stage stage = answer.entries[i].stage;
    if (stage == Stage::screened || stage == Stage::confirmed) answer.order.push_back(i);
  }
  const auto is_leader = [&](std::size_t i) { return std::find(leaders.begin(), leaders.end(), i) != leaders.end(); };
  const auto rest = std::stable_partition(answer.order.begin(), answer.order.end(), is_leader);
  std::copy(leaders.begin(), leaders.end(), answer.order.begin());
  std::sort(rest, answer.order.end(),
            [&](std::size_t a, std::size_t b) { return goes_before(question, answer, a, b); });
  const bool any = !answer.order.empty() && answer.entries[answer.order.front()].standing.meets;
  answer.winner = any ? std::optional(answer.order.front()) : std::nullopt;
}

void mark_frontier(const Question& question, Answer& answer) {
  constexpr double kNoPrice = std::numeric_limits<double>::infinity();  // an unknown price is not free
  std::vector<Corner> corners;
  for (const std::size_t i : answer.order) {
    const Entry& entry = answer.entries[i];
    const Candidate& candidate = question.candidates[i];
    const double p90 = entry.standing.latency_p90.mean;
    if (!std::isfinite(p90)) continue;
    const double per_gpu =
        entry.standing.output_tokens_per_s.mean / static_cast<double>(std::max<std::int64_t>(1, candidate.gpus));
    corners.push_back({i, {p90, -per_gpu, candidate.point.usd_per_hour.value_or(kNoPrice)}});
  }
  // In this order, only an equal corner may beat an earlier one. Of equal corners, the first is kept.
  std::stable_sort(corners.begin(), corners.end(),
                   [](const Corner& a, const Corner& b) { return a.values < b.values; });
  std::vector<Corner> front;
  for (const Corner& corner : corners) {
    if (std::any_of(front.begin(), front.end(), [&](const Corner& other) { return other.beats(corner); })) continue;
    front.push_back(corner);
    answer.entries[corner.candidate].on_frontier = true;
  }
}

}  // namespace plimsoll::study::plan
