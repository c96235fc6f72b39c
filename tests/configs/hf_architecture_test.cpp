// SPDX-License-Identifier: Apache-2.0
// config.json files of both generations of transformers; refused variants are reported with the field at fault.
#include "configs/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/tp_layout.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using model::Activation;
using model::Architecture;
using model::RopeScaling;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string llama(const std::string& more, const std::string& type = "llama") {
  return "{\"model_type\": \"" + type +
         "\", \"hidden_size\": 64, \"intermediate_size\": 176, \"num_hidden_layers\": 2,\n" +
         "\"num_attention_heads\": 4, \"vocab_size\": 97, \"max_position_embeddings\": 512" +
         (more.empty() ? "" : ",\n" + more) + "}";
}
std::string falcon(const std::string& more) {
  return R"({"model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
  "vocab_size": 97)" +
         (more.empty() ? "" : ", " + more) + "}";
}
std::string opt(const std::string& more) {
  return R"({"model_type": "opt", "hidden_size": 64, "ffn_dim": 176, "num_hidden_layers": 2,
  "num_attention_heads": 4, "vocab_size": 97,
    "max_position_embeddings": 128)" +
         (more.empty() ? "" : ", " + more) + "}";
}

class HfArchitecture : public ::testing::Test {
 protected:
  Architecture read(const std::string& json) const { return read_hf_architecture(scratch_.write("config.json", json)); }
  std::string problem(const std::string& json) const {
    const std::string path = scratch_.write("config.json", json);
    return problem_of([&] { (void)read_hf_architecture(path); });
  }
  const Scratch scratch_;
};

TEST_F(HfArchitecture, ReadsTheShapeAsTheCatalogueDoes) {
  const std::string path = scratch_.write("config.json", llama(R"("num_key_value_heads": 2)"));
  EXPECT_EQ(read_hf_architecture(path).shape, read_hf_config(path));
}

// The defaults of the classes are 1e-6 for llama, 1e-5 for mixtral and phi3.
TEST_F(HfArchitecture, NormsHaveTheirEpsilon) {
  EXPECT_EQ(read(llama("")).norm_epsilon, 1e-6);
  EXPECT_EQ(read(llama(R"("rms_norm_eps": 1e-5)")).norm_epsilon, 1e-5);
  EXPECT_EQ(read(llama(R"("num_local_experts": 4, "num_experts_per_tok": 2)", "mixtral")).norm_epsilon, 1e-5);
  EXPECT_EQ(read(falcon("")).norm_epsilon, 1e-5);
  EXPECT_EQ(read(falcon(R"("layer_norm_epsilon": 1e-3)")).norm_epsilon, 1e-3);
}

TEST_F(HfArchitecture, ActivationsAreTranslated) {
  EXPECT_EQ(read(llama(R"("hidden_act": "gelu_pytorch_tanh")")).activation, Activation::gelu_tanh);
  EXPECT_EQ(read(falcon("")).activation, Activation::gelu);
  EXPECT_EQ(read(opt("")).activation, Activation::relu);
  EXPECT_NE(model::execution_problem(read(llama(R"("hidden_act": "quick_gelu")"))), "");
}

TEST_F(HfArchitecture, ReadsScalingInTheOldForm) {
  const Architecture a = read(llama(R"("rope_theta": 500000.0, "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"})"));
  EXPECT_EQ(a.rope.scaling, RopeScaling::llama3);
  EXPECT_EQ(a.rope.base, 500000);
  EXPECT_EQ(a.rope.factor, 8);
  EXPECT_EQ(a.rope.low_freq_factor, 1);
  EXPECT_EQ(a.rope.high_freq_factor, 4);
  EXPECT_EQ(a.rope.original_max_position, 8192);
  EXPECT_EQ(read(llama(R"("rope_scaling": {"type": "linear", "factor": 2.5})")).rope.factor, 2.5);
  EXPECT_EQ(read(llama(R"("rope_scaling": null)")).rope.scaling, RopeScaling::none);
}

