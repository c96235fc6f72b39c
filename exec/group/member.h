// SPDX-License-Identifier: Apache-2.0
// A process of a tensor-parallel group: one leads (leader.h), the others follow (follower.h). Each holds the same
// number of ranks of every replica, those of process 0 first.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "exec/mesh.h"
#include "exec/remote_ranks.h"

namespace plimsoll::exec::group {

/// The connections of one replica, which its thread uses: one a replica, so that replicas do not wait for each other.
struct Lane {
  std::vector<net::Link> steps;  // of the leader: [process], its own not open; of a follower: one, to the leader
  std::unique_ptr<Mesh> mesh;
};

struct Member {
  int process = 0, processes = 1;
  int local = 0, locals = 1;       // among those of its host
  std::vector<std::string> hosts;  // [process]
  std::vector<net::Link> control;  // as Lane::steps, for what concerns all replicas
  std::vector<Lane> lanes;         // [replica]
};

/// What both sides have in common.
class MemberRanks : public RemoteRanks {
 public:
  MemberRanks(const Member& member, Lane& lane) : member_(member), lane_(lane) {}
  [[nodiscard]] RankShare share(std::int32_t tp) const override;
  [[nodiscard]] std::vector<std::unique_ptr<Communicator>> communicators(const EngineConfig& config,
                                                                         std::span<const int> devices) override;

 protected:
  const Member& member_;
  Lane& lane_;
};

}  // namespace plimsoll::exec::group
