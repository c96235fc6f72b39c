// SPDX-License-Identifier: Apache-2.0
// How many replicas of the prefill pool and of the decode pool a search tries (docs/plan.md).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "study/file/study.h"

namespace plimsoll::study::plan {

/// Replicas of each pool; a deployment with one pool has none for prefill.
struct PoolCounts {
  std::int32_t prefill = 0, decode = 0;
  auto operator<=>(const PoolCounts&) const = default;
  [[nodiscard]] std::int32_t total() const { return prefill + decode; }
  /// Returns whether neither pool has more replicas than in `other`.
  [[nodiscard]] bool fits_into(const PoolCounts& other) const {
    return prefill <= other.prefill && decode <= other.decode;
  }
};
[[nodiscard]] PoolCounts counts_of(const PointSpec& spec);

/// The numbers of replicas that a search tries, derived from the `search` block and the study.
class PoolCountAxis {
 public:
  /// Takes the axes of both pools' replicas out of `axes`. `index`: the study's point.
  PoolCountAxis(const Study& study, std::size_t index, const SearchSpec& search, std::vector<SearchAxis>& axes);
  /// Returns the pairs for pools of this kind, in the order of listing: with a split by total, else by the prefill
  /// pool. If neither the block nor the study states a number, the pairs lie around the number that the study's load
  /// needs.
  [[nodiscard]] std::vector<PoolCounts> pairs_for(const PointSpec& spec) const;
  /// Returns whether there are several pairs, so that a candidate's settings must state its own.
  [[nodiscard]] bool varies() const { return varies_; }

 private:
  [[nodiscard]] std::vector<PoolCounts> splits(const PointSpec& spec) const;

  std::vector<std::int32_t> prefill_, decode_;  // stated numbers; empty: a split
  std::vector<std::int32_t> totals_;            // totals of a split; empty: derived from the load
  bool varies_ = false, finds_load_ = false;
};

}  // namespace plimsoll::study::plan
