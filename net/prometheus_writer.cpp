// SPDX-License-Identifier: Apache-2.0
#include "net/prometheus_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

namespace plimsoll::net {

namespace {

constexpr std::array<std::string_view, 3> kTypes = {"counter", "gauge", "histogram"};

// Python's client writes whole numbers as 1.0, and some readers compare the bounds in labels as text.
std::string number(double value) {
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (std::isnan(value)) return "NaN";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.1f}", value);
  return fmt::format("{}", value);
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += c;
  }
}

}  // namespace

BucketCounts::BucketCounts(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1, 0) {}

void BucketCounts::observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(bucket)];
  sum_ += value;
}

std::string PrometheusWriter::label(std::string_view name, std::string_view value) {
  std::string out(name);
  out += "=\"";
  append_escaped(out, value, true);
  return out + '"';
}

void PrometheusWriter::family(std::string_view name, MetricType type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} ", name);
  append_escaped(text_, help, false);
  text_ += fmt::format("\n# TYPE {} {}\n", name, kTypes.at(static_cast<std::size_t>(type)));
}

void PrometheusWriter::sample(std::string_view labels, double value) {
  text_ += name_;
  if (!labels.empty()) text_ += fmt::format("{{{}}}", labels);
  text_ += ' ' + number(value) + '\n';
}

void PrometheusWriter::histogram(std::string_view labels, const BucketCounts& counts) {
  const std::string_view comma = labels.empty() ? "" : ",";
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < counts.counts().size(); ++i) {
    sum += counts.counts()[i];
    const std::string bound = i < counts.bounds().size() ? number(counts.bounds()[i]) : "+Inf";
    fmt::format_to(std::back_inserter(text_), "{}_bucket{{{}{}le=\"{}\"}} {}.0\n", name_, labels, comma, bound, sum);
  }
  const std::string braced = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  text_ += fmt::format("{}_count{} {}.0\n{}_sum{} {}\n", name_, braced, sum, name_, braced, number(counts.sum()));
}

}  // namespace plimsoll::net
