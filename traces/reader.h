// SPDX-License-Identifier: Apache-2.0
// Reads trace files. All faults are found before any row is used: a trace is read completely or refused.
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

/// One row of a trace, 24 bytes. Times count from the first row; `arrival` is < 0 in data that only has lengths.
struct TraceRecord {
  Nanos arrival = -1;
  std::int32_t input_tokens = 0;
  std::int32_t output_tokens = 0;
  std::uint64_t session = 0;  // 0 if none
};

/// A trace that was read. It does not change after that, and the points of a sweep share it.
struct Trace {
  std::string file, format;
  std::deque<TraceRecord> records;       // in order of arrival; a deque grows without copying millions of rows
  std::vector<std::uint64_t> hashes;     // prefix block hashes of all rows, in blocks of hash_block_tokens
  std::vector<std::uint32_t> hash_ends;  // for each row, the end of its hashes; empty if there are no hashes
  std::vector<std::int32_t> priorities;  // by row, the lower, the sooner; empty: all are 0
  std::vector<Nanos>
      gaps;  // by row: from the answer to its session's row before; -1: not stated; empty: none is stated
  bool needs_answers = false;            // some rows state only that gap: they have no time of their own
  std::int32_t hash_block_tokens = 0;    // tokens per block; 0 if the trace has no prefixes
  std::int64_t rows_without_blocks = 0;  // rows without block ids in a format that has them; they share nothing
  Nanos first_arrival = 0;               // the first row's own time: ns since 1970 UTC, or as in the file
  [[nodiscard]] bool has_arrivals() const { return !records.empty() && records.front().arrival >= 0; }
  [[nodiscard]] std::int32_t priority_of(std::size_t row) const { return priorities.empty() ? 0 : priorities[row]; }
  [[nodiscard]] Nanos gap_of(std::size_t row) const { return gaps.empty() ? -1 : gaps[row]; }
  /// Returns the block hashes of a row.
  [[nodiscard]] std::span<const std::uint64_t> hashes_of(std::size_t row) const {
    if (hash_ends.empty()) return {};
    const std::size_t begin = row == 0 ? 0 : hash_ends[row - 1];
    return std::span(hashes).subspan(begin, hash_ends[row] - begin);
  }
};

/// An error (reject) or a peculiarity (warn) of a file. Printed as `FILE[:LINE[:BYTECOL]]: [COLUMN: ]text [code]`.
struct TraceProblem {
  std::string file;
  std::size_t line = 0, byte_column = 0;  // from 1; 0 if not applicable
  std::string column;                     // name of the field; empty if not applicable
  std::string text, code;                 // code: the permanent name in docs/traces.md, such as "field-count"
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
  std::string format;                  // a name of trace_formats(); empty to recognise the format by its content
  std::int32_t hash_block_tokens = 0;  // tokens of a block, which no file states; 0: the format's own
                                       // (mooncake 512, qwen_bailian, servegen_offline and plimsoll 16)
};

struct ReadResult {
  std::shared_ptr<const Trace> trace;
  std::vector<TraceProblem> warnings;  // such as rows that were left out, or sums that were recomputed
  std::int64_t rows_skipped = 0;       // rows with 0 input or output tokens
};

/// Reads FILE or FILE.gz as a stream; keeps only the numbers, never the text. Throws TraceError for any fault,
/// including a missing or unreadable file or a directory (docs/traces.md lists the codes). Throws InputError for an
/// unknown format name. Several threads may call it at once.
[[nodiscard]] ReadResult read_trace(const std::string& file, const ReadOptions& options = {});

/// Returns the names that `format` and `--as` accept.
[[nodiscard]] std::vector<std::string_view> trace_formats();

}  // namespace plimsoll::traces
