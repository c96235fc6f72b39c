// SPDX-License-Identifier: Apache-2.0
// Fields and their defaults as in transformers: configuration_<type>.py and modeling_rope_utils.py (rope_scaling in
// 4.x, rope_parameters in 5.x). If a field would change the results but is not implemented, the file is refused; the
// field is never ignored.
#include "configs/catalogue.h"

#include <fmt/format.h>

#include <optional>

#include "configs/hf_families.h"
#include "configs/json_fields.h"

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

void read_scaling(const JsonFields& f, const JsonFields& rope, Architecture& a) {
  const FieldName kKind = {"rope_type", "type"};
  const std::string kind = rope.text_or(kKind, "default");
  if (kind == "default") return;
  if (kind != "linear" && kind != "llama3")
    rope.fail(kKind, fmt::format(
                         "found '{}': this scaling of the rotation is not executed, expected default, linear or llama3",
                         kind));
  if (rope.is_null("factor"))
    rope.fail("factor", fmt::format("is missing, expected a number: scaling {} has one", kind));
  a.rope.factor = rope.number_or("factor", 1e-6, 1e6, 1);
  a.rope.scaling = model::RopeScaling::linear;
  if (kind == "linear") return;
  a.rope.scaling = model::RopeScaling::llama3;
  for (const char* const field : {"low_freq_factor", "high_freq_factor"})
    if (rope.is_null(field)) rope.fail(field, "is missing, expected a number: scaling llama3 has one");
  a.rope.low_freq_factor = rope.number_or("low_freq_factor", 1e-6, 1e6, 1);
  a.rope.high_freq_factor = rope.number_or("high_freq_factor", 1e-6, 1e6, 4);
  if (a.rope.high_freq_factor <= a.rope.low_freq_factor)
    rope.fail("high_freq_factor", fmt::format("found {}, expected more than the {} of low_freq_factor",
                                              a.rope.high_freq_factor, a.rope.low_freq_factor));
  // The model's own field takes precedence over the one beside the factors. Without either, the context length applies.
  constexpr Range kPositions{1, 1'000'000'000};
  const char* const field = "original_max_position_embeddings";
  const std::int32_t stated = rope.whole_or(field, kPositions, a.shape.max_position);
  a.rope.original_max_position = f.whole_or(field, kPositions, stated);
  if (a.rope.original_max_position < 1) rope.fail(field, "is missing, expected the context length before scaling");
}

void read_rope(const JsonFields& f, Architecture& a) {
  const std::optional<JsonFields> rope = rope_fields(f);
  if (!rope || a.rope.rotary_dim == 0 || a.shape.family == "gptj") return;
  for (const char* const kind : {"full_attention", "sliding_attention"})
    if (rope->find(kind) != nullptr) rope->fail(kind, "a different rotation for each kind of layer is not executed");
  a.rope.base = rope->number_or("rope_theta", 1e-6, kMaxSize, a.rope.base);
  a.shape.rope_base = a.rope.base;
  if (a.shape.family != "phi3" && rope->number_or("partial_rotary_factor", 0, 1, 1) < 1)
    rope->fail("partial_rotary_factor", "is executed for phi3 only, expected 1");
  read_scaling(f, *rope, a);
}

// --- families

void read_falcon(const JsonFields& f) {
  require(f, "alibi", false, "attention biased by distance (ALiBi) is");
  require(f, "apply_residual_connection_post_layernorm", false, "a residual taken after the norm is");
}

void read_opt(const JsonFields& f) {
  require(f, "_remove_final_layer_norm", false, "a model without a final norm is");
  require(f, "layer_norm_elementwise_affine", true, "a norm without weights is");
}

void read_gptj(const JsonFields& f) {
  if (f.find("rotary_dim") != nullptr && f.is_null("rotary_dim"))
    f.fail("rotary_dim", "found null, expected the number of dimensions that rotate");
}

void read_family(const JsonFields& f, Architecture& a) {
  const std::string type = f.text("model_type");
  if (type == "qwen3_moe" && !f.flag_or("norm_topk_prob", false))
    f.fail("norm_topk_prob",
           "found false or nothing: weights of experts that do not sum to 1 are not executed, expected true");
  if (type == "llama") a.mlp_bias = f.flag_or("mlp_bias", false);
  if (a.shape.family == "falcon") read_falcon(f);
  if (a.shape.family == "opt") read_opt(f);
  if (a.shape.family == "gptj") read_gptj(f);
}

// Returns the default of the type's class if the file states none. OPT's norms are not configurable.
double norm_epsilon(const JsonFields& f, const Architecture& a) {
  if (a.shape.family == "opt") return 1e-5;
  if (a.shape.norm == model::Norm::layernorm) return f.number_or("layer_norm_epsilon", 0, 1, 1e-5);
  const bool newer = a.shape.family == "mixtral" || a.shape.family == "phi3";
  return f.number_or("rms_norm_eps", 0, 1, newer ? 1e-5 : 1e-6);
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
