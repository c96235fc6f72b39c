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
  std::int32_t length;                      // keys in the cache: context + tokens
  std::int32_t charged;                     // decode: visit at least this many keys
  std::int32_t splits = 1, first_part = 0;  // decode: parts of its keys at most; place of their results in the scratch
};
/// A tile of kPrefillTileRows rows of a prefill sequence.
struct PrefillTile {
  std::int32_t sequence, first;
};
/// A part of the keys of a decode row; sequence -1: nothing to do.
struct DecodePart {
  std::int32_t sequence, part;
};
/// exec::Sampling of a sampled row.
struct DeviceSampling {
  std::uint64_t seed;
  float temperature;
  std::int32_t top_k;
  float top_p, min_p;
};

/// Device pointers to the parts of an uploaded step.
struct StepView {
  const DeviceSampling* sampling = nullptr;       // [sampled]
  const std::int64_t* cache_slot = nullptr;       // [rows]
  const std::uint64_t* sample_request = nullptr;  // [sampled]
  const DeviceSequence* prefill = nullptr;
  const DeviceSequence* decode = nullptr;
  const PrefillTile* tiles = nullptr;
  const DecodePart* parts = nullptr;
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
  std::int64_t rows = 0, sampled = 0, prefill = 0, decode = 0, tiles = 0, parts = 0, blocks = 0;
  [[nodiscard]] std::size_t bytes() const;
  /// Returns the parts of a step that begins at `base` (aligned to 16 bytes), on the host or on the device.
  [[nodiscard]] StepView view(const void* base) const;
};

/// Returns the query tiles of the prefill sequences. Tiles with the most keys come first, so that short ones run last.
[[nodiscard]] std::vector<PrefillTile> cut_tiles(const RowTable& table, std::int32_t tile_rows);

/// How the keys of the decode rows are divided among blocks.
struct DecodePlan {
  std::vector<DecodePart> parts;            // those of the longest contexts first; then as many without a sequence
  std::vector<std::int32_t> splits, first;  // by decode row: DeviceSequence::splits, first_part
};
/// Cuts the contexts of all rows into parts of about equal length, of `smallest` keys or more and at most
/// kMaxDecodeParts of a row. The list has one entry for each row and `extra` more, whatever the lengths: a recorded
/// graph cannot change its grid. Rows with several parts have no more than 2 `extra` parts together.
[[nodiscard]] DecodePlan plan_decodes(const RowTable& table, std::int64_t extra, std::int64_t smallest);
inline constexpr std::int64_t kMaxDecodeParts = 64;

/// The work of a step's attention, apart from the table.
struct StepPlan {
  std::vector<PrefillTile> tiles = {};
  DecodePlan decode = {};
};
/// layout_of() returns the layout of the table. pack() writes the table to `base`, which must hold layout.bytes()
/// bytes.
[[nodiscard]] StepLayout layout_of(const RowTable& table, const StepPlan& plan);
void pack(const RowTable& table, const StepPlan& plan, const StepLayout& layout, void* base);

/// Returns the rows that a decode forward of `rows` is padded to: 1, 2, 4, 8, then multiples of 8 up to 128, then of
/// 64.
[[nodiscard]] std::int64_t decode_bucket(std::int64_t rows);

}  // namespace plimsoll::exec::cuda