TEST_F(HfArchitecture, ReadsScalingInTheNewForm) {
  const Architecture a =
      read(llama(R"("rope_parameters": {"rope_theta": 1000000.0, "rope_type": "linear", "factor": 4.0})"));
  EXPECT_EQ(a.rope.scaling, RopeScaling::linear);
  EXPECT_EQ(a.rope.base, 1e6);
  EXPECT_EQ(a.shape.rope_base, 1e6);
  EXPECT_EQ(a.rope.factor, 4);
  EXPECT_EQ(read(llama(R"("rope_parameters": {"rope_theta": 5.0, "rope_type": "default"})")).rope.scaling,
            RopeScaling::none);
  // If the length before scaling is not stated, transformers uses the context length.
  EXPECT_EQ(read(llama(
                     R"("rope_parameters": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
              "high_freq_factor": 4})"))
                .rope.original_max_position,
            512);
}

TEST_F(HfArchitecture, OneFormOfScalingIsEnough) {
  const std::string both = R"("rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": )";
  EXPECT_EQ(read(llama(both + R"({"type": "linear", "factor": 2})")).rope.factor, 2);
  EXPECT_THAT(problem(llama(both + R"({"rope_theta": 5.0})")), HasSubstr("rope_scaling: contradicts rope_parameters"));
}

TEST_F(HfArchitecture, RefusesOtherScalingsByNameAndPlace) {
  for (const char* const kind : {"mrope", "ntk"}) {
    EXPECT_THAT(problem(llama(std::string(R"("rope_scaling": {"factor": 2.0, "type": ")") + kind + "\"}")),
                AllOf(HasSubstr("config.json:3:1: rope_scaling.type: found '" + std::string(kind) + "'"),
                      HasSubstr("not executed, expected default, linear, llama3")));
  }
  EXPECT_THAT(problem(llama(R"("rope_parameters": {"rope_type": "linear"})")),
              HasSubstr("rope_parameters.factor: is missing"));
  EXPECT_THAT(problem(llama(R"("rope_parameters": {"rope_type": "linear", "factor": "2"})")),
              HasSubstr("rope_parameters.factor: found '2', expected a number"));
  EXPECT_THAT(
      problem(llama(
          R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4})")),
      HasSubstr("high_freq_factor: found 4, expected more than the 4"));
  EXPECT_THAT(problem(llama(R"("rope_parameters": {"full_attention": {"rope_theta": 1}})")),
              HasSubstr("two rotary embeddings are executed for gemma3_text only"));
  EXPECT_THAT(problem(llama(R"("rope_theta": 0)")), HasSubstr("rope_theta: found 0, expected a number from"));
  EXPECT_THAT(problem(llama(R"("rope_parameters": {"rope_theta": -1})")),
              HasSubstr("rope_parameters.rope_theta: found -1"));
  EXPECT_THAT(problem(llama(R"("rope_scaling": "linear")")),
              HasSubstr("rope_scaling: found 'linear', expected an object"));
  EXPECT_THAT(problem(llama(R"("rope_parameters": {"partial_rotary_factor": 0.5})")),
              HasSubstr("for phi3, glm, nemotron and minimax_m2 only"));
}

// 0.75 of 16 dimensions, stated at either place.
TEST_F(HfArchitecture, Phi3RotatesAPartOfTheHead) {
  EXPECT_EQ(read(llama(R"("partial_rotary_factor": 0.75)", "phi3")).rope.rotary_dim, 12);
  EXPECT_EQ(read(llama(R"("rope_parameters": {"partial_rotary_factor": 0.75})", "phi3")).rope.rotary_dim, 12);
  EXPECT_EQ(read(llama("", "phi3")).rope.rotary_dim, 16);
}

