// SPDX-License-Identifier: Apache-2.0
// Every op except attention: compares CPU and CUDA.
#include <algorithm>
#include <numeric>

#include "exec/backend.h"
#include "tests/exec/cuda/gpu.h"
#include "tests/exec/cuda/twins.h"
#include "tests/exec/sequences.h"

namespace plimsoll::exec {
namespace {

using model::DType;

// f32 differs in the order of sums. bf16 rounds inputs, intermediate values and outputs to 2^-9 each, which partly
// averages out.
double tolerance(DType dtype) { return dtype == DType::fp32 ? 1e-5 : 1.5e-2; }

class OpTwins : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_GPU(); }

  [[nodiscard]] BackendConfig config(std::int32_t hidden, std::int64_t widest) const {
    BackendConfig c = twin_config(GetParam(), GetParam());
    c.architecture.shape.hidden = hidden;
    c.rank.vocab_rows = widest;
    return c;
  }

  // One sequence of `count` rows.
  ForwardInput rows(std::size_t count, std::int32_t vocab = 64) {
    tokens_ = random_tokens(3, count, vocab);
    blocks_.resize(count / 16 + 1);
    std::iota(blocks_.begin(), blocks_.end(), 0);
    PrefillRows span;
    span.tokens = tokens_;
    span.blocks = blocks_;
    ForwardInput input;
    input.prefill.push_back(span);
    return input;
  }

  Tokens tokens_;
  std::vector<std::int32_t> blocks_;
};

// Sizes: one unit of 16 bytes per thread and several, also not a multiple of a warp.
TEST_P(OpTwins, norms_agree_for_every_width_and_kind) {
  for (const std::int32_t hidden : {64, 4544, 8192}) {
    for (const model::Norm kind : {model::Norm::rmsnorm, model::Norm::layernorm}) {
      Twins twins(config(hidden, 64));
      const std::size_t table = twins.add_linear(64, hidden, 2), weight = twins.add_vector(hidden, 1, 0.3),
                        bias = twins.add_vector(hidden, 0, 0.5);
      const TwinOutputs out = twins.run(
          rows(3),
          [&](Twin& side) {
            side->embed(side.linear(table), 0, nullptr);
            side->norm({.kind = kind,
                        .epsilon = 1e-5F,
                        .weight = side.vector(weight),
                        .bias = kind == model::Norm::layernorm ? side.vector(bias) : nullptr},
                       false);
          },
          Buffer::normed, hidden);
      EXPECT_LT(worst_row(out), tolerance(GetParam())) << hidden;
    }
  }
}

TEST_P(OpTwins, norms_add_delta_first_and_keep_the_sum) {
  Twins twins(config(64, 64));
  const std::size_t table = twins.add_linear(64, 64, 2), weight = twins.add_vector(64, 1, 0.3),
                    matrix = twins.add_linear(64, 64, 0.3);
  const auto ops = [&](Twin& side) {
    side->embed(side.linear(table), 0, nullptr);
    const NormSpec spec{.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr};
    side->norm(spec, false);
    side->linear(side.linear(matrix), Buffer::normed, Buffer::delta, 9, {});
    side->norm(spec, true);
  };
  EXPECT_LT(worst_row(twins.run(rows(9), ops, Buffer::normed, 64)), tolerance(GetParam()));
  EXPECT_LT(worst_row(twins.run(rows(9), ops, Buffer::residual, 64)), tolerance(GetParam()));
}

TEST_P(OpTwins, the_final_norm_gathers_the_sampled_rows) {
  Twins twins(config(64, 64));
  const std::size_t table = twins.add_linear(64, 64, 2), weight = twins.add_vector(64, 1, 0.3);
  ForwardInput input = rows(5);
  input.prefill[0].padding = 2;  // rows that are not sampled
  const Tokens other = random_tokens(8, 4, 64);
  const std::vector<std::int32_t> blocks{9};
  input.prefill.push_back(input.prefill[0]);
  input.prefill[1].tokens = other;
  input.prefill[1].blocks = blocks;
  const TwinOutputs out = twins.run(
      input,
      [&](Twin& side) {
        side->embed(side.linear(table), 0, nullptr);
        side->final_norm(
            {.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr}, false);
      },
      Buffer::normed, 64);
  EXPECT_EQ(out.cpu.size(), 9U * 64);
  EXPECT_LT(worst_row(out), tolerance(GetParam()));
}

TEST_P(OpTwins, embedding_covers_a_part_of_the_vocabulary_and_adds_positions) {
  Twins twins(config(72, 72));
  const std::size_t table = twins.add_linear(40, 72, 2), positions = twins.add_linear(16, 72, 1);
  const TwinOutputs out = twins.run(
      rows(12),
      [&](Twin& side) {
        side->embed(side.linear(table), 20, &side.linear(positions));  // tokens 20 to 59 of 64
      },
      Buffer::residual, 72);
  EXPECT_LT(worst_row(out), tolerance(GetParam()));
}

