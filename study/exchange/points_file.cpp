// SPDX-License-Identifier: Apache-2.0
#include "study/exchange/import_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "configs/quantity.h"
#include "study/exchange/csv_file.h"
#include "study/exchange/foreign_formats.h"
#include "study/run/point_result.h"

namespace plimsoll::study {
namespace {

Cell cell_of(const std::string& column, const std::string& text, bool ours, const Where& where) {
  if (text.empty()) return {};
  if (is_text_column(column)) return text;
  if (text == "true" || text == "false") return text == "true";
  if (const auto number = configs::parse_number(text)) {
    const bool whole = text.find_first_not_of("-0123456789") == std::string::npos && text.size() < 16;
    if (whole) return static_cast<std::int64_t>(*number);
    return *number;
  }
  if (ours) throw InputError(where, fmt::format("{}: found '{}', expected a number", column, text.substr(0, 40)));
  return text;  // the value of a swept key
}

void check_header(const std::vector<std::string>& names, const Where& where) {
  for (const char* needed : {"source", "model", "load_kind"}) {
    if (std::find(names.begin(), names.end(), needed) == names.end())
      throw InputError(where, fmt::format("the column '{}' is missing, expected the header of a points.csv", needed));
  }
}

ImportedPoint point_of(const std::vector<std::string>& names, const std::vector<CsvField>& fields, const Where& where) {
  static const std::vector<std::string> known = point_columns({});
  if (fields.size() != names.size())
    throw InputError(where, fmt::format("found {} fields, expected {} as in the header", fields.size(), names.size()));
  ImportedPoint point;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const bool ours = std::find(known.begin(), known.end(), names[i]) != known.end();
    Cell cell = cell_of(names[i], fields[i].text, ours, Where{where.file, where.line, fields[i].column});
    if (!std::holds_alternative<std::monostate>(cell)) point.cells.emplace_back(names[i], std::move(cell));
  }
  return point;
}

}  // namespace

bool is_text_column(std::string_view column) {
  constexpr std::array<std::string_view, 8> kTexts = {"source", "model",  "hardware",  "engine",
                                                      "dtype",  "policy", "load_kind", "stable_reason"};
  return std::find(kTexts.begin(), kTexts.end(), column) != kTexts.end();
}

std::vector<ImportedPoint> read_points_csv(const std::string& file) {
  constexpr std::uintmax_t kMaxSize = 64U << 20;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > kMaxSize)
    throw InputError(Where{file, 0, 0}, "is larger than 64 MiB, expected a table of points");
  std::vector<ImportedPoint> points;
  std::vector<std::string> names;
  read_csv(file, "a points.csv", [&](const std::vector<CsvField>& fields, const Where& where) {
    if (!names.empty()) {
      points.push_back(point_of(names, fields, where));
      return;
    }
    for (const CsvField& field : fields) names.push_back(field.text);
    check_header(names, where);
  });
  if (points.empty()) throw InputError(Where{file, 0, 0}, "holds no point");
  return points;
}

}  // namespace plimsoll::study
