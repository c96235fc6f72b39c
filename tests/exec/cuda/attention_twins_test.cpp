// SPDX-License-Identifier: Apache-2.0
// Rotation, the KV cache and attention: compares CPU and CUDA, for every kernel and for shapes at their limits.
#include <algorithm>
#include <numeric>
#include <random>

#include "exec/backend.h"
#include "tests/exec/cuda/gpu.h"
#include "tests/exec/cuda/twins.h"
#include "tests/exec/sequences.h"

namespace plimsoll::exec {
namespace {

using model::DType;

struct AttentionCase {
  std::string name;
  DType weights = DType::bf16, kv = DType::bf16;
  std::int32_t head_dim = 64, heads = 4, kv_heads = 2, block_tokens = 16;
  std::int64_t window = 0;
  std::size_t longest = 150;  // tokens of the first sequence
  double cap = 0;
  bool sinks = false;
};

std::ostream& operator<<(std::ostream& out, const AttentionCase& c) { return out << c.name; }

// Scores have a standard deviation of about 2, so that a wrong or missing key is visible. bf16 queries and keys change
// scores by 2 * 2^-8, and the weights by as much; an f32 score changes by 1e-6.
double tolerance(const AttentionCase& c) { return c.weights == DType::fp32 && c.kv == DType::fp32 ? 2e-5 : 4e-2; }

BackendConfig config_of(const AttentionCase& c) {
  BackendConfig config = twin_config(c.weights, c.kv);
  model::LlmShape& shape = config.architecture.shape;
  shape.heads = c.heads;
  shape.kv_heads = c.kv_heads;
  shape.head_dim = config.architecture.rope.rotary_dim = c.head_dim;
  config.architecture.attention_cap = c.cap;
  config.rank.heads = c.heads;
  config.rank.kv_heads = c.kv_heads;
  config.rank.vocab_rows = std::int64_t{c.heads} * c.head_dim;
  config.block_tokens = c.block_tokens;
  config.kv_blocks = 2048 / c.block_tokens;
  return config;
}

class AttentionTwins : public ::testing::TestWithParam<AttentionCase> {
 protected:
  void SetUp() override {
    PLIMSOLL_NEEDS_GPU();
    const AttentionCase& c = GetParam();
    const BackendConfig config = config_of(c);
    twins = std::make_unique<Twins>(config);
    const std::int64_t width = (c.heads + 2 * c.kv_heads) * c.head_dim;
    embedding = twins->add_linear(64, 64, 1);
    qkv = twins->add_linear(width, 64, 1.5 / 8);  // 1.5 / sqrt(hidden): q and k have deviation 1.5
    weight = twins->add_vector(64, 1, 0);
    sinks = twins->add_vector(c.heads, 2, 1);  // about as large as the scores
    free.resize(static_cast<std::size_t>(config.kv_blocks));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), std::mt19937_64(7));
  }

  std::vector<std::int32_t> take_blocks(std::size_t tokens) {
    const auto size = static_cast<std::size_t>(GetParam().block_tokens);
    std::vector<std::int32_t> blocks;
    for (std::size_t i = 0; i < (tokens + size - 1) / size; ++i) {
      blocks.push_back(free.back());
      free.pop_back();
    }
    return blocks;
  }

  double attend(ForwardInput input, std::int32_t layer = 1) {
    const AttentionCase& c = GetParam();
    for (std::size_t i = 0; i < input.decode.size(); ++i) input.decode[i].slot = static_cast<std::int32_t>(i);
    return worst_row(twins->run(
        input,
        [&](Twin& side) {
          side->embed(side.linear(embedding), 0, nullptr);
          side->norm({.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr},
                     false);
          std::int64_t rows = static_cast<std::int64_t>(input.decode.size());
          for (const PrefillRows& span : input.prefill)
            rows += static_cast<std::int64_t>(span.tokens.size()) + span.padding;
          side->linear(side.linear(qkv), Buffer::normed, Buffer::qkv, rows, {});
          RopeSpec rope;
          rope.rope.rotary_dim = c.head_dim;
          side->rope_append(rope, layer);
          const AttentionSpec spec{.layer = layer, .window = c.window, .sinks = c.sinks ? side.vector(sinks) : nullptr};
          for (std::size_t i = 0; i < input.prefill.size(); ++i) side->prefill_attention(spec, i);
          if (!input.decode.empty()) side->decode_attention(spec);
        },
        Buffer::attended, std::int64_t{c.heads} * c.head_dim));
  }

  static PrefillRows prefill(const Tokens& tokens, std::int64_t context, const std::vector<std::int32_t>& blocks) {
    PrefillRows span;
    span.tokens = tokens;
    span.context = context;
    span.blocks = blocks;
    return span;
  }
  static DecodeRow decode(std::int64_t context, const std::vector<std::int32_t>& blocks) {
    DecodeRow row;
    row.token = 5;
    row.context = context;
    row.blocks = blocks;
    return row;
  }

  std::unique_ptr<Twins> twins;
  std::size_t embedding = 0, qkv = 0, weight = 0, sinks = 0;
  std::vector<std::int32_t> free;
};

