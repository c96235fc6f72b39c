// SPDX-License-Identifier: Apache-2.0
// The inputs of a forward in one piece of memory: a row table (exec/row_table.h) is packed into pinned memory and
// copied to the device in one transfer. The offset of an array depends only on the counts, and block tables come last.
// A decode forward of a given number of rows therefore always has its arrays at the same addresses, and its graph can
// be replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/row_table.h"

namespace plimsoll::exec::cuda {

/// A sequence of the table in the form that kernels read.
struct alignas(16) DeviceSequence {
  std::int32_t first_row, rows, context;  // rows: includes padding
  std::int32_t first_block;
  std::int32_t length;   // keys in the cache: context + tokens
  std::int32_t charged;  // decode: visit at least this many keys
};
/// A tile of kPrefillTileRows rows of a prefill sequence.
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

/// The counts that the offsets depend on.
struct StepLayout {
  std::int64_t rows = 0, sampled = 0, prefill = 0, decode = 0, tiles = 0, blocks = 0;
  [[nodiscard]] std::size_t bytes() const;
  /// Returns the parts of a step that begins at `base` (aligned to 16 bytes), on the host or on the device.
  [[nodiscard]] StepView view(const void* base) const;
};

/// Returns the query tiles of the prefill sequences. Tiles with the most keys come first, so that short ones run last.
[[nodiscard]] std::vector<PrefillTile> cut_tiles(const RowTable& table, std::int32_t tile_rows);
/// layout_of() returns the layout of the table. pack() writes the table to `base`, which must hold layout.bytes()
/// bytes.
[[nodiscard]] StepLayout layout_of(const RowTable& table, const std::vector<PrefillTile>& tiles);
void pack(const RowTable& table, const std::vector<PrefillTile>& tiles, const StepLayout& layout, void* base);

/// Returns the rows that a decode forward of `rows` is padded to: 1, 2, 4, 8, then multiples of 8 up to 128, then of
/// 64.
[[nodiscard]] std::int64_t decode_bucket(std::int64_t rows);

}  // namespace plimsoll::exec::cuda
