// SPDX-License-Identifier: Apache-2.0
// Trace files in, Trace out. Every fault is found before anything is used: a trace is whole or refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.h"
#include "model/units.h"

namespace plimsoll::traces {

/// One row of a trace, 24 bytes. Times count from the first row; an absent arrival (length-only data) is < 0.
struct TraceRecord {
  Nanos arrival = -1;
  std::int32_t input_tokens = 0;
  std::int32_t output_tokens = 0;
  std::uint64_t session = 0;  // 0: none
};

/// A parsed trace, immutable once read, shared between points of a sweep.
struct Trace {
  std::string file, format;
  std::deque<TraceRecord> records;       // in order of arrival; grows without a copy of millions of rows
  std::vector<std::uint64_t> hashes;     // prefix block hashes of all rows, see hash_block_tokens
  std::vector<std::uint32_t> hash_ends;  // by row: where its hashes end and the next row's begin; empty without hashes
  std::vector<std::int32_t> priorities;  // by row, the lower, the sooner; empty: all are 0
  std::int32_t hash_block_tokens = 0;    // tokens of a block; 0: the trace has no prefixes
  std::int64_t rows_without_blocks = 0;  // rows of a format with block ids that state none: they share nothing
  Nanos first_arrival = 0;               // the first row's own stamp: ns since 1970 UTC, or as written in the file
  [[nodiscard]] bool has_arrivals() const { return !records.empty() && records.front().arrival >= 0; }
  [[nodiscard]] std::int32_t priority_of(std::size_t row) const { return priorities.empty() ? 0 : priorities[row]; }
  /// The block hashes of a row.
  [[nodiscard]] std::span<const std::uint64_t> hashes_of(std::size_t row) const {
    if (hash_ends.empty()) return {};
    const std::size_t begin = row == 0 ? 0 : hash_ends[row - 1];
    return std::span(hashes).subspan(begin, hash_ends[row] - begin);
  }
};

/// What is wrong with (reject) or odd about (warn) a file. Printed as `FILE[:LINE[:BYTECOL]]: [COLUMN: ]text [code]`.
struct TraceProblem {
  std::string file;
  std::size_t line = 0, byte_column = 0;  // from 1; 0: not applicable
  std::string column;                     // field name; empty: not applicable
  std::string text, code;                 // code: the stable name of docs/traces.md, e.g. "field-count"
};
[[nodiscard]] std::string to_string(const TraceProblem& problem);

/// Thrown for a file that cannot be used.
class TraceError : public InputError {
 public:
  explicit TraceError(TraceProblem problem);
  [[nodiscard]] const TraceProblem& problem() const { return problem_; }

 private:
  TraceProblem problem_;
};

struct ReadOptions {
  std::string format;                  // a name of trace_formats(); empty: recognised by content
  std::int32_t hash_block_tokens = 0;  // tokens of a block, which no file states; 0: the format's own
                                       // (mooncake 512, qwen_bailian, servegen_offline and plimsoll 16)
};

struct ReadResult {
  std::shared_ptr<const Trace> trace;
  std::vector<TraceProblem> warnings;  // rows left out, sums recomputed …
  std::int64_t rows_skipped = 0;       // rows with 0 input or output tokens
};

/// Reads FILE or FILE.gz, streaming: only the numbers are kept, never the text. Throws TraceError for whatever is
/// wrong, a file that is missing, unreadable or a directory included (the codes are listed in docs/traces.md), and
/// InputError for a format name that does not exist. Safe to call from several threads at once.
[[nodiscard]] ReadResult read_trace(const std::string& file, const ReadOptions& options = {});

/// Names accepted by `format` and `--as`.
[[nodiscard]] std::vector<std::string_view> trace_formats();

}  // namespace plimsoll::traces
