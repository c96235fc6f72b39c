// SPDX-License-Identifier: Apache-2.0
// Storage of a checkpoint's weights: the type of each method, the bytes of its scales, the matrices that stay in 16
// bits, and refused checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/catalogue.h"
#include "model/memory_plan.h"
#include "model/tp_layout.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using model::Checkpoint;
using model::DType;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two heads of 64 and four layers: a dense model, or one of eight experts after a dense layer.
std::string dense(const std::string& more) {
  return R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
  "num_attention_heads": 2,
    "vocab_size": 1000, )" +
         more + "}";
}
std::string mixture(const std::string& more) {
  return R"({"model_type": "deepseek_v3", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4,
    "num_attention_heads": 2, "vocab_size": 1000, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 64, "first_k_dense_replace": 1, "q_lora_rank": 32, "kv_lora_rank": 32,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, )" +
         more + "}";
}

class HfCheckpoint : public ::testing::Test {
 protected:
  model::LlmShape shape(const std::string& json) const { return read_hf_config(scratch_.write("config.json", json)); }
  Checkpoint read(const std::string& json) const { return shape(json).checkpoint.value(); }
  Checkpoint quantised(const std::string& config) const { return read(dense("\"quantization_config\": " + config)); }
  std::string problem(const std::string& json) const {
    const std::string path = scratch_.write("config.json", json);
    return problem_of([&] { (void)read_hf_config(path); });
  }
  std::string refusal(const std::string& config) const {
    return problem(dense("\n\"quantization_config\": " + config));
  }
  const Scratch scratch_;
};

TEST_F(HfCheckpoint, PlainTypesAreTheFilesOwn) {
  EXPECT_EQ(read(dense(R"("torch_dtype": "bfloat16")")).dtype, DType::bf16);
  EXPECT_EQ(read(dense(R"("dtype": "float16")")).dtype, DType::fp16);
  EXPECT_FALSE(shape(dense(R"("x": 1)")).checkpoint.has_value());
  // vLLM, SGLang and TGI load float32 files as fp16 unless configured otherwise.
  EXPECT_EQ(read(dense(R"("torch_dtype": "float32")")).dtype, DType::fp16);
  EXPECT_THAT(read(dense(R"("torch_dtype": "float32")")).notes, ElementsAre(HasSubstr("stored in float32")));
  EXPECT_THAT(problem(dense("\n\"torch_dtype\": \"float12\"")),
              HasSubstr("config.json:4:1: torch_dtype: found 'float12', expected bfloat16"));
}

struct Stored {
  const char* config;
  DType dtype;
  double scale_bytes;
};

// Scales computed by hand. AWQ: 16 bits and a zero point of 4 bits per group of 128. bitsandbytes: 32 bits per 64, or
// if quantised twice, 8 bits per 64 and 32 per 64 x 256. fp8 blocks: 32 bits per 128 x 128. For nvfp4 and mxfp4 the
// type includes the scales.
TEST_F(HfCheckpoint, MethodsHaveTheirTypeAndScales) {
  const Stored table[] = {
      {R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": true, "version": "gemm"})", DType::int4,
       2.5 / 128},
      {R"({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": false})", DType::int4, 2.0 / 64},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true, "sym": true})", DType::int4,
       2.5 / 32},
      {R"({"quant_method": "gptq", "bits": 8, "group_size": -1})", DType::int8, 0},
      {R"({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": true})", DType::int4, 2.0 / 128},
      {R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]})", DType::fp8,
       4.0 / 16384},
      {R"({"quant_method": "fp8", "activation_scheme": "static"})", DType::fp8, 0},
      {R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})", DType::fp8, 0},
      {R"({"quant_method": "mxfp4"})", DType::mxfp4, 0},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "producer": {"name": "modelopt"}})", DType::nvfp4, 0},
      {R"({"quant_algo": "FP8", "producer": {"name": "modelopt", "version": "0.31.0"}})", DType::fp8, 0},
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"})", DType::int4,
       4.0 / 64},
      {R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true})", DType::int4,
       1.0 / 64 + 4.0 / 16384},
      {R"({"quant_method": "bitsandbytes", "load_in_8bit": true})", DType::int8, 0},
      {R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
      "config_groups": {"group_0": {"targets": ["Linear"],
        "weights": {"num_bits": 4, "type": "int", "group_size": 128, "symmetric": true}, "input_activations": null}}})",
       DType::int4, 2.0 / 128},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
      "weights": {"num_bits": 8,
        "type": "float", "strategy": "channel"}, "input_activations": {"num_bits": 8, "type": "float",
        "dynamic": true}}}})",
       DType::fp8, 0},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"],
      "weights": {"num_bits": 4, "type":
        "float", "group_size": 16}}}})",
       DType::nvfp4, 0},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"],
      "weights": {"num_bits": 4, "type":
        "float", "group_size": 32}}}})",
       DType::mxfp4, 0},
  };
  for (const Stored& stored : table) {
    const Checkpoint checkpoint = quantised(stored.config);
    EXPECT_EQ(checkpoint.dtype, stored.dtype) << stored.config;
    EXPECT_DOUBLE_EQ(checkpoint.scale_bytes, stored.scale_bytes) << stored.config;
    EXPECT_THAT(checkpoint.wide, IsEmpty()) << stored.config;
  }
}

