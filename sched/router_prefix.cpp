// SPDX-License-Identifier: Apache-2.0
#include "sched/router_prefix.h"

#include <algorithm>
#include <set>
#include <utility>

#include "model/error.h"
#include "sched/router.h"
#include "sched/tournament.h"

namespace plimsoll::sched {

namespace {
using Loads = std::span<const ReplicaLoad>;

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
std::uint64_t extend(std::uint64_t path, std::uint64_t block) { return mix(path ^ mix(block)); }
std::uint64_t in_tree(std::uint64_t path, std::size_t replica) { return mix(path + replica); }
}  // namespace

void PrefixForest::leave(Tree& tree, std::int32_t node) {
  const Node& n = nodes_[at(node)];
  (n.newer >= 0 ? nodes_[at(n.newer)].older : tree.newest) = n.older;
  (n.older >= 0 ? nodes_[at(n.older)].newer : tree.oldest) = n.newer;
}

// Moves a node to the front of its tree's LRU list. The oldest node is dropped when the tree is full.
void PrefixForest::use(Tree& tree, std::int32_t node) {
  Node& n = nodes_[at(node)];
  n.newer = -1;
  n.older = tree.newest;
  (tree.newest >= 0 ? nodes_[at(tree.newest)].newer : tree.oldest) = node;
  tree.newest = node;
}

std::int32_t PrefixForest::new_node() {
  if (free_nodes_.empty()) {
    free_nodes_.push_back(static_cast<std::int32_t>(nodes_.size()));
    nodes_.emplace_back();
  }
  const std::int32_t node = free_nodes_.back();
  free_nodes_.pop_back();
  return node;
}

// Blocks that no other prompt has are never looked up. They were all used at the same time, so one node represents
// them.
void PrefixForest::add_own(std::size_t replica, std::size_t blocks) {
  if (blocks == 0) return;
  const std::int32_t node = new_node();
  nodes_[at(node)] = {.own = blocks, .replica = static_cast<std::uint32_t>(replica)};
  use(trees_[replica], node);
  trees_[replica].size += blocks;
}

void PrefixForest::add(std::size_t replica, std::uint64_t path) {
  const std::int32_t node = new_node();
  by_replica_.insert(in_tree(path, replica), node);
  const std::int32_t first = first_.insert(path, node);
  Node& n = nodes_[at(node)];
  n = {.path = path, .replica = static_cast<std::uint32_t>(replica)};
  if (first != node) {  // insert after the first node, which keeps its place
    n.previous = first;
    n.next = std::exchange(nodes_[at(first)].next, node);
    if (n.next >= 0) nodes_[at(n.next)].previous = node;
  }
  use(trees_[replica], node);
  ++trees_[replica].size;
}

void PrefixForest::forget_oldest(Tree& tree) {
  const std::int32_t node = tree.oldest;
  Node& n = nodes_[at(node)];
  --tree.size;
  if (n.own > 1) {
    --n.own;
    return;
  }
  leave(tree, node);
  if (n.own == 1) {
    free_nodes_.push_back(node);
    return;
  }
  by_replica_.erase(in_tree(n.path, n.replica));
  if (n.next >= 0) nodes_[at(n.next)].previous = n.previous;
  if (n.previous >= 0) {
    nodes_[at(n.previous)].next = n.next;
  } else {
    first_.erase(n.path);
    if (n.next >= 0) first_.insert(n.path, n.next);
  }
  free_nodes_.push_back(node);
}

void PrefixForest::insert(std::size_t replica, std::span<const std::uint64_t> blocks, std::size_t own) {
  paths_.clear();
  std::uint64_t path = 0;
  for (const std::uint64_t block : blocks.first(std::min(blocks.size(), capacity_)))
    paths_.push_back(path = extend(path, block));
  // From the end backwards, so that the beginning of the prompt becomes the most recently used.
  Tree& tree = trees_[replica];
  add_own(replica, std::min(own, capacity_ - paths_.size()));
  for (auto p = paths_.rbegin(); p != paths_.rend(); ++p) {
    const std::int32_t known = by_replica_.find(in_tree(*p, replica));
    if (known < 0) {
      add(replica, *p);
    } else if (known != tree.newest) {
      leave(tree, known);
      use(tree, known);
    }
  }
  while (tree.size > capacity_) forget_oldest(tree);
}

// Trees forget the ends of prompts first, so a tree that knows a block knows all blocks before it. The longest known
// part is therefore found by bisection.
std::size_t PrefixForest::find(std::span<const std::uint64_t> blocks) {
  paths_.clear();
  std::uint64_t path = 0;
  for (const std::uint64_t block : blocks) paths_.push_back(path = extend(path, block));
  std::size_t low = 0, high = paths_.size();
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    first_.find(paths_[middle - 1]) >= 0 ? low = middle : high = middle - 1;
  }
  paths_.resize(low);
  return low;
}

bool PrefixForest::knows(std::size_t replica, std::size_t blocks) const {
  return by_replica_.find(in_tree(paths_[blocks - 1], replica)) >= 0;
}