// A long prompt, a single token and a medium prompt; then decodes together with a chunk that follows cached tokens.
TEST_P(AttentionTwins, agree_on_prompts_chunks_and_decodes) {
  // Where the longest is decoded in parts, the medium one is as well.
  const std::size_t longest = GetParam().longest, medium = longest >= 500 ? longest / 2 : 37;
  const Tokens a = random_tokens(1, longest, 64), b = random_tokens(2, 1, 64), c = random_tokens(3, medium, 64),
               more = random_tokens(4, 30, 64);
  const auto of_a = take_blocks(longest + 2), of_b = take_blocks(40), of_c = take_blocks(medium + 3);
  ForwardInput first;
  first.prefill = {prefill(a, 0, of_a), prefill(b, 0, of_b), prefill(c, 0, of_c)};
  EXPECT_LT(attend(first), tolerance(GetParam()));

  ForwardInput second;
  second.prefill = {prefill(more, 1, of_b)};
  second.decode = {decode(static_cast<std::int64_t>(longest), of_a), decode(static_cast<std::int64_t>(medium), of_c)};
  EXPECT_LT(attend(second), tolerance(GetParam()));

  ForwardInput third;
  // The long sequence is first again, so a split sequence uses its counter a second time. The other one is
  // charged for keys that it does not have.
  third.decode = {decode(static_cast<std::int64_t>(longest) + 1, of_a), decode(31, of_b)};
  third.decode[1].charged = 71;
  EXPECT_LT(attend(third), tolerance(GetParam()));
}

// The slow path is never taken without a note.
TEST_P(AttentionTwins, say_what_runs_without_tensor_cores) {
  const AttentionCase& c = GetParam();
  const std::string note = twins->cuda()->note();
  if (c.head_dim == 40) {
    EXPECT_EQ(note,
              "attention with heads of 40 runs without tensor cores, so it is much slower than with heads of 64, 80, "
              "96, 112, 128, 160, 192, 256");
  } else {
    EXPECT_EQ(note.empty(), c.weights == DType::bf16 && c.kv == DType::bf16) << note;
  }
  EXPECT_TRUE(twins->cpu()->note().empty());
}

std::vector<AttentionCase> cases() {
  std::vector<AttentionCase> list;
  for (const std::int32_t d : {64, 80, 96, 112, 128})
    list.push_back({.name = "tensor_cores_" + std::to_string(d), .head_dim = d});
  for (const std::int32_t d : {160, 192})
    list.push_back(
        {.name = "tensor_cores_" + std::to_string(d), .head_dim = d, .heads = 2, .kv_heads = 1, .longest = 90});
  list.push_back({.name = "tensor_cores_256", .head_dim = 256, .heads = 2, .kv_heads = 1, .longest = 90});
  list.push_back({.name = "long_context_in_parts", .head_dim = 64, .heads = 2, .kv_heads = 1, .longest = 700});
  list.push_back(
      {.name = "long_window_in_parts", .head_dim = 64, .heads = 2, .kv_heads = 1, .window = 300, .longest = 500});
  // So many heads fill the emulated GPU without parts, and then a warp has 3 tiles of keys: it refills its two stages.
  list.push_back({.name = "more_tiles_than_stages", .head_dim = 64, .heads = 9, .kv_heads = 9, .longest = 130});
  list.push_back({.name = "window", .head_dim = 64, .window = 50});
  list.push_back(
      {.name = "window_of_wide_heads", .head_dim = 256, .heads = 2, .kv_heads = 2, .window = 9, .longest = 90});
  list.push_back({.name = "one_kv_head_for_twenty", .head_dim = 64, .heads = 20, .kv_heads = 1, .longest = 20});
  list.push_back({.name = "seven_queries_a_head", .head_dim = 64, .heads = 14, .kv_heads = 2, .longest = 20});
  list.push_back({.name = "blocks_of_one", .head_dim = 64, .block_tokens = 1});
  list.push_back({.name = "blocks_of_three", .head_dim = 64, .block_tokens = 3});
  list.push_back({.name = "contiguous", .head_dim = 128, .block_tokens = 256});
  list.push_back({.name = "plain_bf16", .head_dim = 40});
  list.push_back({.name = "plain_f32", .weights = DType::fp32, .kv = DType::fp32, .head_dim = 64});
  list.push_back({.name = "plain_f32_window", .weights = DType::fp32, .kv = DType::fp32, .head_dim = 24, .window = 17});
  list.push_back({.name = "plain_f32_kv_bf16",
                  .weights = DType::fp32,
                  .kv = DType::bf16,
                  .head_dim = 256,
                  .heads = 2,
                  .kv_heads = 1});
  list.push_back({.name = "plain_bf16_kv_f32",
                  .weights = DType::bf16,
                  .kv = DType::fp32,
                  .head_dim = 128,
                  .heads = 2,
                  .kv_heads = 1});
  list.push_back({.name = "caps_and_sinks", .head_dim = 64, .heads = 6, .cap = 2, .sinks = true});
  list.push_back({.name = "caps_and_sinks_in_parts",
                  .head_dim = 64,
                  .heads = 2,
                  .kv_heads = 1,
                  .longest = 700,
                  .cap = 2,
                  .sinks = true});
  list.push_back({.name = "plain_caps_and_sinks",
                  .weights = DType::fp32,
                  .kv = DType::fp32,
                  .head_dim = 24,
                  .window = 17,
                  .cap = 2,
                  .sinks = true});
  return list;
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionTwins, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace plimsoll::exec
