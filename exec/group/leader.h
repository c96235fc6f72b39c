// SPDX-License-Identifier: Apache-2.0
// The process that decides: it has the policy, the clients and the outputs, and a share of every replica's ranks.
// Before it calls one of its engines it sends the call to the followers. Only collectives wait for an answer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "exec/group/engine_order.h"
#include "exec/group/inbox.h"
#include "exec/group/member.h"
#include "model/error.h"

namespace plimsoll::exec::group {

class LeaderRanks;

/// What a follower says that failed, with its place.
class RankFailed : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// One thread loads, waits and checks. ranks() of a replica are that of its engine's thread, all at the same time.
class Leader final : public GroupPart {
 public:
  /// A follower says every second that it is alive; after `silence` it counts as failed.
  static constexpr std::chrono::milliseconds kSilence{15000};
  /// `member` outlives it and is process 0.
  explicit Leader(Member& member, std::chrono::milliseconds silence = kSilence);
  ~Leader() override;
  /// Tells the followers that the run is over and all is well: without it they end as failed.
  void finish();

  /// Has the followers load; this process then makes its LiveEngines of the same order, those of the last one being
  /// gone, and calls wait(), which returns when all are there, with the followers' devices. Both throw what a follower
  /// says that failed.
  void load(const EngineOrder& order);
  [[nodiscard]] std::vector<std::string> wait();

  /// Throws InputError or RankFailed with rank and host where a follower has failed or died. After a failure of a peer,
  /// what is behind it may take a moment to arrive: `patient` waits for it, up to seconds.
  void check(bool patient) const;
  /// "rank 1 on node7"; "ranks 2 to 3 on …" where a process has several.
  [[nodiscard]] std::string place(std::size_t process) const;
  [[nodiscard]] int processes() const { return member_.processes; }

  [[nodiscard]] RemoteRanks& ranks(std::size_t replica) override;
  void meet() override;
  [[nodiscard]] int local() const override { return member_.local; }
  [[nodiscard]] int locals() const override { return member_.locals; }

 private:
  [[nodiscard]] std::vector<Fate> fates(std::size_t process) const;
  [[nodiscard]] bool look() const;

  Member& member_;
  std::int32_t tp_ = 0, loaded_ = 0;                 // of the last order; replicas that it has engines of
  std::vector<std::unique_ptr<Inbox>> control_;      // [process - 1]
  std::vector<std::unique_ptr<LeaderRanks>> ranks_;  // [replica]
};

}  // namespace plimsoll::exec::group
