// SPDX-License-Identifier: Apache-2.0
// mpirun -n N plimsoll measure …: connects the processes of one tensor-parallel group. Rank 0 leads: it has the study,
// the policy, the clients and the outputs. The others hold their share of the ranks of every replica (exec/group/).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/ranks_module.h"
#include "exec/group/leader.h"
#include "exec/group/messages.h"
#include "exec/weights/open_model.h"
#include "net/lobby.h"

namespace plimsoll::cli {

class RankGroup {
 public:
  /// Returns null unless mpirun started this process and others. Throws DeviceError if MPI cannot start.
  [[nodiscard]] static std::unique_ptr<RankGroup> join();
  /// On rank 0: ends the run of the others, except while an exception unwinds the stack.
  ~RankGroup();
  /// Returns whether this process is rank 0.
  [[nodiscard]] bool leads() const { return place_.rank == 0; }
  [[nodiscard]] int processes() const { return place_.count; }

  /// On rank 0: connects all processes, for up to `replicas` replicas. Throws DeviceError if no further rank connects
  /// for half a minute (the message names the missing ones), or if the program or catalogue of one differs.
  [[nodiscard]] exec::group::Leader& open(std::int32_t replicas);
  /// On the other ranks: serves until the leader ends the run or something fails here, which is reported to the leader.
  /// Only the leader reacts to signals. Throws DeviceError if another process is missing or unreachable, or if the
  /// leader has exited early; mpirun has then had time to end this process.
  void follow();

 private:
  RankGroup() = default;
  [[nodiscard]] bool serve();
  void finish();
  void welcome(std::int32_t replicas);
  void make_lanes(std::int32_t replicas);
  void connect_down(std::int32_t replicas);
  void accept_up();
  [[nodiscard]] net::Link connect(std::size_t process, std::string_view what, std::int32_t replica) const;

  Introduction place_;
  std::unique_ptr<net::Lobby> lobby_;
  std::vector<net::Meeting> meetings_;        // [process]
  net::Link to_leader_;                       // on all ranks but 0
  std::vector<std::vector<net::Link>> mesh_;  // [process] per [replica], until all are connected
  exec::group::Member member_;
  std::unique_ptr<exec::group::Leader> leader_;
};

/// Loads the model of an order. Throws InputError if the model's file differs here, and what exec::open_model() throws.
[[nodiscard]] exec::OpenModel open_order(const exec::group::EngineOrder& order);

/// Returns a digest of the model's file, to verify that all processes read the same one; empty for a catalogue name.
[[nodiscard]] std::string model_digest(const std::string& model);

}  // namespace plimsoll::cli