// GPTQModel excludes modules by "-:REGEX", which is equivalent to a list of them.
TEST_F(HfCheckpoint, GptqExcludesModulesByExpressions) {
  EXPECT_THAT(quantised(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*mlp\\.gate$": {}}})").wide, IsEmpty());
  EXPECT_EQ(quantised(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*down_proj": {}}})").wide,
            quantised(R"({"quant_method": "gptq", "bits": 4, "ignore": ["re:.*down_proj"]})").wide);
  EXPECT_THAT(quantised(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*down_proj": {}}})").wide,
              ::testing::ElementsAre("down"));
}

TEST_F(HfCheckpoint, WhatIsNotModelledIsRefusedByNameAtItsPlace) {
  EXPECT_THAT(refusal(R"({"quant_method": "aqlm"})"),
              AllOf(HasSubstr("config.json:4:1: quantization_config.quant_method: found 'aqlm'"),
                    HasSubstr("expected one of awq, gptq, fp8")));
  EXPECT_THAT(refusal(R"({"bits": 4})"), HasSubstr("quant_method: is missing"));
  EXPECT_THAT(refusal(R"({"quant_method": "gptq", "bits": 3})"), HasSubstr("bits: found 3 bits a weight"));
  EXPECT_THAT(refusal(R"({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*down.*": {"bits": 8}}})"),
              HasSubstr("dynamic"));
  EXPECT_THAT(refusal(R"({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"})"),
              HasSubstr("found 'MIXED_PRECISION'"));
  EXPECT_THAT(refusal(R"({"quant_method": "fp8", "weight_block_size": [128]})"),
              HasSubstr("weight_block_size: expected two numbers"));
  EXPECT_THAT(refusal(R"({"quant_method": "compressed-tensors"})"), HasSubstr("config_groups: is missing"));
  EXPECT_THAT(refusal(R"({"quant_method": "compressed-tensors", "config_groups": {"a": null}})"),
              HasSubstr("config_groups"));
  EXPECT_THAT(
      refusal(
          R"({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}, "config_groups":
    {"a": {"weights": {"num_bits": 8, "type": "float"}}}})"),
      HasSubstr("sparse weights are not modelled"));
  EXPECT_THAT(refusal(
                  R"({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8,
          "type": "float"}},
    "b": {"weights": {"num_bits": 4, "group_size": 128}}}})"),
              HasSubstr("the groups have different types"));
  EXPECT_THAT(refusal(R"({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"})"),
              HasSubstr("KV cache"));
  EXPECT_THAT(
      refusal(
          R"({"quant_method": "compressed-tensors", "ignore": ["re:(("], "config_groups": {"a": {"targets": ["Linear"],
    "weights": {"num_bits": 8, "type": "float"}}}})"),
      HasSubstr("a regular expression that cannot be read"));
}

TEST_F(HfCheckpoint, TheCacheHasTheCheckpointsType) {
  EXPECT_EQ(quantised(R"({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"})").kv_dtype,
            DType::fp8);
  EXPECT_EQ(quantised(
                R"({"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"},
          "config_groups":
    {"a": {"weights": {"num_bits": 8, "type": "float"}}}})")
                .kv_dtype,
            DType::fp8);
  EXPECT_EQ(quantised(R"({"quant_method": "awq", "bits": 4})").kv_dtype, std::nullopt);
}

TEST_F(HfCheckpoint, NvidiasFileBesideCounts) {
  scratch_.write("hf_quant_config.json",
                 R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16,
    "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}})");
  const Checkpoint checkpoint = read(dense(R"("torch_dtype": "bfloat16")"));
  EXPECT_EQ(checkpoint.dtype, DType::nvfp4);
  EXPECT_EQ(checkpoint.kv_dtype, DType::fp8);
}

// Lists from published files: gpt-oss's glob pattern, MiniMax's words, Kimi's regular expressions, and the
// layer-by-layer names of DeepSeek-NVFP4.
TEST_F(HfCheckpoint, ListsOfModulesNameMatrices) {
  const auto wide = [&](const std::string& list) {
    return read(mixture(R"("quantization_config": {"quant_method": "fp8", "modules_to_not_convert": )" + list + "}"))
        .wide;
  };
  const auto attention = ElementsAre("q_down", "q_up", "kv_down", "kv_up", "attention_out");
  EXPECT_THAT(wide(R"(["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"])"),
              attention);
  EXPECT_THAT(wide(R"(["gate", "e_score_correction_bias", "lm_head"])"), IsEmpty());  // does not match "gate_proj"
  EXPECT_THAT(wide(R"(["language_model.model.layers.0.self_attn*", "language_model.model.layers.1.self_attn*",
    "language_model.model.layers.2.self_attn*", "language_model.model.layers.3.self_attn*"])"),
              attention);
  EXPECT_THAT(
      wide(R"(["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"])"),
      ElementsAre("q_down", "q_up", "kv_down", "kv_up", "attention_out", "gate_up", "down", "shared_gate_up",
                  "shared_down"));
  std::string each;
  for (const char* const layer : {"0", "1", "2", "3"})
    for (const char* const name : {"q_a_proj", "kv_b_proj"})
      each += std::string(each.empty() ? "" : ", ") + "\"model.layers." + layer + ".self_attn." + name + "\"";
  EXPECT_THAT(wide("[" + each + "]"), ElementsAre("q_down", "kv_up"));
  EXPECT_THAT(wide(R"(["self_attn"])"), attention);
}

