// SPDX-License-Identifier: Apache-2.0
#include "exec/row_table.h"

#include <algorithm>

#include "model/error.h"

namespace plimsoll::exec {

namespace {

class Layout {
 public:
  Layout(RowTable& table, const ForwardInput& input) : t_(table), input_(input) {}

  void add(const PrefillRows& span) {
    const auto tokens = static_cast<std::int64_t>(span.tokens.size());
    if (tokens + span.padding == 0) return;
    SequenceRows sequence = open(span.blocks, span.context, tokens, tokens + span.padding);
    PLIMSOLL_CHECK(sequence.block_count * t_.block_tokens >= span.context + tokens, "the block table covers the span");
    for (std::int64_t i = 0; i < tokens; ++i) {
      const bool last = i + 1 == tokens;
      if (input_.all_logits || (last && span.emits))
        add_sample(span, last && span.emits ? span.slot : -1, span.context + i + 1);
      add_row(span.tokens[static_cast<std::size_t>(i)], span.slot, span.context + i,
              place(span.blocks, span.context + i));
    }
    // Padding gets the position of the last token, so that it stays within tables of positions.
    const std::int64_t last = std::max<std::int64_t>(0, span.context + tokens - 1);
    for (std::int64_t i = 0; i < span.padding; ++i) add_row(0, span.slot, last, -1);
    t_.prefill.push_back(sequence);
  }

  void add(const DecodeRow& row) {
    SequenceRows sequence = open(row.blocks, row.context, row.dead ? 0 : 1, 1);
    sequence.charged = row.charged;
    PLIMSOLL_CHECK(row.dead || sequence.block_count * t_.block_tokens > row.context, "the block table covers the row");
    add_sample(row, row.dead ? -1 : row.slot, row.context + 1);
    if (row.dead) {
      add_row(0, row.slot, std::max<std::int64_t>(0, row.context - 1), -1);
    } else {
      add_row(row.token, row.slot, row.context, place(row.blocks, row.context));
    }
    t_.decode.push_back(sequence);
  }

 private:
  SequenceRows open(std::span<const std::int32_t> blocks, std::int64_t context, std::int64_t tokens,
                    std::int64_t rows) {
    SequenceRows sequence;
    sequence.first_row = t_.rows;
    sequence.rows = rows;
    sequence.tokens = tokens;
    sequence.context = context;
    sequence.first_block = static_cast<std::int64_t>(t_.blocks.size());
    sequence.block_count = static_cast<std::int64_t>(blocks.size());
    t_.blocks.insert(t_.blocks.end(), blocks.begin(), blocks.end());
    return sequence;
  }

  [[nodiscard]] std::int64_t place(std::span<const std::int32_t> blocks, std::int64_t position) const {
    const std::int64_t block = position / t_.block_tokens;
    return std::int64_t{blocks[static_cast<std::size_t>(block)]} * t_.block_tokens + position % t_.block_tokens;
  }

  void add_row(std::int32_t token, std::int32_t slot, std::int64_t position, std::int64_t cache_slot) {
    t_.token.push_back(token);
    t_.token_slot.push_back(slot);
    t_.position.push_back(static_cast<std::int32_t>(position));
    t_.cache_slot.push_back(cache_slot);
    ++t_.rows;
  }

  // Marks the row that is added next as sampled. `from` is a PrefillRows or a DecodeRow.
  template <class Rows>
  void add_sample(const Rows& from, std::int32_t slot, std::int64_t position) {
    t_.sampled.push_back(static_cast<std::int32_t>(t_.rows));
    t_.sample_slot.push_back(slot);
    t_.sample_request.push_back(from.request);
    t_.sampling.push_back(from.sampling != nullptr ? *from.sampling : input_.sampling);
    t_.sample_position.push_back(static_cast<std::int32_t>(position));
  }

  RowTable& t_;
  const ForwardInput& input_;
};

void clear(RowTable& table) {
  table.rows = 0;
  table.token.clear();
  table.token_slot.clear();
  table.position.clear();
  table.cache_slot.clear();
  table.blocks.clear();
  table.prefill.clear();
  table.decode.clear();
  table.sampled.clear();
  table.sample_slot.clear();
  table.sample_request.clear();
  table.sample_position.clear();
  table.sampling.clear();
}

}  // namespace

void lay_out(const ForwardInput& input, std::int32_t block_tokens, RowTable& table) {
  clear(table);
  table.block_tokens = block_tokens;
  table.all_logits = input.all_logits;
  Layout layout(table, input);
  for (const PrefillRows& span : input.prefill) layout.add(span);
  for (const DecodeRow& row : input.decode) layout.add(row);
}

}  // namespace plimsoll::exec
