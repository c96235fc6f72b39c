// SPDX-License-Identifier: Apache-2.0
#include "net/prometheus_text.h"

#include <charconv>
#include <limits>

namespace plimsoll::net {
namespace {

constexpr std::size_t kMaxLabels = 64;

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':'; }
bool is_name(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

void skip_blanks(std::string_view& rest) {
  while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\t')) rest.remove_prefix(1);
}

bool take(std::string_view& rest, char c) {
  skip_blanks(rest);
  if (rest.empty() || rest.front() != c) return false;
  rest.remove_prefix(1);
  return true;
}

std::string_view take_name(std::string_view& rest) {
  skip_blanks(rest);
  if (rest.empty() || !is_name_start(rest.front())) return {};
  std::size_t size = 1;
  while (size < rest.size() && is_name(rest[size])) ++size;
  const std::string_view name = rest.substr(0, size);
  rest.remove_prefix(size);
  return name;
}

// Reads a label's value in quotes and resolves the escapes \\, \" and \n.
std::optional<std::string> take_quoted(std::string_view& rest) {
  if (!take(rest, '"')) return {};
  std::string value;
  while (!rest.empty() && rest.front() != '"') {
    char c = rest.front();
    rest.remove_prefix(1);
    if (c == '\\') {
      if (rest.empty()) return {};
      c = rest.front() == 'n' ? '\n' : rest.front();
      rest.remove_prefix(1);
    }
    value += c;
  }
  if (rest.empty()) return {};
  rest.remove_prefix(1);
  return value;
}

bool take_labels(std::string_view& rest, PrometheusSample& sample) {
  while (!take(rest, '}')) {
    const std::string_view name = take_name(rest);
    if (name.empty() || !take(rest, '=') || sample.labels.size() >= kMaxLabels) return false;
    std::optional<std::string> value = take_quoted(rest);
    if (!value) return false;
    sample.labels.emplace_back(name, std::move(*value));
    if (take(rest, ',')) continue;
    if (!take(rest, '}')) return false;
    return true;
  }
  return true;
}

std::optional<double> number(std::string_view text) {
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  if (text == "Inf" || text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-Inf" || text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "NaN" || text == "nan") return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

const std::string* PrometheusSample::label(std::string_view wanted) const {
  for (const auto& [label_name, label_value] : labels)
    if (label_name == wanted) return &label_value;
  return nullptr;
}

std::optional<PrometheusSample> parse_prometheus_line(std::string_view line) {
  PrometheusSample sample;
  sample.name = take_name(line);
  if (sample.name.empty()) return {};
  if (take(line, '{') && !take_labels(line, sample)) return {};
  skip_blanks(line);
  const std::size_t end = line.find_first_of(" \t\r");  // a time stamp may follow
  const std::optional<double> value = number(line.substr(0, end));
  if (!value) return {};
  sample.value = *value;
  return sample;
}

std::vector<PrometheusSample> parse_prometheus(std::string_view text) {
  std::vector<PrometheusSample> samples;
  text = text.substr(0, kMaxPrometheusBytes);
  while (!text.empty() && samples.size() < kMaxPrometheusSamples) {
    const std::size_t end = text.find('\n');
    if (std::optional<PrometheusSample> sample = parse_prometheus_line(text.substr(0, end)))
      samples.push_back(std::move(*sample));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return samples;
}

}  // namespace plimsoll::net
