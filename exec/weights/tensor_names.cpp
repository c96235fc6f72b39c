// SPDX-License-Identifier: Apache-2.0
// Names as in transformers' modeling_<type>.py, including both its older and its newer layout of experts.
#include "exec/weights/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "model/error.h"
#include "model/tp_layout.h"

namespace plimsoll::exec {
namespace {

using model::Architecture;

// Names without ".weight" or ".bias". '|' separates alternatives in order of preference; an empty name means that the
// family has no such tensor.
struct Scheme {
  std::string_view beginning = {}, layers = {};
  std::string_view embedding = {}, positions = {}, final_norm = {};
  std::string_view input_norm = {}, mlp_norm = {};
  std::string_view post_attention_norm = {}, post_mlp_norm = {};
  std::string_view q = {}, k = {}, v = {}, fused_qkv = {}, out = {};
  std::string_view gate = {}, up = {}, fused_gate_up = {}, down = {};
};

constexpr Scheme kLlama = {.beginning = "model.",
                           .layers = "layers.",
                           .embedding = "embed_tokens",
                           .final_norm = "norm",
                           .input_norm = "input_layernorm",
                           .mlp_norm = "post_attention_layernorm",
                           .q = "self_attn.q_proj",
                           .k = "self_attn.k_proj",
                           .v = "self_attn.v_proj",
                           .fused_qkv = "self_attn.qkv_proj",
                           .out = "self_attn.o_proj",
                           .gate = "mlp.gate_proj",
                           .up = "mlp.up_proj",
                           .fused_gate_up = "mlp.gate_up_proj",
                           .down = "mlp.down_proj"};

constexpr Scheme kOpt = {.beginning = "model.decoder.",
                         .layers = "layers.",
                         .embedding = "embed_tokens",
                         .positions = "embed_positions",
                         .final_norm = "final_layer_norm",
                         .input_norm = "self_attn_layer_norm",
                         .mlp_norm = "final_layer_norm",
                         .q = "self_attn.q_proj",
                         .k = "self_attn.k_proj",
                         .v = "self_attn.v_proj",
                         .out = "self_attn.out_proj",
                         .up = "fc1",
                         .down = "fc2"};

constexpr Scheme kGptj = {.beginning = "transformer.",
                          .layers = "h.",
                          .embedding = "wte",
                          .final_norm = "ln_f",
                          .input_norm = "ln_1",
                          .q = "attn.q_proj",
                          .k = "attn.k_proj",
                          .v = "attn.v_proj",
                          .out = "attn.out_proj",
                          .up = "mlp.fc_in",
                          .down = "mlp.fc_out"};

// The new decoder architecture has separate norms for attention and MLP; in the older one the two share a norm.
constexpr Scheme kFalcon = {.beginning = "transformer.",
                            .layers = "h.",
                            .embedding = "word_embeddings",
                            .final_norm = "ln_f",
                            .input_norm = "ln_attn|input_layernorm",
                            .mlp_norm = "ln_mlp",
                            .fused_qkv = "self_attention.query_key_value",
                            .out = "self_attention.dense",
                            .up = "mlp.dense_h_to_4h",
                            .down = "mlp.dense_4h_to_h"};

// In Gemma post_attention_layernorm follows the attention; in GLM-4 it precedes the MLP, as in Llama.
Scheme with_norms_after(const model::LlmShape& shape) {
  Scheme scheme = kLlama;
  if (shape.family == "glm4") {
    scheme.post_attention_norm = "post_self_attn_layernorm";
    scheme.post_mlp_norm = "post_mlp_layernorm";
  } else {  // Gemma; OLMo 2, which has no norms before the sublayers
    scheme.post_attention_norm = "post_attention_layernorm";
    scheme.mlp_norm = "pre_feedforward_layernorm";
    scheme.post_mlp_norm = "post_feedforward_layernorm";
  }
  return scheme;
}

Scheme scheme_of(const model::LlmShape& shape) {
  if (model::norms_per_layer(shape) == 4 || shape.family == "olmo2") return with_norms_after(shape);
  if (shape.family == "opt") return kOpt;
  if (shape.family == "gptj") return kGptj;
  if (shape.family != "falcon") return kLlama;
  Scheme falcon = kFalcon;
  if (!shape.parallel_attention) falcon.mlp_norm = "post_attention_layernorm";
  return falcon;
}

// The part of a fused q, k, v (or gate, up) tensor that a kind corresponds to, as matrix or bias.
enum class TensorPart : unsigned char { first, second, third };

class Finder {
 public:
  Finder(const Architecture& architecture, const std::string& beginning, const TensorRef& tensor)
      : a_(architecture),
        s_(architecture.shape),
        names_(scheme_of(architecture.shape)),
        tensor_(tensor),
        own_(shape_of(a_, tensor)) {
    before_ = beginning;
    if (tensor.layer >= 0) before_ += fmt::format("{}{}.", names_.layers, tensor.layer);
  }

