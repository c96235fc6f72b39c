// SPDX-License-Identifier: GPL-3.0-or-later
// Whether a point keeps all its limits, and which load a curve carries within them. The limits are those of the study's
// SLO, judged as by `simulate`, and the line that is drawn in the curves.
#pragma once

#include <QString>
#include <optional>
#include <string>
#include <vector>

#include "gui/core/curve_model.h"
#include "gui/core/metrics.h"

namespace plimsoll::gui {

/// The SLO line of the curves. It replaces the study's own limit on the same metric.
struct DrawnLimit {
  const Metric* metric = nullptr;
  double most = 0;         // in the metric's displayed unit; 0: no line
  bool log_scale = false;  // whether the metric's axis is logarithmic
};

/// A limit and the value that a point has for it.
struct PointLimit {
  QString name;      // "p90 TTFT"
  std::string unit;  // "s", "/s", a metric's own unit, or empty
  double limit = 0;
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

/// Returns all limits of a simulated point; empty if there are none. Limits without a band keep their own value.
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
  double tokens_per_s = 0, failed = 0;  // failed: fraction of requests that the best point rejects or that time out
  std::optional<double> usd_per_million;
  std::optional<PointLimit> binding;  // the limit that ends the range; of every: the one that is used most
};
/// Returns the answer for a curve; nullopt if nothing has been simulated, or the side is `unfavourable` and no point
/// has a band for one of its limits. If throughput falls before a limit is reached, answers with the highest
/// throughput.
[[nodiscard]] std::optional<SloAnswer> slo_answer(const Curve& curve, const DrawnLimit& drawn,
                                                  BandSide side = BandSide::middle);

}  // namespace plimsoll::gui
