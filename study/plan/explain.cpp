// SPDX-License-Identifier: Apache-2.0
#include "study/plan/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <utility>

#include "study/output/chart_axis.h"
#include "study/plan/ranking.h"
#include "study/run/load_variation.h"

namespace plimsoll::study::plan {
namespace {

std::string percent(double ratio) {
  constexpr double kWhole = 0.1;  // above this, decimals are not significant
  return std::abs(ratio) < kWhole ? fmt::format("{:.2g} %", 100 * std::abs(ratio))
                                  : fmt::format("{:.0f} %", 100 * std::abs(ratio));
}

std::string miss_text(const Question& question, const Entry& entry) {
  const Check& worst = entry.standing.checks[entry.standing.worst];
  std::string text = check_text(worst);
  if (!entry.metrics) return text;
  const sched::PointMetrics& m = *entry.metrics;
  if (m.requests_completed + m.requests_rejected + m.requests_timed_out == 0)
    return "nothing was measured: all requests were sent within the warm-up";
  if (worst.kind == CheckKind::queue) {
    const std::optional<double> offered = offered_rate(question.spec.workload.load);
    return fmt::format("cannot keep up: carries {}{} requests/s", reader_number(m.requests_per_s, 3),
                       offered ? fmt::format(" of {}", reader_number(*offered, 3)) : std::string());
  }
  const std::string part = largest_part(*entry.metrics);
  return part.empty() ? text : text + "; " + part;
}

// Returns "34 % more USD/h" or "3.1 times the USD/h".
std::string factor_gap(double factor, const char* more, const char* less, std::string_view unit) {
  constexpr double kManyTimes = 2;  // above this, percentages are hard to read
  if (factor >= kManyTimes) return fmt::format("{} times the {}", reader_number(factor, 3), unit);
  return fmt::format("{} {} {}", percent(factor - 1), factor > 1 ? more : less, unit);
}

// Returns "1 more GPU" or "2 GPUs more".
std::string gpu_count(const Question& question, std::int64_t count, const char* before) {
  std::string_view word = counted(question);
  if (count == 1) word.remove_suffix(1);
  return fmt::format("{}{} {}", count, before, word);
}

std::string gpu_gap(const Question& question, double mine, double its) {
  return gpu_count(question, std::lround(std::abs(mine - its)), "") + (mine > its ? " more" : " fewer");
}

// Returns the first criterion that distinguishes the two, in the order of the ranking (settle() in ranking.cpp).
std::string lose_text(const Question& question, std::size_t i, std::size_t winner, const Answer& answer) {
  const Entry &entry = answer.entries[i], &best = answer.entries[winner];
  if (entry.ties) return "ties with the winner";
  const std::string gap = objective_gap(question, entry, best);
  const bool counts = is_minimised(question.search.objective) ? entry.objective.mean > best.objective.mean
                                                              : entry.objective.mean < best.objective.mean;
  if (!gap.empty() && counts) return gap;
  const Candidate &mine = question.candidates[i], &its = question.candidates[winner];
  if (mine.rent > its.rent)
    return fmt::format("the same, for {}", factor_gap(mine.rent / its.rent, "more", "less",
                                                      question.is_priced ? "USD/h" : counted(question)));
  if (entry.capacity && best.capacity && entry.capacity->load.mean < best.capacity->load.mean &&
      !entry.capacity->is_open()) {
    return fmt::format("the same, but carries {} less",
                       percent(1 - entry.capacity->load.mean / best.capacity->load.mean));
  }
  if (entry.stage != Stage::confirmed && best.capacity && is_known(question))
    return "the same, but carries less, judged by one run";
  // If neither the objective nor the price distinguishes them, the latency decided.
  const double slower = entry.standing.latency_p90.mean / best.standing.latency_p90.mean - 1;
  if (std::isfinite(slower) && slower > 0) return fmt::format("the same, with {} more p90 latency", percent(slower));
  if (mine.gpus > its.gpus) return gpu_count(question, mine.gpus - its.gpus, " more") + " for the same";
  return entry.stage == Stage::confirmed ? "ties with the winner" : "as good, judged by one run";
}

}  // namespace

std::string objective_gap(const Question& question, const Entry& entry, const Entry& best) {
  const double mine = entry.objective.mean, its = best.objective.mean;
  if (mine == its || its == 0) return {};
  const double factor = mine / its;
  switch (question.search.objective) {
    case Objective::cost:
      return question.is_priced ? factor_gap(factor, "more", "less", "USD/h") : gpu_gap(question, mine, its);
    case Objective::gpus: return gpu_gap(question, mine, its);
    case Objective::latency: return factor_gap(factor, "longer", "shorter", "p90 latency");
    case Objective::throughput: return factor_gap(factor, "more", "fewer", "tokens/s");
    case Objective::cost_per_token:
      return factor_gap(factor, "more", "less", question.is_priced ? "USD a token" : "GPU time a token");
    case Objective::capacity: return fmt::format("carries {} {}", percent(factor - 1), factor > 1 ? "more" : "less");
  }
  return {};
}

// Shows what to change: waiting suggests more replicas; reading weights suggests larger batches or narrower types.
std::string largest_part(const sched::PointMetrics& m) {
  using Part = std::pair<double, const char*>;
  const auto named = [](std::span<const Part> parts) -> std::string {
    double whole = 0;
    for (const Part& part : parts) whole += part.first;
    const auto largest =
        std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (!(whole > 0)) return {};
    return fmt::format("{:.0f} % of the time {}", 100 * largest->first / whole, largest->second);
  };
  if (const auto& p = m.pools) {
    const std::array<Part, 5> stages = {{{p->time_queue_prefill, "waiting for the prefill pool"},
                                         {p->time_prefill, "in the prefill"},
                                         {p->time_transfer, "in the KV transfer"},
                                         {p->time_queue_decode, "waiting for the decode pool"},
                                         {p->time_decode, "in the decode pool"}}};
    return named(stages);
  }
  const std::array<Part, 8> parts = {{{m.time_queue_s, "waiting"},
                                      {m.time_host_s, "in the host"},
                                      {m.time_weights_s, "reading weights"},
                                      {m.time_kv_s, "reading the KV cache"},
                                      {m.time_compute_s, "computing"},
                                      {m.time_allreduce_s, "in all-reduces"},
                                      {m.time_preempt_s, "preempted"},
                                      {m.time_other_s, "other steps"}}};
  return named(parts);
}

void explain(const Question& question, Answer& answer) {
  for (std::size_t i = 0; i < answer.entries.size(); ++i) {
    Entry& entry = answer.entries[i];
    if (entry.stage == Stage::excluded || entry.stage == Stage::bounded || entry.stage == Stage::outranked)
      entry.verdict = entry.reason;
    else if (entry.stage == Stage::waiting)
      entry.verdict = "not simulated";
    else if (!entry.standing.meets)
      entry.verdict = miss_text(question, entry);
    else if (answer.winner && i != *answer.winner)
      entry.verdict = lose_text(question, i, *answer.winner, answer);
    else
      entry.verdict = "wins";
  }
}

}  // namespace plimsoll::study::plan
