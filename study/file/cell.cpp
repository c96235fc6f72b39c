// SPDX-License-Identifier: Apache-2.0
#include "study/file/cell.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace plimsoll::study {
namespace {

struct PlainText {
  std::string operator()(std::monostate) const { return {}; }
  std::string operator()(const std::string& text) const { return text; }
  std::string operator()(double value) const { return number_text(value); }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
};

std::string quoted_csv(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string with_thousands(std::string digits) {
  const std::size_t end = std::min(digits.find('.'), digits.size());
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  if (end - first < 5) return digits;  // 1000 is readable as it is; 10 000 needs the gap
  for (std::size_t i = end; i > first + 3; i -= 3) digits.insert(i - 3, "\u202f");
  return digits;
}

}  // namespace

Cell number_cell(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return std::monostate{};
  return *value;
}

std::string number_text(double value) { return fmt::format("{}", value == 0 ? 0.0 : value); }  // never "-0"

std::string plain_text(const Cell& cell) { return std::visit(PlainText{}, cell); }

std::string csv_text(const Cell& cell) { return quoted_csv(plain_text(cell)); }

std::string json_quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return "null";
  if (const auto* text = std::get_if<std::string>(&cell)) return json_quoted(*text);
  return plain_text(cell);
}

std::string csv_line(const std::vector<Cell>& cells) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_text(cells[i]);
  }
  return line + '\n';
}

std::string csv_header(const std::vector<std::string>& columns) {
  return csv_line(std::vector<Cell>(columns.begin(), columns.end()));
}

std::string reader_number(double value, int digits) {
  if (!std::isfinite(value)) return "";
  if (value == 0) return "0";
  const double size = std::fabs(value);
  if (size < 1e-6 || size >= 1e12) return fmt::format("{:.{}g}", value, digits);
  const int before = static_cast<int>(std::floor(std::log10(size))) + 1;
  std::string text = fmt::format("{:.{}f}", value, std::max(0, digits - before));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return with_thousands(text);
}

}  // namespace plimsoll::study
