// SPDX-License-Identifier: GPL-3.0-or-later
// Measured results that are shown over simulated ones. They come from published tables, a CSV of measured points, the
// points.csv of a run, other tools, or a run in progress. Also computes the difference for each point.
#pragma once

#include <QString>
#include <string>
#include <vector>

#include "gui/core/curve_model.h"
#include "gui/core/metrics.h"
#include "validation/compare.h"

namespace plimsoll::gui {

/// Measured points of one source.
struct OverlayTable {
  QString name;
  std::vector<PointRow> rows;  // missing figures are blank cells
  bool published = false;
  QString tool = {};  // name of another tool; properties that its result does not state may have any value
  std::vector<QString> notes = {};  // which figures the result lacks
  std::string folder = {};          // folder of a run, which may contain its requests.csv and timeline.json
};

/// Reads measured points (docs/metrics.md), a points.csv, or another tool's result. Throws InputError with file:line.
[[nodiscard]] OverlayTable read_overlay(const std::string& file);
/// Returns true if read_overlay() accepts a file with this content.
[[nodiscard]] bool is_overlay(const std::string& text);
/// Returns the tables that ship with the program.
[[nodiscard]] std::vector<OverlayTable> published_tables();
/// Returns a row made from named cells, in the form of a `point` line of --progress jsonl.
[[nodiscard]] PointRow overlay_row(const std::vector<std::pair<std::string, study::Cell>>& cells);

/// A measured point and the curve that it belongs to.
struct OverlayPoint {
  const PointRow* row = nullptr;
  const OverlayTable* table = nullptr;
  std::size_t curve = 0;
};
/// Returns the rows that describe one of the curves: same model, hardware, TP, replicas, load kind and, if stated,
/// lengths. For another tool's result only the properties that it states are compared, and a row that fits several
/// curves belongs to none. Pointers refer to `tables`.
[[nodiscard]] std::vector<OverlayPoint> overlay_points(const CurveModel& model,
                                                       const std::vector<OverlayTable>& tables);
/// Returns for each of the user's tables why some rows match no curve and which figures they lack; empty if there is
/// nothing to report.
[[nodiscard]] std::vector<QString> overlay_notes(const std::vector<const CurveModel*>& models,
                                                 const std::vector<OverlayTable>& tables);

/// A measured point beside the simulated one of the same load.
struct Residual {
  OverlayPoint point;
  double x = 0;                        // measured value of the x metric
  double measured = 0, predicted = 0;  // of the y metric, in its displayed unit
  std::optional<bool> in_band = {};    // whether the prediction's 90 % band holds the measured value, if there is one
  [[nodiscard]] double relative() const { return predicted / measured - 1; }
};
/// Returns the residuals of every measured point whose load has been simulated.
[[nodiscard]] std::vector<Residual> residuals(const CurveModel& model, const std::vector<OverlayPoint>& points,
                                              const Metric& x, const Metric& y);
/// Returns the mean absolute relative error and the bias.
[[nodiscard]] validation::ErrorSummary summary_of(const std::vector<Residual>& residuals);

}  // namespace plimsoll::gui
