// SPDX-License-Identifier: Apache-2.0
#include "study/exchange/csv_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

namespace plimsoll::study {

std::vector<CsvField> csv_fields(std::string_view line, const Where& where) {
  std::vector<CsvField> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    std::string& text = fields.back().text;
    if (quoted) {
      if (line[i] != '"') text += line[i];
      else if (i + 1 < line.size() && line[i + 1] == '"') text += line[++i];
      else quoted = false;
    } else if (line[i] == '"' && text.empty()) {
      quoted = true;
    } else if (line[i] == ',') {
      fields.push_back({{}, i + 2});
    } else {
      text += line[i];
    }
  }
  if (quoted) throw InputError(Where{where.file, where.line, fields.back().column}, "a quoted field is not closed");
  return fields;
}

void read_csv(const std::string& file, std::string_view expected, const std::function<void(const std::vector<CsvField>& fields, const Where& where)>& line) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) throw InputError(Where{file, 0, 0}, fmt::format("is a directory, expected {}", expected));
  std::ifstream stream(file);
  if (!stream) throw InputError(Where{file, 0, 0}, "no such file, or it cannot be read");
  std::string text;
  for (std::size_t number = 1; std::getline(stream, text); ++number) {
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty() || text.front() == '#') continue;
    const Where where{file, number, 0};
    if (text.find('\0') != std::string::npos) throw InputError(where, "a NUL byte: this is not CSV");
    line(csv_fields(text, where), where);
  }
}

}  // namespace plimsoll::study
