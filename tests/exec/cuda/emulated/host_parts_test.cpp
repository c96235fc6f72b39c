// SPDX-License-Identifier: Apache-2.0
// Tests the parts of the CUDA backend that run on the host, or on host and device.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "exec/cuda/bf16.h"
#include "exec/cuda/gemm.h"
#include "exec/cuda/kernels.h"
#include "exec/cuda/sample_order.h"
#include "exec/cuda/split_plan.h"
#include "exec/cuda/step.h"

namespace plimsoll::exec::cuda {
namespace {

// ---- bf16
// --------------------------------------------------------------------------------------------------------------

TEST(Bf16, rounds_to_nearest_with_ties_to_even) {
  EXPECT_EQ(bf16_bits(1.0F), 0x3f80);
  EXPECT_EQ(bf16_bits(1.0F + 0x1p-8F), 0x3f80);  // halfway between 1 and 1 + 2^-7: rounds to 1, which is even
  EXPECT_EQ(bf16_bits(1.0F + 0x1p-8F + 0x1p-20F), 0x3f81);
  EXPECT_EQ(bf16_bits(1.0F + 3 * 0x1p-8F), 0x3f82);  // halfway: rounds to 1 + 2^-6, which is even
  EXPECT_EQ(bf16_bits(-2.0F), 0xc000);
  EXPECT_EQ(bf16_bits(std::numeric_limits<float>::infinity()), 0x7f80);
  EXPECT_EQ(bf16_bits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bf16_bits(std::nanf("")), 0x7fff);
}

RC_GTEST_PROP(Bf16, is_its_own_rounding, ()) {
  const auto bits = *rc::gen::arbitrary<std::uint16_t>();
  const float value = to_float(Bf16{bits});
  RC_PRE(value == value);
  RC_ASSERT(bf16_bits(value) == bits);
}

// ---- the order of samples
// --------------------------------------------------------------------------------------------

RC_GTEST_PROP(SampleOrder, is_that_of_the_values_and_then_of_the_lower_token, ()) {
  const auto draw = [] { return static_cast<float>(*rc::gen::inRange(-4, 5)) / 2; };
  const float a = draw(), b = draw();
  const auto i = *rc::gen::inRange(0, 200'000), j = *rc::gen::inRange(0, 200'000);
  const bool first = a > b || (a == b && i < j);
  RC_ASSERT((ordered(a, i) > ordered(b, j)) == first);
  RC_ASSERT(token_of(ordered(a, i)) == i);
}

TEST(SampleOrder, infinities_and_nans_have_a_place) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_GT(ordered(infinity, 9), ordered(3e38F, 0));
  EXPECT_GT(ordered(-3e38F, 9), ordered(-infinity, 0));
  EXPECT_GT(ordered(-infinity, 9), ordered(std::nanf(""), 0));
  EXPECT_GT(ordered(std::nanf(""), 9), 0U);  // still better than no token
  EXPECT_EQ(ordered(-0.0F, 3), ordered(0.0F, 3));
}

// ---- keys and their parts
// ---------------------------------------------------------------------------------------------

TEST(DecodeKeys, windows_end_at_the_newest_token) {
  const KeyRange all = decode_keys(100, 0, 0), last = decode_keys(100, 0, 30), few = decode_keys(10, 0, 30);
  EXPECT_EQ(all.first, 0);
  EXPECT_EQ(all.last, 100);
  EXPECT_EQ(last.first, 70);  // (p - window, p] of p = 99
  EXPECT_EQ(last.last, 100);
  EXPECT_EQ(few.first, 0);
}

TEST(DecodeKeys, charged_keys_are_loaded_and_not_seen) {
  const KeyRange padded = decode_keys(10, 64, 0), windowed = decode_keys(100, 64, 30), nothing = decode_keys(0, 64, 0);
  EXPECT_EQ(padded.seen, 10);
  EXPECT_EQ(padded.last, 64);
  EXPECT_EQ(windowed.last - windowed.first, 30);  // a window is never exceeded
  EXPECT_EQ(nothing.last, 0);                     // the sequence has no key that could be loaded instead
}

RC_GTEST_PROP(SplitPlan, parts_cover_every_tile_once, ()) {
  const auto keys = *rc::gen::inRange(0, 5000), most = *rc::gen::inRange(1, 65), smallest = *rc::gen::inRange(1, 4);
  const SplitPlan plan = plan_splits(keys, 64, smallest, most);
  RC_ASSERT(plan.tiles == (keys + 63) / 64);
  RC_ASSERT(plan.parts >= 1 && plan.parts <= most);
  int covered = 0;
  for (int part = 0; part < plan.parts; ++part) {
    const int first = part * plan.tiles_each, last = std::min(first + plan.tiles_each, plan.tiles);
    RC_ASSERT(first == covered);
    RC_ASSERT(last > first || keys == 0);
    covered = last;
  }
  RC_ASSERT(covered == plan.tiles);
}

// Two blocks for each of 132 multiprocessors.
TEST(DecodePlan, has_parts_for_all_multiprocessors) {
  EXPECT_EQ(decode_extra_parts(32, 8, 132), 33);  // 264 / 8 tiles
  EXPECT_EQ(decode_extra_parts(71, 1, 132), 52);  // 71 queries are five tiles of 16
  EXPECT_EQ(decode_counters(3, 71, 1), 15);
}

RowTable decode_table(const std::vector<std::int64_t>& keys) {
  RowTable table;
  for (const std::int64_t k : keys)
    table.decode.push_back({.rows = 1, .tokens = 1, .context = k - 1, .block_count = k / 16 + 1});
  return table;
}

TEST(DecodePlan, divides_the_long_sequence_among_short_ones) {
  std::vector<std::int64_t> keys(64, 500);
  keys[7] = 30'000;
  const DecodePlan plan = plan_decodes(decode_table(keys), 33, 128);
  // 61 500 keys in 33 parts are 1864 each: 17 of the long one, and one of each short one.
  EXPECT_EQ(plan.splits[7], 17);
  EXPECT_EQ(std::count(plan.splits.begin(), plan.splits.end(), 1), 63);
  EXPECT_EQ(plan.parts.size(), 64U + 33);
  EXPECT_EQ(plan.parts.front().sequence, 7);  // the longest parts start first
  EXPECT_EQ(plan.parts[64 + 16 - 1].part, 0);
  EXPECT_EQ(plan.parts[64 + 16].sequence, -1);
}

TEST(DecodePlan, leaves_equal_sequences_whole_that_fill_the_gpu) {
  const DecodePlan many = plan_decodes(decode_table(std::vector<std::int64_t>(64, 1024)), 33, 128);
  EXPECT_EQ(std::count(many.splits.begin(), many.splits.end(), 1), 64);
  // A single one is cut into the smallest parts: 1024 / 128.
  EXPECT_EQ(plan_decodes(decode_table({1024}), 33, 128).splits[0], 8);
}

RC_GTEST_PROP(DecodePlan, keeps_within_its_list_and_its_scratch, ()) {
  const auto keys = *rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(
      rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 600), rc::gen::inRange<std::int64_t>(1, 200'000))));
  const auto extra = *rc::gen::inRange<std::int64_t>(0, 300), smallest = *rc::gen::element<std::int64_t>(64, 128);
  const DecodePlan plan = plan_decodes(decode_table(keys), extra, smallest);
  RC_ASSERT(plan.parts.size() == keys.size() + static_cast<std::size_t>(extra));
  std::set<std::pair<int, int>> listed;
  for (const DecodePart& part : plan.parts)
    if (part.sequence >= 0) listed.insert({part.sequence, part.part});
  std::int32_t used = 0;
  std::size_t parts = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    RC_ASSERT(plan.splits[i] >= 1 && plan.splits[i] <= kMaxDecodeParts);
    RC_ASSERT(plan.first[i] == used);
    if (plan.splits[i] > 1) used += plan.splits[i];
    parts += static_cast<std::size_t>(plan.splits[i]);
    for (int part = 0; part < plan.splits[i]; ++part) RC_ASSERT(listed.count({static_cast<int>(i), part}) == 1U);
  }
  RC_ASSERT(listed.size() == parts);  // each part once
  RC_ASSERT(used <= 2 * extra);
}

// ---- steps
// -------------------------------------------------------------------------------------------------------------

RowTable table_of(std::size_t decodes, std::int64_t context) {
  static std::vector<std::int32_t> blocks(64);
  ForwardInput input;
  for (std::size_t i = 0; i < decodes; ++i) {
    DecodeRow row;
    row.token = static_cast<std::int32_t>(i);
    row.context = context;
    row.blocks = std::span(blocks).first(static_cast<std::size_t>(context / 16 + 1));
    row.slot = static_cast<std::int32_t>(i);
    row.request = 100 + i;
    input.decode.push_back(row);
  }
  RowTable table;
  lay_out(input, 16, table);
  return table;
}

TEST(Step, arrays_of_a_bucket_stand_at_the_same_places_whatever_the_contexts) {
  const auto offsets = [](const RowTable& table) {
    const StepView v = layout_of(table, {}).view(reinterpret_cast<const void*>(4096));
    return std::tuple(v.sampling, v.cache_slot, v.sample_request, v.decode, v.token, v.token_slot, v.position,
                      v.sampled, v.sample_slot, v.sample_position, v.blocks);
  };
  EXPECT_EQ(offsets(table_of(8, 3)), offsets(table_of(8, 900)));
  EXPECT_NE(offsets(table_of(8, 3)), offsets(table_of(9, 3)));
}

TEST(Step, what_is_packed_can_be_read_back) {
  RowTable table = table_of(3, 40);
  table.sampling[1] = {.temperature = 0.5F, .seed = 7, .top_k = 3, .top_p = 0.25F, .min_p = 0.125F};
  const StepLayout layout = layout_of(table, {});
  std::vector<std::uint64_t> memory(layout.bytes() / 8 + 1);
  pack(table, {}, layout, memory.data());
  const StepView view = layout.view(memory.data());
  EXPECT_EQ(view.sampling[0].temperature, 0);
  EXPECT_EQ(view.sampling[1].seed, 7U);
  EXPECT_EQ(view.sampling[1].temperature, 0.5F);
  EXPECT_EQ(view.sampling[1].top_k, 3);
  EXPECT_EQ(view.sampling[1].top_p, 0.25F);
  EXPECT_EQ(view.sampling[1].min_p, 0.125F);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(view.token[i], static_cast<std::int32_t>(i));
    EXPECT_EQ(view.position[i], 40);
    EXPECT_EQ(view.sample_request[i], 100 + i);
    EXPECT_EQ(view.sample_position[i], 41);
    EXPECT_EQ(view.decode[i].length, 41);
    EXPECT_EQ(view.decode[i].first_block, static_cast<std::int32_t>(3 * i));
    EXPECT_EQ(view.cache_slot[i], table.cache_slot[i]);
  }
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.decode) % 16, reinterpret_cast<std::uintptr_t>(memory.data()) % 16);
}

