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

// Its scores reach the cap: weights of deviation 0.02 alone would leave them near 0.
model::Architecture gemma(const std::string& family) {
  model::Architecture a = llama_like();
  a.shape.family = family;
  a.shape.norms = 4;
  a.shape.sliding_window = 7;
  a.shape.tie_embeddings = true;
  a.activation = model::Activation::gelu_tanh;
  a.embedding_scale = 8;
  a.norm_from_one = true;
  a.attention_scale = 0.2;
  if (family == "gemma2") {
    a.shape.window_period = 2;
    a.attention_cap = 0.05;
    a.logit_cap = 0.4;
  } else {
    a.shape.windows = {1, 0};
    a.shape.qk_norm = true;
    a.window_rope = a.rope;
    a.rope.base = 1e6;
  }
  return a;
}

model::Architecture glm4() {
  model::Architecture a = llama_like();
  a.shape.family = "glm4";
  a.shape.norms = 4;
  a.shape.qkv_bias = true;
  a.rope.rotary_dim = 8;
  a.rope.interleaved = true;
  return a;
}

// Latents of 20 and a rotated key of 6 have no whole vectors either.
model::Architecture deepseek(const std::string& family) {
  const bool v3 = family == "deepseek_v3";
  model::Architecture a = llama_like();
  a.shape.family = family;
  a.shape.kv_heads = 4;
  a.shape.mla = model::MlaShape{
      .q_lora_rank = v3 ? 18 : 0, .kv_lora_rank = 20, .qk_nope_head_dim = 10, .qk_rope_head_dim = 6, .v_head_dim = 12};
  a.shape.moe = model::MoeShape{
      .experts = 8, .experts_per_token = 3, .shared_experts = 2, .intermediate = 44, .first_dense_layers = 1};
  a = model::default_architecture(a.shape);
  a.routing.groups = 4;
  a.routing.open_groups = 2;
  return a;
}

model::Architecture gpt_oss() {
  model::Architecture a = llama_like();
  a.shape.family = "gpt_oss";
  a.shape.qkv_bias = true;
  a.shape.sliding_window = 7;
  a.shape.window_period = 2;
  a.shape.moe = model::MoeShape{.experts = 4, .experts_per_token = 2, .intermediate = 44};
  a = model::default_architecture(a.shape);
  a.clamped_swiglu.limit = 0.02;  // in reach of weights of deviation 0.02
  return a;
}

void add_experts(model::Architecture& a, const std::string& family) {
  if (family == "qwen2_moe") {
    a.shape.qkv_bias = true;
    a.shape.moe = model::MoeShape{.experts = 6,
                                  .experts_per_token = 3,
                                  .intermediate = 44,
                                  .period = 2,
                                  .shared_intermediate = 52,
                                  .shared_gate = true};
    a.routing.normalised = false;
  } else {
    a.shape.family = family;
    a.shape.moe = model::MoeShape{
        .experts = 6, .experts_per_token = 3, .shared_experts = 1, .intermediate = 44, .first_dense_layers = 1};
    a.routing.sigmoid = a.routing.choice_bias = true;
    a.routing.scale = 1.5;
  }
}

}  // namespace

std::vector<std::string> tiny_families() {
  return {"llama", "llama3",      "mistral",     "qwen2",   "qwen3",     "falcon_mqa", "falcon_groups", "gptj",
          "opt",   "mixtral",     "gemma2",      "gemma3",  "granite",   "smollm3",    "glm4",          "yarn",
          "olmo2", "deepseek_v2", "deepseek_v3", "gpt_oss", "qwen2_moe", "nemotron",   "glm4_moe"};
}

std::vector<std::string> tiny_gpu_families() {
  std::vector<std::string> families = tiny_families();
  std::erase_if(families, [](const std::string& f) { return !model::cpu_only_part(tiny_model(f)).empty(); });
  return families;
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
  if (family == "gemma2" || family == "gemma3") a = gemma(family);
  if (family == "glm4") a = glm4();
  if (family.starts_with("deepseek")) a = deepseek(family);
  if (family == "gpt_oss") a = gpt_oss();
  if (family == "nemotron") {
    a = plain_mlp(family, model::Activation::relu2);
    a.norm_from_one = true;
    a.rope.rotary_dim = 8;
  }
  if (family.ends_with("_moe")) add_experts(a, family);
  if (family == "granite") {
    a.embedding_scale = 6;
    a.residual_scale = 0.3;
    a.attention_scale = 0.1;
    a.logit_scale = 1 / 3.0;
  }
  if (family == "olmo2") {
    a.shape.family = "olmo2";
    a.shape.qk_norm = a.norms_only_after = true;
  }
  if (family == "smollm3") a.layers_unrotated = {0, 1};
  if (family == "yarn") {
    a.rope.scaling = model::RopeScaling::yarn;
    a.rope.factor = 4;
    a.rope.original_max_position = 16;
    a.rope.magnitude = 1.2;
  }
  if (family == "opt") a = opt();
  if (family == "mixtral")
    a.shape.moe = model::MoeShape{
        .experts = 4, .experts_per_token = 2, .shared_experts = 0, .intermediate = 88, .first_dense_layers = 0};
  a.shape.id = "tiny-" + family;
  return a;
}

}  // namespace plimsoll::exec
