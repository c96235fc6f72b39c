// SPDX-License-Identifier: Apache-2.0
// The TP ranks of an engine that are in other processes, as the engine sees them (exec/group/ makes them). One process
// leads: what it asks of its engine, the others do with theirs. One thread, that of the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/communicator.h"

namespace plimsoll::exec {

struct EngineConfig;
struct ForwardInput;
struct OpTrace;

/// The ranks [first, first + count) of a group.
struct RankShare {
  int first = 0, count = 1;
};

/// What waits for another process or tells it something throws PeerFailed where one has failed or died, and DeviceError
/// for an answer that is none.
class RemoteRanks {
 public:
  virtual ~RemoteRanks() = default;
  /// What this process holds of `tp` ranks.
  [[nodiscard]] virtual RankShare share(std::int32_t tp) const = 0;
  /// The endpoints of those ranks, on GPUs on devices[i]. Returns when all processes have called it. Throws DeviceError
  /// where this process lacks what they need.
  [[nodiscard]] virtual std::vector<std::unique_ptr<Communicator>> communicators(const EngineConfig& config,
                                                                                 std::span<const int> devices) = 0;
  /// `abort` is called, on any thread, when a process of the group fails or dies; an empty one takes it back and
  /// returns when no call is in progress.
  virtual void watch(std::function<void()> abort) = 0;
  /// After PeerFailed: throws what the process that failed says, with its rank and host, as InputError or DeviceError;
  /// returns where nobody says anything within seconds.
  virtual void explain() = 0;

  // ---- of the process that leads; the others follow (exec/group/follower.h)
  // ---------------------------------------------
  /// Before this process starts the forward itself.
  virtual void start(const ForwardInput& input) = 0;
  /// After a forward with all_logits: fills the others' columns of [rows, vocabulary].
  virtual void add_logits(std::span<float> logits) = 0;
  /// The others note their ops from the next forward on.
  virtual void trace() = 0;
  /// Appends the others' ops behind those of this process: they are those of rank 0 with other ranks and times.
  virtual void add_traces(std::span<const OpTrace> rank_0, std::vector<OpTrace>& all) = 0;
  /// `host`: the block of all ranks; fills or sends the parts that the others hold.
  virtual void read_block(std::int32_t block, std::span<std::byte> host) = 0;
  virtual void write_block(std::int32_t block, std::span<const std::byte> host) = 0;
};

/// This process's part in the engines of all replicas.
class GroupPart {
 public:
  virtual ~GroupPart() = default;
  /// Those of a replica; used by its engine's thread.
  [[nodiscard]] virtual RemoteRanks& ranks(std::size_t replica) = 0;
  /// Returns when all processes have come. Throws PeerFailed.
  virtual void meet() = 0;
  /// Which of the group's processes on this host this one is, of how many.
  [[nodiscard]] virtual int local() const = 0;
  [[nodiscard]] virtual int locals() const = 0;
};

}  // namespace plimsoll::exec
