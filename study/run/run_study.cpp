// SPDX-License-Identifier: Apache-2.0
#include "study/run/run_study.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "model/error.h"
#include "study/run/bands.h"
#include "study/run/slo_text.h"
#include "study/run/work_crew.h"

namespace plimsoll::study {
namespace {

class Run {
 public:
  Run(const Study& study, const RunSettings& settings)
      : study_(study), settings_(settings), finished_(study.point_count()), fraction_(study.point_count(), 0.0F) {}

  StudyResult go() {
    run_pieces(study_.point_count(), settings_.jobs, settings_.control,
               [this](std::size_t index) { run_point(index); });
    return collect();
  }

 private:
  void run_point(std::size_t index) {
    ResolvedPoint resolved = resolve(index);
    FinishedPoint point;
    point.result = std::move(resolved.result);
    if (resolved.scenario && settings_.recall) point.result.metrics = settings_.recall(point.result);
    point.recalled = point.result.metrics.has_value();
    if (resolved.scenario && !point.recalled) {
      resolved.scenario->stepwise = settings_.stepwise;
      run_scenario(point, *resolved.scenario);
      if (point.run.stopped) return;
    }
    if (point.result.metrics && !resolved.scenario->slo.empty()) {
      const bool beyond_capacity = point.result.metrics->steady.grows;
      point.result.slo = slo_figures(resolved.scenario->slo, *point.result.metrics, beyond_capacity);
      point.result.missed_slo = missed_slo(resolved.scenario->slo, *point.result.metrics, beyond_capacity);
    }
    finish(index, point);
  }

  // A point that cannot exist ends a study of its own; in a sweep it is a row with the reason, and so is one whose
  // settings contradict each other.
  [[nodiscard]] ResolvedPoint resolve(std::size_t index) const {
    const bool alone = study_.point_count() == 1;
    ResolvedPoint point;
    try {
      point = resolve_point(study_, index, settings_.use);
    } catch (const InputError& error) {
      if (alone) throw;
      point.result.index = index;
      point.result.swept = study_.swept_values(index);
      point.result.labels.tp = point.result.labels.replicas = 0;  // not known
      point.result.infeasible = error.text();
    }
    if (point.impossible && alone) throw InputError(point.impossible->where, point.impossible->reason);
    return point;
  }

  // What only the run shows is the workload's fault.
  void run_scenario(FinishedPoint& point, const load::Scenario& scenario) {
    try {
      const sim::RunOptions options = run_options(point.result.index);
      if (settings_.run)
        point.run = settings_.run(point.result, scenario, options);
      else if (settings_.bands)
        point.run = simulate_with_bands(scenario, options);
      else
        point.run = sim::simulate(scenario, options);
      if (!point.run.stopped) take_run(point.result, point.run);
    } catch (const InputError& error) {
      if (study_.point_count() > 1)
        point.result.infeasible = error.text();
      else if (!error.where().file.empty())
        throw;
      else
        throw InputError(study_.point(point.result.index).places.workload, error.text());
    }
  }

  sim::RunOptions run_options(std::size_t index) {
    sim::RunOptions options;
    options.keep_requests = settings_.keep_requests;
    options.keep_log = settings_.keep_decisions;
    options.keep_steps = settings_.keep_steps;
    if (settings_.control != nullptr) options.stop = settings_.control->stop();
    options.point = index;
    options.progress = [this, index](double fraction) {
      if (settings_.control != nullptr) settings_.run ? settings_.control->look_in() : settings_.control->check_in();
      report(index, static_cast<float>(std::clamp(fraction, 0.0, 1.0)));
    };
    return options;
  }

  void finish(std::size_t index, FinishedPoint& point) {
    {
      const std::lock_guard lock(mutex_);
      if (settings_.on_point) settings_.on_point(point);
      finished_[index] = std::move(point.result);
    }
    report(index, 1.0F);
  }

  void report(std::size_t index, float fraction) {
    if (!settings_.on_progress) return;
    const std::lock_guard lock(mutex_);
    done_ += static_cast<double>(fraction) - static_cast<double>(fraction_[index]);
    fraction_[index] = fraction;
    settings_.on_progress(done_);
  }

  [[nodiscard]] bool is_cancelled() const { return settings_.control != nullptr && settings_.control->cancelled(); }

  StudyResult collect() {
    StudyResult result;
    result.cancelled = is_cancelled();
    for (std::optional<PointResult>& point : finished_) {
      if (point) result.points.push_back(std::move(*point));
    }
    return result;
  }

  const Study& study_;
  const RunSettings& settings_;
  std::mutex mutex_;
  std::vector<std::optional<PointResult>> finished_;
  std::vector<float> fraction_;
  double done_ = 0;
};

}  // namespace

void take_run(PointResult& point, sim::RunResult& run) {
  point.metrics = std::move(run.metrics);
  point.fleet = std::move(run.fleet);
  for (const std::string& why : run.beyond_measured) add_extrapolation(point, why);
}

StudyResult run_study(const Study& study, const RunSettings& settings) { return Run(study, settings).go(); }

}  // namespace plimsoll::study