TEST_F(HfArchitecture, GptjRotatesPairs) {
  const Architecture a =
      read(R"({"model_type": "gptj", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "vocab_size": 97,
    "rotary_dim": 8})");
  EXPECT_TRUE(a.rope.interleaved && a.lm_head_bias && a.mlp_bias && !a.attention_out_bias);
  EXPECT_EQ(a.rope.rotary_dim, 8);
  EXPECT_EQ(a.activation, Activation::gelu_tanh);
  EXPECT_EQ(a.rope.base, 10'000);
}

TEST_F(HfArchitecture, LlamasFlagsCoverOutputAndMlp) {
  const Architecture a = read(llama(R"("attention_bias": true, "mlp_bias": true)"));
  EXPECT_TRUE(a.shape.qkv_bias && a.attention_out_bias && a.mlp_bias);
  EXPECT_FALSE(read(llama("", "qwen2")).attention_out_bias);
  EXPECT_TRUE(read(llama("", "qwen2")).shape.qkv_bias);
}

TEST_F(HfArchitecture, RefusesFalconsThatAreNotExecuted) {
  EXPECT_THAT(problem(falcon("\n\"alibi\": true")),
              HasSubstr("config.json:3:1: alibi: found true: attention biased by distance (ALiBi) is not executed"));
  EXPECT_THAT(problem(falcon(R"("apply_residual_connection_post_layernorm": true)")),
              HasSubstr("residual connection after the norm"));
  EXPECT_EQ(problem(falcon(R"("alibi": false, "bias": true)")), "no error");
}

// The new decoder has two norms, or states their number. The old one shares one norm in parallel layers and has two in
// sequential ones.
TEST_F(HfArchitecture, FalconsNormsFollowItsDecoder) {
  const auto norms = [&](const std::string& more) { return model::norms_per_layer(read(falcon(more)).shape); };
  EXPECT_EQ(norms(R"("new_decoder_architecture": true, "num_kv_heads": 2)"), 2);
  EXPECT_EQ(norms(R"("new_decoder_architecture": true, "num_kv_heads": 1)"), 2);
  EXPECT_EQ(norms(R"("new_decoder_architecture": true, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1)"), 1);
  EXPECT_EQ(norms(""), 1);
  EXPECT_EQ(norms(R"("multi_query": false)"), 1);
  EXPECT_EQ(norms(R"("multi_query": false, "parallel_attn": false)"), 2);
  EXPECT_EQ(norms(R"("parallel_attn": false)"), 2);
}

TEST_F(HfArchitecture, RefusesOptsThatAreNotExecuted) {
  EXPECT_EQ(read(opt("")).position_offset, 2);
  EXPECT_FALSE(read(opt(R"("enable_bias": false)")).mlp_bias);
  EXPECT_THAT(problem(opt(R"("do_layer_norm_before": false)")), HasSubstr("do_layer_norm_before"));
  EXPECT_THAT(problem(opt(R"("_remove_final_layer_norm": true)")), HasSubstr("_remove_final_layer_norm: found true"));
  EXPECT_THAT(problem(opt(R"("layer_norm_elementwise_affine": false)")),
              HasSubstr("layer_norm_elementwise_affine: found false"));
}

// The class's default is false: the softmax covers all experts, so the chosen weights sum to less than 1.
TEST_F(HfArchitecture, WeightsOfExpertsSumToOneIfTheFileSaysSo) {
  const std::string experts = R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 44)";
  EXPECT_FALSE(read(llama(experts, "qwen3_moe")).routing.normalised);
  EXPECT_TRUE(read(llama(experts + R"(, "norm_topk_prob": true)", "qwen3_moe")).routing.normalised);
  EXPECT_FALSE(read(llama(experts, "qwen2_moe")).routing.normalised);
}

const char* const kLatent =
    R"("kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 8,
       "moe_intermediate_size": 16, "num_experts_per_tok": 2, "n_shared_experts": 1)";

