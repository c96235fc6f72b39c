// SPDX-License-Identifier: Apache-2.0
// Summary of a trace for `plimsoll trace`: rates, burstiness, lengths, and how much of the prompts could be cached.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "traces/reader.h"

namespace plimsoll::traces {

/// Percentiles are interpolated linearly (type 7), as everywhere in the project.
struct LengthSummary {
  std::int64_t sum = 0;
  double mean = 0, cv = 0, p50 = 0, p90 = 0, p99 = 0;
  std::int32_t min = 0, max = 0;
};

/// Only for traces with arrival times.
struct ArrivalSummary {
  Nanos first = 0;                  // the first row's own time, see Trace::first_arrival
  Nanos span = 0;                   // last - first
  double mean_rate = 0;             // (rows - 1) / span, per second; 0 if span is 0
  std::int64_t busiest_second = 0;  // most rows in one of the consecutive seconds that begin at the first row
  std::int64_t busiest_minute = 0;
  double gap_cv = 0;                 // standard deviation / mean of the gaps; 1 for Poisson
  double dispersion_per_second = 0;  // variance / mean of the counts in whole seconds; 1 for Poisson
  std::int64_t equal_stamps = 0;     // rows with the same time as the row before
};

struct TraceSummary {
  std::string file, format;
  std::int64_t rows = 0, rows_skipped = 0;  // skipped: rows with 0 input or output tokens
  std::optional<ArrivalSummary> arrivals;
  LengthSummary input, output;
  double correlation = 0;              // Pearson, of input and output lengths; 0 if either is constant
  std::int64_t sessions = 0;           // number of distinct sessions
  std::int32_t hash_block_tokens = 0;  // 0 if the trace has no prefix information
  std::int64_t blocks = 0, unique_blocks = 0;
  /// Fraction of prompt tokens in leading blocks of an earlier row: what an unlimited prefix cache would save.
  double prefix_hit_ratio = 0;
};

/// Takes O(rows log rows) time and memory for two lengths per row and one entry per distinct block. Never throws for a
/// Trace returned by read_trace.
[[nodiscard]] TraceSummary summarise(const ReadResult& result);

}  // namespace plimsoll::traces
