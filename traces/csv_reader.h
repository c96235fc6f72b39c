// SPDX-License-Identifier: Apache-2.0
// Passes the rows of a CSV trace to a TraceBuilder. Internal to traces/.
//
// The format is RFC 4180 with commas; header names may be in any order, and unknown columns are ignored. A quoted field
// must not span lines, so that a stray quote cannot swallow the rest of a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "traces/fields.h"
#include "traces/formats.h"
#include "traces/line_reader.h"
#include "traces/trace_builder.h"

namespace plimsoll::traces {

class CsvReader {
 public:
  CsvReader(const TraceFormat& format, LineReader& lines, std::string file, TraceBuilder& builder);

  /// Reads all rows and returns the line number of the header. Throws TraceError.
  [[nodiscard]] std::size_t read_all();

 private:
  // A column that is used; listed in file order.
  struct Used {
    std::size_t index = 0;
    Role role = Role::other;
  };

  void read_header();
  void check_header(std::string_view line) const;
  void choose_columns();
  void read_row(std::string_view line);
  void split(std::string_view line);
  void check_bytes(std::string_view line) const;
  void check_count(std::string_view line);
  Fault parse_field(const Used& used, std::string_view text);
  Fault parse_arrival(std::string_view text);
  Fault parse_prefix(std::string_view text);
  Fault parse_session(std::string_view text);
  void compare_total();
  [[nodiscard]] FieldPlace place_of(std::size_t index) const;
  [[noreturn]] void fail(std::string_view column, std::size_t byte_column, std::string_view code,
                         std::string text) const;

  const TraceFormat& format_;
  LineReader& lines_;
  std::string file_;
  TraceBuilder& builder_;
  double unit_;
  std::size_t header_line_ = 0;
  std::string header_;
  std::vector<std::string> names_;
  std::vector<Used> used_;
  std::vector<std::string_view> fields_;  // of the current row, quotes removed
  std::vector<std::size_t> starts_;       // byte offsets of the fields, quotes included
  ParsedRow row_;
  std::int32_t total_ = -1;
  std::size_t total_index_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::optional<bool> zoned_;  // whether the date in the first row states a zone
};

}  // namespace plimsoll::traces
