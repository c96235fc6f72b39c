// SPDX-License-Identifier: Apache-2.0
// The whole model on the CPU: every family, TP degree, chunk size and block size gives the results of the reference.
#include "exec/engine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "model/error.h"
#include "model/memory_plan.h"
#include "model/tp_layout.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"

namespace plimsoll::exec {
namespace {

// f32 rounds to 6e-8; a few hundred terms and a dozen ops add up to about 1e-6 of the norm.
constexpr double kF32 = 1e-5;
// bf16 weights are rounded to 2^-9 = 2e-3 each, independently, so errors partly average out in long sums.
constexpr double kBf16 = 1e-2;

std::vector<Tokens> prompts_of(const model::Architecture& a) {
  return {random_tokens(1, 19, a.shape.vocab), random_tokens(2, 1, a.shape.vocab), random_tokens(3, 33, a.shape.vocab)};
}

double relative_l2(const std::vector<float>& got, const Eigen::MatrixXd& expected) {
  double difference = 0;
  for (Eigen::Index i = 0; i < expected.rows(); ++i)
    for (Eigen::Index j = 0; j < expected.cols(); ++j)
      difference +=
          std::pow(static_cast<double>(got[static_cast<std::size_t>(i * expected.cols() + j)]) - expected(i, j), 2);
  return std::sqrt(difference) / expected.norm();
}

double relative_l2(const std::vector<float>& got, const std::vector<float>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return got.size() == expected.size() ? std::sqrt(difference / norm) : INFINITY;
}

class Family : public ::testing::TestWithParam<std::string> {
 protected:
  model::Architecture architecture = tiny_model(GetParam());
  std::unique_ptr<WeightSource> weights = random_weights(architecture, 5);
  std::vector<Tokens> prompts = prompts_of(architecture);

  std::vector<std::vector<float>> logits(const EngineConfig& config, std::int64_t chunk = 0) {
    Engine engine(config, *weights);
    return Sequences(engine).prefill(prompts, chunk);
  }
};

TEST_P(Family, computes_the_reference_at_every_tp_degree) {
  for (const std::int32_t tp : {1, 2, 4}) {
    if (tp > 1 && model::has_wide_qk_norm(architecture.shape)) continue;
    const auto got = logits(tiny_config(architecture, tp));
    for (std::size_t i = 0; i < prompts.size(); ++i)
      EXPECT_LT(relative_l2(got[i], reference_logits(architecture, *weights, prompts[i])), kF32)
          << "tp " << tp << ", prompt " << i;
  }
}

TEST_P(Family, whole_chunked_and_single_token_prefill_agree) {
  const auto whole = logits(tiny_config(architecture));
  for (const std::int64_t chunk : {1, 5, 16}) {
    const auto got = logits(tiny_config(architecture), chunk);
    for (std::size_t i = 0; i < prompts.size(); ++i)
      EXPECT_LT(relative_l2(got[i], whole[i]), kF32) << "chunk " << chunk;
  }
}

TEST_P(Family, block_size_does_not_change_a_bit) {
  const auto expected = logits(tiny_config(architecture), 8);
  for (const std::int32_t block : {1, 4, 512}) {  // 512: a contiguous reservation of max_len
    EngineConfig config = tiny_config(architecture);
    config.block_tokens = block;
    config.kv_blocks = block == 512 ? 8 : 1024 / block;
    EXPECT_EQ(logits(config, 8), expected) << "block " << block;
  }
}

TEST_P(Family, a_request_alone_and_in_a_batch_agree) {
  const auto together = logits(tiny_config(architecture));
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Engine engine(tiny_config(architecture), *weights);
    const auto alone = Sequences(engine).prefill({prompts[i]});
    EXPECT_LT(relative_l2(alone[0], together[i]), kF32);
  }
}

TEST_P(Family, decoding_continues_the_prompt_greedily) {
  Engine engine(tiny_config(architecture), *weights);
  Sequences sequences(engine);
  (void)sequences.prefill(prompts);
  expect_greedy(architecture, *weights, prompts, sequences.decode(6));
}

TEST_P(Family, bf16_stays_near_f32) {
  EngineConfig config = tiny_config(architecture);
  config.weight_dtype = config.kv_dtype = model::DType::bf16;
  const auto got = logits(config);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    EXPECT_LT(relative_l2(got[i], reference_logits(architecture, *weights, prompts[i])), kBf16);
}

INSTANTIATE_TEST_SUITE_P(Tiny, Family, ::testing::ValuesIn(tiny_families()),
                         [](const auto& family) { return family.param; });

TEST(Engine, refuses_to_split_norms_over_all_heads) {
  const model::Architecture a = tiny_model("olmo2");
  const auto weights = random_weights(a, 5);
  try {
    Engine engine(tiny_config(a, 2), *weights);
    FAIL() << "no rank sees the queries of all heads";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "tiny-olmo2: its norms cover the queries of all heads, so it is executed with tp 1, found 2");
  }
}

TEST(Engine, refuses_impossible_tp_degrees_by_name) {
  const model::Architecture a = tiny_model("llama");
  const auto weights = random_weights(a, 1);
  try {
    Engine engine(tiny_config(a, 3), *weights);
    FAIL() << "4 heads do not divide by 3";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "tiny-llama: 4 attention heads do not divide by tp 3");
  }
}

TEST(Engine, says_how_much_memory_is_missing_before_it_loads) {
  model::Architecture a = tiny_model("llama");
  a.shape.layers = 1 << 22;  // 4 Mi layers of 190 KB: 800 GB
  const auto weights = random_weights(a, 1);
  EXPECT_THROW(Engine(tiny_config(a), *weights), DeviceError);
}

TEST(Engine, padding_and_dead_rows_change_nobody_elses_result) {
  const model::Architecture a = tiny_model("mistral");
  const auto weights = random_weights(a, 5);
  const Tokens prompt = random_tokens(1, 9, a.shape.vocab);
  const auto run = [&](bool padded) {
    Engine engine(tiny_config(a), *weights);
    const std::vector<std::int32_t> blocks{3, 9}, other{1};
    ForwardInput input;
    PrefillRows span;
    span.tokens = prompt;
    span.blocks = blocks;
    span.emits = true;
    span.padding = padded ? 7 : 0;
    input.prefill.push_back(span);
    ForwardOutput output;
    Tokens tokens;
    engine.run(input, output);
    tokens.push_back(output.tokens.at(0));
    for (std::int64_t step = 0; step < 4; ++step) {
      ForwardInput decode;
      DecodeRow row;
      row.context = 9 + step;
      row.blocks = blocks;
      row.charged = padded ? 40 + step : 0;
      decode.decode.push_back(row);
      DecodeRow dead;
      dead.dead = true;
      dead.context = 4;
      dead.blocks = other;
      dead.slot = 1;
      dead.charged = 40 + step;
      if (padded) decode.decode.push_back(dead);
      engine.run(decode, output);
      tokens.push_back(output.tokens.at(0));
    }
    return tokens;
  };
  EXPECT_EQ(run(true), run(false));
}

}  // namespace
}  // namespace plimsoll::exec
