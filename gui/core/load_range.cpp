// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/load_range.h"

#include <algorithm>
#include <cmath>

#include "gui/core/coarse_order.h"
#include "gui/core/curve_lane.h"
#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

constexpr int kMostDoublings = 20;
constexpr int kBisections = 5;                  // the end is known to 3 %
constexpr double kGain = 1.03;                  // less throughput than this at twice the load is saturation
constexpr int kLongerRuns = 3;                  // after one that is too short to tell
constexpr std::int64_t kMostRequests = 50'000;  // in a longer run
constexpr std::size_t kMostCurves = 8;          // further curves sweep something else; their ends hardly differ

/// What a load does to a deployment.
enum class Outcome : unsigned char { carried, limited, saturated, impossible };

struct Trial {
  Outcome outcome = Outcome::impossible;
  double throughput = 0;
  bool tells = true;  // false: even the longest run is too short to tell whether the load is carried
};

class Search {
 public:
  Search(const study::Study& study, const DrawnLimit& drawn, study::RunControl& control)
      : study_(study), drawn_(drawn), control_(control) {}

  // Returns the outcome at a load of the curve to which the point belongs. A run that is too short to tell proves no
  // saturation, so it is repeated with as many requests as it needs.
  Trial try_load(std::size_t index, double load) {
    std::optional<LanePoint> point;
    std::int64_t requests = 0;
    for (int run = 0; run <= kLongerRuns; ++run) {
      control_.check_in();
      point = simulate_lane_point(study_, {index, 0, load, requests}, control_.stop());
      if (!point || !point->row.result.metrics) return {};
      const sched::PointMetrics& m = *point->row.result.metrics;
      const std::int64_t sent = m.requests_completed + m.requests_rejected + m.requests_timed_out;
      const std::int64_t needed = std::min(m.steady.requests_needed, kMostRequests);
      if (needed <= std::max(sent, requests) || !keeps_limits(point->row, drawn_)) break;
      requests = needed;
    }
    const sched::PointMetrics& m = *point->row.result.metrics;
    Trial out{Outcome::carried, m.output_tokens_per_s, m.steady.verdict != sched::Steadiness::too_short};
    const bool fails = m.requests_rejected + m.requests_timed_out > 0;
    if (m.steady.grows || m.steady.verdict == sched::Steadiness::unstable || fails)
      out.outcome = Outcome::saturated;
    else if (!keeps_limits(point->row, drawn_))
      out.outcome = Outcome::limited;
    return out;
  }

  // Returns the first load of a doubling series that is not carried, or at which throughput has stopped growing; 0 if
  // even the first cannot be simulated.
  double end_of_clients(std::size_t index) {
    double before = 0, load = 1;
    for (int i = 0; i < kMostDoublings && !control_.cancelled(); ++i, load *= 2) {
      const Trial trial = try_load(index, load);
      if (trial.outcome == Outcome::impossible) return load > 1 ? load / 2 : 0;
      if (trial.outcome != Outcome::carried || trial.throughput < kGain * before) return load;
      before = trial.throughput;
    }
    return load / 2;
  }

  // Returns the highest rate that is carried, to 3 %; 0 if none is.
  double end_of_rates(std::size_t index, bool& limited) {
    double load = 1;
    Trial trial = try_load(index, load);
    if (trial.outcome == Outcome::impossible) return 0;
    const bool grows = trial.outcome == Outcome::carried;
    double low = 0, high = 0, before = 0;
    Outcome beyond = trial.outcome;
    for (int i = 0; i < kMostDoublings && !control_.cancelled(); ++i) {
      if (grows && !trial.tells && trial.throughput < kGain * before) break;
      before = trial.throughput;
      (trial.outcome == Outcome::carried ? low : high) = load;
      if (trial.outcome != Outcome::carried) beyond = trial.outcome;
      if (low > 0 && high > 0) break;
      load = grows ? load * 2 : load / 2;
      trial = try_load(index, load);
      if (trial.outcome == Outcome::impossible) break;
    }
    for (int i = 0; i < kBisections && low > 0 && high > 0 && !control_.cancelled(); ++i) {
      const double middle = std::sqrt(low * high);
      trial = try_load(index, middle);
      (trial.outcome == Outcome::carried ? low : high) = middle;
      if (trial.outcome != Outcome::carried) beyond = trial.outcome;
    }
    limited = limited || beyond == Outcome::limited;
    return low;
  }

 private:
  const study::Study& study_;
  DrawnLimit drawn_;
  study::RunControl& control_;
};

// Rounds to two digits. That reads well, and the error is smaller than that of the search.
double rounded(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
  // The power of ten is not exact below 1, but its text is.
  return reader_text(std::round(value / unit) * unit, 2).remove(QChar(0x202f)).toDouble();
}

}  // namespace

std::vector<double> find_loads(const Scenario& scenario, const std::shared_ptr<const configs::Catalogue>& catalogue,
                               const DrawnLimit& drawn, study::RunControl& control) {
  const LoadField field = load_field(scenario);
  if (field.kind.isEmpty() || field.values.isEmpty()) return {};
  const study::Study study = make_study(scenario, catalogue);
  const CurveGrid grid = curve_grid(study);
  Search search(study, drawn, control);
  double end = 0;
  bool limited = false;
  std::size_t curve = 0;
  for (std::size_t i = 0; i < grid.curve_of.size() && curve < kMostCurves; ++i) {
    if (grid.curve_of[i] != curve) continue;
    ++curve;
    end = std::max(end, field.rate ? search.end_of_rates(i, limited) : search.end_of_clients(i));
  }
  std::vector<double> loads;
  if (control.cancelled() || end <= 0) return loads;
  if (!field.rate) {
    for (double load = 1; load <= end; load *= 2) loads.push_back(load);
    return loads;
  }
  for (const double part : {0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 1.0}) loads.push_back(rounded(part * end));
  // One load beyond the limit, so that the curve shows where it crosses the limit.
  if (limited) loads.push_back(rounded(1.15 * end));
  loads.erase(std::unique(loads.begin(), loads.end()), loads.end());
  return loads;
}

}  // namespace plimsoll::gui