  std::vector<TensorPlace> places() {
    switch (tensor_.kind) {
      case TensorKind::token_embedding: embedding(); break;
      case TensorKind::position_embedding: positions(); break;
      case TensorKind::lm_head: head(".weight"); break;
      case TensorKind::lm_head_bias: head(".bias"); break;
      case TensorKind::final_norm: whole(names_.final_norm, ".weight"); break;
      case TensorKind::final_norm_bias: whole(names_.final_norm, ".bias"); break;
      case TensorKind::input_norm: whole(names_.input_norm, ".weight"); break;
      case TensorKind::input_norm_bias: whole(names_.input_norm, ".bias"); break;
      case TensorKind::mlp_norm: whole(names_.mlp_norm, ".weight"); break;
      case TensorKind::mlp_norm_bias: whole(names_.mlp_norm, ".bias"); break;
      case TensorKind::post_attention_norm: whole(names_.post_attention_norm, ".weight"); break;
      case TensorKind::post_mlp_norm: whole(names_.post_mlp_norm, ".weight"); break;
      case TensorKind::q: qkv(names_.q, TensorPart::first, ".weight"); break;
      case TensorKind::k: qkv(names_.k, TensorPart::second, ".weight"); break;
      case TensorKind::v: qkv(names_.v, TensorPart::third, ".weight"); break;
      case TensorKind::q_bias: qkv(names_.q, TensorPart::first, ".bias"); break;
      case TensorKind::k_bias: qkv(names_.k, TensorPart::second, ".bias"); break;
      case TensorKind::v_bias: qkv(names_.v, TensorPart::third, ".bias"); break;
      case TensorKind::q_norm: whole("self_attn.q_norm", ".weight"); break;
      case TensorKind::k_norm: whole("self_attn.k_norm", ".weight"); break;
      case TensorKind::attention_out: whole(names_.out, ".weight"); break;
      case TensorKind::attention_out_bias: whole(names_.out, ".bias"); break;
      case TensorKind::gate: gate_up(names_.gate, TensorPart::first, ".weight"); break;
      case TensorKind::up: gate_up(names_.up, TensorPart::second, ".weight"); break;
      case TensorKind::down: whole(names_.down, ".weight"); break;
      case TensorKind::gate_bias: gate_up(names_.gate, TensorPart::first, ".bias"); break;
      case TensorKind::up_bias: gate_up(names_.up, TensorPart::second, ".bias"); break;
      case TensorKind::down_bias: whole(names_.down, ".bias"); break;
      case TensorKind::router: whole("block_sparse_moe.gate|mlp.gate|mlp.router", ".weight"); break;
      case TensorKind::router_bias: whole("mlp.router", ".bias"); break;
      case TensorKind::router_choice_bias:
        whole("mlp.gate.e_score_correction_bias|block_sparse_moe.e_score_correction_bias|mlp.e_score_correction_bias",
              "");
        break;
      case TensorKind::shared_expert_gate: whole("mlp.shared_expert_gate", ".weight"); break;
      case TensorKind::shared_gate: shared("gate_proj"); break;
      case TensorKind::shared_up: shared("up_proj"); break;
      case TensorKind::shared_down: shared("down_proj"); break;
      case TensorKind::sinks: whole("self_attn.sinks", ""); break;
      case TensorKind::q_down: whole("self_attn.q_a_proj", ".weight"); break;
      case TensorKind::q_latent_norm: whole("self_attn.q_a_layernorm", ".weight"); break;
      case TensorKind::q_up: whole("self_attn.q_b_proj", ".weight"); break;
      case TensorKind::kv_down: whole("self_attn.kv_a_proj_with_mqa", ".weight"); break;
      case TensorKind::kv_latent_norm: whole("self_attn.kv_a_layernorm", ".weight"); break;
      case TensorKind::kv_up: whole("self_attn.kv_b_proj", ".weight"); break;
      case TensorKind::expert_gate_bias: expert_bias({"gate_up_proj_bias", 0, 2}); break;
      case TensorKind::expert_up_bias: expert_bias({"gate_up_proj_bias", 1, 2}); break;
      case TensorKind::expert_down_bias: expert_bias({"down_proj_bias", 0, 1}); break;
      case TensorKind::expert_gate: expert("w1", "gate_proj", {"gate_up_proj", 0, 2}); break;
      case TensorKind::expert_up: expert("w3", "up_proj", {"gate_up_proj", 1, 2}); break;
      case TensorKind::expert_down: expert("w2", "down_proj", {"down_proj", 0, 1}); break;
    }
    return std::move(places_);
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> shape_with(std::int64_t rows) const {
    return own_.columns == 1 ? std::vector{rows} : std::vector{rows, own_.columns};
  }

  // Takes rows [base, base + rows) of a tensor with `rows_there` rows.
  void slice(std::string_view name, std::string_view end, std::int64_t rows_there, std::int64_t base) {
    places_.push_back({fmt::format("{}{}{}", before_, name, end), shape_with(rows_there), base, own_.rows, own_.rows});
  }

  // Adds a place for each alternative name; the caller takes the first that the files have.
  void whole(std::string_view names, std::string_view end) {
    for (std::size_t bar = 0; !names.empty(); names.remove_prefix(bar)) {
      bar = std::min(names.find('|'), names.size());
      slice(names.substr(0, bar), end, own_.rows, 0);
      if (bar < names.size()) ++bar;
    }
  }

  void embedding() {
    whole(names_.embedding, ".weight");
    if (s_.tie_embeddings) head(".weight");  // some files store only the other one of the two tied tensors
  }

  // OPT's table begins with rows that belong to no position.
  void positions() { slice(names_.positions, ".weight", own_.rows + a_.position_offset, a_.position_offset); }

  void head(std::string_view end) {
    before_.clear();  // the head is outside the submodule that gives the other names their prefix
    slice("lm_head", end, own_.rows, 0);
  }

  void qkv(std::string_view separate, TensorPart part, std::string_view end) {
    if (!separate.empty()) whole(separate, end);
    if (names_.fused_qkv.empty()) return;
    const std::int64_t d = s_.head_dim, heads = s_.heads, kv_heads = s_.kv_heads;
    const std::int64_t rows = (heads + 2 * kv_heads) * d;
    if (s_.family == "falcon") {
      // Key and value heads follow each group of query heads: [q … q k v] for each KV head. A single KV head makes one
      // group; as many KV heads as query heads make groups of one.
      const std::int64_t queries = heads / kv_heads * d;
      const std::int64_t base = part == TensorPart::first ? 0 : part == TensorPart::second ? queries : queries + d;
      places_.push_back({fmt::format("{}{}{}", before_, names_.fused_qkv, end), shape_with(rows), base,
                         part == TensorPart::first ? queries : d, queries + 2 * d});
      return;
    }
    slice(names_.fused_qkv, end, rows,
          part == TensorPart::first    ? 0
          : part == TensorPart::second ? heads * d
                                       : (heads + kv_heads) * d);
  }

  void gate_up(std::string_view separate, TensorPart part, std::string_view end) {
    if (!separate.empty()) whole(separate, end);
    if (!names_.fused_gate_up.empty())
      slice(names_.fused_gate_up, end, 2 * own_.rows, part == TensorPart::first ? 0 : own_.rows);
  }

  // A part of a tensor of all experts, [experts, parts * rows, columns].
  struct Stacked {
    std::string_view name;
    std::int64_t part, parts;
  };
  // Mixtral's w1, w2, w3, the usual names, or all experts in one tensor.
  void expert(std::string_view mixtral, std::string_view usual, const Stacked& stacked) {
    const std::int64_t e = tensor_.expert;
    if (s_.family == "gpt_oss") {
      transposed_expert(stacked);
      return;
    }
    slice(fmt::format("block_sparse_moe.experts.{}.{}", e, mixtral), ".weight", own_.rows, 0);
    slice(fmt::format("mlp.experts.{}.{}", e, usual), ".weight", own_.rows, 0);
    places_.push_back({fmt::format("{}mlp.experts.{}", before_, stacked.name),
                       {s_.moe->experts, stacked.parts * own_.rows, own_.columns},
                       (e * stacked.parts + stacked.part) * own_.rows,
                       own_.rows,
                       own_.rows});
  }

  // gpt-oss keeps [experts, inputs, outputs]; the outputs of gate and up alternate.
  void transposed_expert(const Stacked& stacked) {
    places_.push_back({.name = fmt::format("{}mlp.experts.{}", before_, stacked.name),
                       .shape = {s_.moe->experts, own_.columns, stacked.parts * own_.rows},
                       .base = tensor_.expert * own_.columns,
                       .group = own_.rows,
                       .stride = own_.rows,
                       .transposed = true,
                       .column_base = stacked.part,
                       .column_step = stacked.parts});
  }

  void expert_bias(const Stacked& stacked) {
    places_.push_back({.name = fmt::format("{}mlp.experts.{}", before_, stacked.name),
                       .shape = {s_.moe->experts, stacked.parts * own_.rows},
                       .base = tensor_.expert * stacked.parts * own_.rows + stacked.part,
                       .group = 1,
                       .stride = stacked.parts});
  }

  // Qwen2-MoE has one shared expert, DeepSeek writes several as one.
  void shared(std::string_view name) {
    for (const std::string_view holder : {"mlp.shared_expert.", "mlp.shared_experts."})
      slice(fmt::format("{}{}", holder, name), ".weight", own_.rows, 0);
  }

  const Architecture& a_;
  const model::LlmShape& s_;
  Scheme names_;
  TensorRef tensor_;
  TensorShape own_;
  std::string before_;
  std::vector<TensorPlace> places_;
};

class Walk {
 public:
  Walk(const Architecture& architecture, const std::function<bool(const TensorRef&, Presence)>& visit)
      : a_(architecture), s_(architecture.shape), visit_(visit) {}

