// SPDX-License-Identifier: Apache-2.0
// Fields and their defaults as in transformers: configuration_<type>.py and modeling_rope_utils.py (rope_scaling in
// 4.x, rope_parameters in 5.x). If a field would change the results but is not implemented, the file is refused; the
// field is never ignored.
#include "configs/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "configs/hf_families.h"
#include "configs/json_fields.h"
#include "configs/text_file.h"

namespace plimsoll::configs {
namespace {

using model::Architecture;

constexpr double kMaxSize = 1e12;

void require(const JsonFields& f, const char* field, bool expected, const char* why) {
  if (f.flag_or(field, expected) != expected)
    f.fail(field, fmt::format("found {}: {} not executed, expected {}", !expected, why, expected));
}

// --- rotation

// transformers 4.x keeps the scaling in rope_scaling, 5.x keeps everything in rope_parameters. If a file has both, the
// two versions read different fields.
std::optional<JsonFields> rope_fields(const JsonFields& f) {
  if (!f.is_null("rope_scaling") && !f.is_null("rope_parameters") &&
      *f.find("rope_scaling") != *f.find("rope_parameters"))
    f.fail("rope_scaling", "contradicts rope_parameters, expected only one of them");
  return f.inside(f.is_null("rope_scaling") ? "rope_parameters" : "rope_scaling");
}

// The model's own field takes precedence over the one beside the factors. Without either, the context length applies.
std::int32_t original_position(const JsonFields& f, const JsonFields& rope, const Architecture& a) {
  constexpr Range kPositions{1, 1'000'000'000};
  const char* const field = "original_max_position_embeddings";
  const std::int32_t stated = rope.whole_or(field, kPositions, a.shape.max_position);
  const std::int32_t original = f.whole_or(field, kPositions, stated);
  if (original < 1) rope.fail(field, "is missing, expected the context length before scaling");
  return original;
}

// The magnitude of sines and cosines grows with the factor (YaRN, section 3.4), unless the file states it.
void read_yarn(const JsonFields& rope, model::Rope& out) {
  out.scaling = model::RopeScaling::yarn;
  out.beta_fast = rope.number_or("beta_fast", 1e-6, kMaxSize, 32);
  out.beta_slow = rope.number_or("beta_slow", 1e-6, kMaxSize, 1);
  if (out.beta_fast <= out.beta_slow)
    rope.fail("beta_fast",
              fmt::format("found {}, expected more than the {} of beta_slow", out.beta_fast, out.beta_slow));
  out.whole_dimensions = rope.flag_or("truncate", true);
  const auto magnitude = [&](double scale) { return out.factor <= 1 ? 1 : 0.1 * scale * std::log(out.factor) + 1; };
  const double above = rope.number_or("mscale", 0, kMaxSize, 0),
               below = rope.number_or("mscale_all_dim", 0, kMaxSize, 0);
  const double usual = above > 0 && below > 0 ? magnitude(above) / magnitude(below) : magnitude(1);
  out.magnitude = rope.number_or("attention_factor", 1e-6, kMaxSize, usual);
}

// Phi's two sets of factors: one for sequences up to the trained length and one beyond it. Only the first is executed,
// which limits the context to that length. The magnitude follows from the ratio of the two lengths.
void read_longrope(const JsonFields& f, const JsonFields& rope, Architecture& a) {
  a.rope.scaling = model::RopeScaling::longrope;
  a.rope.original_max_position = original_position(f, rope, a);
  const auto* list = rope.find("short_factor");
  const auto pairs = static_cast<std::size_t>(a.rope.rotary_dim / 2);
  const auto is_factor = [](const auto& v) { return v.is_number() && v > 0; };
  if (list == nullptr || !list->is_array() || list->size() != pairs ||
      !std::all_of(list->begin(), list->end(), is_factor))
    rope.fail("short_factor", fmt::format("expected {} positive numbers, one for each pair of dimensions", pairs));
  a.rope.factors = list->get<std::vector<double>>();
  const double original = a.rope.original_max_position;
  // If a file has this field, it states both lengths. Their ratio then replaces any `factor`.
  const double ratio = a.shape.max_position / original;
  const double factor =
      f.is_null("original_max_position_embeddings") ? rope.number_or("factor", 1e-6, kMaxSize, ratio) : ratio;
  const double usual = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
  a.rope.magnitude = rope.number_or("attention_factor", 1e-6, kMaxSize, usual);
  a.shape.max_position = a.rope.original_max_position;
}

// The base grows only for sequences beyond the context length, which do not occur here.
void read_dynamic(const JsonFields& f, const JsonFields& rope, const Architecture& a) {
  if (original_position(f, rope, a) < a.shape.max_position)
    rope.fail("original_max_position_embeddings",
              fmt::format("expected the {} of max_position_embeddings: a base that grows within the context length is "
                          "not executed",
                          a.shape.max_position));
}

void read_scaling(const JsonFields& f, const JsonFields& rope, Architecture& a) {
  const FieldName kKind = {"rope_type", "type"};
  const std::string kind = rope.text_or(kKind, "default");
  if (kind == "default") return;
  if (kind == "longrope") return read_longrope(f, rope, a);
  if (kind == "dynamic") return read_dynamic(f, rope, a);
  if (kind != "linear" && kind != "llama3" && kind != "yarn")
    rope.fail(kKind, fmt::format("found '{}': this rotary scaling is not executed, expected default, linear, "
                                 "llama3, yarn, longrope or dynamic",
                                 kind));
  if (rope.is_null("factor"))
    rope.fail("factor", fmt::format("is missing, expected a number: scaling {} has one", kind));
  a.rope.factor = rope.number_or("factor", 1e-6, 1e6, 1);
  a.rope.scaling = model::RopeScaling::linear;
  if (kind == "linear") return;
  a.rope.original_max_position = original_position(f, rope, a);
  if (kind == "yarn") {
    read_yarn(rope, a.rope);
    return;
  }
  a.rope.scaling = model::RopeScaling::llama3;
  for (const char* const field : {"low_freq_factor", "high_freq_factor"})
    if (rope.is_null(field)) rope.fail(field, "is missing, expected a number: scaling llama3 has one");
  a.rope.low_freq_factor = rope.number_or("low_freq_factor", 1e-6, 1e6, 1);
  a.rope.high_freq_factor = rope.number_or("high_freq_factor", 1e-6, 1e6, 4);
  if (a.rope.high_freq_factor <= a.rope.low_freq_factor)
    rope.fail("high_freq_factor", fmt::format("found {}, expected more than the {} of low_freq_factor",
                                              a.rope.high_freq_factor, a.rope.low_freq_factor));
}

bool rotates_partly(const model::LlmShape& shape) {
  return shape.rotary_dim > 0;  // only families that rotate partly have it
}

void read_rotation(const JsonFields& f, const JsonFields& rope, Architecture& a) {
  a.rope.base = rope.number_or("rope_theta", 1e-6, kMaxSize, a.rope.base);
  a.shape.rope_base = a.rope.base;
  if (!rotates_partly(a.shape) && rope.number_or("partial_rotary_factor", 0, 1, 1) < 1)
    rope.fail("partial_rotary_factor", "is executed for phi3, glm, nemotron and minimax_m2 only, expected 1");
  read_scaling(f, rope, a);
}

// In layers with a window, Gemma 3 rotates with another base and without scaling. transformers 5 keeps the two kinds of
// layers in separate objects.
void read_two_rotations(const JsonFields& f, const std::optional<JsonFields>& rope, Architecture& a) {
  std::optional<JsonFields> full, window;
  if (rope) {
    full = rope->inside("full_attention");
    window = rope->inside("sliding_attention");
  }
  if (full || rope) read_rotation(f, full ? *full : *rope, a);
  if (!a.window_rope) return;
  a.window_rope->base = window ? window->number_or("rope_theta", 1e-6, kMaxSize, 10'000)
                               : f.number_or("rope_local_base_freq", 1e-6, kMaxSize, 10'000);
  if (window && window->text_or({"rope_type", "type"}, "default") != "default")
    window->fail("rope_type", "rotary scaling in layers with a window is not executed, expected default");
}

void read_rope(const JsonFields& f, Architecture& a) {
  const std::optional<JsonFields> rope = rope_fields(f);
  if (a.shape.family == "gemma3") {
    read_two_rotations(f, rope, a);
    return;
  }
  if (!rope || a.rope.rotary_dim == 0 || a.shape.family == "gptj") return;
  for (const char* const kind : {"full_attention", "sliding_attention"})
    if (rope->find(kind) != nullptr) rope->fail(kind, "two rotary embeddings are executed for gemma3_text only");
  read_rotation(f, *rope, a);
}

// --- families

void read_falcon(const JsonFields& f) {
  require(f, "alibi", false, "attention biased by distance (ALiBi) is");
  require(f, "apply_residual_connection_post_layernorm", false, "a residual connection after the norm is");
}

void read_opt(const JsonFields& f) {
  require(f, "_remove_final_layer_norm", false, "a model without a final norm is");
  require(f, "layer_norm_elementwise_affine", true, "a norm without weights is");
}

void read_gptj(const JsonFields& f) {
  if (f.find("rotary_dim") != nullptr && f.is_null("rotary_dim"))
    f.fail("rotary_dim", "found null, expected the number of rotary dimensions");
}

void read_gemma(const JsonFields& f, Architecture& a) {
  constexpr double kClassScalar = 256;
  a.attention_scale = 1 / std::sqrt(f.number_or("query_pre_attn_scalar", 1e-6, kMaxSize, kClassScalar));
  const auto cap = [&](const char* field, double fallback) {
    if (f.find(field) != nullptr && f.is_null(field)) return 0.0;
    return f.number_or(field, 1e-6, kMaxSize, fallback);
  };
  a.attention_cap = cap("attn_logit_softcapping", a.attention_cap);
  a.logit_cap = cap("final_logit_softcapping", a.logit_cap);
  require(f, "use_bidirectional_attention", false, "attention in both directions is");
}

void read_granite(const JsonFields& f, Architecture& a) {
  a.embedding_scale = f.number_or("embedding_multiplier", 1e-9, kMaxSize, 1);
  a.residual_scale = f.number_or("residual_multiplier", 1e-9, kMaxSize, 1);
  a.attention_scale = f.number_or("attention_multiplier", 1e-9, kMaxSize, 1);
  a.logit_scale = 1 / f.number_or("logits_scaling", 1e-9, kMaxSize, 1);
  a.mlp_bias = f.flag_or("mlp_bias", false);
}

// no_rope_layers lists 1 for layers that rotate. Without this field, every no_rope_layer_interval-th layer does not
// rotate.
void read_smollm3(const JsonFields& f, Architecture& a) {
  constexpr std::int32_t kClassInterval = 4;
  const auto layers = static_cast<std::size_t>(a.shape.layers);
  a.layers_unrotated.assign(layers, 0);
  if (const auto* list = f.find("no_rope_layers"); list != nullptr && list->is_array()) {
    if (list->size() != layers)
      f.fail("no_rope_layers",
             fmt::format("expected a flag for each of the {} layers, found {}", layers, list->size()));
    for (std::size_t i = 0; i < layers; ++i) a.layers_unrotated[i] = (*list)[i] == 1 || (*list)[i] == true ? 0 : 1;
  } else {
    const std::int32_t interval = f.whole_or("no_rope_layer_interval", kLayers, kClassInterval);
    for (std::int32_t i = 0; i < a.shape.layers; ++i)
      a.layers_unrotated[static_cast<std::size_t>(i)] = (i + 1) % interval == 0 ? 1 : 0;
  }
  a.mlp_bias = f.flag_or("mlp_bias", false);
}

// --- choice of experts

void require_text(const JsonFields& f, const char* field, const std::string& expected) {
  if (const std::string found = f.text_or(field, expected); found != expected)
    f.fail(field, fmt::format("found '{}': this routing of tokens to experts is not executed, expected {}",
                              shortened(found), expected));
}

void read_groups(const JsonFields& f, model::Routing& routing) {
  routing.groups = f.whole_or("n_group", {1, 1'000'000}, routing.groups);
  routing.open_groups = f.whole_or("topk_group", {1, 1'000'000}, routing.groups == 1 ? 1 : routing.open_groups);
}

void read_deepseek_v2(const JsonFields& f, Architecture& a) {
  model::Routing& routing = a.routing;
  routing.scale = f.number_or("routed_scaling_factor", 0, kMaxSize, 1);
  if (f.text_or("topk_method", "greedy") != "greedy") {
    require_text(f, "topk_method", "group_limited_greedy");
    read_groups(f, routing);
  }
  require_text(f, "scoring_func", "softmax");
  require(f, "norm_topk_prob", false, "normalising the weights of the chosen experts is");
  require(f, "mlp_bias", false, "a bias of the MLP is");
}

// For DeepSeek V3, Kimi K2 and GLM-4-MoE. The defaults are those of DeepseekV3Config and Glm4MoeConfig.
void read_sigmoid_routing(const JsonFields& f, Architecture& a) {
  model::Routing& routing = a.routing;
  const bool glm = a.shape.family == "glm4_moe";
  routing.groups = glm ? 1 : 8;
  routing.open_groups = glm ? 1 : 4;
  routing.group_best = 2;
  read_groups(f, routing);
  routing.scale = f.number_or("routed_scaling_factor", 0, kMaxSize, glm ? 1 : 2.5);
  routing.normalised = f.flag_or("norm_topk_prob", true);
  require_text(f, "topk_method", "noaux_tc");
  require_text(f, "scoring_func", "sigmoid");
}

// transformers multiplies the scores by the square of YaRN's magnitude for all dimensions.
void read_latent_attention(const JsonFields& f, Architecture& a) {
  require(f, "attention_bias", false, "a bias of latent attention is");
  a.rope.interleaved = a.shape.family != "deepseek_v3" || f.flag_or("rope_interleave", true);
  const auto rope = rope_fields(f);
  if (!rope || a.rope.scaling != model::RopeScaling::yarn || a.rope.factor <= 1) return;
  const double scale = rope->number_or("mscale_all_dim", 0, kMaxSize, 0);
  if (scale > 0) a.attention_scale *= std::pow(0.1 * scale * std::log(a.rope.factor) + 1, 2);
}

void read_gpt_oss(const JsonFields& f, Architecture& a) {
  a.attention_out_bias = a.shape.qkv_bias;
  a.clamped_swiglu.limit = f.number_or("swiglu_limit", 1e-6, kMaxSize, 7);
  a.clamped_swiglu.alpha = f.number_or("swiglu_alpha", 1e-6, kMaxSize, 1.702);
}

void read_minimax_m2(const JsonFields& f, Architecture& a) {
  require(f, "use_routing_bias", true, "routing to experts without a bias is");
  require_text(f, "scoring_func", "sigmoid");
  if (!a.shape.qk_norm) f.fail("use_qk_norm", "found false: queries without a norm are not executed, expected true");
}

void read_nemotron(const JsonFields& f, Architecture& a) { a.mlp_bias = f.flag_or("mlp_bias", false); }

void read_experts(const JsonFields& f, const std::string& type, Architecture& a) {
  if (type == "qwen2_moe" || type.starts_with("qwen3_moe") || type.starts_with("qwen3_vl_moe"))
    a.routing.normalised = f.flag_or("norm_topk_prob", false);
  if (type == "deepseek_v2") read_deepseek_v2(f, a);
  if (a.shape.family == "deepseek_v3" || type == "glm4_moe" || type == "glm4v_moe_text") read_sigmoid_routing(f, a);
  if (type == "minimax_m2") read_minimax_m2(f, a);
}

void read_family(const JsonFields& f, Architecture& a) {
  const std::string type = f.text("model_type");
  if (a.shape.moe) read_experts(f, type, a);
  if (a.shape.mla) read_latent_attention(f, a);
  if (type == "gpt_oss") read_gpt_oss(f, a);
  if (type == "nemotron") read_nemotron(f, a);
  if (type == "llama") a.mlp_bias = f.flag_or("mlp_bias", false);
  if (a.shape.family.starts_with("gemma")) read_gemma(f, a);
  if (a.shape.family == "granite") read_granite(f, a);
  if (a.shape.family == "smollm3") read_smollm3(f, a);
  if (type == "chatglm") f.fail("model_type", "the files of THUDM's own class are simulated but not executed");
  if (a.shape.family == "falcon") read_falcon(f);
  if (a.shape.family == "opt") read_opt(f);
  if (a.shape.family == "gptj") read_gptj(f);
}

// Returns the default of the type's class if the file states none. OPT's norms are not configurable.
double norm_epsilon(const JsonFields& f, const Architecture& a) {
  if (a.shape.family == "opt") return 1e-5;
  if (a.shape.family == "nemotron") return f.number_or("norm_eps", 0, 1, 1e-5);
  if (a.shape.norm == model::Norm::layernorm) return f.number_or("layer_norm_epsilon", 0, 1, 1e-5);
  double usual = 1e-6;
  if (a.shape.family == "mixtral" || a.shape.family == "phi3" || a.shape.family == "olmo2" ||
      a.shape.family == "gpt_oss" || a.shape.family == "glm4_moe")
    usual = 1e-5;
  if (a.shape.family == "glm" || a.shape.family == "glm4") usual = 1.5625e-7;
  return f.number_or("rms_norm_eps", 0, 1, usual);
}

}  // namespace

Architecture read_hf_architecture(const std::string& path) {
  Architecture a = model::default_architecture(read_hf_config(path));
  const JsonFields f = JsonFields::from_file(path);
  if (find_type(f.text("model_type")) == nullptr)
    f.fail("model_type", "the language model of a multimodal checkpoint is simulated but not executed");
  a.norm_epsilon = norm_epsilon(f, a);
  read_rope(f, a);
  read_family(f, a);
  return a;
}

}  // namespace plimsoll::configs
