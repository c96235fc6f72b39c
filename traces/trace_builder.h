// SPDX-License-Identifier: Apache-2.0
// Collects the rows of any format: keeps them in order, leaves out rows that cannot be used, and counts peculiarities.
// Internal to traces/.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/reader.h"

namespace plimsoll::traces {

/// The position of a value, for messages. `column` points into the format's table or the header.
struct FieldPlace {
  std::size_t line = 0, byte_column = 0;
  std::string_view column;
};

/// A row as parsed, with the positions that later checks need for messages.
struct ParsedRow {
  TraceRecord record;  // arrival as in the file; -1 if the format has none
  FieldPlace arrival_place, input_place, output_place, hashes_place;
  std::span<const std::uint64_t> hashes;  // block ids of the row
  std::int32_t priority = 0;
  Nanos gap = -1;        // from the answer to the session's row before; -1: not stated
  bool follows = false;  // the row has no time of its own, only the gap
};

class TraceBuilder {
 public:
  TraceBuilder(std::string file, std::string format, std::int32_t hash_block_tokens);

  /// Adds a row. Throws TraceError unsorted or too-large.
  void add(const ParsedRow& parsed);
  /// Counts a peculiar row under (code, column) and keeps the position of the first one. `text` describes the row.
  void warn(const FieldPlace& place, std::string_view code, std::string text);
  /// Notes that the next row has no block ids although its format has them. Such a row shares nothing.
  void lacks(const FieldPlace& place);
  /// Returns the trace with times relative to its first row. If there are no rows, throws TraceError no-rows, which
  /// refers to `header_line`.
  [[nodiscard]] ReadResult finish(std::size_t header_line);

 private:
  struct RowWarning {
    FieldPlace first;
    std::string column, code, text;
    std::size_t count = 0;
  };

  bool skip_zero(const ParsedRow& row);
  void add_hashes(const ParsedRow& row);
  [[nodiscard]] bool hashes_consistent(const ParsedRow& row);

  std::string file_;
  std::shared_ptr<Trace> trace_;
  std::vector<RowWarning> oddities_;
  std::vector<std::uint64_t> sorted_;  // memory for the search of repeated ids
  Nanos last_arrival_ = -1;
  std::size_t rows_ = 0;
};

}  // namespace plimsoll::traces
