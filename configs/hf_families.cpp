// SPDX-License-Identifier: Apache-2.0
// A missing field takes the default of the model type's class in transformers (configuration_<type>.py), because files
// omit fields that equal their default.
#include "configs/hf_families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "configs/catalogue.h"
#include "configs/text_file.h"
#include "model/tp_layout.h"

namespace plimsoll::configs {

namespace {

using model::LlmShape;
using nlohmann::json;

void note(LlmShape& m, std::string_view text) { m.source += fmt::format("; {}", text); }

// --- windows of attention

// Simplifies the list of windows: none, all layers, alternating from the first layer, or the list itself.
void set_windows(const JsonFields& f, const char* field, std::vector<std::uint8_t> windows, LlmShape& m) {
  const auto follows = [&](std::size_t period) {
    for (std::size_t i = 0; i < windows.size(); ++i)
      if ((windows[i] != 0) != (period > 0 && i % period == 0)) return false;
    return true;
  };
  m.window_period = 1;
  if (follows(0)) {
    m.sliding_window = 0;
  } else if (follows(2)) {
    m.window_period = 2;
  } else if (!follows(1)) {
    if (windows.size() != static_cast<std::size_t>(m.layers))
      f.fail(field, fmt::format("expected a kind for each of the {} layers, found {}", m.layers, windows.size()));
    m.windows = std::move(windows);
  }
}

// Sets windows in all layers but every `period`-th, which attends globally.
void set_full_every(const JsonFields& f, const char* field, std::int32_t period, LlmShape& m) {
  std::vector<std::uint8_t> windows;
  for (std::int32_t layer = 0; layer < m.layers; ++layer) windows.push_back((layer + 1) % period != 0 ? 1 : 0);
  set_windows(f, field, std::move(windows), m);
}

// Reads the kinds of layers as the file lists them.
void read_layer_types(const JsonFields& f, LlmShape& m) {
  const json* types = f.find("layer_types");
  if (types == nullptr || !types->is_array() || m.sliding_window == 0) return;
  std::vector<std::uint8_t> windows;
  for (const json& type : *types) {
    const bool full = type == "full_attention";
    if (!full && type != "sliding_attention" && type != "chunked_attention")
      f.fail("layer_types",
             fmt::format(
                 "found {}, expected full_attention, sliding_attention or chunked_attention: other kinds of layer are "
                 "not modelled, cache and attention would be wrong",
                 shortened(type.dump())));
    windows.push_back(full ? 0 : 1);
  }
  set_windows(f, "layer_types", std::move(windows), m);
}

// Reads a window for all layers, ignoring the file's other window fields, which these classes do not read. null means
// no window; `fallback` replaces a missing field.
void read_window(const JsonFields& f, LlmShape& m, std::int32_t fallback = 0) {
  m.sliding_window = f.find("sliding_window") == nullptr ? fallback : f.whole_or("sliding_window", kPositions, 0);
}

constexpr std::int32_t kQwenWindow = 4096;

// Qwen uses windows only if use_sliding_window is set: in the layers that layer_types lists, else from
// max_window_layers on.
void read_qwen_window(const JsonFields& f, LlmShape& m) {
  if (!f.flag_or("use_sliding_window", false)) return;
  if (!f.is_null("layer_types")) {
    read_window(f, m, kQwenWindow);
    read_layer_types(f, m);
    return;
  }
  constexpr std::int32_t kClassLayers = 28;
  const std::int32_t first = f.whole_or("max_window_layers", {0, kLayers.max}, kClassLayers);
  if (first >= m.layers) return;
  read_window(f, m, kQwenWindow);
  std::vector<std::uint8_t> windows;
  for (std::int32_t layer = 0; layer < m.layers; ++layer) windows.push_back(layer >= first ? 1 : 0);
  set_windows(f, "max_window_layers", std::move(windows), m);
}

// --- dense families

void read_dense(const JsonFields& f, LlmShape& m) {
  m.intermediate = f.whole("intermediate_size", kWidth);
  m.kv_heads = f.whole_or("num_key_value_heads", kHeads, m.heads);
  m.qkv_bias = f.flag_or({"attention_bias", "qkv_bias"}, false);
  if (m.qkv_bias) note(m, "the bias of the attention's output is not counted");
  if (f.flag_or("mlp_bias", false)) note(m, "biases of the MLP are not counted");
}

// `usual` is the class's default for the rotated share of the dimensions.
void read_partial_rotary(const JsonFields& f, LlmShape& m, double usual) {
  double factor = f.number_or("partial_rotary_factor", 0, 1, usual);
  // Files written by transformers 5 keep this factor beside the base.
  if (const auto rope = f.inside("rope_parameters")) factor = rope->number_or("partial_rotary_factor", 0, 1, factor);
  if (factor < 1) m.rotary_dim = static_cast<std::int32_t>(m.head_dim * factor);
  if (factor < 1 && m.rotary_dim < 1)
    f.fail("partial_rotary_factor", fmt::format("found {}: no dimension rotates", factor));
}

void read_llama(const JsonFields& f, LlmShape& m) { read_dense(f, m); }

void read_olmo2(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  m.qk_norm = true;
}

// Layers without a rotation cost the same. Windows, which no published file has, follow layer_types.
void read_smollm3(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  if (!f.flag_or("use_sliding_window", false)) return;
  read_window(f, m);
  read_layer_types(f, m);
}

void read_mistral(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  constexpr std::int32_t kClassWindow = 4096;
  read_window(f, m, kClassWindow);
}

void read_qwen2(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  m.qkv_bias = true;  // not configurable
  read_qwen_window(f, m);
}

void read_qwen3_attention(const JsonFields& f, LlmShape& m) {
  constexpr std::int32_t kClassHeadDim = 128;
  if (f.find("head_dim") == nullptr) m.head_dim = kClassHeadDim;
  read_dense(f, m);
  m.qk_norm = true;
}

void read_qwen3(const JsonFields& f, LlmShape& m) {
  read_qwen3_attention(f, m);
  read_qwen_window(f, m);
}

void read_phi3(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  read_partial_rotary(f, m, 1);
  read_window(f, m);
}

void read_gemma2(const JsonFields& f, LlmShape& m) {
  constexpr std::int32_t kClassHeadDim = 256, kClassWindow = 4096;
  if (f.find("head_dim") == nullptr) m.head_dim = kClassHeadDim;
  read_dense(f, m);
  m.window_period = 2;
  read_window(f, m, kClassWindow);
  read_layer_types(f, m);
  if (m.sliding_window == 0) m.window_period = 1;
}

// --- families older than Llama

// 7B shares one KV head; 40B and 180B (the "new decoder") have groups of heads.
void read_falcon(const JsonFields& f, LlmShape& m) {
  const FieldName kKvHeads = {"num_kv_heads", "n_head_kv"};
  m.gated_mlp = false;
  m.norm = model::Norm::layernorm;
  m.intermediate = f.whole_or("ffn_hidden_size", kWidth, 4 * m.hidden);
  const bool old_file_of_groups = !f.is_null(kKvHeads) && f.is_null("multi_query");
  const bool groups = f.flag_or("new_decoder_architecture", old_file_of_groups);
  const bool one_head = !groups && f.flag_or("multi_query", true);
  m.kv_heads = one_head ? 1 : f.whole_or(kKvHeads, kHeads, m.heads);
  m.parallel_attention = groups || f.flag_or("parallel_attn", true);
  const std::int32_t beside = groups ? f.whole_or("num_ln_in_parallel_attn", {1, 2}, 2) : 1;
  const std::int32_t norms = m.parallel_attention ? beside : 2;
  if (norms != model::norms_per_layer(m)) m.norms = norms;
  m.qkv_bias = f.flag_or("bias", false);
  if (m.qkv_bias) note(m, "other biases than those of Q, K and V are not counted");
  if (m.max_position == 0) m.max_position = 2048;  // default of the class
}

void read_gptj(const JsonFields& f, LlmShape& m) {
  m.gated_mlp = false;
  m.norm = model::Norm::layernorm;
  m.parallel_attention = true;
  m.kv_heads = m.heads;
  m.intermediate = f.whole_or("n_inner", kWidth, 4 * m.hidden);
  m.rotary_dim = f.find("rotary_dim") == nullptr ? 64 : f.whole_or("rotary_dim", {1, m.head_dim}, 0);
}

void read_opt(const JsonFields& f, LlmShape& m) {
  m.gated_mlp = false;
  m.norm = model::Norm::layernorm;
  m.learned_positions = true;
  m.kv_heads = m.heads;
  m.intermediate = f.whole("ffn_dim", kWidth);
  m.qkv_bias = f.flag_or("enable_bias", true);
  if (!m.qkv_bias) note(m, "biases of the output and the MLP are counted though there are none");
  if (m.max_position == 0) f.fail("max_position_embeddings", "is missing: it is the size of the position table");
  if (f.whole_or("word_embed_proj_dim", kWidth, m.hidden) != m.hidden)
    f.fail("word_embed_proj_dim",
           fmt::format("embeddings narrower than the layers are not modelled, expected {}", m.hidden));
  if (!f.flag_or("do_layer_norm_before", true)) f.fail("do_layer_norm_before", "found false; only true is modelled");
}

// --- mixtures of experts

struct ExpertFields {
  FieldName experts;
  const char* intermediate;
};

void read_moe(const JsonFields& f, LlmShape& m, const ExpertFields& names) {
  model::MoeShape moe;
  moe.experts = f.whole(names.experts, kExperts);
  moe.experts_per_token = f.whole("num_experts_per_tok", {1, moe.experts});
  moe.intermediate = f.whole(names.intermediate, kWidth);
  m.moe = moe;
}

void require_one(const JsonFields& f, const char* field) {
  if (f.whole_or(field, kLayers, 1) != 1) f.fail(field, "expected 1: experts in some layers only are not modelled");
}

void read_mixtral(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  read_moe(f, m, {"num_local_experts", "intermediate_size"});
  read_window(f, m);
}

// Experts are in every decoder_sparse_step-th layer. mlp_only_layers lists layers without experts; they are modelled if
// they are the first layers.
void read_qwen_experts(const JsonFields& f, LlmShape& m) {
  read_moe(f, m,
           {{"num_experts", "num_local_experts"}, "moe_intermediate_size"});  // the second name since transformers 5
  m.moe->period = f.whole_or("decoder_sparse_step", kLayers, 1);
  const json* dense = f.find("mlp_only_layers");
  if (dense == nullptr || dense->is_null()) return;
  bool first_ones = dense->is_array() && dense->size() <= static_cast<std::size_t>(m.layers);
  for (std::size_t i = 0; first_ones && i < dense->size(); ++i) first_ones = (*dense)[i] == i;
  if (!first_ones) f.fail("mlp_only_layers", "expected a list of the first layers: [], [0], [0, 1] …");
  m.moe->first_dense_layers = static_cast<std::int32_t>(dense->size());
}

void read_qwen3_moe(const JsonFields& f, LlmShape& m) {
  read_qwen3_attention(f, m);
  if (f.flag_or("use_sliding_window", false))
    read_window(f, m, kQwenWindow);  // in all layers, unlike in the dense models
  read_qwen_experts(f, m);
}

// Windows are in layers 0, 2, 4 … below max_window_layers, unless layer_types lists them.
void read_qwen2_moe(const JsonFields& f, LlmShape& m) {
  constexpr std::int32_t kClassShared = 5632, kClassLayers = 28;
  read_dense(f, m);
  m.qkv_bias = f.flag_or("qkv_bias", true);
  if (f.flag_or("use_sliding_window", false)) {
    read_window(f, m, kQwenWindow);
    const std::int32_t below = f.whole_or("max_window_layers", {0, kLayers.max}, kClassLayers);
    std::vector<std::uint8_t> windows;
    for (std::int32_t layer = 0; layer < m.layers; ++layer) windows.push_back(layer % 2 == 0 && layer < below ? 1 : 0);
    if (f.is_null("layer_types"))
      set_windows(f, "max_window_layers", std::move(windows), m);
    else
      read_layer_types(f, m);
  }
  read_qwen_experts(f, m);
  m.moe->shared_intermediate = f.whole_or("shared_expert_intermediate_size", kWidth, kClassShared);
  m.moe->shared_gate = true;
}

void read_deepseek(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  m.mla = model::MlaShape{.q_lora_rank = f.whole_or("q_lora_rank", kWidth, 0),
                          .kv_lora_rank = f.whole("kv_lora_rank", kWidth),
                          .qk_nope_head_dim = f.whole("qk_nope_head_dim", kWidth),
                          .qk_rope_head_dim = f.whole("qk_rope_head_dim", kWidth),
                          .v_head_dim = f.whole("v_head_dim", kWidth)};
  m.head_dim = m.hidden / m.heads;  // as in the catalogue; the sizes of the latent determine the cost
  if (f.is_null("n_routed_experts")) return;
  read_moe(f, m, {"n_routed_experts", "moe_intermediate_size"});
  require_one(f, "moe_layer_freq");
  m.moe->shared_experts = f.whole_or("n_shared_experts", {0, kExperts.max}, 0);
  m.moe->first_dense_layers = f.whole_or("first_k_dense_replace", {0, m.layers}, 0);
}

// --- families of 2025

// All projections of attention, the router and the experts have biases, and every head has a learned sink.
void read_gpt_oss(const JsonFields& f, LlmShape& m) {
  constexpr std::int32_t kClassWindow = 128;
  m.kv_heads = f.whole_or("num_key_value_heads", kHeads, m.heads);
  m.intermediate = f.whole("intermediate_size", kWidth);
  constexpr std::int32_t kClassHeadDim = 64;
  if (f.find("head_dim") == nullptr) m.head_dim = kClassHeadDim;
  m.qkv_bias = f.flag_or("attention_bias", true);
  read_moe(f, m, {{"num_local_experts", "num_experts"}, "intermediate_size"});
  m.window_period = 2;
  read_window(f, m, kClassWindow);
  read_layer_types(f, m);
  if (m.sliding_window == 0) m.window_period = 1;
}

void read_glm(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  read_partial_rotary(f, m, 0.5);
}

// THUDM's own files of GLM-4-9B; transformers does not include the class.
void read_chatglm(const JsonFields& f, LlmShape& m) {
  m.head_dim = f.whole_or("kv_channels", kWidth, m.head_dim);
  m.kv_heads = f.flag_or("multi_query_attention", false) ? f.whole("multi_query_group_num", kHeads) : m.heads;
  m.intermediate = f.whole("ffn_hidden_size", kWidth);
  m.qkv_bias = f.flag_or({"add_qkv_bias", "add_bias_linear"}, false);
  m.rotary_dim = m.head_dim / 2;
}

void read_glm4_moe(const JsonFields& f, LlmShape& m) {
  read_glm(f, m);
  m.qk_norm = f.flag_or("use_qk_norm", false);
  read_moe(f, m, {"n_routed_experts", "moe_intermediate_size"});
  m.moe->shared_experts = f.whole_or("n_shared_experts", {0, kExperts.max}, 0);
  m.moe->first_dense_layers = f.whole_or("first_k_dense_replace", {0, m.layers}, 0);
}

// Queries and keys are normalised without weights. In local layers the attention restarts every attention_chunk_size
// tokens.
void read_llama4(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  read_moe(f, m, {"num_local_experts", "intermediate_size"});
  m.intermediate = f.whole_or("intermediate_size_mlp", kWidth, m.intermediate);
  m.moe->shared_experts = 1;
  m.moe->period = f.whole_or("interleave_moe_layer_step", kLayers, 1);
  if (const json* layers = f.find("moe_layers"); layers != nullptr && layers->is_array()) {
    const auto count = static_cast<std::size_t>(m.layers / m.moe->period);
    bool regular = layers->size() == count;
    for (std::size_t i = 0; regular && i < count; ++i)
      regular = (*layers)[i] == (static_cast<std::int32_t>(i) + 1) * m.moe->period - 1;
    if (!regular) f.fail("moe_layers", "expected every layer, every second one …: other choices are not modelled");
  }
  constexpr std::int32_t kClassChunk = 8192, kClassInterval = 4;
  m.sliding_window =
      f.find("attention_chunk_size") == nullptr ? kClassChunk : f.whole_or("attention_chunk_size", kPositions, 0);
  m.chunked = m.sliding_window > 0;
  if (!f.is_null("layer_types")) {
    read_layer_types(f, m);
  } else if (const json* local = f.find("no_rope_layers"); local != nullptr && local->is_array() && !local->empty()) {
    std::vector<std::uint8_t> windows;
    for (const json& flag : *local) windows.push_back(flag == 1 || flag == true ? 1 : 0);
    if (m.chunked) set_windows(f, "no_rope_layers", std::move(windows), m);
  } else if (m.chunked) {
    set_full_every(f, "no_rope_layer_interval", f.whole_or("no_rope_layer_interval", kLayers, kClassInterval), m);
  }
  m.chunked = m.sliding_window > 0;
}

void read_gemma3(const JsonFields& f, LlmShape& m) {
  constexpr std::int32_t kClassHeadDim = 256, kClassWindow = 4096, kClassPattern = 6;
  if (f.find("head_dim") == nullptr) m.head_dim = kClassHeadDim;
  read_dense(f, m);
  m.qk_norm = true;
  read_window(f, m, kClassWindow);
  if (m.sliding_window == 0) return;
  if (f.is_null("layer_types"))
    set_full_every(f, "sliding_window_pattern",
                   f.whole_or({"sliding_window_pattern", "_sliding_window_pattern"}, kLayers, kClassPattern), m);
  read_layer_types(f, m);
}

void read_minimax_m2(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  read_moe(f, m, {"num_local_experts", "intermediate_size"});
  m.qk_norm = f.flag_or("use_qk_norm", true);
  if (f.text_or("qk_norm_type", "per_layer") != "per_layer")
    f.fail("qk_norm_type", "expected per_layer: one norm over all heads");
  if (f.is_null("rotary_dim"))
    read_partial_rotary(f, m, 1);
  else
    m.rotary_dim = f.whole("rotary_dim", {1, m.head_dim});
  if (m.rotary_dim == m.head_dim) m.rotary_dim = 0;
  if (f.whole_or("shared_intermediate_size", {0, kWidth.max}, 0) != 0)
    f.fail("shared_intermediate_size", "expected 0: shared experts of this type are not modelled");
  const json* kinds = f.find("attn_type_list");
  if (kinds != nullptr && kinds->is_array() &&
      std::any_of(kinds->begin(), kinds->end(), [](const json& k) { return k != 1; }))
    f.fail("attn_type_list",
           "expected 1 in all layers: linear attention is not modelled, cache and attention would be wrong");
}

// Nemotron-4: norms with a bias, a squared ReLU without a gate.
void read_nemotron(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  m.gated_mlp = false;
  m.norm = model::Norm::layernorm;
  read_partial_rotary(f, m, 0.5);
}

// --- all families

constexpr std::array kTypes = {
    ModelType{.name = "llama", .family = "llama", .read = read_llama},
    ModelType{.name = "mistral", .family = "mistral", .read = read_mistral},
    ModelType{.name = "qwen2", .family = "qwen2", .read = read_qwen2},
    ModelType{.name = "qwen3", .family = "qwen3", .read = read_qwen3},
    ModelType{.name = "qwen3_moe", .family = "qwen3", .read = read_qwen3_moe},
    ModelType{.name = "qwen2_moe", .family = "qwen2", .read = read_qwen2_moe},
    ModelType{.name = "phi3", .family = "phi3", .read = read_phi3},
    ModelType{
        .name = "gemma2", .family = "gemma2", .read = read_gemma2, .tie_embeddings = true, .activation = "gelu_tanh"},
    ModelType{.name = "granite", .family = "granite", .read = read_llama},
    ModelType{.name = "smollm3", .family = "smollm3", .read = read_smollm3, .tie_embeddings = true, .rope_base = 2e6},
    ModelType{.name = "olmo2", .family = "olmo2", .read = read_olmo2},
    ModelType{.name = "mixtral", .family = "mixtral", .read = read_mixtral, .rope_base = 1e6},
    ModelType{.name = "deepseek_v2", .family = "deepseek_v2", .read = read_deepseek},
    ModelType{.name = "deepseek_v3", .family = "deepseek_v3", .read = read_deepseek},
    ModelType{.name = "kimi_k2", .family = "deepseek_v3", .read = read_deepseek},
    ModelType{.name = "gpt_oss", .family = "gpt_oss", .read = read_gpt_oss, .rope_base = 150'000},
    ModelType{.name = "glm", .family = "glm", .read = read_glm},
    ModelType{.name = "glm4", .family = "glm4", .read = read_glm},
    ModelType{.name = "chatglm", .family = "glm", .read = read_chatglm},
    ModelType{.name = "glm4_moe", .family = "glm4_moe", .read = read_glm4_moe},
    ModelType{.name = "llama4_text", .family = "llama4", .read = read_llama4, .rope_base = 500'000},
    ModelType{.name = "gemma3_text",
              .family = "gemma3",
              .read = read_gemma3,
              .tie_embeddings = true,
              .rope_base = 1e6,
              .activation = "gelu_tanh",
              .defaults =
                  R"({"num_hidden_layers": 26, "hidden_size": 2304, "intermediate_size": 9216, "num_attention_heads": 8,
                              "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
                              "max_position_embeddings": 131072})"},
    ModelType{.name = "minimax_m2", .family = "minimax_m2", .read = read_minimax_m2, .rope_base = 5e6},
    ModelType{.name = "nemotron", .family = "nemotron", .read = read_nemotron, .activation = "relu2"},
    // Language models inside multimodal ones. The flat files predate transformers 4.52.
    ModelType{.name = "qwen2_vl_text", .family = "qwen2", .read = read_qwen2},
    ModelType{.name = "qwen2_5_vl_text", .family = "qwen2", .read = read_qwen2},
    ModelType{.name = "qwen2_vl", .family = "qwen2", .read = read_qwen2, .multimodal = true},
    ModelType{.name = "qwen2_5_vl", .family = "qwen2", .read = read_qwen2, .multimodal = true},
    ModelType{.name = "qwen3_vl_text", .family = "qwen3", .read = read_qwen3},
    ModelType{.name = "qwen3_vl_moe_text", .family = "qwen3", .read = read_qwen3_moe},
    ModelType{.name = "glm4v_text", .family = "glm4", .read = read_glm},
    ModelType{.name = "glm4v_moe_text", .family = "glm4_moe", .read = read_glm4_moe},
    ModelType{.name = "falcon", .family = "falcon", .read = read_falcon, .tie_embeddings = true, .activation = "gelu"},
    // Falcon's repositories before transformers supported it: 40B and 7B.
    ModelType{
        .name = "RefinedWeb", .family = "falcon", .read = read_falcon, .tie_embeddings = true, .activation = "gelu"},
    ModelType{.name = "RefinedWebModel",
              .family = "falcon",
              .read = read_falcon,
              .tie_embeddings = true,
              .activation = "gelu"},
    ModelType{.name = "gptj", .family = "gptj", .read = read_gptj, .rope_base = 0, .activation = "gelu_new"},
    ModelType{
        .name = "opt", .family = "opt", .read = read_opt, .tie_embeddings = true, .rope_base = 0, .activation = "relu"},
};

// Families whose results would be wrong, and why.
struct Refused {
  std::string_view begin;  // prefix of the type's name
  std::string_view why;
};
constexpr std::string_view kLinear =
    "most layers are linear attention, which keeps a state of fixed size: cache and attention would be "
    "predicted some 4 times too large";
constexpr std::string_view kStates =
    "most layers are state-space layers without a cache: cache and attention would be predicted many times too large";
constexpr std::string_view kSparse =
    "an indexer chooses the tokens that are attended to: long contexts would be predicted too slow, and the "
    "indexer's own cost and cache would be missing";
constexpr std::string_view kUneven =
    "layers differ in shape or have no attention: weights and cache would be predicted too large";
constexpr std::string_view kCross =
    "cross-attention to an encoder's output is not modelled: weights and times of these layers would be missing";
constexpr std::array kRefused = {
    Refused{"qwen3_next", kLinear},
    Refused{"qwen3_5", kLinear},
    Refused{"kimi_linear", kLinear},
    Refused{"minimax_text_01", kLinear},
    Refused{"minimax_m1", kLinear},
    Refused{"bailing_moe_linear", kLinear},
    Refused{"ring_linear", kLinear},
    Refused{"nemotron_h", kStates},
    Refused{"jamba", kStates},
    Refused{"falcon_h1", kStates},
    Refused{"falcon_mamba", kStates},
    Refused{"mamba", kStates},
    Refused{"bamba", kStates},
    Refused{"granitemoehybrid", kStates},
    Refused{"zamba", kStates},
    Refused{"lfm2", kStates},
    Refused{"rwkv", kStates},
    Refused{"recurrent_gemma", kStates},
    Refused{"deepseek_v32", kSparse},
    Refused{"deepseek_v4", kSparse},
    Refused{"glm_moe_dsa", kSparse},
    Refused{"minimax_m3", kSparse},
    Refused{"nemotron-nas", kUneven},
    Refused{"nemotron_nas", kUneven},
    Refused{"deci", kUneven},
    Refused{"openelm", kUneven},
    Refused{"gemma3n", "layers share caches and add embeddings of their own: weights and cache would be wrong"},
    Refused{"gemma4", "layers share caches and differ in their heads: weights and cache would be wrong"},
    Refused{"mllama", kCross},
    Refused{"t5", kCross},
    Refused{"bart", kCross},
    Refused{"whisper", kCross},
    Refused{"umt5", kCross},
    Refused{"mt5", kCross},
    Refused{"bert", "an encoder generates no tokens"},
    Refused{"roberta", "an encoder generates no tokens"},
    Refused{"minimax",
            "layers of linear attention keep a state of fixed size: cache and attention would be predicted some 8 "
            "times too large"},
};

// Matches "mamba", "mamba2" and "mamba_text", but not "mambalike".
bool begins(std::string_view name, std::string_view with) {
  if (!name.starts_with(with)) return false;
  const char next = name.size() == with.size() ? '_' : name[with.size()];
  return next == '_' || (next >= '0' && next <= '9');
}

}  // namespace

const ModelType* find_type(std::string_view name) {
  const auto* const found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const ModelType& t) { return t.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

std::string_view why_refused(std::string_view type) {
  const auto* const found = std::find_if(kRefused.begin(), kRefused.end(),
                                         [&](const Refused& refused) { return begins(type, refused.begin); });
  return found == kRefused.end() ? std::string_view() : found->why;
}

void refuse_type(const JsonFields& f, const std::string& name) {
  if (const std::string_view why = why_refused(name); !why.empty())
    f.fail("model_type", fmt::format("'{}' is not modelled: {} (docs/limits.md)", shortened(name), why));
  std::vector<std::string_view> names;
  for (const ModelType& type : kTypes) names.push_back(type.name);
  const std::string_view near = nearest(name, std::span<const std::string_view>(names));
  f.fail("model_type",
         fmt::format("found '{}'{}, expected one of {}", shortened(name),
                     near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), fmt::join(names, ", ")));
}

}  // namespace plimsoll::configs
