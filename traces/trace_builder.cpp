// SPDX-License-Identifier: Apache-2.0
#include "traces/trace_builder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "traces/text.h"

namespace plimsoll::traces {

TraceBuilder::TraceBuilder(std::string file, std::string format, std::int32_t hash_block_tokens)
    : file_(std::move(file)), trace_(std::make_shared<Trace>()) {
  trace_->file = file_;
  trace_->format = std::move(format);
  trace_->hash_block_tokens = hash_block_tokens;
}

void TraceBuilder::warn(const FieldPlace& place, std::string_view code, std::string text) {
  const auto same = [&](const RowWarning& o) { return o.code == code && o.column == place.column; };
  // A file may have the same peculiarity in every row. Each kind gets one warning with a count, in the order of their
  // first rows.
  auto it = std::find_if(oddities_.begin(), oddities_.end(), same);
  if (it == oddities_.end()) {
    it = oddities_.insert(it, {place, std::string(place.column), std::string(code), std::move(text), 0});
  }
  ++it->count;
}

void TraceBuilder::lacks(const FieldPlace& place) {
  warn(place, "no-block-ids", fmt::format("no '{}'", place.column));
  ++trace_->rows_without_blocks;
}

void TraceBuilder::add(const ParsedRow& parsed) {
  ParsedRow row = parsed;
  ++rows_;
  if (row.follows) {
    // The row is sent after an answer; it keeps its place among the rows of the file.
    row.record.arrival = last_arrival_;
    trace_->needs_answers = true;
  }
  if (row.record.arrival >= 0) {
    // Sorting silently would hide a file that mixes two clocks.
    if (row.record.arrival < last_arrival_) {
      const FieldPlace& at = row.arrival_place;
      reject({file_, at.line, at.byte_column, std::string(at.column),
              "timestamp is earlier than the row before; sort the file by it", "unsorted"});
    }
    last_arrival_ = row.record.arrival;
  }
  if (skip_zero(row)) return;
  trace_->records.push_back(row.record);
  if (row.priority != 0 || !trace_->priorities.empty()) {
    trace_->priorities.resize(trace_->records.size());  // rows before the first one with a priority have 0
    trace_->priorities.back() = row.priority;
  }
  if (row.gap >= 0 || !trace_->gaps.empty()) {
    trace_->gaps.resize(trace_->records.size(), -1);
    trace_->gaps.back() = row.gap;
  }
  add_hashes(row);
  // Rows before the first row with hashes have an empty range.
  if (!trace_->hashes.empty()) {
    trace_->hash_ends.resize(trace_->records.size());
    trace_->hash_ends.back() = static_cast<std::uint32_t>(trace_->hashes.size());
  }
}

// A request without a prompt or without an answer, which is how failed requests are logged, did no work that a replay
// could repeat. No formula of this program applies to it.
bool TraceBuilder::skip_zero(const ParsedRow& row) {
  if (row.record.input_tokens == 0) warn(row.input_place, "zero-tokens", "0 input tokens");
  if (row.record.output_tokens == 0) warn(row.output_place, "zero-tokens", "0 output tokens");
  return row.record.input_tokens == 0 || row.record.output_tokens == 0;
}

bool TraceBuilder::hashes_consistent(const ParsedRow& row) {
  const std::int64_t block = trace_->hash_block_tokens;
  // The last block of a prompt may be incomplete; published traces give it an identity too.
  const auto expected = static_cast<std::size_t>((row.record.input_tokens + block - 1) / block);
  // Our own format may list only the shared beginning; the published formats list every block.
  const bool leading_only = trace_->format == "plimsoll";
  const std::size_t count = row.hashes.size();
  if (leading_only ? count > expected : count != expected) {
    warn(row.hashes_place, "inconsistent",
         fmt::format("{} block ids for {} input tokens, expected {}{} (block of {} tokens)", count,
                     row.record.input_tokens, leading_only ? "at most " : "", expected, block));
    return false;
  }
  // A repeated identity would make a request share a prefix with itself.
  sorted_.assign(row.hashes.begin(), row.hashes.end());
  if (!std::is_sorted(sorted_.begin(), sorted_.end())) std::sort(sorted_.begin(), sorted_.end());
  if (std::adjacent_find(sorted_.begin(), sorted_.end()) == sorted_.end()) return true;
  warn(row.hashes_place, "inconsistent", "a block id repeats inside one request");
  return false;
}

void TraceBuilder::add_hashes(const ParsedRow& row) {
  if (row.hashes_place.column.empty() || !hashes_consistent(row)) return;
  constexpr std::size_t kMaxCount = std::numeric_limits<std::uint32_t>::max();
  if (trace_->hashes.size() + row.hashes.size() > kMaxCount) {
    const FieldPlace& at = row.hashes_place;
    reject({file_, at.line, 0, std::string(at.column), "more than 2^32 block ids in one file; split it", "too-large"});
  }
  trace_->hashes.insert(trace_->hashes.end(), row.hashes.begin(), row.hashes.end());
}

ReadResult TraceBuilder::finish(std::size_t header_line) {
  ReadResult result;
  // A fault in many rows is reported as one warning, with their number and the first place.
  for (RowWarning& odd : oddities_) {
    const bool skipped = odd.code == "zero-tokens";
    const bool hashes = odd.code == "inconsistent" && odd.column != "Total tokens" && odd.column != "num_total_tokens";
    const bool lacking = odd.code == "no-block-ids";
    const std::string_view what = skipped   ? "skipped"
                                  : lacking ? "they share no prefix with others"
                                  : hashes  ? "prefix reuse is off for them"
                                            : "the sum is used";
    std::string text =
        fmt::format("{} of {} rows: {} (first: line {}): {}", odd.count, rows_, odd.text, odd.first.line, what);
    result.warnings.push_back({file_, odd.first.line, odd.first.byte_column, odd.column, std::move(text), odd.code});
  }
  if (trace_->records.empty()) {
    const bool none = rows_ == 0;
    reject({file_, header_line, 0, "", none ? "no data rows" : "no usable rows: all have 0 input or output tokens",
            "no-rows"});
  }
  // Replays start at time 0, whatever the clock of the recording was.
  if (trace_->has_arrivals()) {
    trace_->first_arrival = trace_->records.front().arrival;
    for (TraceRecord& record : trace_->records) record.arrival -= trace_->first_arrival;
  }
  result.rows_skipped = static_cast<std::int64_t>(rows_ - trace_->records.size());
  if (trace_->hashes.empty()) trace_->hash_block_tokens = 0;
  result.trace = std::move(trace_);
  return result;
}

}  // namespace plimsoll::traces
