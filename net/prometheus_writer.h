// SPDX-License-Identifier: Apache-2.0
// Writes the text format of Prometheus (version 0.0.4): families of samples with labels, and histograms.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::net {

enum class MetricType : std::uint8_t { counter, gauge, histogram };

/// Counts observations in buckets.
class BucketCounts {
 public:
  /// `bounds` are the upper bounds of the buckets, in ascending order.
  explicit BucketCounts(std::vector<double> bounds);
  void observe(double value);
  [[nodiscard]] std::span<const double> bounds() const { return bounds_; }
  /// counts()[i] are the observations in (bounds[i - 1], bounds[i]]; a last element counts those above all bounds.
  [[nodiscard]] std::span<const std::uint64_t> counts() const { return counts_; }
  [[nodiscard]] double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

class PrometheusWriter {
 public:
  /// The content type of the page.
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  /// Begins a family. Its samples have the same name; that of a counter ends in _total.
  void family(std::string_view name, MetricType type, std::string_view help);
  /// Writes a sample of the family. `labels` is empty or a list `a="x",b="y"` of results of label().
  void sample(std::string_view labels, double value);
  /// Writes a histogram of the family.
  void histogram(std::string_view labels, const BucketCounts& counts);

  /// Returns `name="value"` with the value escaped.
  [[nodiscard]] static std::string label(std::string_view name, std::string_view value);
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

}  // namespace plimsoll::net
