// SPDX-License-Identifier: GPL-3.0-or-later
// The metrics that can be plotted: every measured column of points.csv and values derived from them, with unit, scale
// and definition.
#pragma once

#include <QString>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "study/run/point_result.h"

namespace plimsoll::gui {

struct Metric {
  const char* id;          // a column of points.csv, or a name of our own
  const char* label;       // "p90 latency per output token"
  const char* unit;        // as displayed; empty if none
  double scale;            // displayed value = value in the column * scale
  const char* group;       // throughput, latency, load, memory, pools, cost
  const char* definition;  // a summary of docs/metrics.md
  bool better_low;
};

/// Returns all metrics, in the order of the menus.
[[nodiscard]] std::span<const Metric> metrics();
/// Returns nullptr for an unknown name.
[[nodiscard]] const Metric* find_metric(std::string_view id);
/// What throughput and load are divided by, so that deployments of different size can be compared.
enum class Basis : unsigned char { total, per_gpu, per_price };
/// Returns the same metric on another basis; nullptr if it has only one.
[[nodiscard]] const Metric* on_basis(const Metric& metric, Basis basis);
/// Returns nullopt for a metric that has only one basis.
[[nodiscard]] std::optional<Basis> basis_of(const Metric& metric);
/// Returns "p90 latency per output token (ms)".
[[nodiscard]] QString axis_title(const Metric& metric);

/// A point and its cells, which are formatted only once.
struct PointRow {
  study::PointResult result;
  std::vector<study::Cell> cells;  // of point_columns({}, PoolColumns::yes)
  std::int32_t gpus = 1;           // accelerators of its instances that its replicas use
};
/// Formats the cells of a point; `pp` is its pipeline degree.
[[nodiscard]] PointRow make_row(study::PointResult result, std::int32_t pp);

/// Returns the value in the metric's displayed unit; nullopt if it does not apply.
[[nodiscard]] std::optional<double> value_of(const PointRow& row, const Metric& metric);
/// Return the columns of every row, and the index of one column.
[[nodiscard]] const std::vector<std::string>& row_columns();
[[nodiscard]] std::optional<std::size_t> column_index(std::string_view name);

}  // namespace plimsoll::gui