namespace {

/// Orders replicas by tree size: the smallest is filled first.
struct Smaller {
  const PrefixForest& forest;
  Loads loads;
  bool operator()(std::size_t a, std::size_t b) const {
    if (loads[a].healthy != loads[b].healthy) return loads[a].healthy;
    return std::pair(forest.size(a), loads[a].outstanding) < std::pair(forest.size(b), loads[b].outstanding);
  }
};

/// SGLang's cache-aware rule. If loads are far apart, balance them; else follow the longest known prefix if it is a
/// large part of the prompt; else fill the smallest tree. Ties go to the least loaded replica.
class PrefixRouter final : public Router {
 public:
  explicit PrefixRouter(const RouterOptions& options) : options_(options), forest_(options.tree_blocks) {}

  std::size_t route(const RouteQuery& query, Loads loads) override {
    if (!told_) look_at_all(loads);
    const std::size_t chosen = choose(query, loads);
    forest_.insert(chosen, query.prefix_hashes, own_blocks(query));
    smallest_.changed(chosen, Smaller{forest_, loads});
    return chosen;
  }

  void changed(std::size_t index, Loads loads) override {
    // Changes before the first report are unknown, so all replicas are read once.
    if (!std::exchange(told_, true)) return look_at_all(loads);
    const ReplicaLoad& load = loads[index];
    std::optional<std::int64_t>& known = known_[index];
    const auto now = load.healthy ? std::optional(load.outstanding) : std::nullopt;
    const auto id = static_cast<std::uint32_t>(index);
    if (known && now) {
      auto moved = by_load_.extract({*known, id});
      moved.value() = {*now, id};
      by_load_.insert(std::move(moved));
    } else if (known) {
      by_load_.erase({*known, id});
    } else if (now) {
      by_load_.emplace(*now, id);
    }
    known = now;
    smallest_.changed(index, Smaller{forest_, loads});
  }

 private:
  void look_at_all(Loads loads) {
    forest_.resize(loads.size());
    by_load_.clear();
    known_.assign(loads.size(), {});
    for (std::size_t i = 0; i < loads.size(); ++i) {
      if (!loads[i].healthy) continue;
      known_[i] = loads[i].outstanding;
      by_load_.emplace(loads[i].outstanding, static_cast<std::uint32_t>(i));
    }
    smallest_.start(loads.size(), Smaller{forest_, loads});
  }

  [[nodiscard]] bool imbalanced() const {
    const std::int64_t low = by_load_.begin()->first, high = by_load_.rbegin()->first;
    return high - low > options_.imbalance_requests &&
           static_cast<double>(high) > options_.imbalance_ratio * static_cast<double>(low);
  }

  // Returns the least loaded healthy replica whose tree knows the first `blocks` blocks. Two searches alternate: over
  // the trees that know them, and over all replicas by increasing load. If few trees know the prompt the first ends
  // early; if many do, the second does. So the cost does not grow with the number of replicas.
  [[nodiscard]] std::optional<std::size_t> least_loaded(std::size_t blocks, Loads loads) const {
    std::optional<std::size_t> best;
    auto next = by_load_.begin();
    for (std::int32_t node = forest_.first(blocks); node >= 0; node = forest_.behind(node)) {
      if (next == by_load_.end()) return {};
      if (forest_.knows(next->second, blocks)) return next->second;
      ++next;
      const std::size_t i = forest_.replica(node);
      if (!loads[i].healthy) continue;
      if (!best || std::pair(loads[i].outstanding, i) < std::pair(loads[*best].outstanding, *best)) best = i;
    }
    return best;
  }

  [[nodiscard]] std::size_t choose(const RouteQuery& query, Loads loads) {
    PLIMSOLL_CHECK(!by_load_.empty(), "a request is routed only while a replica is healthy");
    const std::size_t least = by_load_.begin()->second;
    const std::size_t all = query.prefix_hashes.size() + own_blocks(query);
    if (all == 0 || imbalanced()) return least;
    // Blocks known only to replicas that are out of service are no match.
    std::size_t blocks = forest_.find(query.prefix_hashes);
    std::optional<std::size_t> best;
    for (; blocks > 0; --blocks) {
      best = least_loaded(blocks, loads);
      if (best) break;
    }
    const double rate = static_cast<double>(blocks) / static_cast<double>(all);
    if (rate > options_.match_threshold) return best.value_or(least);
    return smallest_.winner();
  }

  RouterOptions options_;
  PrefixForest forest_;
  bool told_ = false;                                         // the caller reports changes
  std::set<std::pair<std::int64_t, std::uint32_t>> by_load_;  // healthy replicas by outstanding, then index
  std::vector<std::optional<std::int64_t>> known_;            // their outstanding count in by_load_, by replica
  Tournament smallest_;
};

}  // namespace

std::unique_ptr<Router> make_prefix_router(const RouterOptions& options) {
  return std::make_unique<PrefixRouter>(options);
}

}  // namespace plimsoll::sched
