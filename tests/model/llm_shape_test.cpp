// SPDX-License-Identifier: Apache-2.0
#include "model/llm_shape.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "model/tp_layout.h"
#include "tests/model/shapes.h"

namespace plimsoll::model {
namespace {

TEST(LlmShape, CountsTheWeightsOfEveryFamily) {
  for (const PublishedShape& published : published_shapes()) {
    EXPECT_EQ(weight_count(published.shape), published.weights) << published.shape.id;
    EXPECT_EQ(active_weight_count(published.shape), published.active) << published.shape.id;
    EXPECT_EQ(kv_bytes_per_token(published.shape, DType::fp16).value, published.kv_bytes_fp16) << published.shape.id;
  }
}

TEST(LlmShape, KvBytesFollowTheCacheType) {
  const LlmShape& shape = shape_named("llama-2-7b");
  EXPECT_EQ(kv_bytes_per_token(shape, DType::fp8).value, 262144);
  EXPECT_EQ(kv_bytes_per_token(shape, DType::fp32).value, 1048576);
}

TEST(DType, NamesAreReadBack) {
  for (const DType dtype :
       {DType::fp32, DType::fp16, DType::bf16, DType::fp8, DType::int8, DType::int4, DType::nvfp4, DType::mxfp4}) {
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("bfloat16"), DType::bf16);
  EXPECT_FALSE(dtype_from_name("fp12").has_value());
}

// 4 bits per weight, and a scale of 8 bits for every 16 or 32 weights.
TEST(DType, FourBitFloatsHaveTheirScales) {
  EXPECT_EQ(bytes_per_element(DType::nvfp4), (16 * 4 + 8) / 8.0 / 16);
  EXPECT_EQ(bytes_per_element(DType::mxfp4), (32 * 4 + 8) / 8.0 / 32);
}

TEST(LlmShape, LayersAreWindowedAndHaveExpertsWhereTheModelSaysSo) {
  LlmShape shape = shape_named("mixtral-8x7b");
  shape.layers = 6;
  shape.sliding_window = 128;
  shape.windows = {1, 1, 0, 1, 1, 0};  // every third layer attends to all tokens
  shape.moe->period = 2;               // experts in layers 1, 3, 5
  for (std::int32_t layer = 0; layer < 6; ++layer) {
    EXPECT_EQ(layer_kind(shape, layer).windowed, layer % 3 != 2) << layer;
    EXPECT_EQ(layer_kind(shape, layer).moe, layer % 2 == 1) << layer;
  }
  // Three layers have an MLP instead of eight experts and a router.
  LlmShape all = shape;
  all.moe->period = 1;
  const double expert = 3.0 * shape.hidden * shape.moe->intermediate, router = 8.0 * shape.hidden;
  EXPECT_EQ(weight_count(all) - weight_count(shape),
            3 * (8 * expert + router - 3.0 * shape.hidden * shape.intermediate));
}

// Rows of published_shapes.csv by model; the cells of a row by column name.
using Fields = std::map<std::string, std::string>;

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

std::map<std::string, Fields> read_models(std::istream& in) {
  std::map<std::string, Fields> models;
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('#')) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (names.empty())
      names = cells;
    else
      for (std::size_t i = 1; i < names.size(); ++i) models[cells.at(0)][names[i]] = cells.at(i);
  }
  return models;
}

double number(const Fields& fields, const std::string& key) { return std::strtod(fields.at(key).c_str(), nullptr); }
std::int32_t whole(const Fields& fields, const std::string& key) {
  return static_cast<std::int32_t>(number(fields, key));
}
bool flag(const Fields& fields, const std::string& key) { return fields.at(key) == "1"; }
bool states(const Fields& fields, const std::string& key) { return !fields.at(key).empty(); }

LlmShape to_shape(const Fields& f) {
  LlmShape s;
  s.family = f.at("family");
  s.layers = whole(f, "layers");
  s.hidden = whole(f, "hidden");
  s.heads = whole(f, "heads");
  s.kv_heads = whole(f, "kv_heads");
  s.head_dim = whole(f, "head_dim");
  s.intermediate = whole(f, "intermediate");
  s.vocab = whole(f, "vocab");
  s.max_position = whole(f, "max_position");
  s.gated_mlp = flag(f, "gated_mlp");
  s.parallel_attention = flag(f, "parallel_attention");
  s.qkv_bias = flag(f, "qkv_bias");
  s.qk_norm = flag(f, "qk_norm");
  s.tie_embeddings = flag(f, "tie_embeddings");
  s.learned_positions = flag(f, "learned_positions");
  s.norm = f.at("norm") == "layernorm" ? Norm::layernorm : Norm::rmsnorm;
  if (states(f, "experts")) {
    s.moe = MoeShape{whole(f, "experts"), whole(f, "experts_per_token"), whole(f, "shared_experts"),
                     whole(f, "moe_intermediate"), whole(f, "first_k_dense")};
  }
  if (states(f, "kv_lora_rank")) {
    s.mla = MlaShape{whole(f, "q_lora_rank"), whole(f, "kv_lora_rank"), whole(f, "qk_nope_head_dim"),
                     whole(f, "qk_rope_head_dim"), whole(f, "v_head_dim")};
  }
  return s;
}

TEST(LlmShape, ReproducesEveryCountOfTheModelTable) {
  std::ifstream in(PLIMSOLL_SOURCE_DIR "/tests/model/published_shapes.csv");
  const auto models = read_models(in);
  EXPECT_EQ(models.size(), 56U);
  for (const auto& [id, fields] : models) {
    const LlmShape shape = to_shape(fields);
    EXPECT_EQ(weight_count(shape), number(fields, "weights_params")) << id;
    EXPECT_EQ(active_weight_count(shape), number(fields, "active_params")) << id;
    EXPECT_EQ(kv_bytes_per_token(shape, DType::fp16).value, number(fields, "kv_bytes_per_token_fp16")) << id;
  }
}

}  // namespace
}  // namespace plimsoll::model
