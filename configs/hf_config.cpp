// SPDX-License-Identifier: Apache-2.0
// Model shapes from the config.json of Hugging Face repositories. A field that is missing has the default that the model
// type's class in transformers gives it (configuration_<type>.py), as files leave out what equals a default.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "configs/catalogue.h"
#include "configs/json_fields.h"
#include "configs/text_file.h"
#include "model/tp_layout.h"

namespace plimsoll::configs {

namespace {

using model::LlmShape;
using nlohmann::json;

// What no model comes near; keeps all products far from the limits of integers.
constexpr Range kLayers{1, 10'000}, kWidth{1, 1'000'000}, kHeads{1, 100'000}, kVocabulary{1, 100'000'000};
constexpr Range kPositions{1, 1'000'000'000}, kExperts{1, 100'000};

/// A model type and the defaults of its fields.
struct ModelType {
  std::string_view name, family;
  void (*read)(const JsonFields&, LlmShape&);
  bool tie_embeddings = false;
  double rope_base = 10'000;  // 0: no rotation, or one that is not configured
  std::string_view activation = "silu";
};

void note(LlmShape& m, std::string_view text) { m.source += fmt::format("; {}", text); }

// --- windows of attention

// Layers' kinds as the file lists them: all full, all windowed, or windowed in turn, beginning with the first.
void read_layer_types(const JsonFields& f, LlmShape& m) {
  const json* types = f.find("layer_types");
  if (types == nullptr || !types->is_array() || m.sliding_window == 0) return;
  const auto windowed = [&](std::size_t layer) { return (*types)[layer] == "sliding_attention"; };
  const auto follows = [&](std::size_t period) {
    for (std::size_t i = 0; i < types->size(); ++i)
      if (windowed(i) != (period > 0 && i % period == 0)) return false;
    return true;
  };
  if (follows(0))
    m.sliding_window = 0;
  else if (follows(1))
    m.window_period = 1;
  else if (follows(2))
    m.window_period = 2;
  else
    f.fail("layer_types",
           "expected full_attention in all layers, sliding_attention in all, or both in turn, windowed first");
}

// Of all layers, whatever else the file says of windows: its class reads no other field. null is no window; `fallback`
// stands for a missing one.
void read_window(const JsonFields& f, LlmShape& m, std::int32_t fallback = 0) {
  m.sliding_window = f.find("sliding_window") == nullptr ? fallback : f.whole_or("sliding_window", kPositions, 0);
}

constexpr std::int32_t kQwenWindow = 4096;

// Qwen windows only if told to: the layers that layer_types lists, else those from max_window_layers on.
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
  if (first > 0)
    f.fail("max_window_layers",
           fmt::format("found {}, expected 0 or at least the {} layers: a window in some layers is not modelled", first,
                       m.layers));
  read_window(f, m, kQwenWindow);
}

// --- dense families

void read_dense(const JsonFields& f, LlmShape& m) {
  m.intermediate = f.whole("intermediate_size", kWidth);
  m.kv_heads = f.whole_or("num_key_value_heads", kHeads, m.heads);
  m.qkv_bias = f.flag_or({"attention_bias", "qkv_bias"}, false);
  if (m.qkv_bias) note(m, "the bias of the attention's output is not counted");
  if (f.flag_or("mlp_bias", false)) note(m, "biases of the MLP are not counted");
}

void read_partial_rotary(const JsonFields& f, LlmShape& m) {
  double factor = f.number_or("partial_rotary_factor", 0, 1, 1);
  // Files since transformers 5 have it with the base.
  if (const auto rope = f.inside("rope_parameters")) factor = rope->number_or("partial_rotary_factor", 0, 1, factor);
  if (factor < 1) m.rotary_dim = static_cast<std::int32_t>(m.head_dim * factor);
  if (factor < 1 && m.rotary_dim < 1) f.fail("partial_rotary_factor", fmt::format("found {}: no dimension rotates", factor));
}

void read_llama(const JsonFields& f, LlmShape& m) { read_dense(f, m); }

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
  read_partial_rotary(f, m);
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

// --- families before Llama

// 7B shares one KV head; 40B and 180B (the "new decoder") have groups.
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
  if (m.max_position == 0) m.max_position = 2048;  // the class's
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
  if (m.max_position == 0) f.fail("max_position_embeddings", "is missing: the table of positions has its size");
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

// mlp_only_layers: the layers without experts; they are modelled where they are the first ones.
void read_qwen3_moe(const JsonFields& f, LlmShape& m) {
  read_qwen3_attention(f, m);
  if (f.flag_or("use_sliding_window", false)) read_window(f, m, kQwenWindow);   // in all layers, unlike the dense ones
  read_moe(f, m, {{"num_experts", "num_local_experts"}, "moe_intermediate_size"});  // since transformers 5 the latter
  require_one(f, "decoder_sparse_step");
  const json* dense = f.find("mlp_only_layers");
  if (dense == nullptr || dense->is_null()) return;
  bool first_ones = dense->is_array() && dense->size() <= static_cast<std::size_t>(m.layers);
  for (std::size_t i = 0; first_ones && i < dense->size(); ++i) first_ones = (*dense)[i] == i;
  if (!first_ones) f.fail("mlp_only_layers", "expected a list of the first layers: [], [0], [0, 1] …");
  m.moe->first_dense_layers = static_cast<std::int32_t>(dense->size());
}

void read_deepseek(const JsonFields& f, LlmShape& m) {
  read_dense(f, m);
  m.mla = model::MlaShape{.q_lora_rank = f.whole_or("q_lora_rank", kWidth, 0),
                          .kv_lora_rank = f.whole("kv_lora_rank", kWidth),
                          .qk_nope_head_dim = f.whole("qk_nope_head_dim", kWidth),
                          .qk_rope_head_dim = f.whole("qk_rope_head_dim", kWidth),
                          .v_head_dim = f.whole("v_head_dim", kWidth)};
  m.head_dim = m.hidden / m.heads;  // as in the catalogue; the latent's sizes are what counts
  if (f.is_null("n_routed_experts")) return;
  read_moe(f, m, {"n_routed_experts", "moe_intermediate_size"});
  require_one(f, "moe_layer_freq");
  m.moe->shared_experts = f.whole_or("n_shared_experts", {0, kExperts.max}, 0);
  m.moe->first_dense_layers = f.whole_or("first_k_dense_replace", {0, m.layers}, 0);
}

// --- all families

constexpr std::array kTypes = {
    ModelType{.name = "llama", .family = "llama", .read = read_llama},
    ModelType{.name = "mistral", .family = "mistral", .read = read_mistral},
    ModelType{.name = "qwen2", .family = "qwen2", .read = read_qwen2},
    ModelType{.name = "qwen3", .family = "qwen3", .read = read_qwen3},
    ModelType{.name = "qwen3_moe", .family = "qwen3", .read = read_qwen3_moe},
    ModelType{.name = "phi3", .family = "phi3", .read = read_phi3},
    ModelType{
        .name = "gemma2", .family = "gemma2", .read = read_gemma2, .tie_embeddings = true, .activation = "gelu_tanh"},
    ModelType{.name = "mixtral", .family = "mixtral", .read = read_mixtral, .rope_base = 1e6},
    ModelType{.name = "deepseek_v2", .family = "deepseek_v2", .read = read_deepseek},
    ModelType{.name = "deepseek_v3", .family = "deepseek_v3", .read = read_deepseek},
    ModelType{.name = "falcon", .family = "falcon", .read = read_falcon, .tie_embeddings = true, .activation = "gelu"},
    // Falcon's repositories before transformers knew it: 40B and 7B.
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

const ModelType& model_type(const JsonFields& f) {
  const std::string name = f.text("model_type");
  std::vector<std::string_view> names;
  for (const ModelType& type : kTypes) {
    if (type.name == name) return type;
    names.push_back(type.name);
  }
  const std::string_view near = nearest(name, std::span<const std::string_view>(names));
  f.fail("model_type",
         fmt::format("found '{}'{}, expected one of {}", shortened(name),
                     near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), fmt::join(names, ", ")));
}

// rope_theta; files since transformers 5 have it in rope_parameters.
double rope_base(const JsonFields& f, double fallback) {
  const json* parameters = f.find("rope_parameters");
  const bool nested = f.is_null("rope_theta") && parameters != nullptr && parameters->is_object();
  const auto theta = nested ? parameters->find("rope_theta") : json::const_iterator();
  if (nested && theta != parameters->end() && theta->is_number()) return theta->get<double>();
  return f.number_or("rope_theta", 1e-6, 1e12, fallback);
}

std::string activation(const JsonFields& f, std::string_view fallback) {
  const std::string name =
      f.text_or({"hidden_activation", "activation_function", "activation", "hidden_act"}, std::string(fallback));
  return name == "gelu_pytorch_tanh" ? "gelu_tanh" : name;
}

void read_common(const JsonFields& f, const ModelType& type, LlmShape& m) {
  const FieldName kHeadCount = {"num_attention_heads", "n_head"};
  m.family = type.family;
  m.layers = f.whole({"num_hidden_layers", "n_layer"}, kLayers);
  m.hidden = f.whole({"hidden_size", "n_embd", "n_embed"}, kWidth);
  m.heads = f.whole(kHeadCount, kHeads);
  m.vocab = f.whole("vocab_size", kVocabulary);
  m.max_position = f.whole_or({"max_position_embeddings", "n_positions"}, kPositions, 0);
  m.head_dim = f.whole_or("head_dim", kWidth, m.hidden / m.heads);
  m.tie_embeddings = f.flag_or("tie_word_embeddings", type.tie_embeddings);
  m.activation = activation(f, type.activation);
  m.rope_base = type.rope_base > 0 ? rope_base(f, type.rope_base) : 0;
  if (m.hidden < m.heads)
    f.fail(kHeadCount, fmt::format("found {}, expected at most the {} of hidden_size", m.heads, m.hidden));
}

// The model's folder, or the file's own name if it is another than config.json.
std::string id_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path file = fs::absolute(path, error);
  const std::string id =
      canonical_name((file.stem() == "config" ? file.parent_path().filename() : file.stem()).string());
  return id.empty() ? "config" : id;
}

}  // namespace

LlmShape read_hf_config(const std::string& path) {
  const JsonFields f = JsonFields::from_file(path);
  const ModelType& type = model_type(f);
  LlmShape m;
  m.id = id_of(path);
  m.source = fmt::format("Hugging Face config.json of type {}", type.name);
  read_common(f, type, m);
  type.read(f, m);
  if (m.heads % m.kv_heads != 0)
    f.fail({"num_key_value_heads", "num_kv_heads", "n_head_kv"},
           fmt::format("found {}, expected a divisor of the {} attention heads", m.kv_heads, m.heads));
  const bool own_width = m.mla || !f.is_null("head_dim") || m.head_dim != m.hidden / m.heads;
  if (!own_width && m.hidden % m.heads != 0)
    f.fail({"hidden_size", "n_embd", "n_embed"},
           fmt::format("{} is no multiple of the {} heads, and there is no head_dim", m.hidden, m.heads));
  return m;
}

}  // namespace plimsoll::configs
