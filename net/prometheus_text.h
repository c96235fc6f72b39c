// SPDX-License-Identifier: Apache-2.0
// Parses the text format of Prometheus (version 0.0.4, and OpenMetrics where it is the same) that servers publish.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::net {

/// One sample: a name, labels and a value. Names and values of labels are unescaped.
struct PrometheusSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;  // may be infinite or NaN

  /// Returns the value of a label; null if there is no label of this name.
  [[nodiscard]] const std::string* label(std::string_view name) const;
};

/// Limits: input beyond this many bytes or samples is not read.
inline constexpr std::size_t kMaxPrometheusBytes = std::size_t{16} << 20, kMaxPrometheusSamples = 200'000;

/// Returns the samples of `text` in its order. Skips comments, lines that are not samples, and everything beyond the
/// limits, so that a page that is partly invalid is still useful. Never throws.
[[nodiscard]] std::vector<PrometheusSample> parse_prometheus(std::string_view text);
/// Parses one line; returns nullopt if it is not a sample.
[[nodiscard]] std::optional<PrometheusSample> parse_prometheus_line(std::string_view line);

}  // namespace plimsoll::net
