// SPDX-License-Identifier: Apache-2.0
// Which rows of a checkpoint's tensors form the model's tensors. tests/exec/golden_test.cpp checks the same against
// transformers.
#include "exec/weights/tensor_names.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/exec/reference_model.h"
#include "tests/exec/safetensors_bytes.h"

namespace plimsoll::exec {
namespace {

// With two dimensions per head, rows are easy to count.
model::Architecture falcon(std::int32_t heads, std::int32_t kv_heads, bool parallel = true) {
  model::LlmShape s;
  s.family = "falcon";
  s.layers = 1;
  s.hidden = 8;
  s.heads = heads;
  s.kv_heads = kv_heads;
  s.head_dim = 2;
  s.intermediate = 32;
  s.vocab = 11;
  s.gated_mlp = false;
  s.parallel_attention = parallel;
  s.norm = model::Norm::layernorm;
  s.activation = "gelu";
  return model::default_architecture(s);
}

std::vector<std::int64_t> rows_of(const model::Architecture& a, TensorKind kind) {
  const TensorPlace place = tensor_places(a, "transformer.", {kind, 0, -1}).front();
  EXPECT_EQ(place.name, "transformer.h.0.self_attention.query_key_value.weight");
  std::vector<std::int64_t> rows;
  for (std::int64_t r = 0; r < shape_of(a, {kind, 0, -1}).rows; ++r) rows.push_back(place.file_row(r));
  return rows;
}

using Rows = std::vector<std::int64_t>;

// Layout [q0 q1 k0 v0 | q2 q3 k1 v1], two rows each.
TEST(TensorNames, FalconsNewDecoderHasAKeyAndAValueBehindEachGroupOfQueries) {
  const model::Architecture a = falcon(4, 2);
  EXPECT_EQ(rows_of(a, TensorKind::q), (Rows{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(rows_of(a, TensorKind::k), (Rows{4, 5, 12, 13}));
  EXPECT_EQ(rows_of(a, TensorKind::v), (Rows{6, 7, 14, 15}));
}

// Layout [q0 q1 q2 q3 k v].
TEST(TensorNames, FalconsSharedHeadStandsBehindAllQueries) {
  const model::Architecture a = falcon(4, 1);
  EXPECT_EQ(rows_of(a, TensorKind::q), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(rows_of(a, TensorKind::k), (Rows{8, 9}));
  EXPECT_EQ(rows_of(a, TensorKind::v), (Rows{10, 11}));
}

// Layout [q0 k0 v0 | q1 k1 v1].
TEST(TensorNames, FalconWithoutSharedHeadsHasTheThreeOfAHeadTogether) {
  const model::Architecture a = falcon(2, 2);
  EXPECT_EQ(rows_of(a, TensorKind::q), (Rows{0, 1, 6, 7}));
  EXPECT_EQ(rows_of(a, TensorKind::k), (Rows{2, 3, 8, 9}));
  EXPECT_EQ(rows_of(a, TensorKind::v), (Rows{4, 5, 10, 11}));
}

TEST(TensorNames, FalconsNormsDependOnTheDecoder) {
  const auto names = [](const model::Architecture& a) {
    std::vector<std::string> out;
    for (const TensorPlace& place : tensor_places(a, "", {TensorKind::mlp_norm, 0, -1})) out.push_back(place.name);
    return out;
  };
  EXPECT_EQ(names(falcon(4, 2)), (std::vector<std::string>{"h.0.ln_mlp.weight"}));
  EXPECT_EQ(names(falcon(4, 2, false)), (std::vector<std::string>{"h.0.post_attention_layernorm.weight"}));
}

// Phi-3: all queries, all keys, all values; all of gate, all of up.
TEST(TensorNames, FusedLlamaTensorsAreStacked) {
  const model::Architecture a = tiny_model("llama3");  // 4 heads, 2 KV heads of 16, width 176
  const auto fused = [&](TensorKind kind) { return tensor_places(a, "model.", {kind, 1, -1}).back(); };
  EXPECT_EQ(fused(TensorKind::q).name, "model.layers.1.self_attn.qkv_proj.weight");
  EXPECT_EQ(fused(TensorKind::q).shape, (std::vector<std::int64_t>{128, 64}));
  EXPECT_EQ(fused(TensorKind::q).file_row(63), 63);
  EXPECT_EQ(fused(TensorKind::k).file_row(0), 64);
  EXPECT_EQ(fused(TensorKind::v).file_row(0), 96);
  EXPECT_EQ(fused(TensorKind::up).name, "model.layers.1.mlp.gate_up_proj.weight");
  EXPECT_EQ(fused(TensorKind::gate).file_row(175), 175);
  EXPECT_EQ(fused(TensorKind::up).file_row(0), 176);
}

// Position 0 is row 2.
TEST(TensorNames, OptsPositionsBeginBehindTheOffset) {
  const model::Architecture a = tiny_model("opt");
  const TensorPlace place = tensor_places(a, "model.decoder.", {TensorKind::position_embedding, -1, -1}).front();
  EXPECT_EQ(place.name, "model.decoder.embed_positions.weight");
  EXPECT_EQ(place.shape.front(), a.shape.max_position + 2);
  EXPECT_EQ(place.file_row(0), 2);
  EXPECT_EQ(name_beginnings(a), (std::vector<std::string>{"model.decoder.", "decoder."}));
}

// Mixtral saves w1, w2, w3 per expert, others gate, down, up, or one tensor for all experts, [experts, 2 x 88, 64].
TEST(TensorNames, ExpertsAreFoundInEveryForm) {
  const model::Architecture a = tiny_model("mixtral");
  const auto up = tensor_places(a, "model.", {TensorKind::expert_up, 0, 3});
  ASSERT_EQ(up.size(), 3U);
  EXPECT_EQ(up[0].name, "model.layers.0.block_sparse_moe.experts.3.w3.weight");
  EXPECT_EQ(up[1].name, "model.layers.0.mlp.experts.3.up_proj.weight");
  EXPECT_EQ(up[2].name, "model.layers.0.mlp.experts.gate_up_proj");
  EXPECT_EQ(up[2].shape, (std::vector<std::int64_t>{4, 176, 64}));
  EXPECT_EQ(up[2].file_row(5), 3 * 176 + 88 + 5);
  const auto down = tensor_places(a, "model.", {TensorKind::expert_down, 0, 2});
  EXPECT_EQ(down[0].name, "model.layers.0.block_sparse_moe.experts.2.w2.weight");
  EXPECT_EQ(down[2].shape, (std::vector<std::int64_t>{4, 64, 88}));
  EXPECT_EQ(down[2].file_row(1), 2 * 64 + 1);
}

TEST(TensorNames, ATiedHeadIsNotAskedFor) {
  const auto has_head = [](const model::Architecture& a) {
    for (const TensorRef& tensor : tensors_of(a))
      if (tensor.kind == TensorKind::lm_head) return true;
    return false;
  };
  EXPECT_FALSE(has_head(tiny_model("qwen2")));
  EXPECT_TRUE(has_head(tiny_model("llama")));
}

// The tensors that a model has and those that it lacks are disjoint. Together with the kinds that are never queried,
// they are all kinds.
TEST(TensorNames, NoTensorIsBothThereAndLacking) {
  for (const std::string& family : tiny_families()) {
    const model::Architecture a = tiny_model(family);
    std::set<std::string> there;
    for (const TensorRef& tensor : tensors_of(a)) EXPECT_TRUE(there.insert(describe(tensor)).second) << family;
    for (const TensorRef& tensor : tensors_of(a, Presence::lacking))
      EXPECT_FALSE(there.contains(describe(tensor))) << family << describe(tensor);
  }
}

// A config.json may describe 10 000 layers of 100 000 experts: 3e9 tensors, which must not all be listed to find the
// first missing one.
TEST(TensorNames, AVisitCanEnd) {
  model::Architecture a = tiny_model("mixtral");
  a.shape.layers = 10'000;
  a.shape.moe->experts = 100'000;
  int visits = 0;
  visit_tensors(a, [&](const TensorRef&, Presence) { return ++visits < 100; });
  EXPECT_EQ(visits, 100);
}

}  // namespace
}  // namespace plimsoll::exec