// Row counts around 8, the most that the kernel for few rows takes; n and k are not multiples of anything.
TEST_P(OpTwins, products_agree_for_every_number_of_rows) {
  Twins twins(config(64, 330));
  const std::size_t table = twins.add_linear(64, 64, 1), weight = twins.add_vector(64, 1, 0);
  const std::size_t wide = twins.add_linear(330, 64, 0.125), bias = twins.add_vector(330, 0, 1);
  for (const std::size_t m : {1U, 2U, 3U, 5U, 8U, 9U, 20U}) {
    const TwinOutputs out = twins.run_logits(rows(m), [&](Twin& side) {
      side->embed(side.linear(table), 0, nullptr);
      side->norm({.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr},
                 false);
      side->linear(side.linear(wide), Buffer::normed, Buffer::logits, static_cast<std::int64_t>(m),
                   {.bias = side.vector(bias), .accumulate = false});
    });
    EXPECT_LT(worst_row(out), tolerance(GetParam())) << m;
  }
}

TEST_P(OpTwins, products_of_odd_depth_accumulate_with_a_bias) {
  BackendConfig c = config(64, 64);
  c.rank.intermediate = 45;  // 90 bytes of bf16: no row begins at a multiple of 16
  Twins twins(c);
  const std::size_t table = twins.add_linear(64, 64, 1), weight = twins.add_vector(64, 1, 0);
  const std::size_t up = twins.add_linear(90, 64, 0.125), up_bias = twins.add_vector(90, 0, 1),
                    down = twins.add_linear(64, 45, 0.2), down_bias = twins.add_vector(64, 0, 1);
  for (const std::int64_t m : {1, 6, 11}) {
    const TwinOutputs out = twins.run(
        rows(static_cast<std::size_t>(m)),
        [&](Twin& side) {
          side->embed(side.linear(table), 0, nullptr);
          side->norm({.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr},
                     false);
          side->linear(side.linear(up), Buffer::normed, Buffer::up, m,
                       {.bias = side.vector(up_bias), .accumulate = false});
          side->activation(model::Activation::silu, true, Buffer::up, Buffer::gated, m, 45);
          side->linear(side.linear(down), Buffer::gated, Buffer::delta, m, {});
          side->linear(side.linear(down), Buffer::gated, Buffer::delta, m,
                       {.bias = side.vector(down_bias), .accumulate = true});
        },
        Buffer::delta, 64);
    EXPECT_LT(worst_row(out), tolerance(GetParam())) << m;
  }
}

// Depth 4104 = 4 x 1024 + 8: several turns of the loop that loads ahead in either type, and a rest that only some lanes
// have. It is the path of every real model. 9 rows go through two launches of the kernel or through cuBLASLt.
TEST_P(OpTwins, products_of_real_depth_agree_for_every_number_of_rows) {
  constexpr std::int32_t kDepth = 4104;
  Twins twins(config(kDepth, 64));
  const std::size_t table = twins.add_linear(64, kDepth, 1), weight = twins.add_vector(kDepth, 1, 0);
  const std::size_t matrix = twins.add_linear(37, kDepth, 1.0 / 64);
  for (const std::int64_t m : {1, 2, 3, 4, 5, 8, 9}) {
    const TwinOutputs out = twins.run(
        rows(static_cast<std::size_t>(m)),
        [&](Twin& side) {
          side->embed(side.linear(table), 0, nullptr);
          side->norm({.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr},
                     false);
          side->linear(side.linear(matrix), Buffer::normed, Buffer::delta, m, {});
        },
        Buffer::delta, 37);
    EXPECT_LT(worst_row(out), tolerance(GetParam())) << m;
  }
}