// Each variant chooses experts or computes attention in a way that would give other results.
TEST_F(HfArchitecture, OtherChoicesOfExpertsAreRefused) {
  const auto of = [&](const std::string& more, const char* type) { return problem(llama(kLatent + more, type)); };
  EXPECT_EQ(of("", "deepseek_v2"), "no error");
  EXPECT_THAT(of(R"(, "topk_method": "noaux_tc")", "deepseek_v2"), HasSubstr("topk_method: found 'noaux_tc'"));
  EXPECT_THAT(of(R"(, "norm_topk_prob": true)", "deepseek_v2"), HasSubstr("norm_topk_prob: found true"));
  EXPECT_EQ(of("", "deepseek_v3"), "no error");
  EXPECT_THAT(of(R"(, "scoring_func": "softmax")", "deepseek_v3"), HasSubstr("scoring_func: found 'softmax'"));
  EXPECT_THAT(of(R"(, "attention_bias": true)", "deepseek_v3"), HasSubstr("attention_bias: found true"));
}

// The scores are multiplied by the square of 0.1 mscale_all_dim ln(factor) + 1; sines and cosines by the ratio of the
// magnitudes for mscale and mscale_all_dim, here 1.
TEST_F(HfArchitecture, YarnScalesLatentAttention) {
  const model::Architecture a = read(llama(kLatent + std::string(R"(, "rope_scaling": {"type": "yarn", "factor": 40,
      "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64})"),
                                           "deepseek_v3"));
  EXPECT_NEAR(a.attention_scale, std::pow(0.1 * std::log(40) + 1, 2) / std::sqrt(12), 1e-12);
  EXPECT_NEAR(a.rope.magnitude, 1, 1e-12);
  EXPECT_EQ(a.rope.rotary_dim, 4);
  EXPECT_TRUE(a.rope.interleaved);
}

TEST_F(HfArchitecture, SimulatedFamiliesAreReadAndLeftToTheCaller) {
  EXPECT_THAT(
      model::execution_problem(read(llama(R"("num_local_experts": 4, "num_experts_per_tok": 1)", "llama4_text"))),
      HasSubstr("llama4"));
}

// Files omit fields that equal the default of the class; null switches a cap off.
TEST_F(HfArchitecture, GemmasConstantsAreRead) {
  const model::Architecture plain = read(llama("", "gemma2"));
  EXPECT_EQ(plain.attention_cap, 50);
  EXPECT_EQ(plain.logit_cap, 30);
  EXPECT_EQ(plain.attention_scale, 1 / 16.0);  // query_pre_attn_scalar is 256
  EXPECT_TRUE(plain.norm_from_one);
  const model::Architecture stated = read(llama(
      R"("query_pre_attn_scalar": 144, "attn_logit_softcapping": null, "final_logit_softcapping": 20)", "gemma2"));
  EXPECT_EQ(stated.attention_scale, 1 / 12.0);
  EXPECT_EQ(stated.attention_cap, 0);
  EXPECT_EQ(stated.logit_cap, 20);
  EXPECT_THAT(problem(llama(R"("use_bidirectional_attention": true)", "gemma3_text")), HasSubstr("both directions"));
}

// transformers 4 has rope_local_base_freq, 5 two objects. A factor applies to layers without a window only.
TEST_F(HfArchitecture, GemmaThreeRotatesInTwoWays) {
  const model::Architecture old = read(
      llama(R"("rope_theta": 5e5, "rope_local_base_freq": 2e4, "rope_scaling": {"rope_type": "linear", "factor": 8})",
            "gemma3_text"));
  EXPECT_EQ(old.rope.base, 5e5);
  EXPECT_EQ(old.rope.factor, 8);
  EXPECT_EQ(old.window_rope->base, 2e4);
  EXPECT_EQ(old.window_rope->factor, 1);
  const model::Architecture now = read(llama(
      R"("rope_parameters": {"full_attention": {"rope_theta": 5e5, "rope_type": "linear", "factor": 8},
                             "sliding_attention": {"rope_theta": 2e4, "rope_type": "default"}})",
      "gemma3_text"));
  EXPECT_EQ(now.rope, old.rope);
  EXPECT_EQ(now.window_rope->base, 2e4);
}

