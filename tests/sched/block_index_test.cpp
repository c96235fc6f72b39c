// SPDX-License-Identifier: Apache-2.0
#include "sched/block_index.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace plimsoll::sched {
namespace {

// Compares with a map. Few hashes: most are found, erased and added again; multiples of 2^40 crowd the low bits.
RC_GTEST_PROP(BlockIndex, KeepsWhatAMapKeeps, ()) {
  BlockIndex index;
  std::map<std::uint64_t, std::int32_t> map;
  const auto draws = *rc::gen::container<std::vector<std::pair<std::uint64_t, bool>>>(
      600, rc::gen::pair(rc::gen::inRange<std::uint64_t>(0, 300), rc::gen::arbitrary<bool>()));
  std::int32_t place = 0;
  for (const auto& [draw, erases] : draws) {
    const std::uint64_t hash = draw % 2 == 0 ? draw : draw << 40U;
    if (erases) {
      index.erase(hash);
      map.erase(hash);
    } else {
      RC_ASSERT(index.insert(hash, place) == map.emplace(hash, place).first->second);
      ++place;
    }
    RC_ASSERT(index.size() == map.size());
  }
  for (std::uint64_t draw = 0; draw < 300; ++draw) {
    const std::uint64_t hash = draw % 2 == 0 ? draw : draw << 40U;
    const auto kept = map.find(hash);
    RC_ASSERT(index.find(hash) == (kept == map.end() ? -1 : kept->second));
  }
}

}  // namespace
}  // namespace plimsoll::sched
