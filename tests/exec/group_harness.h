// SPDX-License-Identifier: Apache-2.0
// The processes of a tensor-parallel group as threads of a test, connected by socket pairs.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exec/group/follower.h"
#include "exec/group/leader.h"

namespace plimsoll::exec::group {

/// Returns a group of `processes` on hosts "host0", "host1" …, with links for `replicas`.
inline std::vector<Member> make_members(int processes, std::int32_t replicas = 1) {
  const auto count = static_cast<std::size_t>(processes);
  std::vector<Member> members(count);
  for (std::size_t p = 0; p < count; ++p) {
    members[p].process = static_cast<int>(p);
    members[p].processes = processes;
    for (std::size_t q = 0; q < count; ++q) members[p].hosts.push_back("host" + std::to_string(q));
    members[p].control.resize(p == 0 ? count : 1);
    members[p].replicas.resize(static_cast<std::size_t>(replicas));
  }
  for (std::size_t p = 1; p < count; ++p)
    std::tie(members[0].control[p], members[p].control[0]) = net::make_link_pair();
  for (std::size_t r = 0; r < static_cast<std::size_t>(replicas); ++r) {
    std::vector<std::vector<net::Link>> mesh(count);
    for (std::vector<net::Link>& links : mesh) links.resize(count);
    for (std::size_t p = 0; p < count; ++p)
      for (std::size_t q = 0; q < p; ++q) std::tie(mesh[p][q], mesh[q][p]) = net::make_link_pair();
    members[0].replicas[r].steps.resize(count);
    for (std::size_t p = 0; p < count; ++p) {
      members[p].replicas[r].mesh = std::make_unique<Mesh>(static_cast<int>(p), std::move(mesh[p]));
      if (p == 0) continue;
      members[p].replicas[r].steps.resize(1);
      std::tie(members[0].replicas[r].steps[p], members[p].replicas[r].steps[0]) = net::make_link_pair();
    }
  }
  return members;
}

/// A leader and its followers on threads. The followers call `open` for every order.
class TestGroup {
 public:
  TestGroup(int processes, OpenOrder open, std::int32_t replicas = 1)
      : members_(make_members(processes, replicas)), leader_(std::make_unique<Leader>(members_[0])) {
    for (std::size_t p = 1; p < members_.size(); ++p) {
      followers_.emplace_back([this, p, open] {
        follow(members_[p], open);
        end(members_[p]);  // as when a process exits
      });
    }
  }
  ~TestGroup() {
    leader_.reset();
    end(members_[0]);
  }

  [[nodiscard]] Leader& leader() { return *leader_; }
  [[nodiscard]] Member& member(std::size_t process) { return members_[process]; }
  /// Closes the connections of a process, as if it had been killed.
  static void end(Member& member) {
    for (const net::Link& link : member.control) link.shut();
    for (const ReplicaLinks& links : member.replicas) {
      for (const net::Link& link : links.steps) link.shut();
      links.mesh->abort();
    }
  }

 private:
  std::vector<Member> members_;
  std::unique_ptr<Leader> leader_;
  std::vector<std::jthread> followers_;
};

}  // namespace plimsoll::exec::group
