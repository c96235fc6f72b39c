// SPDX-License-Identifier: Apache-2.0
// The TP ranks of an engine that run in other processes, as seen by the engine (implemented in exec/group/). One
// process leads, and the others repeat the calls that it makes to its engine. Only the engine's thread uses it.
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

/// Calls that communicate throw PeerFailed if another process has failed or died, and DeviceError on a malformed reply.
class RemoteRanks {
 public:
  virtual ~RemoteRanks() = default;
  /// Returns the ranks of a group of `tp` that this process holds.
  [[nodiscard]] virtual RankShare share(std::int32_t tp) const = 0;
  /// Returns the endpoints of these ranks; on GPUs, endpoint i is on devices[i]. Blocks until all processes have called
  /// it. Throws DeviceError if this process lacks a device or library.
  [[nodiscard]] virtual std::vector<std::unique_ptr<Communicator>> communicators(const EngineConfig& config,
                                                                                 std::span<const int> devices) = 0;
  /// Sets the function that is called, on any thread, when a process of the group fails or dies. An empty function
  /// removes it, and blocks until no call is in progress.
  virtual void watch(std::function<void()> abort) = 0;
  /// After PeerFailed: throws the error of the process that failed, with its rank and host, as InputError or
  /// DeviceError. Returns if no process reports one within seconds.
  virtual void explain() = 0;

  // ---- called in the process that leads; the others follow (exec/group/follower.h) ---------------------------
  /// Starts the forward in the other processes. Call before this process starts its own.
  virtual void start(const ForwardInput& input) = 0;
  /// After a forward with all_logits: fills in the columns of the other processes in [rows, vocabulary].
  virtual void add_logits(std::span<float> logits) = 0;
  /// Makes the other processes record their ops from the next forward on.
  virtual void trace() = 0;
  /// Appends the ops of the other processes, which are those of rank 0 with other ranks and times.
  virtual void add_traces(std::span<const OpTrace> rank_0, std::vector<OpTrace>& all) = 0;
  /// `host` is a block of all ranks. Receives or sends the parts of the other processes.
  virtual void read_block(std::int32_t block, std::span<std::byte> host) = 0;
  virtual void write_block(std::int32_t block, std::span<const std::byte> host) = 0;
};

/// This process's part in the engines of all replicas.
class GroupPart {
 public:
  virtual ~GroupPart() = default;
  /// Returns the remote ranks of a replica, for its engine's thread.
  [[nodiscard]] virtual RemoteRanks& ranks(std::size_t replica) = 0;
  /// Blocks until all processes have called it. Throws PeerFailed.
  virtual void meet() = 0;
  /// Return the index of this process among the group's processes on this host, and their number.
  [[nodiscard]] virtual int local() const = 0;
  [[nodiscard]] virtual int locals() const = 0;
};

}  // namespace plimsoll::exec