TEST_F(HfArchitecture, GranitesMultipliersAreRead) {
  const model::Architecture a = read(llama(
      R"("embedding_multiplier": 12, "residual_multiplier": 0.22, "attention_multiplier": 0.0078125,
         "logits_scaling": 8)",
      "granite"));
  EXPECT_EQ(a.embedding_scale, 12);
  EXPECT_EQ(a.residual_scale, 0.22);
  EXPECT_EQ(a.attention_scale, 0.0078125);
  EXPECT_EQ(a.logit_scale, 0.125);
}

TEST_F(HfArchitecture, SmolLm3NamesTheLayersThatRotate) {
  using Layers = std::vector<std::uint8_t>;
  EXPECT_EQ(read(llama("", "smollm3")).layers_unrotated, (Layers{0, 0}));  // every fourth one
  EXPECT_EQ(read(llama(R"("no_rope_layer_interval": 2)", "smollm3")).layers_unrotated, (Layers{0, 1}));
  EXPECT_EQ(read(llama(R"("no_rope_layers": [0, 1])", "smollm3")).layers_unrotated, (Layers{1, 0}));
  EXPECT_THAT(problem(llama(R"("no_rope_layers": [1])", "smollm3")), HasSubstr("expected a flag for each of the"));
}

// 512 positions from a trained length of 128: the magnitude is sqrt(1 + ln 4 / ln 128). Heads of 16 have 8 pairs.
TEST_F(HfArchitecture, LongRopeRunsUpToTheTrainedLength) {
  const auto text = [](const std::string& factors) {
    return llama(R"("original_max_position_embeddings": 128, "rope_scaling": {"type": "longrope",
                    "long_factor": [8, 8, 8, 8, 8, 8, 8, 8], "short_factor": )" +
                     factors + "}",
                 "phi3");
  };
  const model::Architecture a = read(text("[1, 1, 1, 1, 1.5, 2, 2, 3]"));
  EXPECT_EQ(a.rope.factors, (std::vector<double>{1, 1, 1, 1, 1.5, 2, 2, 3}));
  EXPECT_NEAR(a.rope.magnitude, std::sqrt(1 + std::log(4.0) / std::log(128.0)), 1e-12);
  EXPECT_EQ(a.shape.max_position, 128);
  EXPECT_THAT(problem(text("[1, 2]")), HasSubstr("short_factor: expected 8 positive numbers"));
}

// The base of a dynamic rotation grows beyond the context length only, where no sequence is executed.
TEST_F(HfArchitecture, DynamicRotationIsPlainWithinTheContext) {
  const std::string dynamic = R"("rope_scaling": {"type": "dynamic", "factor": 2)";
  EXPECT_EQ(read(llama(dynamic + "}")).rope, read(llama("")).rope);
  EXPECT_THAT(problem(llama(dynamic + R"(, "original_max_position_embeddings": 128})")),
              HasSubstr("expected the 512 of max_position_embeddings"));
}

// The magnitude is 0.1 ln(factor) + 1, unless the file states it or two scales whose ratio it is.
TEST_F(HfArchitecture, YarnIsReadWithItsMagnitude) {
  const auto yarn = [&](const std::string& more) {
    return read(llama(R"("rope_scaling": {"rope_type": "yarn", "factor": 4,
                         "original_max_position_embeddings": 32768)" +
                      more + "}"))
        .rope;
  };
  EXPECT_EQ(yarn("").original_max_position, 32768);
  EXPECT_NEAR(yarn("").magnitude, 0.1 * std::log(4.0) + 1, 1e-12);
  EXPECT_EQ(yarn(R"(, "attention_factor": 1.5)").magnitude, 1.5);
  EXPECT_EQ(yarn(R"(, "mscale": 0.7, "mscale_all_dim": 0.7)").magnitude, 1);
  EXPECT_FALSE(yarn(R"(, "truncate": false)").whole_dimensions);
}

}  // namespace
}  // namespace plimsoll::configs
