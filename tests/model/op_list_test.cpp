// SPDX-License-Identifier: Apache-2.0
#include "model/op_list.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/model/shapes.h"

namespace plimsoll::model {
namespace {

std::string names(const std::vector<Op>& ops) {
  std::string text;
  for (const Op& op : ops) {
    if (!text.empty()) text.push_back(' ');
    text.append(name(op.id));
  }
  return text;
}

template <class Field>
double total(const OpList& list, Field field) {
  double sum = 0;
  for_each_op(list, [&](const Op& op) { sum += op.count * field(op); });
  return sum;
}
double total_flops(const OpList& list) {
  return total(list, [](const Op& op) { return op.flops; });
}
double total_weights(const OpList& list) {
  return total(list, [](const Op& op) { return op.weight_bytes; });
}
double count_of(const OpList& list, OpKind kind) {
  return total(list, [&](const Op& op) { return op.kind == kind ? 1.0 : 0.0; });
}

ForwardWork prefill_work(const PrefillSpan& span) {
  ForwardWork work;
  work.prefill = {&span, 1};
  work.sampled = span.new_tokens;  // all rows go through the LM head, so FLOPs are 2 * weights * tokens
  return work;
}

// Files and outputs contain the names, so each name must identify one op. The last enumerator bounds the loop.
TEST(OpList, EachNameBelongsToOneOp) {
  for (int i = 1; i <= static_cast<int>(OpId::sample_exchange); ++i) {
    const OpId id = static_cast<OpId>(i);
    EXPECT_EQ(op_id(name(id)), id) << name(id);
  }
  EXPECT_EQ(name(OpId::none), "");
  EXPECT_EQ(op_id(""), std::nullopt);
  EXPECT_EQ(op_id("forward"), std::nullopt);
}

TEST(OpList, OneLayerOfADenseModelInOrder) {
  const OpList list = make_op_list({.shape = &shape_named("llama-2-7b"), .capabilities = {}},
                                   decode_work(shape_named("llama-2-7b"), 4, 100));
  EXPECT_EQ(names(list.before), "embed");
  ASSERT_EQ(list.layers.size(), 1u);
  EXPECT_EQ(list.layers[0].layers, 32);
  EXPECT_EQ(names(list.layers[0].ops),
            "input_norm qkv rope_append decode_attention attention_out mlp_norm gate_up activation down");
  EXPECT_EQ(names(list.after), "final_norm lm_head sample");
}

TEST(OpList, CapabilitiesSplitWhatABackendCannotFuse) {
  const BackendCapabilities none{false, false, false, false};
  const OpList list = make_op_list({.shape = &shape_named("qwen3-8b"), .capabilities = none},
                                   decode_work(shape_named("qwen3-8b"), 1, 10));
  EXPECT_EQ(names(list.layers[0].ops),
            "residual_add input_norm q k v qk_norm rope append decode_attention attention_out "
            "residual_add mlp_norm gate up activation down");
  const OpList fused = make_op_list({.shape = &shape_named("qwen3-8b"), .capabilities = {}},
                                    decode_work(shape_named("qwen3-8b"), 1, 10));
  EXPECT_EQ(total_weights(list), total_weights(fused));
}

TEST(OpList, TensorParallelLayersReduceTwiceAndParallelAttentionOnce) {
  const LlmShape& llama = shape_named("llama-2-7b");
  const ForwardWork work = decode_work(llama, 4, 100);
  const OpList one = make_op_list({.shape = &llama, .capabilities = {}}, work);
  EXPECT_EQ(count_of(one, OpKind::all_reduce), 0);
  const OpList four = make_op_list({.shape = &llama, .tp = 4, .capabilities = {}}, work);
  EXPECT_EQ(count_of(four, OpKind::all_reduce), 2 * 32 + 2);  // plus those of embedding and sampling
  const LlmShape& falcon = shape_named("falcon-40b");
  const OpList parallel = make_op_list({.shape = &falcon, .tp = 4, .capabilities = {}}, decode_work(falcon, 4, 100));
  EXPECT_EQ(count_of(parallel, OpKind::all_reduce), 60 + 2);
  EXPECT_EQ(names(parallel.layers[0].ops),
            "input_norm qkv rope_append decode_attention attention_out mlp_norm up activation down layer_all_reduce");
}

TEST(OpList, PipelineStagesSendOnceABoundary) {
  const LlmShape& llama = shape_named("llama-2-70b");
  const OpList list = make_op_list({.shape = &llama, .pp = 4, .capabilities = {}}, decode_work(llama, 8, 100));
  EXPECT_EQ(count_of(list, OpKind::send), 3);
}

TEST(OpList, LayerGroupsFollowWindowsAndExperts) {
  const auto gemma = layer_groups(shape_named("gemma-2-9b"));
  ASSERT_EQ(gemma.size(), 2u);
  EXPECT_TRUE(gemma[0].kind.windowed);
  EXPECT_EQ(gemma[0].layers, 21);
  EXPECT_EQ(gemma[1].layers, 21);
  const auto deepseek = layer_groups(shape_named("deepseek-v3"));
  ASSERT_EQ(deepseek.size(), 2u);
  EXPECT_EQ(deepseek[0].layers, 3);
  EXPECT_TRUE(deepseek[1].kind.moe);
  EXPECT_EQ(deepseek[1].layers, 58);
}

// Returns the number of weights in matrices: all but norms, biases, and the gathered rows of embedding and positions.
double matrix_elements(const LlmShape& shape, bool active) {
  double elements = 0;
  for (const LayerGroup& group : layer_groups(shape)) {
    std::vector<Matrix> matrices = attention_matrices(shape, 1);
    const std::vector<Matrix> mlp = mlp_matrices(shape, 1, group.kind.moe);
    matrices.insert(matrices.end(), mlp.begin(), mlp.end());
    for (const Matrix& m : matrices) {
      const double used = active && m.copies > 1 ? shape.moe->experts_per_token / double(m.copies) : 1.0;
      elements += group.layers * used * m.elements();
    }
  }
  return elements + double(shape.vocab) * shape.hidden;
}

TEST(OpList, FlopsAreTwiceTheWeightsAToken) {
  for (const PublishedShape& published : published_shapes()) {
    const LlmShape& shape = published.shape;
    const PrefillSpan span{64, 0};
    const OpList list = make_op_list({.shape = &shape, .capabilities = {}}, prefill_work(span));
    const double linear = 2 * 64 * matrix_elements(shape, true);
    const double width = shape.mla ? 128 + 64 + 128 : 2.0 * shape.head_dim;
    const double attention = 2 * shape.layers * shape.heads * width * (64 * 65 / 2);
    EXPECT_NEAR(total_flops(list) / (linear + attention), 1, 1e-12) << shape.id;
  }
}

TEST(OpList, DenseWeightsAreReadOnceWhateverTheBatch) {
  for (const PublishedShape& published : published_shapes()) {
    if (published.shape.moe) continue;
    for (const std::int64_t rows : {1, 64}) {
      const OpList list =
          make_op_list({.shape = &published.shape, .capabilities = {}}, decode_work(published.shape, rows, 10));
      EXPECT_EQ(total_weights(list), 2 * matrix_elements(published.shape, false)) << published.shape.id;
    }
  }
}

TEST(OpList, ExpertsReadGrowWithTheBatch) {
  // Mixtral: one token reaches 2 of 8 experts; 4 tokens reach 8 (1 - (3/4)^4) = 5.469; many tokens reach all 8.
  EXPECT_NEAR(expected_experts(8, 2, 1), 2, 1e-12);
  EXPECT_NEAR(expected_experts(8, 2, 4), 5.46875, 1e-12);
  EXPECT_NEAR(expected_experts(8, 2, 1000), 8, 1e-12);
  EXPECT_EQ(expected_experts(4, 4, 1), 4);
  const LlmShape& mixtral = shape_named("mixtral-8x7b");
  const OpList one = make_op_list({.shape = &mixtral, .capabilities = {}}, decode_work(mixtral, 1, 10));
  EXPECT_NEAR(total_weights(one), 2 * matrix_elements(mixtral, true), 1e3);
  EXPECT_EQ(names(one.layers[0].ops),
            "input_norm qkv rope_append decode_attention attention_out mlp_norm router route expert_gate_up "
            "expert_activation expert_down combine");
}

TEST(OpList, SharedExpertsAndLatentAttentionOfDeepSeek) {
  const LlmShape& shape = shape_named("deepseek-v3");
  const OpList list = make_op_list({.shape = &shape, .tp = 8, .capabilities = {}}, decode_work(shape, 1, 1000));
  EXPECT_EQ(names(list.layers[1].ops),
            "input_norm q_down q_norm q_up kv_down kv_norm kv_up rope_append decode_attention attention_out "
            "attention_all_reduce mlp_norm router shared_gate_up shared_activation shared_down route expert_gate_up "
            "expert_activation expert_down combine mlp_all_reduce");
  // Every rank reads the latent of 576 elements once for all heads.
  const Op attention = decode_attention_op({.shape = &shape, .tp = 8, .capabilities = {}}, 1, 1000);
  EXPECT_EQ(attention.kv_bytes, 1000 * 576 * 2);
  EXPECT_EQ(attention.flops, 2.0 * 16 * (576 + 512) * 1000);
}

TEST(OpList, ReplicatedKvHeadsAreReadByEveryRank) {
  const LlmShape& shape = shape_named("llama-2-70b");  // 8 KV heads
  const auto kv = [&](std::int32_t tp) {
    return decode_attention_op({.shape = &shape, .tp = tp, .capabilities = {}}, 1, 1000).kv_bytes;
  };
  EXPECT_EQ(kv(1), 1000 * 8 * 256 * 2);
  EXPECT_EQ(kv(8), kv(1) / 8);
  EXPECT_EQ(kv(16), kv(8));
}

TEST(AttentionPairs, AreCausalAndStopAtTheWindow) {
  EXPECT_EQ(attention_pairs({4, 0}, 0), 1 + 2 + 3 + 4);
  EXPECT_EQ(attention_pairs({2, 10}, 0), 11 + 12);
  EXPECT_EQ(attention_pairs({4, 0}, 2), 1 + 2 + 2 + 2);
  EXPECT_EQ(attention_pairs({3, 2}, 4), 3 + 4 + 4);
  EXPECT_EQ(attention_pairs({3, 100}, 4), 12);
  EXPECT_EQ(attention_pairs({4, 0}, 4), 10);
}

}  // namespace
}  // namespace plimsoll::model
