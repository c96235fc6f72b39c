// SPDX-License-Identifier: Apache-2.0
#include "traces/summary.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <vector>

namespace plimsoll::traces {
namespace {

constexpr Nanos kSecond = 1'000'000'000;

// Mean and variance in one pass (Welford, Technometrics 4(3), 1962), without cancellation for times in nanoseconds.
struct Moments {
  std::int64_t count = 0;
  double mean = 0, squares = 0;
  void add(double value) {
    ++count;
    const double before = value - mean;
    mean += before / static_cast<double>(count);
    squares += before * (value - mean);
  }
  [[nodiscard]] double variance() const { return count > 0 ? squares / static_cast<double>(count) : 0; }
  [[nodiscard]] double cv() const { return mean > 0 ? std::sqrt(variance()) / mean : 0; }
};

double percentile(const std::vector<std::int32_t>& sorted, double p) {
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (static_cast<double>(sorted[above]) - sorted[below]);
}

LengthSummary summarise_lengths(std::vector<std::int32_t> values) {
  LengthSummary out;
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  Moments moments;
  for (const std::int32_t value : values) {
    moments.add(value);
    out.sum += value;
  }
  out.mean = static_cast<double>(out.sum) / static_cast<double>(values.size());
  out.cv = moments.cv();
  out.p50 = percentile(values, 0.50);
  out.p90 = percentile(values, 0.90);
  out.p99 = percentile(values, 0.99);
  out.min = values.front();
  out.max = values.back();
  return out;
}

// Returns the largest number of rows in one window. Rows are sorted, so one counter is enough.
std::int64_t busiest(const Trace& trace, Nanos window) {
  std::int64_t best = 0, count = 0;
  Nanos present = -1;
  for (const TraceRecord& record : trace.records) {
    count = record.arrival / window == present ? count + 1 : 1;
    present = record.arrival / window;
    best = std::max(best, count);
  }
  return best;
}

// Returns variance over mean of the counts in the whole seconds of the trace; the incomplete last one would bias it.
double dispersion_per_second(const Trace& trace) {
  const Nanos seconds = trace.records.back().arrival / kSecond;
  if (seconds < 2) return 0;
  double counted = 0, squares = 0;
  std::int64_t count = 0;
  Nanos present = 0;
  const auto close_second = [&] {
    counted += static_cast<double>(count);
    squares += static_cast<double>(count) * static_cast<double>(count);
  };
  for (const TraceRecord& record : trace.records) {
    const Nanos second = record.arrival / kSecond;
    if (second != present) {
      close_second();
      count = 0;
      present = second;
    }
    if (second >= seconds) break;
    ++count;
  }
  const double n = static_cast<double>(seconds), mean = counted / n;
  return mean > 0 ? (squares / n - mean * mean) / mean : 0;
}

ArrivalSummary summarise_arrivals(const Trace& trace) {
  ArrivalSummary out;
  out.first = trace.first_arrival;
  out.span = trace.records.back().arrival;
  if (out.span > 0) out.mean_rate = static_cast<double>(trace.records.size() - 1) * 1e9 / static_cast<double>(out.span);
  out.busiest_second = busiest(trace, kSecond);
  out.busiest_minute = busiest(trace, 60 * kSecond);
  out.dispersion_per_second = dispersion_per_second(trace);
  Moments gaps;
  for (std::size_t i = 1; i < trace.records.size(); ++i) {
    const Nanos gap = trace.records[i].arrival - trace.records[i - 1].arrival;
    gaps.add(static_cast<double>(gap));
    if (gap == 0) ++out.equal_stamps;
  }
  out.gap_cv = gaps.cv();
  return out;
}

double correlation(const Trace& trace, const LengthSummary& input, const LengthSummary& output) {
  double xy = 0, xx = 0, yy = 0;
  for (const TraceRecord& record : trace.records) {
    const double x = record.input_tokens - input.mean, y = record.output_tokens - output.mean;
    xy += x * y;
    xx += x * x;
    yy += y * y;
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

// An unlimited cache hits a block if an earlier row had it. Only an unbroken beginning of a prompt can be reused, so
// the hits of a row end at its first new block.
void summarise_prefixes(const Trace& trace, TraceSummary& out) {
  std::unordered_set<std::uint64_t> seen;
  std::int64_t hit_tokens = 0;
  for (std::size_t row = 0; row < trace.records.size(); ++row) {
    std::int64_t run = 0;
    bool hit = true;
    for (const std::uint64_t hash : trace.hashes_of(row)) {
      hit = !seen.insert(hash).second && hit;
      if (hit) ++run;
    }
    hit_tokens += std::min<std::int64_t>(run * trace.hash_block_tokens, trace.records[row].input_tokens);
  }
  out.hash_block_tokens = trace.hash_block_tokens;
  out.blocks = static_cast<std::int64_t>(trace.hashes.size());
  out.unique_blocks = static_cast<std::int64_t>(seen.size());
  if (out.input.sum > 0) out.prefix_hit_ratio = static_cast<double>(hit_tokens) / static_cast<double>(out.input.sum);
}

std::int64_t count_sessions(const Trace& trace) {
  std::unordered_set<std::uint64_t> seen;
  for (const TraceRecord& record : trace.records) {
    if (record.session != 0) seen.insert(record.session);
  }
  return static_cast<std::int64_t>(seen.size());
}

std::vector<std::int32_t> lengths_of(const Trace& trace, std::int32_t TraceRecord::*member) {
  std::vector<std::int32_t> out;
  out.reserve(trace.records.size());
  for (const TraceRecord& record : trace.records) out.push_back(record.*member);
  return out;
}

}  // namespace

TraceSummary summarise(const ReadResult& result) {
  const Trace& trace = *result.trace;
  TraceSummary out;
  out.file = trace.file;
  out.format = trace.format;
  out.rows = static_cast<std::int64_t>(trace.records.size());
  out.rows_skipped = result.rows_skipped;
  out.input = summarise_lengths(lengths_of(trace, &TraceRecord::input_tokens));
  out.output = summarise_lengths(lengths_of(trace, &TraceRecord::output_tokens));
  if (trace.has_arrivals()) out.arrivals = summarise_arrivals(trace);
  out.correlation = correlation(trace, out.input, out.output);
  out.sessions = count_sessions(trace);
  summarise_prefixes(trace, out);
  return out;
}

}  // namespace plimsoll::traces
