// SPDX-License-Identifier: Apache-2.0
// What a router believes of the prefixes that a replica has cached, from the requests it sent there: approximate, since
// the replica evicts by its own rules. A tree of prompt blocks, each node kept under a hash of its whole path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>
#include <unordered_map>

namespace plimsoll::sched {

class PrefixTree {
 public:
  /// Remembers at most `capacity` blocks, at least one.
  explicit PrefixTree(std::size_t capacity) : capacity_(capacity) {}
  /// How many leading blocks of the prompt are known.
  [[nodiscard]] std::size_t match(std::span<const std::uint64_t> blocks) const;
  /// Remembers the prompt; the least recently used blocks are forgotten, ends of prompts before their beginnings.
  void insert(std::span<const std::uint64_t> blocks);
  [[nodiscard]] std::size_t size() const { return recent_.size(); }

 private:
  std::size_t capacity_;
  std::list<std::uint64_t> recent_;  // path hashes, most recently used first
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> nodes_;
};

}  // namespace plimsoll::sched
