// SPDX-License-Identifier: Apache-2.0
#include "tests/exec/reference_model.h"

namespace plimsoll::exec {

namespace {

// Hidden 64, 4 heads of 16, MLP 176: none is a multiple of a wide kernel's tile.
model::Architecture llama_like() {
  model::Architecture a;
  a.shape.id = "tiny";
  a.shape.family = "llama";
  a.shape.layers = 2;
  a.shape.hidden = 64;
  a.shape.heads = 4;
  a.shape.kv_heads = 2;
  a.shape.head_dim = 16;
  a.shape.intermediate = 176;
  a.shape.vocab = 97;
  a.shape.max_position = 512;
  a.rope.rotary_dim = 16;
  return a;
}

model::Architecture plain_mlp(const std::string& family, model::Activation activation) {
  model::Architecture a = llama_like();
  a.shape.family = family;
  a.shape.gated_mlp = false;
  a.shape.norm = model::Norm::layernorm;
  a.norm_bias = true;
  a.activation = activation;
  return a;
}

model::Architecture falcon(std::int32_t kv_heads) {
  model::Architecture a = plain_mlp("falcon", model::Activation::gelu);
  a.shape.kv_heads = kv_heads;
  a.shape.parallel_attention = true;
  a.shape.tie_embeddings = true;
  return a;
}

model::Architecture gptj() {
  model::Architecture a = plain_mlp("gptj", model::Activation::gelu_tanh);
  a.shape.kv_heads = 4;
  a.shape.parallel_attention = true;
  a.rope.rotary_dim = 8;
  a.rope.interleaved = true;
  a.mlp_bias = a.lm_head_bias = true;
  return a;
}

model::Architecture opt() {
  model::Architecture a = plain_mlp("opt", model::Activation::relu);
  a.shape.kv_heads = 4;
  a.shape.learned_positions = a.shape.qkv_bias = a.shape.tie_embeddings = true;
  a.attention_out_bias = a.mlp_bias = true;
  a.position_offset = 2;
  a.rope.rotary_dim = 0;
  return a;
}

}  // namespace

std::vector<std::string> tiny_families() {
  return {"llama", "llama3", "mistral", "qwen2", "qwen3", "falcon_mqa", "falcon_groups", "gptj", "opt", "mixtral"};
}

model::Architecture tiny_model(const std::string& family) {
  model::Architecture a = llama_like();
  if (family == "llama") a.shape.kv_heads = 4;
  if (family == "llama3")
    a.rope = {.base = 500'000,
              .rotary_dim = 16,
              .interleaved = false,
              .scaling = model::RopeScaling::llama3,
              .factor = 8,
              .low_freq_factor = 1,
              .high_freq_factor = 4,
              .original_max_position = 64};
  if (family == "mistral") a.shape.sliding_window = 7;
  if (family == "qwen2") a.shape.qkv_bias = a.shape.tie_embeddings = true;
  if (family == "qwen3") {
    a.shape.qk_norm = true;
    a.shape.head_dim = a.rope.rotary_dim = 24;  // heads wider than hidden / heads
    a.shape.kv_heads = 1;                       // replicated when tp > 1
  }
  if (family == "falcon_mqa") a = falcon(1);
  if (family == "falcon_groups") a = falcon(2);
  if (family == "gptj") a = gptj();
  if (family == "opt") a = opt();
  if (family == "mixtral")
    a.shape.moe = model::MoeShape{
        .experts = 4, .experts_per_token = 2, .shared_experts = 0, .intermediate = 88, .first_dense_layers = 0};
  a.shape.id = "tiny-" + family;
  return a;
}

}  // namespace plimsoll::exec
