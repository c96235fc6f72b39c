// SPDX-License-Identifier: Apache-2.0
// One process of a tensor-parallel group. One process leads (leader.h), the others follow (follower.h). Every process
// holds the same number of ranks of every replica, starting with process 0.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/mesh.h"
#include "exec/remote_ranks.h"

namespace plimsoll::exec::group {

/// The connections of one replica, used by the replica's own thread. Each replica has its own, so replicas do not wait
/// for each other.
struct ReplicaLinks {
  std::vector<net::Link> steps;  // leader: [process], that of itself not open; follower: one, to the leader
  std::unique_ptr<Mesh> mesh;
};

struct Member {
  int process = 0, processes = 1;
  int local = 0, locals = 1;           // index among the processes of this host; number of them
  std::vector<std::string> hosts;      // [process]
  std::vector<net::Link> control;      // as ReplicaLinks::steps, for messages about all replicas
  std::vector<ReplicaLinks> replicas;  // [replica]
};

/// The part of RemoteRanks that leader and follower share.
class MemberRanks : public RemoteRanks {
 public:
  MemberRanks(const Member& member, ReplicaLinks& links) : member_(member), links_(links) {}
  [[nodiscard]] RankShare share(std::int32_t tp) const override;
  [[nodiscard]] std::vector<std::unique_ptr<Communicator>> communicators(const EngineConfig& config,
                                                                         std::span<const int> devices) override;

 protected:
  const Member& member_;
  ReplicaLinks& links_;
};

}  // namespace plimsoll::exec::group