  void run() {
    using enum TensorKind;
    if (!add(true, {token_embedding}) || (s_.learned_positions && !add(true, {position_embedding}))) return;
    if (!add(true, {final_norm}) || !add(a_.norm_bias, {final_norm_bias})) return;
    // A tied head may still be in the file; it then equals the embedding.
    if (!s_.tie_embeddings && !add(true, {lm_head})) return;
    if (!add(a_.lm_head_bias, {lm_head_bias})) return;
    for (layer_ = 0; layer_ < s_.layers; ++layer_) {
      if (!attention() || !(model::layer_kind(s_, layer_).moe ? experts() : mlp())) return;
    }
  }

 private:
  bool add(bool there, std::initializer_list<TensorKind> kinds, std::int32_t expert = -1) {
    for (const TensorKind kind : kinds) {
      if (!visit_({kind, layer_, expert}, there ? Presence::there : Presence::lacking)) return false;
    }
    return true;
  }

  bool attention() {
    using enum TensorKind;
    const std::int32_t norms = model::norms_per_layer(s_);
    const bool before = !a_.norms_only_after, after = norms == 4 || a_.norms_only_after;
    const bool two_norms = before && norms >= 2;
    return (s_.mla ? latents() : add(true, {q, k, v})) && add(true, {attention_out}) &&
           (!a_.sinks || add(true, {sinks})) && (!before || add(true, {input_norm})) &&
           (!two_norms || add(true, {mlp_norm})) && (!after || add(true, {post_attention_norm, post_mlp_norm})) &&
           add(a_.norm_bias, {input_norm_bias}) && (!two_norms || add(a_.norm_bias, {mlp_norm_bias})) &&
           (s_.mla || (add(s_.qkv_bias, {q_bias, k_bias, v_bias}) && add(s_.qk_norm, {q_norm, k_norm}))) &&
           add(a_.attention_out_bias, {attention_out_bias});
  }

