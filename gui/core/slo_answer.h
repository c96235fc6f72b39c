// SPDX-License-Identifier: GPL-3.0-or-later
// Whether a point keeps all its limits, and which load a curve carries within them. The limits are those of the study's
// SLO, judged as `simulate` judges them, and the line that is drawn in the curves.
#pragma once

#include <QString>
#include <optional>
#include <string>
#include <vector>

#include "gui/core/curve_model.h"
#include "gui/core/metrics.h"
#include "gui/core/session.h"

namespace plimsoll::gui {

/// Returns the load of a point, such as "64 clients" or "2.5 requests/s".
[[nodiscard]] QString load_text(const study::PointLabels& labels, int digits = 4);
/// Returns why a point fails: it cannot run, is unstable, or its requests are rejected or time out; empty: it does not.
[[nodiscard]] QString failed_text(const study::PointResult& point);

/// The SLO line of the curves, which replaces the study's own limit on the same metric, and the margin by which all
/// limits are to be kept.
struct DrawnLimit {
  const Metric* metric = nullptr;
  double most = 0;         // in the metric's displayed unit; 0: no line
  bool log_scale = false;  // whether the metric's axis is logarithmic
  double margin = 0;       // share of each limit that must remain unused
  bool safe = false;       // the whole 90 % band must be within
};
/// Returns the line and the margin that the view chooses.
[[nodiscard]] DrawnLimit drawn_limit(const ViewState& view);

/// Returns the latency per token around which curves get more points, in seconds; 0 if the line is on another metric.
[[nodiscard]] double refinement_limit(const DrawnLimit& drawn);

/// A limit and the value that a point has for it.
struct PointLimit {
  QString name;            // "p90 TTFT"
  std::string unit;        // "s", "/s", a metric's own unit, or empty
  double limit = 0;        // less the margin
  double value = 0;        // infinite: requests fail or the queue grows without end
  bool at_least = false;   // the limit is a minimum
  std::string column;      // of points.csv; empty if it has none
  bool log_scale = false;  // whether values between two points are interpolated on a logarithmic scale
  [[nodiscard]] bool kept() const { return at_least ? value >= limit : value <= limit; }
  /// Returns how much of the limit is used: 1.2 misses it by 20 %.
  [[nodiscard]] double used() const;
};

/// The values that are judged: those of the simulation, or the unfavourable ends of the 90 % bands.
enum class BandSide : unsigned char { middle, unfavourable };

/// Returns all limits of a simulated point; empty if there are none. Limits without a band keep their own value. A line
/// with `safe` always takes the unfavourable side.
[[nodiscard]] std::vector<PointLimit> limits_of(const PointRow& row, const DrawnLimit& drawn,
                                                BandSide side = BandSide::middle);
/// Returns true if the point was simulated and keeps all its limits. True without limits.
[[nodiscard]] bool keeps_limits(const PointRow& row, const DrawnLimit& drawn);
/// Returns the column of points.csv that a bound limits: "ttft_p90_s".
[[nodiscard]] std::string column_of(const sched::Slo::Bound& bound);
/// Returns "p90 TTFT ≤ 20 ms".
[[nodiscard]] QString limit_words(const PointLimit& limit);
/// Returns "p90 TTFT 73.3 ms of at most 20 ms".
[[nodiscard]] QString used_words(const PointLimit& limit);

/// The highest load that a curve carries within every limit.
struct SloAnswer {
  bool carried = false;                                  // false: no simulated load keeps every limit
  bool every = false;                                    // every load of the curve does
  bool between = false;                                  // the load is interpolated between two simulated points
  sched::Steadiness steady = sched::Steadiness::stable;  // of the best point
  study::PointLabels labels;            // load_value is the load that is carried; if none is, that of the nearest point
  std::size_t point = 0;                // index in the curve of the best point within the limits, else of the nearest
  double tokens_per_s = 0, failed = 0;  // failed: fraction of requests that the best point rejects or that time out
  std::optional<double> usd_per_million;
  std::optional<PointLimit> binding;  // the limit that ends the range; if `every`: the limit closest to being reached
  bool saturates = false;             // no limit ends the range: the next load is unstable
  // If `steady` is too_short: the largest load that certainly has a steady state within the limits.
  std::optional<study::PointLabels> certain;
};
/// Returns the answer for a curve; nullopt if nothing has been simulated, or the side is `unfavourable` and no point
/// has a band for one of its limits. If throughput falls before a limit is reached, answers with the highest
/// throughput. An unstable load is never carried.
[[nodiscard]] std::optional<SloAnswer> slo_answer(const Curve& curve, const DrawnLimit& drawn,
                                                  BandSide side = BandSide::middle);

/// Where a curve leaves one of its limits, between two neighbouring simulated points.
struct LimitCrossing {
  PointLimit limit;                    // at the point beyond it
  std::size_t within = 0, beyond = 0;  // indices of the two points
  double part = 0;                     // of the way from one to the other
};
/// Returns the first crossing of each limit, in the order of the limits; limits that are never crossed have none.
[[nodiscard]] std::vector<LimitCrossing> limit_crossings(const Curve& curve, const DrawnLimit& drawn);

}  // namespace plimsoll::gui
