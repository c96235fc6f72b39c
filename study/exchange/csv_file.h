// SPDX-License-Identifier: Apache-2.0
// Reads CSV files of points, plain or gzip, line by line: RFC 4180 with commas, without line breaks inside a field.
// Lines that begin with # are comments.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.h"

namespace plimsoll::study {

struct CsvField {
  std::string text;        // without its quotes
  std::size_t column = 1;  // column of its first byte, from 1
};

/// Splits one line, given without its end, into fields. Throws InputError for a quote that is not closed.
[[nodiscard]] std::vector<CsvField> csv_fields(std::string_view line, const Where& where);

/// The lines of a CSV text that are neither blank nor comments. Skips a byte order mark.
class CsvLines {
 public:
  /// `text` must outlive the lines.
  CsvLines(std::string_view text, const std::string& file);
  /// Moves to the first or next line. Returns false after the last one.
  [[nodiscard]] bool next();
  [[nodiscard]] const Where& where() const { return where_; }
  [[nodiscard]] std::vector<CsvField> fields() const { return csv_fields(line_, where_); }

 private:
  std::string_view rest_, line_;
  Where where_;
};

/// Calls `line` for every line that is neither blank nor a comment, beginning with the header; the column of its Where
/// is not set. Throws InputError with file:line; `expected` names the expected kind of file ("a points.csv").
void read_csv(const std::string& file, std::string_view expected,
              const std::function<void(const std::vector<CsvField>& fields, const Where& where)>& line);

}  // namespace plimsoll::study
