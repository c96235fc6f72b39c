// SPDX-License-Identifier: Apache-2.0
// A map from the hash of a KV block to its place: a flat table with linear probing, because a heap node per block would
// dominate the cost of a prefix cache. Erasing leaves no tombstones: the entries behind the hole move up.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::sched {

class BlockIndex {
 public:
  BlockIndex() : entries_(kMinSize) {}

  /// Returns the place stored for this hash; -1 if there is none.
  [[nodiscard]] std::int32_t find(std::uint64_t hash) const { return entries_[slot_of(hash)].place; }
  /// Stores `place` (>= 0) for the hash unless it already has one. Returns the place that is stored afterwards.
  std::int32_t insert(std::uint64_t hash, std::int32_t place) {
    std::size_t slot = slot_of(hash);
    if (entries_[slot].place >= 0) return entries_[slot].place;
    if (2 * (size_ + 1) > entries_.size()) {
      grow();
      slot = slot_of(hash);
    }
    ++size_;
    entries_[slot] = {hash, place};
    return place;
  }
  /// Forgets the hash, if it has a place.
  void erase(std::uint64_t hash) {
    std::size_t hole = slot_of(hash);
    if (entries_[hole].place < 0) return;
    --size_;
    const std::size_t mask = entries_.size() - 1;
    for (std::size_t slot = (hole + 1) & mask; entries_[slot].place >= 0; slot = (slot + 1) & mask) {
      const std::size_t distance = (slot - home(entries_[slot].hash)) & mask;
      if (distance < ((slot - hole) & mask)) continue;  // moving it would put it before its home slot
      entries_[hole] = entries_[slot];
      hole = slot;
    }
    entries_[hole] = {};
  }
  /// Returns the number of stored hashes.
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    std::int32_t place = -1;  // -1: empty
  };
  static constexpr std::size_t kMinSize = 64;

  // Fibonacci hashing: multiplying by 2^64 over the golden ratio (made odd) spreads hashes that differ in few bits.
  [[nodiscard]] std::size_t home(std::uint64_t hash) const {
    return static_cast<std::size_t>((hash * 0x9e3779b97f4a7c15ULL) >> (64 - std::countr_zero(entries_.size())));
  }
  [[nodiscard]] std::size_t slot_of(std::uint64_t hash) const {
    const std::size_t mask = entries_.size() - 1;
    std::size_t slot = home(hash);
    while (entries_[slot].place >= 0 && entries_[slot].hash != hash) slot = (slot + 1) & mask;
    return slot;
  }
  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.place >= 0) entries_[slot_of(entry.hash)] = entry;
  }

  std::vector<Entry> entries_;  // size is a power of two, at most half full
  std::size_t size_ = 0;
};

}  // namespace plimsoll::sched
