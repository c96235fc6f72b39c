// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/details.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "gui/core/coarse_order.h"
#include "gui/core/curve_model.h"
#include "gui/core/pool_form.h"
#include "gui/core/text.h"
#include "sched/statistics.h"
#include "study/run/load_variation.h"
#include "study/run/resolve.h"
#include "study/run/run_study.h"
#include "study/run/simulate_point.h"

namespace plimsoll::gui {
namespace {

study::ResolvedPoint resolve(const study::Study& study, std::size_t index, std::optional<double> load) {
  study::PointSpec spec = study.point(index);
  if (load && *load != load::load_value(spec.workload.load)) {
    if (auto varied = study::with_load_value(spec, *load)) spec = std::move(*varied);
  }
  study::ResolvedPoint point = study::resolve_spec(std::move(spec));
  point.require_possible();
  return point;
}

std::optional<double> metric_of(study::ResolvedPoint point, std::uint64_t seed, const Metric& metric,
                                study::RunControl& control) {
  point.scenario->workload.seed = seed;
  // One replication per call, because the caller pairs replications by seed.
  point.scenario->replications = 1;
  control.check_in();
  sim::RunOptions options;
  options.stop = control.stop();
  const std::int32_t pp = point.scenario->pp;
  study::FinishedPoint finished = study::simulate_point(std::move(point), {.options = std::move(options)});
  if (finished.run.stopped) return {};
  return value_of(make_row(std::move(finished.result), pp), metric);
}

// Returns the value of a swept key, or -1 if it is not swept. A refined point has those of the point that it derives
// from, although it lists none.
std::int64_t swept_number(const study::Study& study, const study::PointResult& point, const char* key) {
  const auto keys = study.swept_keys();
  const auto at = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
  return at < keys.size() ? std::get<std::int64_t>(study.swept_values(point.index)[at]) : -1;
}

// The map's TP degree is that of the one pool.
void require_one_pool(const Scenario& scenario) {
  if (states_pools(scenario))
    throw InputError(
        "the map is for a single pool; with separate pools, enter lists such as 1, 2, 4 in their fields to compare "
        "splits in Curves");
}

// Returns the scenario with a sweep over every TP degree and batch limit of the map.
Scenario swept_over_map(Scenario scenario) {
  set_field(scenario, "deployment.tp", QStringLiteral("1, 2, 4, 8"));
  set_field(scenario, "scheduler.max_running", QStringLiteral("4, 8, 16, 32, 64, 128, 256"));
  return scenario;
}

HeatMap empty_map() {
  HeatMap map{{1, 2, 4, 8}, {4, 8, 16, 32, 64, 128, 256}, 0, {}};
  map.cells.resize(map.tp.size() * map.batch.size());
  return map;
}

// Returns the cell of a point, or nullptr if the map has none for it.
HeatMap::Cell* cell_of(HeatMap& map, const study::Study& study, const study::PointResult& point) {
  const auto t = std::find(map.tp.begin(), map.tp.end(), swept_number(study, point, "deployment.tp"));
  const auto b = std::find(map.batch.begin(), map.batch.end(), swept_number(study, point, "scheduler.max_running"));
  if (t == map.tp.end() || b == map.batch.end()) return nullptr;
  return &map.cells[static_cast<std::size_t>(t - map.tp.begin()) * map.batch.size() +
                    static_cast<std::size_t>(b - map.batch.begin())];
}

// Simulates the study's points and those that refine its curves, on one core: the interactive lane uses the others.
std::vector<Curve> simulate_curves(const study::Study& study, double limit_s, study::RunControl& control) {
  const CurveGrid grid = curve_grid(study);
  std::vector<Curve> curves(grid.names.size());
  std::vector<LanePoint> seen;
  const auto simulate = [&](const LanePointSpec& spec) {
    if (control.cancelled()) return;
    control.check_in();
    auto point = simulate_lane_point(study, spec, control.stop());
    if (!point) return;
    if (!spec.load) seen.push_back(*point);
    curves[spec.curve].points.push_back(std::move(*point));
  };
  for (const std::size_t index : grid.order) simulate({index, grid.curve_of[index], {}});
  for (const Refinement& r : refinements(grid, seen, limit_s)) simulate({r.index, r.curve, r.load});
  for (Curve& curve : curves) {
    std::stable_sort(curve.points.begin(), curve.points.end(), [](const LanePoint& a, const LanePoint& b) {
      return a.row.result.labels.load_value < b.row.result.labels.load_value;
    });
  }
  return curves;
}

struct PointPair {
  std::size_t a = 0, b = 0;
  double load = 0;
  QString curve;
};

// A load of clients and one of requests/s are not equal, whatever their values.
std::vector<PointPair> points_of_equal_load(const StudyPair& studies) {
  const CurveGrid a = curve_grid(studies.a), b = curve_grid(studies.b);
  const bool by_name = a.names.size() > 1 && b.names.size() > 1;
  const auto name_of = [](const CurveGrid& grid, std::size_t index) { return grid.names[grid.curve_of[index]]; };
  const auto key_of = [&](const study::Study& study, const CurveGrid& grid, std::size_t index) {
    const load::LoadSpec load = study.point(index).workload.load;
    return std::tuple(by_name ? name_of(grid, index) : QString(), load::kind_of(load).quantity, load::load_value(load));
  };
  std::multimap<std::tuple<QString, load::LoadQuantity, double>, std::size_t> partners;
  for (std::size_t i = 0; i < studies.b.point_count(); ++i) partners.emplace(key_of(studies.b, b, i), i);
  std::vector<PointPair> out;
  for (std::size_t i = 0; i < studies.a.point_count(); ++i) {
    const auto key = key_of(studies.a, a, i);
    const auto [first, last] = partners.equal_range(key);
    for (auto found = first; found != last; ++found) {
      const QString curve = a.names.size() > 1   ? name_of(a, i)
                            : b.names.size() > 1 ? name_of(b, found->second)
                                                 : QString();
      out.push_back({i, found->second, std::get<double>(key), curve});
    }
  }
  return out;
}

}  // namespace

PointDetails simulate_details(const study::Study& study, std::size_t index, std::optional<double> load,
                              study::RunControl& control) {
  study::ResolvedPoint point = resolve(study, index, load);
  sim::RunOptions options;
  options.keep_requests = options.keep_steps = true;
  options.stop = control.stop();
  options.progress = [&control](double) { control.check_in(); };
  PointDetails details;
  details.load = point.result.labels.load_value;
  details.kv_blocks = point.scenario->kv.blocks;
  if (point.scenario->pools) details.decode_replicas = point.scenario->replicas;
  sim::RunResult run = study::simulate_point(std::move(point), {.options = std::move(options)}).run;
  details.requests = std::move(run.requests);
  details.steps = std::move(run.steps);
  return details;
}

std::vector<RequestDifference> request_differences(const PointDetails& details) {
  std::vector<RequestDifference> out;
  if (!details.measured) return out;
  const auto completed = [](const sim::RequestRow& row) {
    return row.outcome == sched::Outcome::completed && row.end >= row.arrival;
  };
  const auto latency = [](const sim::RequestRow& row) { return seconds(row.end - row.arrival); };
  // A request that completed in only one of the runs has no latency to compare.
  std::map<std::uint64_t, const sim::RequestRow*> measured;
  for (const sim::RequestRow& row : details.measured->requests) {
    if (completed(row)) measured[row.id] = &row;
  }
  for (const sim::RequestRow& row : details.requests) {
    const auto twin = measured.find(row.id);
    if (!completed(row) || twin == measured.end()) continue;
    out.push_back({seconds(row.arrival), latency(*twin->second) - latency(row), latency(row)});
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.arrival_s < b.arrival_s; });
  return out;
}

