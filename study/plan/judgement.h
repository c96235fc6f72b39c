// SPDX-License-Identifier: Apache-2.0
// Judges whether one or several runs of a candidate meet the SLO, by how much, and how certainly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sched/metrics_collector.h"
#include "study/file/study.h"

namespace plimsoll::study::plan {

/// The mean of independent values and the half-width of its two-sided interval.
struct Estimate {
  double mean = 0, half_width = 0;
  std::size_t values = 0;
  /// The ends of the interval.
  [[nodiscard]] double low() const { return mean - half_width; }
  [[nodiscard]] double high() const { return mean + half_width; }
};

/// Returns Student's t interval. A single value has no interval: half_width is then 0, so check `values`. Infinite
/// values give an infinite mean; half_width is infinite too if only some are infinite.
[[nodiscard]] Estimate estimate(std::span<const double> values, double confidence);

/// The same for the mean of a[i] - b[i], where a[i] and b[i] used the same random numbers.
[[nodiscard]] Estimate paired_difference(std::span<const double> a, std::span<const double> b, double confidence);

/// The subject of a check.
enum class CheckKind : std::uint8_t {
  queue,           // whether the queue of an open load grows without bound
  between_tokens,  // TPOT or ITL, which batches that return as a whole do not have
  other
};

/// One limit, and the value found for it.
struct Check {
  CheckKind kind = CheckKind::other;
  std::string name;  // "p90 latency"
  std::string unit;  // "s", "/s" or empty
  Estimate value;
  double limit = 0;
  bool at_least = false;
  /// Returns how much of the limit is used: 1.2 misses it by 20 %, 0.9 keeps it with 10 % to spare.
  [[nodiscard]] double ratio() const { return ratio_of(value.mean); }
  [[nodiscard]] double ratio_of(double v) const;
};

/// How one or several runs of a candidate compare with the SLO.
struct SloVerdict {
  std::vector<Check> checks;  // for an open load, the first is "queue": whether it grows without bound
  std::size_t worst = 0;      // index of the check that uses most of its limit
  double ratio = 0;           // ratio of the worst check; 0 without an SLO
  bool meets = false;         // judged by the means
  bool certain = false;       // whether that is certain at the stated confidence
  Estimate latency_p90, ttft_p90, output_tokens_per_s, total_tokens_per_s;
  Estimate instances;          // mean number in use, if the fleet comes and goes; else no values
  Estimate prefill_instances;  // the prefill pool's part of them; 0 with one pool
  std::size_t runs = 0;
};

/// Returns whether a metric is the time between tokens.
[[nodiscard]] constexpr bool is_between_tokens(sched::Slo::Metric metric) {
  return metric == sched::Slo::Metric::tpot || metric == sched::Slo::Metric::itl;
}

/// Judges `runs`, replications of one trial, against the SLO and load of `spec`.
[[nodiscard]] SloVerdict standing_of(const PointSpec& spec, std::span<const sched::PointMetrics* const> runs,
                                     double confidence);

/// Returns infinity if a run is beyond capacity or completed nothing.
[[nodiscard]] double p90_latency(const PointSpec& spec, const sched::PointMetrics& run);

/// Returns for example "p90 latency 24.1 s, 20 % over 20 s", "p99 itl 41 ms of 50 ms", "1.4 +- 0.1 of …".
[[nodiscard]] std::string check_text(const Check& check);

}  // namespace plimsoll::study::plan
