// SPDX-License-Identifier: GPL-3.0-or-later
// What was measured, laid over what is simulated: published tables, a CSV of measured points, the points.csv of a run,
// results of other tools, points of a run in progress. And the difference, point by point.
#pragma once

#include <QString>
#include <string>
#include <vector>

#include "gui/core/curve_model.h"
#include "gui/core/metrics.h"
#include "validation/compare.h"

namespace plimsoll::gui {

struct OverlayTable {
  QString name;
  std::vector<PointRow> rows;  // figures that are not there are blank cells
  bool published = false;
  QString tool = {};                // another tool's result: what it does not state may be anything
  std::vector<QString> notes = {};  // what is missing in it
  std::string folder = {};          // of a run: where its requests.csv and timeline.json may be
};

/// Measured points (docs/metrics.md), a points.csv, or another tool's result. Throws InputError with file:line.
[[nodiscard]] OverlayTable read_overlay(const std::string& file);
/// Whether read_overlay() takes a file of this content.
[[nodiscard]] bool is_overlay(const std::string& text);
/// The tables that ship with the program.
[[nodiscard]] std::vector<OverlayTable> published_tables();
/// A row of named cells, as a `point` line of --progress jsonl has them.
[[nodiscard]] PointRow overlay_row(const std::vector<std::pair<std::string, study::Cell>>& cells);

/// A measured point beside the curve that it belongs to.
struct OverlayPoint {
  const PointRow* row = nullptr;
  const OverlayTable* table = nullptr;
  std::size_t curve = 0;
};
/// Rows of the tables that describe one of the curves: same model, hardware, TP, replicas, load kind and, where stated,
/// lengths. Of another tool's result only what it states counts, and a row that fits several curves is of none.
/// Pointers are into `tables`.
[[nodiscard]] std::vector<OverlayPoint> overlay_points(const CurveModel& model,
                                                       const std::vector<OverlayTable>& tables);
/// For each table of the user's: what keeps rows of it from the chart, and what is missing in them. Empty: nothing.
[[nodiscard]] std::vector<QString> overlay_notes(const CurveModel& model, const std::vector<OverlayTable>& tables);

struct Residual {
  OverlayPoint point;
  double x = 0;                        // measured, of the x metric
  double measured = 0, predicted = 0;  // of the y metric, in its shown unit
  [[nodiscard]] double relative() const { return predicted / measured - 1; }
};
/// Of every measured point whose load has been simulated.
[[nodiscard]] std::vector<Residual> residuals(const CurveModel& model, const std::vector<OverlayPoint>& points,
                                              const Metric& x, const Metric& y);
[[nodiscard]] validation::ErrorSummary summary_of(const std::vector<Residual>& residuals);

}  // namespace plimsoll::gui
