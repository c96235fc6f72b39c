// SPDX-License-Identifier: Apache-2.0
#include "study/run/run_study.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "model/error.h"
#include "study/run/run_control.h"

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
    try {
      point = simulate_point(resolved, point_run(index));
    } catch (const InputError& error) {
      if (study_.point_count() == 1) throw;
      point.result = std::move(resolved.result);
      point.result.infeasible = error.text();
    }
    if (!point.run.stopped) finish(index, point);
  }

  // An impossible point ends a study that consists of it alone. In a sweep it becomes a row with the reason; so does a
  // point whose settings contradict each other.
  [[nodiscard]] ResolvedPoint resolve(std::size_t index) const {
    const bool alone = study_.point_count() == 1;
    ResolvedPoint point;
    try {
      point = resolve_point(study_, index, settings_.use);
    } catch (const InputError& error) {
      if (alone) throw;
      point.result.index = index;
      point.result.swept = study_.swept_values(index);
      point.result.labels.tp = point.result.labels.replicas = 0;  // 0: not known
      point.result.infeasible = error.text();
    }
    if (alone) point.require_possible();
    return point;
  }

  PointRun point_run(std::size_t index) {
    return {.stepwise = settings_.stepwise,
            .bands = settings_.bands,
            .options = run_options(index),
            .run = settings_.run,
            .recall = settings_.recall};
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

StudyResult run_study(const Study& study, const RunSettings& settings) { return Run(study, settings).go(); }

}  // namespace plimsoll::study
