// SPDX-License-Identifier: Apache-2.0
// The process that decides. It has the policy, the clients, the outputs and a share of the ranks of every replica. It
// sends each engine command to the followers before it executes the command; only collectives wait for a reply.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "exec/group/inbox.h"
#include "exec/group/member.h"
#include "exec/group/messages.h"
#include "model/error.h"

namespace plimsoll::exec::group {

class LeaderRanks;

/// A follower reported a failure; the text names its place.
class RankFailed : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// load(), finish() and check() belong to one thread. ranks() of a replica belong to its engine's thread; these threads
/// run concurrently.
class Leader final : public GroupPart {
 public:
  /// A follower sends a heartbeat every second. After `silence` without one it counts as failed.
  static constexpr std::chrono::milliseconds kSilence{15000};
  /// `member` must be process 0 and outlive the leader.
  explicit Leader(Member& member, std::chrono::milliseconds silence = kSilence);
  ~Leader() override;
  /// Tells the followers that the run succeeded. Without this call they end with a failure.
  void finish();

  /// Tells the followers to load. Then construct LiveEngines for the same order here; engines of the previous order
  /// must already be destroyed. Finally call wait(), which returns the followers' devices once every process has
  /// loaded. Both throw the failure that a follower reports.
  void load(const EngineOrder& order);
  [[nodiscard]] std::vector<std::string> wait();

  /// Throws InputError or RankFailed, with rank and host, if a follower failed or died. The reason may arrive a moment
  /// after the failure itself; with `patient`, the call waits a few seconds for it.
  void check(bool patient) const;
  /// Returns "rank 1 on node7", or "ranks 2 to 3 on …" for a process with several ranks.
  [[nodiscard]] std::string place(std::size_t process) const;
  [[nodiscard]] int processes() const { return member_.processes; }

  [[nodiscard]] RemoteRanks& ranks(std::size_t replica) override;
  void meet() override;
  [[nodiscard]] int local() const override { return member_.local; }
  [[nodiscard]] int locals() const override { return member_.locals; }

 private:
  [[nodiscard]] std::vector<PeerFailure> fates(std::size_t process) const;
  [[nodiscard]] bool look() const;

  Member& member_;
  std::int32_t tp_ = 0, loaded_ = 0;                 // of the last order; number of replicas that have engines
  std::vector<std::unique_ptr<Inbox>> control_;      // [process - 1]
  std::vector<std::unique_ptr<LeaderRanks>> ranks_;  // [replica]
};

}  // namespace plimsoll::exec::group
