// SPDX-License-Identifier: Apache-2.0
#include "study/run/simulate_point.h"

#include <string>
#include <utility>

#include "model/error.h"
#include "study/run/bands.h"
#include "study/run/rate_bound.h"
#include "study/run/slo_text.h"

namespace plimsoll::study {
namespace {

sim::RunResult run_scenario(const ResolvedPoint& point, const PointRun& how) {
  const load::Scenario& scenario = *point.scenario;
  try {
    if (how.run) return how.run(point.result, scenario, how.options);
    return how.bands ? simulate_with_bands(scenario, how.options) : sim::simulate(scenario, how.options);
  } catch (const InputError& error) {
    // Errors that the run finds in its workload get the place of the workload in the study.
    if (!error.where().file.empty()) throw;
    throw InputError(point.workload, error.text());
  }
}

void take_run(PointResult& point, sim::RunResult& run) {
  point.metrics = std::move(run.metrics);
  point.fleet = std::move(run.fleet);
  for (const std::string& why : run.beyond_measured) add_extrapolation(point, why);
}

void judge(PointResult& point, const sched::Slo& slo) {
  if (slo.empty()) return;
  const bool beyond_capacity = point.metrics->steady.grows;
  point.slo = slo_figures(slo, *point.metrics, beyond_capacity);
  point.missed_slo = missed_slo(slo, *point.metrics, beyond_capacity);
}

}  // namespace

FinishedPoint simulate_point(ResolvedPoint point, const PointRun& how) {
  FinishedPoint finished;
  if (point.impossible) point.result.infeasible = point.impossible->reason;
  if (point.scenario) {
    point.scenario->stepwise = how.stepwise;
    // A point in the store is not run again. Its SLO is judged again, because it may have changed.
    if (how.recall) point.result.metrics = how.recall(point.result);
    finished.recalled = point.result.metrics.has_value();
    if (!finished.recalled) {
      finished.run = run_scenario(point, how);
      if (!finished.run.stopped) take_run(point.result, finished.run);
    }
    if (point.result.metrics) {
      if (!how.run) deny_beyond_rate(*point.scenario, point.result.metrics->steady);
      judge(point.result, point.scenario->slo);
    }
  }
  finished.result = std::move(point.result);
  return finished;
}

FinishedPoint simulate_point(PointSpec spec, const PointRun& how) {
  return simulate_point(resolve_spec(std::move(spec)), how);
}

}  // namespace plimsoll::study
