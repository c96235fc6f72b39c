// SPDX-License-Identifier: Apache-2.0
#include "exec/row_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plimsoll::exec {
namespace {

using ::testing::ElementsAre;

// Two prompt tokens after three cached ones, with one padding row; then a decode row and a dead one; blocks of 4.
TEST(RowTable, lays_spans_padding_and_decodes_behind_each_other) {
  const std::vector<std::int32_t> tokens{11, 12}, blocks{7, 2}, decode_blocks{5}, dead_blocks{9};
  ForwardInput input;
  PrefillRows span;
  span.tokens = tokens;
  span.context = 3;
  span.blocks = blocks;
  span.slot = 4;
  span.request = 40;
  span.padding = 1;
  span.emits = true;
  input.prefill.push_back(span);
  DecodeRow decode;
  decode.context = 2;
  decode.blocks = decode_blocks;
  decode.slot = 6;
  decode.request = 60;
  input.decode.push_back(decode);
  DecodeRow dead;
  dead.dead = true;
  dead.context = 3;
  dead.blocks = dead_blocks;
  dead.slot = 8;
  dead.charged = 10;
  input.decode.push_back(dead);

  RowTable table;
  lay_out(input, 4, table);
  EXPECT_EQ(table.rows, 5);
  EXPECT_THAT(table.token, ElementsAre(11, 12, 0, -1, 0));
  EXPECT_THAT(table.position, ElementsAre(3, 4, 4, 2, 2));
  EXPECT_THAT(table.cache_slot, ElementsAre(7 * 4 + 3, 2 * 4 + 0, -1, 5 * 4 + 2, -1));
  EXPECT_THAT(table.sampled, ElementsAre(1, 3, 4));
  EXPECT_THAT(table.sample_slot, ElementsAre(4, 6, -1));
  EXPECT_THAT(table.sample_position, ElementsAre(5, 3, 4));
  EXPECT_THAT(table.blocks, ElementsAre(7, 2, 5, 9));
  ASSERT_EQ(table.prefill.size(), 1U);
  EXPECT_EQ(table.prefill[0].rows, 3);
  EXPECT_EQ(table.prefill[0].tokens, 2);
  ASSERT_EQ(table.decode.size(), 2U);
  EXPECT_EQ(table.decode[0].first_row, 3);
  EXPECT_EQ(table.decode[1].tokens, 0);
  EXPECT_EQ(table.decode[1].first_block, 3);
}

// The cost model sees the same forward: 3 rows of prefill on 3, contexts 3 and max(3, 10), three sampled rows.
TEST(RowTable, work_of_counts_what_is_laid_out) {
  const std::vector<std::int32_t> tokens{1, 2}, blocks{0, 1, 2};
  ForwardInput input;
  PrefillRows span;
  span.tokens = tokens;
  span.context = 3;
  span.blocks = blocks;
  span.padding = 1;
  span.emits = true;
  input.prefill.push_back(span);
  DecodeRow decode;
  decode.context = 2;
  input.decode.push_back(decode);
  decode.dead = true;
  decode.context = 3;
  decode.charged = 10;
  input.decode.push_back(decode);
  std::vector<model::PrefillSpan> spans;
  const model::ForwardWork work = work_of(input, 8, spans);
  ASSERT_EQ(work.prefill.size(), 1U);
  EXPECT_EQ(work.prefill[0].new_tokens, 3);
  EXPECT_EQ(work.prefill[0].context, 3);
  EXPECT_EQ(work.decode_rows, 2);
  EXPECT_EQ(work.decode_context, 13);
  EXPECT_EQ(work.decode_context_windowed, 11);
  EXPECT_EQ(work.sampled, 3);
}

TEST(RowTable, all_logits_samples_every_row_but_padding) {
  const std::vector<std::int32_t> tokens{1, 2, 3}, blocks{0};
  ForwardInput input;
  input.all_logits = true;
  PrefillRows span;
  span.tokens = tokens;
  span.blocks = blocks;
  span.padding = 2;
  span.emits = true;
  span.slot = 1;
  input.prefill.push_back(span);
  RowTable table;
  lay_out(input, 4, table);
  EXPECT_THAT(table.sampled, ElementsAre(0, 1, 2));
  EXPECT_THAT(table.sample_slot, ElementsAre(-1, -1, 1));
}

}  // namespace
}  // namespace plimsoll::exec
