// SPDX-License-Identifier: Apache-2.0
// mpirun -n N plimsoll measure …: the processes of one tensor-parallel group meet. Rank 0 leads: it has the study, the
// policy, the clients and the outputs. The others hold their share of the ranks of every replica (exec/group/).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/ranks_module.h"
#include "exec/group/leader.h"
#include "study/run/rank_crew.h"

namespace plimsoll::cli {

class RankGroup {
 public:
  /// Null unless this process is one of several that mpirun started. Throws DeviceError where MPI cannot begin.
  [[nodiscard]] static std::unique_ptr<RankGroup> join();
  [[nodiscard]] bool leads() const { return place_.rank == 0; }
  [[nodiscard]] int processes() const { return place_.count; }

  /// Rank 0: connects all, for up to `replicas` replicas. Throws DeviceError where half a minute passes and nobody else
  /// comes, with the ranks that are missing, or where one is of another program or catalogue.
  [[nodiscard]] exec::group::Leader& open(std::int32_t replicas);
  /// The others: serve until the leader is gone, whatever ended it, or something fails here, which the leader is told.
  /// Signals are the leader's to answer. Returns where rank 0 is gone before the start, or turns this process away. Throws
  /// DeviceError where another process does not come or cannot be reached.
  void follow();

 private:
  RankGroup() = default;
  void welcome(std::int32_t replicas);
  void make_lanes(std::int32_t replicas);
  void connect_down(std::int32_t replicas);
  void accept_up();
  [[nodiscard]] std::string hello(const std::string& what, std::int32_t replica) const;

  Introduction place_;
  study::Socket listening_;
  std::vector<study::Meeting> meetings_;     // [process]
  std::vector<std::vector<exec::group::Link>> mesh_;   // [replica][process], until all are there
  exec::group::Member member_;
  std::unique_ptr<exec::group::Leader> leader_;
};

/// Of the file that a model's name stands for, so that all processes read the same; empty for a name of the catalogue.
[[nodiscard]] std::string model_digest(const std::string& model);

}  // namespace plimsoll::cli
