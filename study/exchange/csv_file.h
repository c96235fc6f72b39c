// SPDX-License-Identifier: Apache-2.0
// CSV files of points, plain or gzip, line by line: RFC 4180 with comma, no line breaks inside a field; lines that
// begin with # are remarks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.h"

namespace plimsoll::study {

struct CsvField {
  std::string text;        // quotes undone
  std::size_t column = 1;  // byte, from 1
};

/// The fields of one line without its end. Throws InputError for a quote that is not closed.
[[nodiscard]] std::vector<CsvField> csv_fields(std::string_view line, const Where& where);

/// Calls `line` for every line that is neither blank nor a remark, the header first; its column is not set. Throws
/// InputError with file:line; `expected` names the expected kind of file ("a points.csv").
void read_csv(const std::string& file, std::string_view expected,
              const std::function<void(const std::vector<CsvField>& fields, const Where& where)>& line);

}  // namespace plimsoll::study
