// SPDX-License-Identifier: Apache-2.0
// Whether a run, or several of one candidate, meet the SLO, by how much, and how certain that is.
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
  [[nodiscard]] double low() const { return mean - half_width; }
  [[nodiscard]] double high() const { return mean + half_width; }
};

/// Student's t interval; one value has no interval (half-width 0, of which `values` warns). Infinite values make an
/// infinite mean, with an infinite half-width where only some of them are.
[[nodiscard]] Estimate estimate(std::span<const double> values, double confidence);

/// The same for the mean of a[i] - b[i], where both shared their random numbers.
[[nodiscard]] Estimate paired_difference(std::span<const double> a, std::span<const double> b, double confidence);

/// What a check is about.
enum class CheckKind : std::uint8_t {
  queue,           // whether the queue of an open load grows without end
  between_tokens,  // TPOT or ITL: batches that return as a whole have none
  other
};

/// One limit and what was found.
struct Check {
  CheckKind kind = CheckKind::other;
  std::string name;  // "p90 latency"
  std::string unit;  // "s", "/s" or empty
  Estimate value;
  double limit = 0;
  bool at_least = false;
  /// How much of the limit is used: 1.2 misses it by 20 %, 0.9 keeps it with 10 % to spare.
  [[nodiscard]] double ratio() const { return ratio_of(value.mean); }
  [[nodiscard]] double ratio_of(double v) const;
};

struct SloVerdict {
  std::vector<Check> checks;  // first "queue" of an open load: whether it grows without end
  std::size_t worst = 0;      // the check that uses most of its limit
  double ratio = 0;           // its ratio; 0 without an SLO
  bool meets = false;         // by the means
  bool certain = false;       // of that, at the stated confidence
  Estimate latency_p90, ttft_p90, output_tokens_per_s, total_tokens_per_s;
  Estimate instances;  // in use in the mean, of a fleet that comes and goes; else without values
  std::size_t runs = 0;
};

/// `runs`: one or several replications of one trial. `spec` has their SLO and load.
[[nodiscard]] SloVerdict standing_of(const PointSpec& spec, std::span<const sched::PointMetrics* const> runs,
                                     double confidence);

/// Infinite where a run is beyond capacity or completed nothing.
[[nodiscard]] double p90_latency(const PointSpec& spec, const sched::PointMetrics& run);

/// "p90 latency 24.1 s, 20 % over 20 s", "p99 itl 41 ms of 50 ms", "1.4 +- 0.1 of …".
[[nodiscard]] std::string check_text(const Check& check);

}  // namespace plimsoll::study::plan
