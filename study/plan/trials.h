// SPDX-License-Identifier: Apache-2.0
// Runs trials on all cores, each once however often it is requested, and keeps the results.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "sched/metrics_collector.h"
#include "sim/simulate.h"
#include "study/plan/candidate.h"
#include "study/plan/trial.h"
#include "study/run/point_keys.h"
#include "study/run/result_store.h"
#include "study/run/run_control.h"

namespace plimsoll::study::plan {

struct TrialSettings {
  int jobs = 0;  // threads; 0: one per core
  bool stepwise = false;
  RunControl* control = nullptr;  // may be null
  /// Runs a trial, identified by a task text (read_trial_task), here or in another process. Returns "" if it was given
  /// up. May be empty: all trials run here.
  std::function<std::string(const std::string& task, const std::function<std::string()>& here)> spread = {};
  ResultStore* store = nullptr;  // may be null
  /// Gets the finished and known trials, with fractions of running ones; never called concurrently; may be empty.
  std::function<void(double done, std::size_t asked, double recalled)> on_progress = {};
  /// Gets each finished first trial of a candidate; never called concurrently; may be empty.
  std::function<void(const Candidate&, const sched::PointMetrics&)> on_first = {};
};

/// A simulated trial.
struct TrialRun {
  sched::PointMetrics metrics;
  /// The most requests in any replica at once; nullopt if it was not requested or cannot be determined.
  std::optional<std::int64_t> most_at_once;
};

/// Simulates one trial; returns nullopt if options.stop was requested. With options.keep_requests it determines
/// most_at_once. Throws InputError for an impossible workload.
[[nodiscard]] std::optional<TrialRun> simulate_trial(const Candidate& candidate, const Trial& trial, bool stepwise,
                                                     const sim::RunOptions& options);

/// Thrown when the search is cancelled. Its answer holds what is known so far.
struct Cancelled {};

/// Runs trials side by side and remembers their results; also those of a store.
class Trials {
 public:
  /// `question` must outlive this object.
  Trials(const Question& question, TrialSettings settings);
  ~Trials();

  [[nodiscard]] const Question& question() const { return question_; }
  [[nodiscard]] const TrialSettings& settings() const { return settings_; }
  /// Runs the trials that are not known yet. The results do not depend on the number of threads. Throws Cancelled, or
  /// InputError for a workload that cannot be simulated.
  void run(std::span<const Trial> trials);
  /// Returns the metrics of a trial that has been run.
  [[nodiscard]] const sched::PointMetrics& of(const Trial& trial) const;
  /// Returns whether the trial's metrics are known.
  [[nodiscard]] bool knows(const Trial& trial) const { return known_.count(trial) > 0; }
  /// Runs one trial and returns its metrics.
  const sched::PointMetrics& one(const Trial& trial);
  /// Returns how many trials the answer is based on, including those that an earlier process ran.
  [[nodiscard]] std::size_t count() const { return known_.size(); }
  /// Returns how many of them were run themselves: the others have the results of a twin.
  [[nodiscard]] std::size_t simulated() const { return known_.size() - shared_; }

 private:
  class Batch;
  /// A run with the limit `most_running`, whose result may hold for the same trial of its twins.
  struct Leader {
    Trial trial;
    std::int64_t most_running = 0, most_at_once = 0;
  };
  void run_all(std::vector<Trial> todo);
  [[nodiscard]] std::vector<Trial> without_twins(std::vector<Trial>& todo);
  [[nodiscard]] bool take_from_twin(const Trial& trial);
  /// Returns the same trial for all twins of its candidate.
  [[nodiscard]] Trial twins_of(Trial trial) const;
  [[nodiscard]] Digest key_of(const Trial& trial) const;
  const Question& question_;
  TrialSettings settings_;
  std::unique_ptr<PointKeys> keys_;
  std::map<Trial, sched::PointMetrics> known_;
  std::map<Trial, Leader> leaders_;  // by the trial that twins_of() returns
  std::set<Trial> asked_of_twins_;   // trials of the running batch that other trials wait for
  std::size_t asked_ = 0, recalled_ = 0, shared_ = 0;
};

}  // namespace plimsoll::study::plan
