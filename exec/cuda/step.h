// SPDX-License-Identifier: Apache-2.0
// A forward's inputs as one piece of memory: a row table (exec/row_table.h) is packed into pinned memory and goes to
// the device in one copy. Where an array stands depends on the counts only, block tables come last: a decode forward of
// so many rows has its arrays at the same places every time, so that a graph can be replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/row_table.h"

namespace plimsoll::exec::cuda {

/// A sequence of the table as kernels read it.
struct alignas(16) DeviceSequence {
  std::int32_t first_row, rows, context;  // rows with padding
  std::int32_t first_block;
  std::int32_t length;   // keys in the cache: context + tokens
  std::int32_t charged;  // decode: go through at least so many keys
};
/// kPrefillTileRows rows of a prefill sequence.
struct PrefillTile {
  std::int32_t sequence, first;
};
struct DeviceSampling {
  std::uint64_t seed;
  float temperature;
  std::int32_t unused;
};

/// Device pointers to the parts of an uploaded step.
struct StepView {
  const DeviceSampling* sampling = nullptr;
  const std::int64_t* cache_slot = nullptr;       // [rows]
  const std::uint64_t* sample_request = nullptr;  // [sampled]
  const DeviceSequence* prefill = nullptr;
  const DeviceSequence* decode = nullptr;
  const PrefillTile* tiles = nullptr;
  const std::int32_t* token = nullptr;            // [rows]
  const std::int32_t* token_slot = nullptr;       // [rows]
  const std::int32_t* position = nullptr;         // [rows]
  const std::int32_t* sampled = nullptr;          // [sampled]: row
  const std::int32_t* sample_slot = nullptr;      // [sampled]
  const std::int32_t* sample_position = nullptr;  // [sampled]
  const std::int32_t* blocks = nullptr;
};

/// Counts that places depend on, and how many bytes there are in all.
struct StepLayout {
  std::int64_t rows = 0, sampled = 0, prefill = 0, decode = 0, tiles = 0, blocks = 0;
  [[nodiscard]] std::size_t bytes() const;
  /// The parts of a step that begins at `base` (aligned to 16 bytes), on the host or the device.
  [[nodiscard]] StepView view(const void* base) const;
};

/// Query tiles of the prefill sequences, those with most keys first, so that the last ones to run are short.
[[nodiscard]] std::vector<PrefillTile> cut_tiles(const RowTable& table, std::int32_t tile_rows);
/// Packs the table to `base`, which has room for layout_of(table, tiles).bytes().
[[nodiscard]] StepLayout layout_of(const RowTable& table, const std::vector<PrefillTile>& tiles);
void pack(const RowTable& table, const std::vector<PrefillTile>& tiles, const StepLayout& layout, void* base);

/// The rows that a decode forward of `rows` is padded to: 1, 2, 4, 8, then steps of 8 to 128, then of 64.
[[nodiscard]] std::int64_t decode_bucket(std::int64_t rows);

}  // namespace plimsoll::exec::cuda
