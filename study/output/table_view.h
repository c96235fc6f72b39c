// SPDX-License-Identifier: Apache-2.0
// A result as a table for the terminal: values common to all points on top, one line per point, then footnotes.
#pragma once

#include <string>
#include <vector>

#include "study/run/point_result.h"

namespace plimsoll::study {

/// Cells in columns: the first `left` columns are left-aligned, the others right. `header` may have several lines.
struct TextTable {
  std::vector<std::vector<std::string>> header, rows;
  std::size_t left = 0;
};
/// Formats the cells as lines with aligned columns.
[[nodiscard]] std::string text_table(const TextTable& table);

/// Returns whether every request was rejected: then there is no steady state to judge.
[[nodiscard]] bool rejected_all(const sched::PointMetrics& metrics);

/// A result's table with the lines above and below it. Metrics that the SLO limits have columns of their own.
struct PointsTable {
  std::string constants;  // values common to all points
  TextTable table;
  std::vector<std::string> footnotes;  // "a  estimated: …"
};
/// `points` must not be empty.
[[nodiscard]] PointsTable points_text_table(const std::vector<std::string>& swept_keys,
                                            const std::vector<PointResult>& points);
[[nodiscard]] std::string points_table(const std::string& title, const std::vector<std::string>& swept_keys,
                                       const std::vector<PointResult>& points);

}  // namespace plimsoll::study
