// SPDX-License-Identifier: Apache-2.0
#include "study/run_study.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "model/error.h"

namespace plimsoll::study {
namespace {

class Run {
 public:
  Run(const Study& study, const RunSettings& settings)
      : study_(study), settings_(settings), finished_(study.point_count()), fraction_(study.point_count(), 0.0F) {}

  StudyResult go() {
    const std::size_t jobs = std::min(job_count(), study_.point_count());
    if (jobs <= 1) {
      work();  // no thread pool: starting one takes longer than a small study
    } else {
      const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, jobs);
      tbb::task_arena arena(static_cast<int>(jobs));
      arena.execute([&] {
        tbb::parallel_for(std::size_t{0}, jobs, [this](std::size_t) { work(); }, tbb::simple_partitioner());
      });
    }
    if (failure_) std::rethrow_exception(failure_);
    return collect();
  }

 private:
  [[nodiscard]] std::size_t job_count() const {
    if (settings_.jobs > 0) return static_cast<std::size_t>(settings_.jobs);
    return std::max(1U, std::thread::hardware_concurrency());
  }

  void work() {
    while (!failed_.load(std::memory_order_relaxed)) {
      if (settings_.control != nullptr) settings_.control->check_in();
      if (is_cancelled()) return;
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= study_.point_count()) return;
      try {
        run_point(index);
      } catch (...) {
        fail(index, std::current_exception());
      }
    }
  }

  // Points start in the order of the sweep, so that the first failing one is among those started.
  void fail(std::size_t index, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (!failure_ || index < failed_at_) {
      failure_ = std::move(failure);
      failed_at_ = index;
    }
    failed_ = true;
  }

  void run_point(std::size_t index) {
    ResolvedPoint resolved = resolve_point(study_, index);
    if (resolved.impossible && study_.point_count() == 1) {
      throw InputError(resolved.impossible->where, resolved.impossible->reason);
    }
    FinishedPoint point;
    point.result = std::move(resolved.result);
    if (resolved.scenario && settings_.recall) point.result.metrics = settings_.recall(point.result);
    point.recalled = point.result.metrics.has_value();
    if (resolved.scenario && !point.recalled) {
      resolved.scenario->stepwise = settings_.stepwise;
      point.run = run_scenario(point.result, *resolved.scenario);
      if (point.run.stopped) return;
      point.result.metrics = std::move(point.run.metrics);
    }
    finish(index, point);
  }

  // What only the run shows is the workload's fault.
  sim::RunResult run_scenario(const PointResult& point, const sim::Scenario& scenario) {
    try {
      const sim::RunOptions options = run_options(point.index);
      return settings_.run ? settings_.run(point, scenario, options) : sim::simulate(scenario, options);
    } catch (const InputError& error) {
      if (!error.where().file.empty()) throw;
      throw InputError(study_.point(point.index).places.workload, error.text());
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
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::size_t failed_at_ = 0;
  std::vector<std::optional<PointResult>> finished_;
  std::vector<float> fraction_;
  double done_ = 0;
};

}  // namespace

StudyResult run_study(const Study& study, const RunSettings& settings) { return Run(study, settings).go(); }

}  // namespace plimsoll::study