std::vector<TimedValue> step_values(const std::vector<sim::StepRow>& steps, std::int32_t replica,
                                    const std::function<double(const sim::StepRow&)>& value) {
  std::vector<TimedValue> out;
  Nanos end = 0;
  for (const sim::StepRow& step : steps) {
    if (step.replica != replica) continue;
    out.push_back({seconds(step.start), value(step)});
    end = std::max(end, step.end);
  }
  std::stable_sort(out.begin(), out.end(), [](const TimedValue& a, const TimedValue& b) { return a.at_s < b.at_s; });
  // The value of the last step holds until the step's end.
  if (!out.empty()) out.push_back({seconds(end), 0});
  return out;
}

std::vector<TimedValue> step_difference(const std::vector<TimedValue>& a, const std::vector<TimedValue>& b) {
  std::vector<TimedValue> out;
  std::size_t i = 0, k = 0;
  double value_a = 0, value_b = 0;
  while (i < a.size() || k < b.size()) {
    // Merge the two sorted lists of changes.
    const double at = k >= b.size() || (i < a.size() && a[i].at_s <= b[k].at_s) ? a[i].at_s : b[k].at_s;
    while (i < a.size() && a[i].at_s == at) value_a = a[i++].value;
    while (k < b.size() && b[k].at_s == at) value_b = b[k++].value;
    out.push_back({at, value_a - value_b});
  }
  return out;
}

