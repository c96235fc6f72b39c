// SPDX-License-Identifier: Apache-2.0
// What is in a trace, for `plimsoll trace`: rates, burstiness, lengths, and how much of the prompts could be cached.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "traces/reader.h"

namespace plimsoll::traces {

/// Percentiles interpolate linearly (type 7), like all percentiles of the project.
struct LengthSummary {
  std::int64_t sum = 0;
  double mean = 0, cv = 0, p50 = 0, p90 = 0, p99 = 0;
  std::int32_t min = 0, max = 0;
};

/// Of traces with arrival times only.
struct ArrivalSummary {
  Nanos first = 0;                  // the first row's own stamp, see Trace::first_arrival
  Nanos span = 0;                   // last - first
  double mean_rate = 0;             // (rows - 1) / span, per second; 0 where span is 0
  std::int64_t busiest_second = 0;  // most rows in one of the consecutive seconds from the first row on
  std::int64_t busiest_minute = 0;
  double gap_cv = 0;                 // standard deviation / mean of the gaps; Poisson: 1
  double dispersion_per_second = 0;  // variance / mean of the counts of whole seconds; Poisson: 1
  std::int64_t equal_stamps = 0;     // rows with the stamp of the row before
};

struct TraceSummary {
  std::string file, format;
  std::int64_t rows = 0, rows_skipped = 0;  // skipped: 0 input or output tokens
  std::optional<ArrivalSummary> arrivals;
  LengthSummary input, output;
  double correlation = 0;              // Pearson, of input and output; 0 where either is constant
  std::int64_t sessions = 0;           // distinct
  std::int32_t hash_block_tokens = 0;  // 0: no prefix information
  std::int64_t blocks = 0, unique_blocks = 0;
  /// Share of all prompt tokens in leading blocks seen in an earlier row: what an unlimited prefix cache would save.
  double prefix_hit_ratio = 0;
};

/// Time O(rows log rows), memory two lengths a row and one entry a distinct block. Never throws on a Trace that
/// read_trace gave.
[[nodiscard]] TraceSummary summarise(const ReadResult& result);

}  // namespace plimsoll::traces