// Exceptions in two of four layers would make a different model; an exception for the first of eleven layers is common.
TEST_F(HfCheckpoint, MixturesOfLayersAreRefused) {
  const std::string two = R"({"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp", "model.layers.1.mlp"]})";
  EXPECT_THAT(refusal(two), HasSubstr("'gate_up' keeps 16 bits in 2 of 4 layers"));
  const std::string eleven =
      R"({"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 11,
    "num_attention_heads": 2, "vocab_size": 1000, "quantization_config": {"quant_method": "fp8",
    "ignored_layers": ["model.layers.0.mlp"]}})";
  const Checkpoint checkpoint = read(eleven);
  EXPECT_THAT(checkpoint.wide, IsEmpty());
  EXPECT_THAT(checkpoint.notes, ::testing::Contains(HasSubstr("'down' keeps 16 bits in 1 of 11 layers, here in none")));
}

// gpt-oss-20b: experts 24 x 32 x 3 x 2880 x 2880 in 4.25 bits; the remaining 1.80 G of its 20.91 G in 16 bits: 13.76
// GB. Its three files have 13.76 GB.
TEST_F(HfCheckpoint, GptOssHasTheBytesOfItsFiles) {
  const Catalogue catalogue(PLIMSOLL_SOURCE_DIR "/configs");
  const auto gpt_oss = catalogue.model("openai/gpt-oss-20b");
  const double experts = 24.0 * 32 * 3 * 2880 * 2880, rest = 20914757184.0 - experts;
  EXPECT_NEAR(model::weight_bytes_per_rank(*gpt_oss, DType::mxfp4, 1, 1).value, experts * 4.25 / 8 + rest * 2, 1e3);
  EXPECT_NEAR(model::weight_bytes_per_rank(*gpt_oss, DType::mxfp4, 1, 1).value, 13.76e9, 0.01e9);
}

// Scales count only if the weights have the checkpoint's own type; 16-bit weights have none.
TEST_F(HfCheckpoint, ScalesAreBytesOfTheWeights) {
  const model::LlmShape awq =
      shape(dense(R"("quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128})"));
  const model::Matrix down = model::mlp_matrices(awq, 1, false).back();
  EXPECT_DOUBLE_EQ(model::matrix_bytes(down, DType::int4), 128 * 256 * (0.5 + 2.5 / 128));
  EXPECT_DOUBLE_EQ(model::matrix_bytes(down, DType::fp16), 128 * 256 * 2);
}

TEST_F(HfCheckpoint, FamiliesThatWouldBeWrongAreRefusedWithWhat) {
  const auto type = [&](const std::string& name) { return problem("{\"model_type\": \"" + name + "\"}"); };
  EXPECT_THAT(type("qwen3_next"),
              AllOf(HasSubstr("'qwen3_next' is not modelled"), HasSubstr("linear attention"), HasSubstr("too large")));
  EXPECT_THAT(type("nemotron_h"), HasSubstr("state-space"));
  EXPECT_THAT(type("deepseek_v32"), HasSubstr("indexer"));
  EXPECT_THAT(type("nemotron-nas"), HasSubstr("layers differ"));
  EXPECT_THAT(problem(R"({"model_type": "qwen3_5_moe", "text_config": {"model_type": "qwen3_5_moe_text"}})"),
              HasSubstr("linear attention"));
  EXPECT_THAT(problem(R"({"model_type": "kimi_k3", "text_config": {"model_type": "kimi_linear"}})"),
              HasSubstr("linear attention"));
}

TEST_F(HfCheckpoint, MultimodalModelsCountAsTheirLanguageModel) {
  const std::string text = dense(R"("torch_dtype": "bfloat16")");
  const model::LlmShape inside =
      shape(R"({"model_type": "mistral3", "vision_config": {"hidden_size": 7}, "text_config": )" + text + "}");
  EXPECT_EQ(inside.layers, 4);
  EXPECT_THAT(inside.notes, ElementsAre(HasSubstr("multimodal mistral3: only the language model is counted")));
  EXPECT_EQ(inside.checkpoint->dtype, DType::bf16);
  EXPECT_THAT(shape(text).notes, IsEmpty());
}

}  // namespace
}  // namespace plimsoll::configs
