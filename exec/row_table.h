// SPDX-License-Identifier: Apache-2.0
// A forward as a table of rows, in the form that kernels read: one entry per row, rows of a sequence adjacent.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/forward_input.h"

namespace plimsoll::exec {

/// A sequence of the table: rows [first_row, first_row + rows), on top of `context` cached tokens.
struct SequenceRows {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;    // padding included
  std::int64_t tokens = 0;  // without padding
  std::int64_t context = 0;
  std::int64_t first_block = 0;  // its block table is table.blocks[first_block, first_block + block_count)
  std::int64_t block_count = 0;
  std::int64_t charged = 0;  // decode: attend to at least this many tokens
};

struct RowTable {
  std::int64_t rows = 0;
  std::vector<std::int32_t> token;            // [rows]; -1 for the token last sampled in token_slot; 0 for padding
  std::vector<std::int32_t> token_slot;       // [rows]
  std::vector<std::int32_t> position;         // [rows]
  std::vector<std::int64_t> cache_slot;       // [rows]: block * block_tokens + offset; -1 if K and V are not stored
  std::vector<std::int32_t> blocks;           // block tables of all sequences
  std::vector<SequenceRows> prefill;          // one per span with rows
  std::vector<SequenceRows> decode;           // one per decode row
  std::vector<std::int32_t> sampled;          // rows that go through the LM head
  std::vector<std::int32_t> sample_slot;      // [sampled]: the slot that stores the token; -1 if none
  std::vector<std::uint64_t> sample_request;  // [sampled]
  std::vector<std::int32_t> sample_position;  // [sampled]: position of the sampled token
  std::vector<Sampling> sampling;             // [sampled]
  std::int32_t block_tokens = 16;
  bool all_logits = false;
};

/// Fills `table`, reusing its storage.
void lay_out(const ForwardInput& input, std::int32_t block_tokens, RowTable& table);

}  // namespace plimsoll::exec
