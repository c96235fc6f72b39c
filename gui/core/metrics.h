// SPDX-License-Identifier: GPL-3.0-or-later
// What can be plotted: every measured column of points.csv and what follows from it, with unit, scale and definition.
#pragma once

#include <QString>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "study/run/point_result.h"

namespace plimsoll::gui {

struct Metric {
  const char* id;          // a column of points.csv, or a name of ours
  const char* label;       // "p90 latency per output token"
  const char* unit;        // as shown; empty: none
  double scale;            // shown value = column's value * scale
  const char* group;       // throughput, latency, load, memory, cost, time
  const char* definition;  // docs/metrics.md in one or two sentences
  bool better_low;
};

[[nodiscard]] std::span<const Metric> metrics();
/// nullptr for a name that is none.
[[nodiscard]] const Metric* find_metric(std::string_view id);
/// "p90 latency per output token (ms)"
[[nodiscard]] QString axis_title(const Metric& metric);

/// One point with its cells, read once.
struct PointRow {
  study::PointResult result;
  std::vector<study::Cell> cells;  // of point_columns({})
  std::int32_t gpus = 1;           // accelerators of its instances that its replicas use
};
[[nodiscard]] PointRow make_row(study::PointResult result, std::int32_t pp);

/// In the metric's shown unit; nullopt where it does not apply.
[[nodiscard]] std::optional<double> value_of(const PointRow& row, const Metric& metric);
/// The columns of every row, and the place of one.
[[nodiscard]] const std::vector<std::string>& row_columns();
[[nodiscard]] std::optional<std::size_t> column_index(std::string_view name);

}  // namespace plimsoll::gui
