// SPDX-License-Identifier: Apache-2.0
// Reads Prometheus' text format (version 0.0.4, and OpenMetrics where it is the same): what a server says of itself.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::net {

/// One value. Both texts of a label are unescaped.
struct PrometheusSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;  // may be infinite or no number

  /// The value of a label; null if there is none of this name.
  [[nodiscard]] const std::string* label(std::string_view name) const;
};

/// The most that is read, bytes and samples.
inline constexpr std::size_t kMaxPrometheusBytes = std::size_t{16} << 20, kMaxPrometheusSamples = 200'000;

/// The samples of `text` in its order. Comments and lines that are no samples are skipped, and so is what lies beyond
/// the limits: a server's page of metrics is read for what can be understood. Never throws.
[[nodiscard]] std::vector<PrometheusSample> parse_prometheus(std::string_view text);
/// One line; nothing if it is no sample.
[[nodiscard]] std::optional<PrometheusSample> parse_prometheus_line(std::string_view line);

}  // namespace plimsoll::net
