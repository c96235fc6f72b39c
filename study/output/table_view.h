// SPDX-License-Identifier: Apache-2.0
// A result as a table for the terminal: values common to all points on top, one line per point, footnotes.
#pragma once

#include <string>
#include <vector>

#include "study/run/point_result.h"

namespace plimsoll::study {

/// Cells in columns: the first `left` columns flush left, the others right; `header` may hold several lines.
struct TextTable {
  std::vector<std::vector<std::string>> header, rows;
  std::size_t left = 0;
};
[[nodiscard]] std::string text_table(const TextTable& table);

/// Whether no request was served because all were rejected: then there is no steady state to judge.
[[nodiscard]] bool rejected_all(const sched::PointMetrics& metrics);

/// A result's cells with the lines above and below them. Metrics that the SLO limits have columns of their own.
struct PointsTable {
  std::string constants;  // values common to all points
  TextTable table;
  std::vector<std::string> footnotes;  // "a  estimated: …"
};
/// `points` is not empty.
[[nodiscard]] PointsTable points_text_table(const std::vector<std::string>& swept_keys,
                                            const std::vector<PointResult>& points);
[[nodiscard]] std::string points_table(const std::string& title, const std::vector<std::string>& swept_keys,
                                       const std::vector<PointResult>& points);

}  // namespace plimsoll::study
