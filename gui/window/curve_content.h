// SPDX-License-Identifier: GPL-3.0-or-later
// From the workbench's curves to what a plot draws: series, greyed predecessors, the compared scenario, measured
// points, knees, limits, bands.
#pragma once

#include <set>

#include "gui/core/workbench.h"
#include "gui/plot/plot_view.h"

namespace plimsoll::gui {

struct ContentChoice {
  const Metric *x = nullptr, *y = nullptr;
  bool log_x = false, log_y = false, knees = false, measured = true, bands = true;
  double limit = 0;          // of y; 0: no line
  std::set<QString> hidden;  // names of series
};

/// A series of the content and where its points come from; PlotPoint::id is an index into the curve's points.
struct SeriesSource {
  enum class Kind : unsigned char { curve, previous, compared, measured } kind = Kind::curve;
  std::size_t curve = 0;
};
struct CurveContent {
  PlotContent content;
  std::vector<SeriesSource> sources;  // one a series
};
[[nodiscard]] CurveContent curve_content(const Workbench& bench, const ContentChoice& choice);
/// Relative errors of the simulated points against the measured ones, in percent.
[[nodiscard]] PlotContent residual_content(const Workbench& bench, const ContentChoice& choice);
/// "MAPE 6.0 %, bias -1.2 %, n = 20"; empty without measured points.
[[nodiscard]] QString residual_summary(const Workbench& bench, const ContentChoice& choice);

/// Name of a curve: what is swept besides the load, else the scenario's name.
[[nodiscard]] QString curve_name(const Workbench& bench, const Curve& curve);
/// "64 clients", "2.5 requests/s": the load of a point.
[[nodiscard]] QString load_text(const study::PointLabels& labels, int digits = 4);
/// Why the figures are estimates, without what stands in brackets, and which are; empty: none is.
[[nodiscard]] QString validity_text(const Workbench& bench);
/// Lines of text about a point.
[[nodiscard]] QString point_tip(const PointRow& row, const QString& name, const QString& kind);
/// The most that each curve carries while the y metric stays within the limit, and its cost: the inverse question.
/// Between the last point within and the first beyond it is where the drawn line crosses the limit, and says "about".
/// The compared scenario's too.
[[nodiscard]] QString limit_answer(const Workbench& bench, const ContentChoice& choice);

}  // namespace plimsoll::gui