// With up to 8 rows, our own kernel computes the activation from the sums that it would have written: the same bits. A
// depth of 2056 = 2 x 1024 + 8 takes its main loop and its rest. 5 columns leave a warp with less than all of its rows.
TEST_P(OpTwins, products_compute_an_activation_as_two_kernels_do) {
  constexpr std::int32_t kDepth = 2056;
  const std::pair<bool, std::int64_t> cases[] = {{true, 5}, {true, 26}, {false, 5}};
  for (const auto& [gated, width] : cases) {
    BackendConfig c = config(kDepth, 64);
    c.architecture.shape.gated_mlp = gated;
    c.rank.intermediate = width;
    Twins twins(c);
    const std::int64_t n = gated ? 2 * width : width;
    const std::size_t table = twins.add_linear(64, kDepth, 1), weight = twins.add_vector(kDepth, 1, 0);
    const std::size_t up = twins.add_linear(n, kDepth, 1.0 / 32), bias = twins.add_vector(n, 0, 1);
    for (const std::int64_t m : {1, 2, 3, 8, 9}) {
      const auto run = [&, gated = gated, width = width](bool together) {
        const auto kind = m % 2 == 0 ? model::Activation::gelu_tanh : model::Activation::silu;
        return twins.run(
            rows(static_cast<std::size_t>(m)),
            [&](Twin& side) {
              LinearOptions options{.bias = side.vector(bias)};
              if (together) options.then = {kind, gated, Buffer::gated};
              side->embed(side.linear(table), 0, nullptr);
              side->norm(
                  {.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr},
                  false);
              side->linear(side.linear(up), Buffer::normed, Buffer::up, m, options);
              if (!together) side->activation(kind, gated, Buffer::up, Buffer::gated, m, width);
            },
            Buffer::gated, width);
      };
      const TwinOutputs apart = run(false), together = run(true);
      EXPECT_EQ(together.cpu, apart.cpu) << m;
      EXPECT_EQ(together.cuda, apart.cuda) << m << " rows of " << width;
    }
  }
}

TEST_P(OpTwins, activations_agree) {
  for (const bool gated : {true, false}) {
    BackendConfig c = config(64, 64);
    c.architecture.shape.gated_mlp = gated;
    Twins twins(c);
    const std::size_t table = twins.add_linear(64, 64, 1), weight = twins.add_vector(64, 1, 0),
                      up = twins.add_linear(gated ? 128 : 64, 64, 0.25);
    using model::Activation;
    for (const Activation kind : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu}) {
      const TwinOutputs out = twins.run(
          rows(33),
          [&](Twin& side) {
            side->embed(side.linear(table), 0, nullptr);
            side->norm({.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr},
                       false);
            side->linear(side.linear(up), Buffer::normed, Buffer::up, 33, {});
            side->activation(kind, gated, Buffer::up, Buffer::gated, 33, 64);
          },
          Buffer::gated, 64);
      EXPECT_LT(worst_row(out), tolerance(GetParam())) << model::name(kind);
    }
  }
}

// 40 experts are more than a warp. 200 tokens give several tiles of rows to experts that all tokens choose. A width of
// 104 takes four turns of the second product's loop, which fills its two buffers again; with 44, rows are not aligned.
TEST_P(OpTwins, experts_agree) {
  for (const std::int32_t experts : {3, 40}) {
    for (const std::int32_t wide : {104, 44}) {
      BackendConfig c = config(64, 64);
      c.architecture.shape.moe = model::MoeShape{.experts = experts,
                                                 .experts_per_token = 2,
                                                 .shared_experts = 0,
                                                 .intermediate = wide,
                                                 .first_dense_layers = 0};
      c.rank.expert_intermediate = wide;
      Twins twins(c);
      const std::size_t table = twins.add_linear(64, 64, 1), weight = twins.add_vector(64, 1, 0),
                        router = twins.add_linear(experts, 64, 0.3);
      const std::size_t up = twins.add_linear(std::int64_t{2} * wide, 64, 0.125, experts),
                        down = twins.add_linear(64, wide, 0.15, experts);
      for (const std::int64_t m : {1, 200}) {
        const TwinOutputs out = twins.run(
            rows(static_cast<std::size_t>(m)),
            [&](Twin& side) {
              side->embed(side.linear(table), 0, nullptr);
              side->norm(
                  {.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr},
                  false);
              side->linear(side.linear(router), Buffer::normed, Buffer::router, m, {});
              side->route(experts, 2, nullptr);
              side->expert_linear(side.linear(up), Buffer::expert_in, Buffer::expert_up, nullptr);
              side->activation(model::Activation::silu, true, Buffer::expert_up, Buffer::expert_gated, 2 * m, wide);
              side->expert_linear(side.linear(down), Buffer::expert_gated, Buffer::expert_out, nullptr);
              side->combine(2);
            },
            Buffer::delta, 64);
        EXPECT_LT(worst_row(out), 2 * tolerance(GetParam()))
            << experts << " experts of " << wide << ", " << m << " tokens";
      }
    }
  }
}

