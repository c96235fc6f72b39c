// SPDX-License-Identifier: Apache-2.0
// Collects the rows of any format: keeps them in order, leaves out what cannot be used, counts what is odd.
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

/// Where a value stands, for messages. `column` views the format's table or the header.
struct FieldPlace {
  std::size_t line = 0, byte_column = 0;
  std::string_view column;
};

/// A row as the readers parse it, with the places that later checks need.
struct ParsedRow {
  TraceRecord record;  // arrival as written, -1 where the format has none
  FieldPlace arrival_place, input_place, output_place, hashes_place;
  std::span<const std::uint64_t> hashes;  // the row's block ids
  std::int32_t priority = 0;
};

class TraceBuilder {
 public:
  TraceBuilder(std::string file, std::string format, std::int32_t hash_block_tokens);

  /// Throws TraceError unsorted or too-large.
  void add(const ParsedRow& row);
  /// Counts one odd row under (code, column); the first one's place is kept. `text` says what the row has.
  void warn(const FieldPlace& place, std::string_view code, std::string text);
  /// The next row has no block ids, which its format expects: it shares nothing.
  void lacks(const FieldPlace& place);
  /// The finished trace, times counted from its first row. `header_line` is blamed where there are no rows.
  /// Throws TraceError no-rows.
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
  std::vector<std::uint64_t> sorted_;  // scratch for the search of repeated ids
  Nanos last_arrival_ = -1;
  std::size_t rows_ = 0;
};

}  // namespace plimsoll::traces