TEST(Step, dead_rows_attend_to_no_more_than_their_blocks_hold) {
  ForwardInput input;
  DecodeRow row;
  const std::vector<std::int32_t> blocks{5};
  row.dead = true;
  row.context = 100;
  row.blocks = blocks;
  input.decode.push_back(row);
  RowTable table;
  lay_out(input, 16, table);
  const StepLayout layout = layout_of(table, {});
  std::vector<std::uint64_t> memory(layout.bytes() / 8 + 1);
  pack(table, {}, layout, memory.data());
  EXPECT_EQ(layout.view(memory.data()).decode[0].length, 16);
}

TEST(Step, tiles_with_most_keys_come_first) {
  std::vector<std::int32_t> tokens(300), blocks(64);
  ForwardInput input;
  for (const auto& [count, context] : {std::pair<std::size_t, std::int64_t>{300, 0}, {10, 200}}) {
    PrefillRows span;
    span.tokens = std::span(tokens).first(count);
    span.context = context;
    span.blocks = blocks;
    input.prefill.push_back(span);
  }
  RowTable table;
  lay_out(input, 16, table);
  const auto tiles = cut_tiles(table, 128);
  ASSERT_EQ(tiles.size(), 4U);                                                          // 128 + 128 + 44 rows, and 10
  const std::vector<std::pair<int, int>> expected{{0, 256}, {0, 128}, {1, 0}, {0, 0}};  // 300, 256, 210, 128 keys
  for (std::size_t i = 0; i < tiles.size(); ++i) EXPECT_EQ(std::pair(tiles[i].sequence, tiles[i].first), expected[i]);
}

