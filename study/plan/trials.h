// SPDX-License-Identifier: Apache-2.0
// Runs trials on all cores, each once however often it is asked for, and keeps what is finished.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "sched/measurements.h"
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

/// One trial, simulated; nullopt when options.stop was requested. Throws InputError for a workload that cannot be.
[[nodiscard]] std::optional<sched::PointMetrics> simulate_trial(const Candidate& candidate, const Trial& trial,
                                                                bool stepwise, const sim::RunOptions& options);

/// The search was cancelled: what it knows stands in its answer so far.
struct Cancelled {};

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

 private:
  class Batch;
  [[nodiscard]] Digest key_of(const Trial& trial) const;
  const Question& question_;
  TrialSettings settings_;
  std::unique_ptr<PointKeys> keys_;
  std::map<Trial, sched::PointMetrics> known_;
  std::size_t asked_ = 0, recalled_ = 0;
};

}  // namespace plimsoll::study::plan