HeatMap simulate_heat_map(const Scenario& scenario, const std::shared_ptr<const configs::Catalogue>& catalogue,
                          double load, study::RunControl& control) {
  require_one_pool(scenario);
  Scenario varied = swept_over_map(scenario);
  const LoadField field = load_field(scenario);
  if (!field.kind.isEmpty() && load > 0) set_load(varied, field.kind, qs(study::number_text(load)));
  HeatMap map = empty_map();
  map.load = load;
  const study::Study study = make_study(varied, catalogue);
  study::RunSettings settings;
  // Use one core: the interactive lane uses the others.
  settings.jobs = 1;
  settings.control = &control;
  for (study::PointResult& point : study::run_study(study, settings).points) {
    HeatMap::Cell* cell = cell_of(map, study, point);
    if (cell == nullptr) continue;
    cell->reason = qs(point.infeasible);
    if (point.metrics && !cell->row) cell->row = make_row(std::move(point), 1);
  }
  return map;
}

HeatMap simulate_heat_map_within(const Scenario& scenario, const std::shared_ptr<const configs::Catalogue>& catalogue,
                                 const DrawnLimit& limit, study::RunControl& control) {
  require_one_pool(scenario);
  HeatMap map = empty_map();
  const study::Study study = make_study(swept_over_map(scenario), catalogue);
  for (const Curve& curve : simulate_curves(study, refinement_limit(limit), control)) {
    HeatMap::Cell* cell = curve.points.empty() ? nullptr : cell_of(map, study, curve.points.front().row.result);
    if (cell == nullptr) continue;
    // If loads differ in their reason, that of the largest is kept.
    cell->reason = qs(curve.points.back().row.result.infeasible);
    const auto answer = slo_answer(curve, limit);
    if (!answer || !answer->carried) continue;
    // Other swept values give several curves for a cell; the best one counts.
    if (cell->answer && cell->answer->tokens_per_s >= answer->tokens_per_s) continue;
    cell->answer = answer;
    cell->row = curve.points[answer->point].row;
  }
  return map;
}

std::vector<PairedDifference> paired_differences(const StudyPair& studies, const Metric& metric, int replications,
                                                 study::RunControl& control) {
  std::vector<PairedDifference> out;
  for (const PointPair& pair : points_of_equal_load(studies)) {
    const std::uint64_t seed = studies.a.point(pair.a).workload.seed;
    std::vector<double> differences;
    PairedDifference difference;
    difference.load = pair.load;
    difference.curve = pair.curve;
    for (int r = 0; r < replications && !control.cancelled(); ++r) {
      study::ResolvedPoint pa = study::resolve_point(studies.a, pair.a), pb = study::resolve_point(studies.b, pair.b);
      if (pa.impossible || pb.impossible) break;
      const auto va = metric_of(std::move(pa), seed + static_cast<std::uint64_t>(r), metric, control);
      const auto vb = metric_of(std::move(pb), seed + static_cast<std::uint64_t>(r), metric, control);
      if (va && vb && *va != 0) differences.push_back(*vb / *va - 1);
    }
    if (differences.empty()) continue;
    for (const double d : differences) difference.mean += d / static_cast<double>(differences.size());
    difference.half_width = sched::replication_interval(differences);
    out.push_back(difference);
  }
  return out;
}

}  // namespace plimsoll::gui
