// SPDX-License-Identifier: GPL-3.0-or-later
// Converts the workbench's curves to the content of a plot: series, greyed previous curves, the compared scenario,
// measured points, knees, limits, bands.
#pragma once

#include <set>

#include "gui/core/workbench.h"
#include "gui/plot/plot_view.h"

namespace plimsoll::gui {

struct ContentChoice {
  const Metric *x = nullptr, *y = nullptr;
  bool log_x = false, log_y = false, knees = false, measured = true, bands = true;
  double limit = 0;          // limit on y; 0 for none
  std::set<QString> hidden;  // names of series
};

/// A series of the content and the origin of its points; PlotPoint::id is an index into the curve's points.
struct SeriesSource {
  enum class Kind : unsigned char { curve, previous, compared, measured } kind = Kind::curve;
  std::size_t curve = 0;
};
struct CurveContent {
  PlotContent content;
  std::vector<SeriesSource> sources;  // one per series
};
[[nodiscard]] CurveContent curve_content(const Workbench& bench, const ContentChoice& choice);
/// Returns the relative errors of the simulated points against the measured ones, in percent.
[[nodiscard]] PlotContent residual_content(const Workbench& bench, const ContentChoice& choice);
/// Returns "MAPE 6.0 %, bias -1.2 %, n = 20"; empty without measured points.
[[nodiscard]] QString residual_summary(const Workbench& bench, const ContentChoice& choice);

/// Returns the name of a curve: its swept values other than the load, else the scenario's name.
[[nodiscard]] QString curve_name(const Workbench& bench, const Curve& curve);
/// Returns the load of a point, such as "64 clients" or "2.5 requests/s".
[[nodiscard]] QString load_text(const study::PointLabels& labels, int digits = 4);
/// Returns which figures are estimates and why, without details in brackets; empty if none is.
[[nodiscard]] QString validity_text(const Workbench& bench);
/// Returns a few lines of text about a point.
[[nodiscard]] QString point_tip(const PointRow& row, const QString& name, const QString& kind);
/// Returns why a point fails: it cannot run, is unstable, or its requests are rejected or time out; empty: it does not.
[[nodiscard]] QString failed_text(const study::PointResult& point);
/// Returns a line for each curve and kind of failure.
[[nodiscard]] std::vector<QString> failure_notes(const Workbench& bench);
/// Returns the highest load that each curve carries within every limit of the study and the drawn one, the cost, and
/// the limit that ends it. If that is between the last point within the limits and the first beyond them, it is where
/// the drawn line crosses the limit, and the text says "about". Includes the compared scenario. Empty without a limit,
/// and while the scenario is invalid.
[[nodiscard]] QString limit_answer(const Workbench& bench, const ContentChoice& choice);
/// Returns all limits that limit_answer() judges by: "p99 ITL ≤ 50 ms, p90 TTFT ≤ 20 ms".
[[nodiscard]] QString limits_text(const Workbench& bench, const ContentChoice& choice);

}  // namespace plimsoll::gui
