// SPDX-License-Identifier: Apache-2.0
// Runs trials on all cores, each once however often it is asked for, and keeps what is finished.
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
  /// Runs a trial, named by a task text (read_trial_task), here or elsewhere; "" when it was given up. May be empty:
  /// here.
  std::function<std::string(const std::string& task, const std::function<std::string()>& here)> spread = {};
  ResultStore* store = nullptr;  // may be null
  /// Finished and known trials, fractions of running ones included; one call at a time; may be empty.
  std::function<void(double done, std::size_t asked, double recalled)> on_progress = {};
  /// A first trial of a candidate has finished; one call at a time; may be empty.
  std::function<void(const Candidate&, const sched::PointMetrics&)> on_first = {};
};

/// A simulated trial.
struct TrialRun {
  sched::PointMetrics metrics;
  /// Requests in the fullest replica at once, at most; nullopt where it was not asked for or cannot be told.
  std::optional<std::int64_t> most_at_once;
};

/// One trial, simulated; nullopt when options.stop was requested. With options.keep_requests it tells how full its
/// replicas were. Throws InputError for a workload that cannot be.
[[nodiscard]] std::optional<TrialRun> simulate_trial(const Candidate& candidate, const Trial& trial, bool stepwise,
                                                     const sim::RunOptions& options);

/// The search was cancelled. Its answer holds what it knows so far.
struct Cancelled {};

/// Runs trials side by side and remembers their results; also those of a store.
class Trials {
 public:
  /// `question` outlives this.
  Trials(const Question& question, TrialSettings settings);
  ~Trials();

  /// Runs those that are not known yet. The same results whatever the number of threads. Throws Cancelled; InputError
  /// for a workload that cannot be simulated.
  void run(std::span<const Trial> trials);
  /// A trial that has been run.
  [[nodiscard]] const sched::PointMetrics& of(const Trial& trial) const;
  [[nodiscard]] bool knows(const Trial& trial) const { return known_.count(trial) > 0; }
  /// Runs one and returns it.
  const sched::PointMetrics& one(const Trial& trial);
  /// How many trials the answer stands on, whether this process or an earlier one ran them.
  [[nodiscard]] std::size_t count() const { return known_.size(); }
  /// How many of them are runs of their own: others have the results of a twin.
  [[nodiscard]] std::size_t simulated() const { return known_.size() - shared_; }

 private:
  class Batch;
  /// What a run of `most_running` tells of the same trial of its twins.
  struct Leader {
    Trial trial;
    std::int64_t most_running = 0, most_at_once = 0;
  };
  void run_all(std::vector<Trial> todo);
  [[nodiscard]] std::vector<Trial> without_twins(std::vector<Trial>& todo);
  [[nodiscard]] bool take_from_twin(const Trial& trial);
  /// The same for a trial of each twin.
  [[nodiscard]] Trial twins_of(Trial trial) const;
  [[nodiscard]] Digest key_of(const Trial& trial) const;
  const Question& question_;
  TrialSettings settings_;
  std::unique_ptr<PointKeys> keys_;
  std::map<Trial, sched::PointMetrics> known_;
  std::map<Trial, Leader> leaders_;  // by what twins_of() makes of their trials
  std::set<Trial> asked_of_twins_;   // of the running batch: what others wait for
  std::size_t asked_ = 0, recalled_ = 0, shared_ = 0;
};

}  // namespace plimsoll::study::plan
