// SPDX-License-Identifier: Apache-2.0
// mpirun -n N plimsoll simulate|plan …: rank 0 leads, the others follow (study/run/rank_crew.h).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.h"
#include "cli/options.h"
#include "sim/simulate.h"
#include "study/file/study.h"
#include "study/plan/trials.h"
#include "study/run/rank_crew.h"
#include "study/run/run_control.h"

namespace plimsoll::cli {

/// Formats a rank's answer for a point: metrics, and why they are estimates; empty for a run that was stopped.
[[nodiscard]] std::string point_answer(const sim::RunResult& run);
[[nodiscard]] sim::RunResult read_point_answer(const std::string& text);
/// Returns whether a rank's answer is readable: the answer for a point, or the metrics of a search's trial.
[[nodiscard]] bool is_point_answer(const std::string& text);
[[nodiscard]] bool is_trial_answer(const std::string& text);

class Ranks {
 public:
  /// Returns null unless mpirun started this process and others. Throws DeviceError if MPI cannot start.
  [[nodiscard]] static std::unique_ptr<Ranks> join();
  /// For verbs that run in a single process: throws InputError in each process if mpirun started several. Rank 0
  /// reports first, upon which mpirun ends the others.
  static void refuse_several(std::string_view verb);
  /// Returns whether this process is rank 0.
  [[nodiscard]] bool leads() const { return crew_ != nullptr; }

  /// On the leader: accepts the others, each with as many concurrent tasks as this process.
  void open(const study::Study& study, const Parsed& parsed);
  /// Returns how many tasks all ranks together can run at once.
  [[nodiscard]] int places() const { return static_cast<int>(count_) * jobs_; }
  /// `is_answer`: see study::RankCrew::run.
  [[nodiscard]] std::string run(const std::string& task, study::RunControl& control,
                                const std::function<std::string()>& here, const study::RankCrew::IsAnswer& is_answer);
  /// Reports lost and rejected ranks.
  void close(Console& console) const;

  /// On a follower: answers points of the study, and trials of its searches, until the leader ends the run. Throws
  /// DeviceError if the leader exits early and mpirun does not end this process.
  void follow(const Usage& usage, const std::vector<std::string>& arguments);

 private:
  Ranks() = default;
  int rank_ = 0, count_ = 1, jobs_ = 1;
  mutable std::mutex mutex_;
  std::vector<std::string> strangers_;         // reasons why ranks were rejected
  std::unique_ptr<study::RankCrew> crew_;      // only on the leader
  std::unique_ptr<study::RankLeader> leader_;  // only on a follower
};

}  // namespace plimsoll::cli