  bool latents() {
    using enum TensorKind;
    const bool of_queries = s_.mla->q_lora_rank > 0;
    return (of_queries ? add(true, {q_down, q_latent_norm, q_up}) : add(true, {q})) &&
           add(true, {kv_down, kv_latent_norm, kv_up});
  }

  bool mlp() {
    using enum TensorKind;
    if (s_.gated_mlp && (!add(true, {gate}) || !add(a_.mlp_bias, {gate_bias}))) return false;
    return add(true, {up, down}) && add(a_.mlp_bias, {up_bias, down_bias});
  }

  bool experts() {
    using enum TensorKind;
    bool going = add(true, {router}) && (!a_.routing.logit_bias || add(true, {router_bias})) &&
                 (!a_.routing.choice_bias || add(true, {router_choice_bias})) &&
                 (!s_.moe->shared_gate || add(true, {shared_expert_gate}));
    if (going && model::rank_shape(s_, 1).shared_intermediate > 0)
      going = add(true, {shared_gate, shared_up, shared_down});
    for (std::int32_t e = 0; going && e < s_.moe->experts; ++e)
      going = add(true, {expert_gate, expert_up, expert_down}, e) &&
              (!a_.expert_bias || add(true, {expert_gate_bias, expert_up_bias, expert_down_bias}, e));
    return going;
  }

  const Architecture& a_;
  const model::LlmShape& s_;
  const std::function<bool(const TensorRef&, Presence)>& visit_;
  std::int32_t layer_ = -1;
};

}  // namespace

std::vector<std::string> name_beginnings(const Architecture& architecture) {
  const std::string full(scheme_of(architecture.shape).beginning);
  // Without its head, "model.decoder." becomes "decoder."
  const std::size_t dot = full.find('.') + 1;
  return {full, full.substr(dot)};
}

std::vector<TensorPlace> tensor_places(const Architecture& architecture, const std::string& beginning,
                                       const TensorRef& tensor) {
  std::vector<TensorPlace> places = Finder(architecture, beginning, tensor).places();
  PLIMSOLL_CHECK(!places.empty(), "every tensor of a model has a name");
  return places;
}

void visit_tensors(const Architecture& architecture, const std::function<bool(const TensorRef&, Presence)>& visit) {
  Walk(architecture, visit).run();
}

}  // namespace plimsoll::exec