TEST(Buckets, grow_by_ones_then_eights_then_sixty_fours) {
  const std::pair<std::int64_t, std::int64_t> expected[] = {{1, 1},   {2, 2},     {3, 4},     {5, 8},    {9, 16},
                                                            {17, 24}, {121, 128}, {129, 192}, {193, 256}};
  for (const auto& [rows, bucket] : expected) EXPECT_EQ(decode_bucket(rows), bucket) << rows;
  EXPECT_EQ(gemm_bucket(77), 80);
  EXPECT_EQ(gemm_bucket(513), 640);  // quarters of 512
  EXPECT_EQ(gemm_bucket(2048), 2048);
  EXPECT_EQ(gemm_bucket(2049), 2560);
}

// ---- the memory of products
// ----------------------------------------------------------------------------------------------

class GemmFile : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("plimsoll_gemm_file_" + std::to_string(::getpid()));
  const std::filesystem::path file = folder / "some" / "gpu.txt";

  static GemmKey key(std::int64_t n) {
    return {{.x = Element::bf16, .y = Element::f32, .m = 8, .n = n, .k = 64, .bias = true, .accumulate = false}};
  }
};

TEST_F(GemmFile, gives_back_what_was_saved_and_adds_to_it) {
  save_choices(file,
               {{key(1), std::nullopt}, {key(2), MatmulAlgorithm{1, 2, 3, 4, 5, 6, 7, 18'446'744'073'709'551'615U}}});
  save_choices(file, {{key(3), std::nullopt}});
  const GemmChoices choices = load_choices(file);
  ASSERT_EQ(choices.size(), 3U);
  EXPECT_FALSE(choices.at(key(1)).has_value());
  EXPECT_EQ(choices.at(key(2)).value()[7], 18'446'744'073'709'551'615U);
}

TEST_F(GemmFile, ignores_what_it_does_not_understand) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file)
      << "plimsoll gemm 1\n1 0 5 64 8 1 0 0\n1 0 5 64 8 1 0 1 1 2\nnonsense\n7 0 5 64 8 1 0 0\n1 0 -5 64 8 1 0 0\n";
  EXPECT_EQ(load_choices(file).size(), 1U);
  std::ofstream(file) << "another format\n1 0 5 64 8 1 0 0\n";
  EXPECT_TRUE(load_choices(file).empty());
  EXPECT_TRUE(load_choices(folder / "missing").empty());
}

TEST_F(GemmFile, has_a_name_that_any_file_system_takes) {
  ::setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(gemm_file("NVIDIA H200/driver 13.0"), "/somewhere/plimsoll/gemm/NVIDIA-H200-driver-13-0.txt");
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace plimsoll::exec::cuda
