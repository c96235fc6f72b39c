// SPDX-License-Identifier: Apache-2.0
#include "model/architecture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/tp_layout.h"

namespace plimsoll::model {
namespace {

using ::testing::HasSubstr;

LlmShape shape(const std::string& family) {
  LlmShape s;
  s.family = family;
  s.layers = 2;
  s.hidden = 64;
  s.heads = s.kv_heads = 4;
  s.head_dim = 16;
  s.intermediate = 176;
  s.vocab = 97;
  return s;
}

LlmShape falcon(std::int32_t kv_heads, bool parallel) {
  LlmShape s = shape("falcon");
  s.kv_heads = kv_heads;
  s.parallel_attention = parallel;
  s.gated_mlp = false;
  s.norm = Norm::layernorm;
  s.activation = "gelu";
  return s;
}

// In transformers' activations.py, gelu is exact; new, fast, accurate and pytorch_tanh are the same approximation.
TEST(Architecture, ActivationsGoByManyNames) {
  for (const char* const tanh : {"gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_tanh"})
    EXPECT_EQ(activation_from_name(tanh), Activation::gelu_tanh) << tanh;
  EXPECT_EQ(activation_from_name("gelu"), Activation::gelu);
  EXPECT_EQ(activation_from_name("swish"), Activation::silu);
  EXPECT_FALSE(activation_from_name("quick_gelu"));
  for (const Activation a : {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu})
    EXPECT_EQ(activation_from_name(name(a)), a);
}

TEST(Architecture, FamiliesHaveTheirConstants) {
  EXPECT_EQ(default_architecture(shape("llama")).norm_epsilon, 1e-5);
  EXPECT_EQ(default_architecture(shape("qwen3")).norm_epsilon, 1e-6);
  EXPECT_EQ(default_architecture(shape("llama")).rope.rotary_dim, 16);
  EXPECT_EQ(default_architecture(shape("llama")).rope.base, 10'000);

  LlmShape gptj = shape("gptj");
  gptj.rotary_dim = 8;
  gptj.norm = Norm::layernorm;
  const Architecture j = default_architecture(gptj);
  EXPECT_TRUE(j.rope.interleaved && j.mlp_bias && j.lm_head_bias && j.norm_bias && !j.attention_out_bias);
  EXPECT_EQ(j.rope.rotary_dim, 8);

  LlmShape opt = shape("opt");
  opt.learned_positions = opt.qkv_bias = true;
  const Architecture o = default_architecture(opt);
  EXPECT_EQ(o.position_offset, 2);
  EXPECT_EQ(o.rope.rotary_dim, 0);
  EXPECT_TRUE(o.attention_out_bias && o.mlp_bias && !o.lm_head_bias);
}

// Qwen2 has biases only for Q, K and V; Llama's and Qwen3's flag also covers the output; Falcon's every matrix.
TEST(Architecture, WhatABiasFlagCoversDependsOnTheFamily) {
  for (const auto& [family, out, mlp] :
       {std::tuple{"qwen2", false, false}, {"llama", true, false}, {"qwen3", true, false}, {"falcon", true, true}}) {
    LlmShape s = shape(family);
    EXPECT_FALSE(default_architecture(s).attention_out_bias) << family;
    s.qkv_bias = true;
    EXPECT_EQ(default_architecture(s).attention_out_bias, out) << family;
    EXPECT_EQ(default_architecture(s).mlp_bias, mlp) << family;
  }
}

// 7B has one norm for attention and MLP. The new decoder and sequential sublayers have two, with any KV heads.
TEST(Architecture, FalconSharesItsNormOnlySideBySide) {
  EXPECT_EQ(norms_per_layer(falcon(1, true)), 1);
  EXPECT_EQ(norms_per_layer(falcon(2, true)), 2);
  EXPECT_EQ(norms_per_layer(falcon(1, false)), 2);
}

TEST(Architecture, WhatOnlyCpusExecuteIsNamed) {
  const auto part = [](const char* family) { return cpu_only_part(default_architecture(shape(family))); };
  EXPECT_EQ(part("llama"), "");
  for (const char* family : {"gemma2", "gemma3", "glm4", "olmo2", "granite", "smollm3"}) EXPECT_EQ(part(family), "");
  LlmShape s = shape("deepseek_v2");
  s.mla = MlaShape{.kv_lora_rank = 8, .qk_nope_head_dim = 8, .qk_rope_head_dim = 4, .v_head_dim = 8};
  EXPECT_EQ(cpu_only_part(default_architecture(s)), "multi-head latent attention");
  for (const char* family : {"qwen2", "gpt_oss", "glm4_moe"}) {
    s = shape(family);
    s.moe = MoeShape{.experts = 4, .experts_per_token = 2, .intermediate = 8, .shared_intermediate = 8};
    EXPECT_EQ(cpu_only_part(default_architecture(s)), "") << family;
  }
  Architecture grouped = default_architecture(s);
  grouped.routing.groups = 2;
  EXPECT_EQ(cpu_only_part(grouped), "this routing to experts");
}

// Gemma 3 rotates by 10 000 in layers with a window, else by its own base. SmolLM3 leaves the rotation out in some.
TEST(Architecture, LayersRotateInTheirOwnWay) {
  LlmShape s = shape("gemma3");
  s.layers = 3;
  s.rope_base = 1e6;
  s.sliding_window = 8;
  s.windows = {1, 1, 0};
  Architecture a = default_architecture(s);
  EXPECT_EQ(rope_of(a, 0).base, 10'000);
  EXPECT_EQ(rope_of(a, 2).base, 1e6);
  a.layers_unrotated = {0, 1, 0};
  EXPECT_GT(rope_of(a, 0).rotary_dim, 0);
  EXPECT_EQ(rope_of(a, 1).rotary_dim, 0);
}

TEST(Architecture, WhatIsNotExecutedIsNamed) {
  const auto problem = [](const LlmShape& s) { return execution_problem(default_architecture(s)); };
  EXPECT_EQ(problem(shape("llama")), "");
  EXPECT_EQ(problem(falcon(1, true)), "");
  EXPECT_THAT(problem(shape("llama4")), HasSubstr("the family llama4"));
  EXPECT_EQ(problem(shape("gemma2")), "");
  LlmShape s = shape("llama");
  s.activation = "quick_gelu";
  EXPECT_THAT(problem(s), HasSubstr("'quick_gelu'"));
  s = shape("qwen3");
  s.moe =
      MoeShape{.experts = 4, .experts_per_token = 2, .shared_experts = 1, .intermediate = 8, .first_dense_layers = 0};
  EXPECT_EQ(problem(s), "");
  s.gated_mlp = false;
  EXPECT_THAT(problem(s), HasSubstr("experts without a gate"));
  s.gated_mlp = true;
  s.moe->experts = 6;
  Architecture grouped = default_architecture(s);
  grouped.routing.groups = 4;
  EXPECT_THAT(execution_problem(grouped), HasSubstr("6 experts in 4 groups"));
  grouped.routing.groups = 3;  // one group of two experts is eligible, but a token needs two: allowed; three are not
  EXPECT_EQ(execution_problem(grouped), "");
  grouped.shape.moe->experts_per_token = 3;
  EXPECT_THAT(execution_problem(grouped), HasSubstr("3 experts per token from 1 groups of 2"));
  s = shape("phi3");
  s.rotary_dim = 9;
  EXPECT_THAT(problem(s), HasSubstr("9 rotary dimensions are not executed, allowed: an even number up to the 16"));
}

}  // namespace
}  // namespace plimsoll::model
