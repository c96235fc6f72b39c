// SPDX-License-Identifier: Apache-2.0
// The router that follows prompt prefixes, and its estimate of what each replica has cached. It is approximate, since a
// replica evicts by its own rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sched/block_index.h"
#include "sched/router.h"

namespace plimsoll::sched {

/// Returns how many whole blocks of the prompt follow those with hashes. Their content is the request's own: a workload
/// states hashes only for what is shared, a server for the whole prompt. For routers that see no caches.
[[nodiscard]] inline std::size_t own_blocks(const RouteQuery& query) {
  const auto blocks = static_cast<std::size_t>(query.prompt / query.block_tokens);
  return blocks > query.prefix_hashes.size() ? blocks - query.prefix_hashes.size() : 0;
}

/// One tree of prompt blocks per replica, built from the requests sent to it. An index over all trees finds those that
/// know the longest part of a prompt, without searching each tree.
class PrefixForest {
 public:
  /// Each tree remembers at most `capacity` blocks, at least one.
  explicit PrefixForest(std::size_t capacity) : capacity_(capacity) {}
  void resize(std::size_t replicas) { trees_.resize(replicas); }

  /// Records that the prompt is sent to a replica. If its tree is full, it forgets the least recently used blocks, the
  /// ends of prompts before their beginnings. `own` blocks that no other prompt has follow `blocks`.
  void insert(std::size_t replica, std::span<const std::uint64_t> blocks, std::size_t own = 0);
  /// Returns the number of blocks in a replica's tree.
  [[nodiscard]] std::size_t size(std::size_t replica) const { return trees_[replica].size; }

  /// Looks a prompt up: returns how many of its leading blocks some tree knows.
  std::size_t find(std::span<const std::uint64_t> blocks);
  /// Returns whether the replica's tree knows the first `blocks` blocks of the prompt that was looked up last.
  [[nodiscard]] bool knows(std::size_t replica, std::size_t blocks) const;
  /// Iterate over the trees that know the first `blocks` blocks of that prompt: first() returns the first node,
  /// behind() the one after `node`.
  [[nodiscard]] std::int32_t first(std::size_t blocks) const { return first_.find(paths_[blocks - 1]); }
  [[nodiscard]] std::int32_t behind(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)].next; }
  [[nodiscard]] std::size_t replica(std::int32_t node) const { return nodes_[static_cast<std::size_t>(node)].replica; }

 private:
  struct Node {              // a block in one tree, or several that only one prompt has
    std::uint64_t path = 0;  // a hash of all blocks up to this one
    std::size_t own = 0;     // how many blocks only one prompt has; 0: this is a block with a path
    std::uint32_t replica = 0;
    std::int32_t newer = -1, older = -1;    // neighbours in the same tree, by last use
    std::int32_t previous = -1, next = -1;  // neighbours with the same path in other trees
  };
  struct Tree {
    std::int32_t newest = -1, oldest = -1;
    std::size_t size = 0;
  };

  [[nodiscard]] std::int32_t new_node();
  void add(std::size_t replica, std::uint64_t path);
  void add_own(std::size_t replica, std::size_t blocks);
  void use(Tree& tree, std::int32_t node);
  void leave(Tree& tree, std::int32_t node);
  void forget_oldest(Tree& tree);

  std::size_t capacity_;
  std::vector<Tree> trees_;  // by replica
  std::vector<Node> nodes_;
  std::vector<std::int32_t> free_nodes_;
  BlockIndex by_replica_;             // nodes by path and replica
  BlockIndex first_;                  // for each path, the first node of all trees
  std::vector<std::uint64_t> paths_;  // paths of the prompt that was looked up
};

/// RouterKind::prefix.
[[nodiscard]] std::unique_ptr<Router> make_prefix_router(const RouterOptions& options);

}  // namespace plimsoll::sched
