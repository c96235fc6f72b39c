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

/// A rank's answer for a point: metrics and why they are estimates; empty for a run that was stopped.
[[nodiscard]] std::string point_answer(const sim::RunResult& run);
[[nodiscard]] sim::RunResult read_point_answer(const std::string& text);
/// Whether a rank's answer is readable: the answer for a point, or the metrics of a search's trial.
[[nodiscard]] bool is_point_answer(const std::string& text);
[[nodiscard]] bool is_trial_answer(const std::string& text);

class Ranks {
 public:
  /// Null unless this process is one of several that mpirun started. Throws DeviceError where MPI cannot begin.
  [[nodiscard]] static std::unique_ptr<Ranks> join();
  /// For verbs that one process runs alone: throws InputError where mpirun started several, in each of them. Rank 0
  /// speaks first, upon which mpirun ends the others.
  static void refuse_several(std::string_view verb);
  [[nodiscard]] bool leads() const { return crew_ != nullptr; }

  /// The leader: accepts the others, each with as many concurrent tasks as this process.
  void open(const study::Study& study, const Parsed& parsed);
  /// The number of threads that keeps every place of every rank busy.
  [[nodiscard]] int places() const { return static_cast<int>(count_) * jobs_; }
  /// `is_answer`: see study::RankCrew::run.
  [[nodiscard]] std::string run(const std::string& task, study::RunControl& control,
                                const std::function<std::string()>& here, const study::RankCrew::IsAnswer& is_answer);
  /// Reports lost and rejected ranks.
  void close(Console& console) const;

  /// A follower: answers points of the study, and trials of its searches, until the leader ends the run. Throws
  /// DeviceError if the leader is gone before, and mpirun does not end this process.
  void follow(const Usage& usage, const std::vector<std::string>& arguments);

 private:
  Ranks() = default;
  int rank_ = 0, count_ = 1, jobs_ = 1;
  mutable std::mutex mutex_;
  std::vector<std::string> strangers_;         // reasons of the ranks that were rejected
  std::unique_ptr<study::RankCrew> crew_;      // of the leader
  std::unique_ptr<study::RankLeader> leader_;  // of a follower
};

}  // namespace plimsoll::cli
