// SPDX-License-Identifier: Apache-2.0
#include "study/exchange/csv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "traces/line_reader.h"

namespace plimsoll::study {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // spreadsheets write one

bool has_cells(std::string_view line) { return !line.empty() && line.front() != '#'; }

}  // namespace

std::vector<CsvField> csv_fields(std::string_view line, const Where& where) {
  std::vector<CsvField> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    std::string& text = fields.back().text;
    if (quoted) {
      if (line[i] != '"')
        text += line[i];
      else if (i + 1 < line.size() && line[i + 1] == '"')
        text += line[++i];
      else
        quoted = false;
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

CsvLines::CsvLines(std::string_view text, const std::string& file) : rest_(text), where_{file, 0, 0} {
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
}

bool CsvLines::next() {
  while (!rest_.empty()) {
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++where_.line;
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    if (has_cells(line_)) return true;
  }
  return false;
}

void read_csv(const std::string& file, std::string_view expected,
              const std::function<void(const std::vector<CsvField>& fields, const Where& where)>& line) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error))
    throw InputError(Where{file, 0, 0}, fmt::format("is a directory, expected {}", expected));
  traces::ByteSource source(file);
  traces::LineReader lines(source, file);
  if (lines.peek(kByteOrderMark.size()).starts_with(kByteOrderMark)) lines.skip(kByteOrderMark.size());
  for (std::string_view text; lines.next(text);) {
    if (!has_cells(text)) continue;
    const Where where{file, lines.number(), 0};
    if (text.find('\0') != std::string_view::npos) throw InputError(where, "a NUL byte: this is not CSV");
    line(csv_fields(text, where), where);
  }
}

}  // namespace plimsoll::study
