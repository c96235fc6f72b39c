// SPDX-License-Identifier: Apache-2.0
#include "sched/router_prefix.h"

#include <algorithm>
#include <vector>

#include "sched/router_random.h"

namespace plimsoll::sched {

namespace {
std::uint64_t extend(std::uint64_t path, std::uint64_t block) { return mix(path ^ mix(block)); }
}  // namespace

std::size_t PrefixTree::match(std::span<const std::uint64_t> blocks) const {
  std::uint64_t path = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    path = extend(path, blocks[i]);
    if (!nodes_.contains(path)) return i;
  }
  return blocks.size();
}

void PrefixTree::insert(std::span<const std::uint64_t> blocks) {
  std::vector<std::uint64_t> paths;
  std::uint64_t path = 0;
  for (const std::uint64_t block : blocks.first(std::min(blocks.size(), capacity_)))
    paths.push_back(path = extend(path, block));
  // From the end backwards, so that the prompt's beginning ends up the most recent.
  for (auto node = paths.rbegin(); node != paths.rend(); ++node) {
    const auto known = nodes_.find(*node);
    if (known != nodes_.end()) {
      recent_.splice(recent_.begin(), recent_, known->second);
    } else {
      recent_.push_front(*node);
      nodes_.emplace(*node, recent_.begin());
    }
  }
  while (recent_.size() > capacity_) {
    nodes_.erase(recent_.back());
    recent_.pop_back();
  }
}

}  // namespace plimsoll::sched
