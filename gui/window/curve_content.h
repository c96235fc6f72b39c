// SPDX-License-Identifier: GPL-3.0-or-later
// Converts the curves of all shown scenarios to the content of a plot: series, greyed previous curves, measured points,
// knees, limits, bands.
#pragma once

#include <set>

#include "gui/core/workbench.h"
#include "gui/plot/plot_view.h"
#include "gui/window/view.h"

namespace plimsoll::gui {

struct ContentChoice {
  const Metric *x = nullptr, *y = nullptr;
  bool log_x = false, log_y = false, knees = false, measured = true, bands = true;
  double limit = 0;          // limit on y; 0 for none
  std::set<QString> hidden;  // names of series
  double margin = 0;         // by which limits are to be kept, as in DrawnLimit
  bool safe = false;
};

/// A series of the content and the origin of its points; PlotPoint::id is an index into the curve's points.
struct SeriesSource {
  enum class Kind : unsigned char { curve, previous, measured } kind = Kind::curve;
  std::size_t scenario = 0, curve = 0;
};
struct CurveContent {
  PlotContent content;
  std::vector<SeriesSource> sources;  // one per series
};
[[nodiscard]] CurveContent curve_content(const Workbench& bench, const ContentChoice& choice);
/// A measured point and the drawn curve that it belongs to.
struct MeasuredPoint {
  const DrawnCurve* drawn = nullptr;
  OverlayPoint point;
};
/// Returns the measured points of all drawn curves. A point that fits several scenarios belongs to the edited one, else
/// to the first. Pointers refer to `drawn` and to the tables of `bench`.
[[nodiscard]] std::vector<MeasuredPoint> measured_points(const Workbench& bench, const std::vector<DrawnCurve>& drawn);
/// A measured point beside the simulated one, and the drawn curve that both belong to.
struct CurveResidual {
  const DrawnCurve* curve = nullptr;
  Residual residual;
};
/// Returns the residuals of all drawn curves. A point that fits several scenarios counts once: for the edited one, else
/// for the first. Pointers refer to `drawn`.
[[nodiscard]] std::vector<CurveResidual> residuals_of(const Workbench& bench, const std::vector<DrawnCurve>& drawn,
                                                      const Metric& x, const Metric& y);
[[nodiscard]] validation::ErrorSummary summary_of(const std::vector<CurveResidual>& residuals);
/// Returns the relative errors of the simulated points against the measured ones, in percent.
[[nodiscard]] PlotContent residual_content(const Workbench& bench, const ContentChoice& choice);
/// Returns "MAPE 6.0 %, bias -1.2 %, n = 20"; empty without measured points.
[[nodiscard]] QString residual_summary(const Workbench& bench, const ContentChoice& choice);

/// Returns a row for every point of the drawn curves and every measured point on them: curve, kind, load with its unit,
/// TP degree, replicas, both metrics with their 90 % bands, and why a point fails. A point without a figure, which the
/// plot cannot draw, has a blank cell.
[[nodiscard]] TableData curve_table(const Workbench& bench, const ContentChoice& choice);

}  // namespace plimsoll::gui