TEST_P(OpTwins, rotation_with_bias_and_norms_agrees) {
  for (const bool interleaved : {false, true}) {
    BackendConfig c = config(64, 128);
    Twins twins(c);
    const std::size_t table = twins.add_linear(64, 64, 1), weight = twins.add_vector(64, 1, 0),
                      qkv = twins.add_linear(128, 64, 0.125);
    const std::size_t bias = twins.add_vector(128, 0, 1), q_norm = twins.add_vector(16, 1, 0.2),
                      k_norm = twins.add_vector(16, 1, 0.2);
    ForwardInput input = rows(20);
    const TwinOutputs out = twins.run(
        input,
        [&](Twin& side) {
          side->embed(side.linear(table), 0, nullptr);
          side->norm({.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr},
                     false);
          side->linear(side.linear(qkv), Buffer::normed, Buffer::qkv, 20, {});
          RopeSpec rope;
          rope.rope.rotary_dim = 12;  // the last four dimensions are not rotated
          rope.rope.interleaved = interleaved;
          rope.bias = side.vector(bias);
          rope.q_norm = side.vector(q_norm);
          rope.k_norm = side.vector(k_norm);
          side->rope_append(rope, 0);
          side->prefill_attention({.layer = 0}, 0);
        },
        Buffer::attended, 64);
    EXPECT_LT(worst_row(out), 2 * tolerance(GetParam())) << interleaved;
  }
}

// The logits are rows of the table with the same bits on both sides, so the samples must be equal, noise included.
TEST_P(OpTwins, samples_are_the_same_tokens) {
  Twins twins(config(64, 300));
  const std::size_t table = twins.add_linear(64, 64, 2), head = twins.add_linear(300, 64, 0.1);
  // The shares of the last ones are far from any sum of probabilities, which the two sides round differently.
  const Sampling kinds[] = {{},
                            {.temperature = 0.7F, .seed = 11},
                            {.temperature = 0.7F, .seed = 11, .top_k = 7},
                            {.temperature = 2, .seed = 12, .min_p = 0.3F},
                            {.temperature = 2, .seed = 13, .top_p = 0.5F},
                            {.temperature = 2, .seed = 14, .top_k = 30, .top_p = 0.7F, .min_p = 0.01F}};
  for (const Sampling& kind : kinds) {
    ForwardInput input = rows(40);
    input.sampling = {.temperature = 0.9F, .seed = 1};
    input.prefill[0].request = 77;
    input.prefill[0].sampling = &kind;
    const auto embed = [&](Twin& side) { side->embed(side.linear(table), 0, nullptr); };
    const TwinOutputs rows_of_table = twins.run(input, embed, Buffer::residual, 64);
    EXPECT_EQ(rows_of_table.cpu, rows_of_table.cuda);
    // 64 numbers a row; those behind the valid ones are padding. Of two, the second is the larger in half of the rows.
    for (const std::int64_t valid : {1, 60}) {
      const TwinOutputs sampled = twins.run_logits(
          input,
          [&](Twin& side) {
            embed(side);
            side->linear(side.linear(head + 1), Buffer::residual, Buffer::logits, 40,
                         {});  // the identity matrix that run() created
          },
          valid, 1000);
      EXPECT_EQ(sampled.cpu_tokens, sampled.cuda_tokens) << kind.seed;
      EXPECT_GE(*std::min_element(sampled.cuda_tokens.begin(), sampled.cuda_tokens.end()), 1000);
    }
  }
}

// Reads a block, writes it to the place of another one, and attends over the moved block.
TEST_P(OpTwins, blocks_move_through_the_host) {
  Twins twins(config(64, 64));
  const std::size_t table = twins.add_linear(64, 64, 1), weight = twins.add_vector(64, 1, 0),
                    qkv = twins.add_linear(128, 64, 0.2);
  const auto ops = [&](Twin& side, std::int64_t rows, bool decodes) {
    side->embed(side.linear(table), 0, nullptr);
    side->norm({.kind = model::Norm::rmsnorm, .epsilon = 1e-5F, .weight = side.vector(weight), .bias = nullptr}, false);
    side->linear(side.linear(qkv), Buffer::normed, Buffer::qkv, rows, {});
    RopeSpec rope;
    rope.rope.rotary_dim = 16;
    side->rope_append(rope, 1);
    if (decodes)
      side->decode_attention({.layer = 1});
    else
      side->prefill_attention({.layer = 1}, 0);
  };
  ForwardInput first = rows(20);  // blocks 0 and 1
  (void)twins.run(
      first, [&](Twin& side) { ops(side, 20, false); }, Buffer::attended, 64);
  for (Twin* side : {&twins.cpu(), &twins.cuda()}) {
    std::vector<std::byte> host(static_cast<std::size_t>((*side)->bytes_per_block()));
    (*side)->read_block(0, host.data());
    (*side)->write_block(77, host.data());
  }
  const std::vector<std::int32_t> moved{77, 1};
  ForwardInput second;
  DecodeRow row;
  row.token = 3;
  row.context = 20;
  row.blocks = moved;
  second.decode.push_back(row);
  EXPECT_LT(worst_row(twins.run(
                second, [&](Twin& side) { ops(side, 1, true); }, Buffer::attended, 64)),
            2 * tolerance(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, OpTwins, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& c) { return model::name(c.param); });

}  // namespace
}  // namespace plimsoll::exec
