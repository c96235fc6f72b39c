// SPDX-License-Identifier: Apache-2.0
// The keys that a query sees, and how decode attention cuts them into parts for parallel blocks. Every block computes
// this from the sequence itself, so that a captured graph is valid for any lengths.
#pragma once

#include <cstdint>

#include "exec/cuda/bf16.h"

namespace plimsoll::exec::cuda {

/// The keys [first, last) are loaded. Those from `seen` on are padding of a static batch: other keys of the sequence
/// are loaded in their place, and their scores are discarded.
struct KeyRange {
  std::int32_t first = 0, seen = 0, last = 0;
};

/// Returns the keys of the decode row at the end of `length` keys. window 0: no window. `charged` as in
/// forward_input.h.
PLIMSOLL_CUDA_BOTH inline KeyRange decode_keys(std::int32_t length, std::int32_t charged, std::int64_t window) {
  KeyRange keys;
  keys.seen = length;
  if (window > 0 && length > window) keys.first = length - static_cast<std::int32_t>(window);
  const std::int32_t most = window > 0 && charged > window ? static_cast<std::int32_t>(window) : charged;
  const std::int32_t end = keys.first + most;
  keys.last = length > end ? length : end;
  if (length == 0) keys.last = 0;  // no key exists that could replace padding
  return keys;
}

/// Tiles of `tile` keys are divided evenly: part s has tiles [s * tiles_each, ...). Parts beyond `parts` are empty.
struct SplitPlan {
  std::int32_t parts = 1, tiles = 0, tiles_each = 0;
};

/// Plans at most `most` parts of at least `smallest` tiles each.
PLIMSOLL_CUDA_BOTH inline SplitPlan plan_splits(std::int32_t keys, std::int32_t tile, std::int32_t smallest,
                                                std::int32_t most) {
  SplitPlan plan;
  plan.tiles = (keys + tile - 1) / tile;
  std::int32_t wanted = (plan.tiles + smallest - 1) / smallest;
  if (wanted > most) wanted = most;
  if (wanted < 1) wanted = 1;
  plan.tiles_each = (plan.tiles + wanted - 1) / wanted;
  plan.parts = plan.tiles_each == 0 ? 1 : (plan.tiles + plan.tiles_each - 1) / plan.tiles_each;
  return plan;
}

/// Returns the offset, in elements, of the key at `position` of a sequence in a plane of the cache, for one KV head.
PLIMSOLL_CUDA_BOTH inline std::int64_t key_offset(std::int32_t block, std::int32_t in_block, std::int32_t kv_heads,
                                                  std::int32_t head, std::int32_t block_tokens, std::int32_t head_dim) {
  return ((std::int64_t{block} * kv_heads + head) * block_tokens + in_block) * head_dim;
}

}  // namespace plimsoll::exec::cuda
