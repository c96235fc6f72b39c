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
#include "study/plan/trials.h"
#include "study/run/rank_crew.h"
#include "study/run/run_control.h"
#include "study/file/study.h"

namespace plimsoll::cli {

/// What a rank answers for a point: its metrics and why they are estimates; empty for a run that was stopped.
[[nodiscard]] std::string point_answer(const sim::RunResult& run);
[[nodiscard]] sim::RunResult read_point_answer(const std::string& text);

class Ranks {
 public:
  /// Null unless this process is one of several that mpirun started. Throws DeviceError where MPI cannot begin.
  [[nodiscard]] static std::unique_ptr<Ranks> join();
  /// For verbs that one process runs alone. Where mpirun started several, the first throws InputError, and for the others it
  /// is true: they end as if all were well, because mpirun ends the rest when one fails, maybe before it has said why.
  [[nodiscard]] static bool is_surplus(std::string_view verb);
  [[nodiscard]] bool leads() const { return crew_ != nullptr; }

  /// The leader: lets the others in, each with as many tasks at once as this one.
  void open(const study::Study& study, const Parsed& parsed);
  /// Threads that keep every place of every rank busy.
  [[nodiscard]] int places() const { return static_cast<int>(count_) * jobs_; }
  [[nodiscard]] std::string run(const std::string& task, study::RunControl& control, const std::function<std::string()>& here);
  /// Says what became of the others.
  void close(Console& console) const;

  /// A follower: answers points of the study, and trials of its searches, until the leader is gone.
  void follow(const Usage& usage, const std::vector<std::string>& arguments) const;

 private:
  Ranks() = default;
  int rank_ = 0, count_ = 1, jobs_ = 1;
  study::Meeting meeting_;
  mutable std::mutex mutex_;
  std::vector<std::string> strangers_;      // what those said who take no part
  std::unique_ptr<study::RankCrew> crew_;   // of the leader
};

}  // namespace plimsoll::cli
