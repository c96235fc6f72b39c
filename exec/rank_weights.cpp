// SPDX-License-Identifier: Apache-2.0
#include "exec/rank_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/memory_plan.h"
#include "model/tp_layout.h"

namespace plimsoll::exec {

namespace {

// Rows of one unsharded tensor that become part of a fused matrix.
struct Part {
  TensorKind kind;
  std::int64_t first_row = 0, rows = 0;
};

int bits_of(model::DType dtype) { return dtype == model::DType::int4 ? 4 : dtype == model::DType::int8 ? 8 : 0; }

// Returns whether files hold integers of the type of the shape's checkpoint. Then their other matrices stay floats.
bool holds_integers(const model::LlmShape& shape, const WeightSource& source) {
  if (!shape.checkpoint) return false;
  using enum TensorKind;
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
    for (const TensorKind kind : {q, attention_out, up, down, expert_up, expert_down}) {
      const auto format = source.integers({kind, layer, is_of_expert(kind) ? 0 : -1});
      if (format && format->bits == bits_of(shape.checkpoint->dtype)) return true;
    }
  }
  return false;
}

class RankLoader {
 public:
  RankLoader(Backend& backend, const model::Architecture& architecture, const WeightSource& source, RankPlace place)
      : backend_(backend),
        a_(architecture),
        s_(architecture.shape),
        source_(source),
        place_(place),
        rank_(model::rank_shape(architecture.shape, place.tp)),
        holds_integers_(holds_integers(architecture.shape, source)) {}

  RankWeights load() {
    load_vocabulary();
    for (std::int32_t layer = 0; layer < s_.layers; ++layer) w_.layers.push_back(load_layer(layer));
    return std::move(w_);
  }

 private:
  // ---- matrices -------------------------------------------------------------------------------------------

  struct Columns {
    std::int64_t first = 0, count = 0;
  };
  // Stacks the rows of parts with the same width; takes the same columns of each. `kind`: copies and precision.
  std::unique_ptr<Linear> stack(std::vector<Part> parts, std::int32_t layer, Columns columns, LinearSpec kind = {}) {
    kind.k = columns.count;
    if (kind.quantised) kind.integers = stored_integers(parts, layer, columns, kind.copies);
    // Matrices that a quantised checkpoint keeps in floats are not rounded.
    kind.quantised = kind.quantised && (kind.integers || !holds_integers_);
    for (const Part& part : parts) kind.n += part.rows;
    const FillRows fill = [&, parts, layer](std::int64_t copy, std::int64_t row, std::int64_t rows, float* out) {
      for_each_part(parts, row, rows, [&](const Part& part) {
        source_.read(tensor_of(part, layer, copy), {part.first_row, part.rows, columns.first, columns.count}, out);
        out += part.rows * columns.count;
      });
    };
    return backend_.make_linear(kind, fill);
  }

  // Calls `use` for the part of every part that lies in rows [row, row + rows) of the stack.
  template <class Use>
  static void for_each_part(const std::vector<Part>& parts, std::int64_t row, std::int64_t rows, const Use& use) {
    for (const Part& part : parts) {
      const std::int64_t begin = std::clamp<std::int64_t>(row, 0, part.rows),
                         end = std::clamp<std::int64_t>(row + rows, 0, part.rows);
      if (end > begin) use({part.kind, part.first_row + begin, end - begin});
      row -= part.rows;
    }
  }

  // Returns the first matrix of an MLP, with the gate above it if there is one.
  [[nodiscard]] std::vector<Part> with_gate(TensorKind gate, Part up) const {
    if (!s_.gated_mlp) return {up};
    return {{gate, up.first_row, up.rows}, up};
  }

  static TensorRef tensor_of(const Part& part, std::int32_t layer, std::int64_t copy) {
    return {part.kind, layer, is_of_expert(part.kind) ? static_cast<std::int32_t>(copy) : -1};
  }

  // Returns the integers of a matrix if the files hold all of its parts in one format.
  std::optional<StoredIntegers> stored_integers(const std::vector<Part>& parts, std::int32_t layer, Columns columns,
                                                std::int64_t copies) const {
    std::optional<IntegerFormat> format = source_.integers(tensor_of(parts.front(), layer, 0));
    if (!format) return {};
    for (const Part& part : parts) {
      for (std::int64_t copy = 0; copy < copies; ++copy) {
        const std::optional<IntegerFormat> other = source_.integers(tensor_of(part, layer, copy));
        if (!other || !other->stacks_with(*format)) return {};
        format->zeros = format->zeros || other->zeros;
      }
    }
    const auto fill = [this, parts, layer, columns, groups = format->groups(columns.count)](
                          std::int64_t copy, std::int64_t row, std::int64_t rows, IntegerRows out) {
      for_each_part(parts, row, rows, [&](const Part& part) {
        source_.read_integers(tensor_of(part, layer, copy), {part.first_row, part.rows, columns.first, columns.count},
                              out);
        out.q += part.rows * columns.count;
        out.scale += part.rows * groups;
        out.zero += part.rows * groups;
      });
    };
    return StoredIntegers{*format, fill};
  }

  // Returns whether the op list prices the matrix in the narrow type.
  [[nodiscard]] bool quantised(model::OpId id, std::int32_t layer) const {
    const bool moe = model::layer_kind(s_, layer).moe;
    for (const auto& matrices : {model::attention_matrices(s_, place_.tp), model::mlp_matrices(s_, place_.tp, moe)}) {
      for (const model::Matrix& matrix : matrices) {
        if (matrix.id == id) return matrix.quantised;
      }
    }
    return false;
  }

  // Makes this rank's rows of [vocab, hidden]; rows beyond the vocabulary are zero.
  std::unique_ptr<Linear> vocabulary_rows(TensorKind kind) {
    const std::int64_t first = place_.rank * rank_.vocab_rows, width = s_.hidden;
    const FillRows fill = [&, kind](std::int64_t, std::int64_t row, std::int64_t rows, float* out) {
      const std::int64_t there = std::clamp<std::int64_t>(s_.vocab - (first + row), 0, rows);
      if (there > 0) source_.read({kind, -1, -1}, {first + row, there, 0, width}, out);
      std::fill(out + there * width, out + rows * width, 0.0F);
    };
    return backend_.make_linear({.n = rank_.vocab_rows, .k = width, .copies = 1, .full_precision = false}, fill);
  }

  void load_vocabulary() {
    w_.embedding = vocabulary_rows(TensorKind::token_embedding);
    if (!s_.tie_embeddings) w_.own_head = vocabulary_rows(TensorKind::lm_head);
    if (s_.learned_positions && place_.rank == 0)
      w_.positions = stack({{TensorKind::position_embedding, 0, s_.max_position}}, -1, {0, s_.hidden});
    if (a_.lm_head_bias) {
      const std::int64_t first = place_.rank * rank_.vocab_rows;
      const std::int64_t there = std::clamp<std::int64_t>(s_.vocab - first, 0, rank_.vocab_rows);
      std::vector<float> bias(static_cast<std::size_t>(rank_.vocab_rows));
      if (there > 0) source_.read({TensorKind::lm_head_bias, -1, -1}, {first, there}, bias.data());
      w_.head_bias = keep(bias);
    }
    w_.final_norm = norm(TensorKind::final_norm, TensorKind::final_norm_bias, -1);
  }

  // ---- vectors --------------------------------------------------------------------------------------------

  const Vector* keep(const std::vector<float>& values) {
    w_.vectors.push_back(backend_.make_vector(values));
    return w_.vectors.back().get();
  }

  const Vector* join(const std::vector<Part>& parts, std::int32_t layer) {
    std::vector<float> values;
    for (const Part& part : parts) {
      const std::size_t at = values.size();
      values.resize(at + static_cast<std::size_t>(part.rows));
      source_.read({part.kind, layer, -1}, {part.first_row, part.rows}, values.data() + at);
      if (a_.norm_from_one && is_norm(part.kind))
        for (std::size_t i = at; i < values.size(); ++i) values[i] += 1;
    }
    return keep(values);
  }

  const Vector* whole(TensorKind kind, std::int32_t layer) {
    return join({{kind, 0, shape_of(a_, {kind, layer, -1}).rows}}, layer);
  }

  // For biases that follow an all-reduce: only rank 0 adds them, because the sum over ranks would add them tp times.
  const Vector* once(TensorKind kind, std::int32_t layer) { return place_.rank == 0 ? whole(kind, layer) : nullptr; }

  NormSpec norm(TensorKind weight, TensorKind bias, std::int32_t layer) {
    NormSpec spec;
    spec.kind = s_.norm;
    spec.epsilon = static_cast<float>(a_.norm_epsilon);
    spec.weight = whole(weight, layer);
    if (a_.norm_bias) spec.bias = whole(bias, layer);
    spec.delta_scale = static_cast<float>(a_.residual_scale);
    return spec;
  }
  // Returns the norm after a sublayer. No family has biases there.
  NormSpec norm_after(TensorKind weight, std::int32_t layer) {
    return {.kind = s_.norm, .epsilon = static_cast<float>(a_.norm_epsilon), .weight = whole(weight, layer)};
  }

  // ---- layers ---------------------------------------------------------------------------------------------

  // With fewer KV heads than ranks, tp / kv_heads neighbouring ranks hold the same head.
  [[nodiscard]] std::int64_t first_kv_head() const { return std::int64_t{place_.rank} * s_.kv_heads / place_.tp; }

  LayerWeights load_layer(std::int32_t layer) {
    LayerWeights l;
    if (a_.norms_only_after) {
      l.input_norm = l.mlp_norm = {.delta_scale = static_cast<float>(a_.residual_scale), .identity = true};
    } else {
      l.input_norm = norm(TensorKind::input_norm, TensorKind::input_norm_bias, layer);
      if (model::norms_per_layer(s_) >= 2) l.mlp_norm = norm(TensorKind::mlp_norm, TensorKind::mlp_norm_bias, layer);
    }
    if (model::norms_per_layer(s_) == 4 || a_.norms_only_after) {
      l.post_attention_norm = norm_after(TensorKind::post_attention_norm, layer);
      l.post_mlp_norm = norm_after(TensorKind::post_mlp_norm, layer);
    }
    if (s_.mla)
      load_latent_attention(l, layer);
    else
      load_attention(l, layer);
    if (model::layer_kind(s_, layer).moe)
      load_experts(l, layer);
    else
      load_mlp(l, layer);
    return l;
  }

  // Every rank computes all latents and so has the whole cache. The heads are divided among the ranks.
  void load_latent_attention(LayerWeights& l, std::int32_t layer) {
    const model::MlaShape& m = *s_.mla;
    const std::int64_t query = m.qk_nope_head_dim + m.qk_rope_head_dim, heads = rank_.heads;
    const std::int64_t first_head = place_.rank * heads, latent = m.kv_lora_rank + m.qk_rope_head_dim;
    const auto is_narrow = [&](model::OpId id) { return LinearSpec{.quantised = quantised(id, layer)}; };
    if (m.q_lora_rank > 0) {
      l.q_down = stack({{TensorKind::q_down, 0, m.q_lora_rank}}, layer, {0, s_.hidden}, is_narrow(model::OpId::q_down));
      l.q_latent_norm = latent_norm(TensorKind::q_latent_norm, layer);
      l.q_up = stack({{TensorKind::q_up, first_head * query, heads * query}}, layer, {0, m.q_lora_rank},
                     is_narrow(model::OpId::q_up));
    } else {
      l.q_up =
          stack({{TensorKind::q, first_head * query, heads * query}}, layer, {0, s_.hidden}, is_narrow(model::OpId::q));
    }
    l.kv_down = stack({{TensorKind::kv_down, 0, latent}}, layer, {0, s_.hidden}, is_narrow(model::OpId::kv_down));
    l.kv_latent_norm = latent_norm(TensorKind::kv_latent_norm, layer);
    load_latent_heads(l, layer);
    l.attention_out =
        stack({{TensorKind::attention_out, 0, s_.hidden}}, layer, {first_head * m.v_head_dim, heads * m.v_head_dim},
              {.quantised = quantised(model::OpId::attention_out, layer)});
    l.rope.rope = model::rope_of(a_, layer);
  }

  // kv_up is applied to queries and results instead of to the cache, by head; the half for queries is transposed.
  void load_latent_heads(LayerWeights& l, std::int32_t layer) {
    const model::MlaShape& m = *s_.mla;
    const std::int64_t of_head = m.qk_nope_head_dim + m.v_head_dim, keys = m.qk_nope_head_dim;
    const std::int64_t first = place_.rank * rank_.heads * of_head;
    const FillRows fill_keys = [&](std::int64_t head, std::int64_t row, std::int64_t rows, float* out) {
      std::vector<float> from(static_cast<std::size_t>(keys * rows));
      source_.read({TensorKind::kv_up, layer, -1}, {first + head * of_head, keys, row, rows}, from.data());
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < keys; ++c) out[r * keys + c] = from[static_cast<std::size_t>(c * rows + r)];
      }
    };
    const FillRows fill_values = [&](std::int64_t head, std::int64_t row, std::int64_t rows, float* out) {
      source_.read({TensorKind::kv_up, layer, -1}, {first + head * of_head + keys + row, rows, 0, m.kv_lora_rank}, out);
    };
    l.latent_keys = backend_.make_linear({.n = m.kv_lora_rank, .k = keys, .copies = rank_.heads}, fill_keys);
    l.latent_values =
        backend_.make_linear({.n = m.v_head_dim, .k = m.kv_lora_rank, .copies = rank_.heads}, fill_values);
  }

  NormSpec latent_norm(TensorKind weight, std::int32_t layer) {
    return {.epsilon = static_cast<float>(a_.latent_epsilon), .weight = whole(weight, layer)};
  }

  void load_attention(LayerWeights& l, std::int32_t layer) {
    const std::int64_t d = s_.head_dim, queries = rank_.heads * d, keys = rank_.kv_heads * d;
    const std::int64_t first_query = place_.rank * queries, first_key = first_kv_head() * d;
    l.qkv = stack(
        {{TensorKind::q, first_query, queries}, {TensorKind::k, first_key, keys}, {TensorKind::v, first_key, keys}},
        layer, {0, s_.hidden}, {.quantised = quantised(model::OpId::qkv, layer)});
    // Each rank takes the input columns of its own heads. An all-reduce then adds the ranks' partial outputs.
    l.attention_out = stack({{TensorKind::attention_out, 0, s_.hidden}}, layer, {first_query, queries},
                            {.quantised = quantised(model::OpId::attention_out, layer)});
    l.rope.rope = model::rope_of(a_, layer);
    l.rope.norm_epsilon = static_cast<float>(a_.norm_epsilon);
    if (s_.qkv_bias)
      l.rope.bias = join({{TensorKind::q_bias, first_query, queries},
                          {TensorKind::k_bias, first_key, keys},
                          {TensorKind::v_bias, first_key, keys}},
                         layer);
    l.rope.wide_norms = model::has_wide_qk_norm(s_);
    if (s_.qk_norm) {
      l.rope.q_norm = whole(TensorKind::q_norm, layer);
      l.rope.k_norm = whole(TensorKind::k_norm, layer);
    }
    if (a_.attention_out_bias) l.attention_out_bias = once(TensorKind::attention_out_bias, layer);
    if (a_.sinks) l.sinks = join({{TensorKind::sinks, place_.rank * rank_.heads, rank_.heads}}, layer);
  }

  void load_mlp(LayerWeights& l, std::int32_t layer) {
    const std::int64_t width = rank_.intermediate, first = place_.rank * width;
    const model::OpId up_id = s_.gated_mlp ? model::OpId::gate_up : model::OpId::up;
    l.up = stack(with_gate(TensorKind::gate, {TensorKind::up, first, width}), layer, {0, s_.hidden},
                 {.quantised = quantised(up_id, layer)});
    // Each rank takes the input columns of its own part of the MLP, so the ranks' outputs are partial sums.
    l.down = stack({{TensorKind::down, 0, s_.hidden}}, layer, {first, width},
                   {.quantised = quantised(model::OpId::down, layer)});
    if (!a_.mlp_bias) return;
    l.up_bias = join(with_gate(TensorKind::gate_bias, {TensorKind::up_bias, first, width}), layer);
    l.down_bias = once(TensorKind::down_bias, layer);
  }

  void load_experts(LayerWeights& l, std::int32_t layer) {
    const std::int64_t experts = s_.moe->experts, width = rank_.expert_intermediate, first = place_.rank * width;
    // Every rank has the whole router, so all ranks choose the same experts without communication.
    l.router = stack({{TensorKind::router, 0, experts}}, layer, {0, s_.hidden}, {.full_precision = true});
    const model::OpId up_id = s_.gated_mlp ? model::OpId::expert_gate_up : model::OpId::expert_up;
    l.expert_up = stack(with_gate(TensorKind::expert_gate, {TensorKind::expert_up, first, width}), layer,
                        {0, s_.hidden}, {.copies = experts, .quantised = quantised(up_id, layer)});
    l.expert_down = stack({{TensorKind::expert_down, 0, s_.hidden}}, layer, {first, width},
                          {.copies = experts, .quantised = quantised(model::OpId::expert_down, layer)});
    if (a_.routing.logit_bias) l.router_bias = whole(TensorKind::router_bias, layer);
    if (a_.routing.choice_bias) l.router_choice_bias = whole(TensorKind::router_choice_bias, layer);
    if (a_.expert_bias) load_expert_biases(l, layer);
    if (rank_.shared_intermediate > 0) load_shared_experts(l, layer);
  }

  void load_expert_biases(LayerWeights& l, std::int32_t layer) {
    const std::int64_t width = rank_.expert_intermediate, first = place_.rank * width;
    std::vector<float> up, down;
    const auto add = [&](std::vector<float>& values, TensorRef tensor, Part part) {
      values.resize(values.size() + static_cast<std::size_t>(part.rows));
      source_.read(tensor, {part.first_row, part.rows}, values.data() + values.size() - part.rows);
    };
    for (std::int32_t e = 0; e < s_.moe->experts; ++e) {
      for (const TensorKind kind : {TensorKind::expert_gate_bias, TensorKind::expert_up_bias})
        add(up, {kind, layer, e}, {kind, first, width});
      add(down, {TensorKind::expert_down_bias, layer, e}, {TensorKind::expert_down_bias, 0, s_.hidden});
    }
    l.expert_up_bias = keep(up);
    if (place_.rank == 0) l.expert_down_bias = keep(down);
  }

  void load_shared_experts(LayerWeights& l, std::int32_t layer) {
    const std::int64_t width = rank_.shared_intermediate, first = place_.rank * width;
    const model::OpId up_id = s_.gated_mlp ? model::OpId::shared_gate_up : model::OpId::shared_up;
    l.shared_up = stack(with_gate(TensorKind::shared_gate, {TensorKind::shared_up, first, width}), layer,
                        {0, s_.hidden}, {.quantised = quantised(up_id, layer)});
    l.shared_down = stack({{TensorKind::shared_down, 0, s_.hidden}}, layer, {first, width},
                          {.quantised = quantised(model::OpId::shared_down, layer)});
    if (s_.moe->shared_gate)
      l.shared_gate = stack({{TensorKind::shared_expert_gate, 0, 1}}, layer, {0, s_.hidden}, {.full_precision = true});
  }

  Backend& backend_;
  const model::Architecture& a_;
  const model::LlmShape& s_;
  const WeightSource& source_;
  RankPlace place_;
  model::RankShape rank_;
  bool holds_integers_;  // whether the files hold integers of the type that runs
  RankWeights w_;
};

}  // namespace

std::string split_problem(const model::Architecture& architecture, model::DType weight_dtype,
                          const WeightSource& source, std::int32_t tp) {
  const model::LlmShape& shape = architecture.shape;
  const bool integers = weight_dtype == model::DType::int8 || weight_dtype == model::DType::int4;
  if (tp == 1 || !integers) return {};
  const model::RankShape rank = model::rank_shape(shape, tp);
  const auto problem = [&](TensorKind kind, std::int32_t layer, std::int64_t columns) -> std::string {
    const TensorRef tensor{kind, layer, kind == TensorKind::expert_down ? 0 : -1};
    std::optional<IntegerFormat> format = source.integers(tensor);
    if (format && format->bits != bits_of(weight_dtype)) format.reset();  // rounded on load
    if (format && format->order != nullptr)
      return fmt::format("{}: its groups have scattered columns (act-order), which tp {} would cut; allowed: tp 1",
                         describe(tensor), tp);
    const std::int64_t group = format ? format->group : model::kLoadGroup;
    if (group == 0 || columns % group == 0) return {};
    return fmt::format("{}: tp {} gives a rank {} columns, which cuts groups of {}", describe(tensor), tp, columns,
                       group);
  };
  for (std::int32_t layer = 0; layer < shape.layers; ++layer) {
    const std::int64_t head = shape.mla ? shape.mla->v_head_dim : shape.head_dim;
    std::string found = problem(TensorKind::attention_out, layer, rank.heads * head);
    if (!found.empty()) return found;
    found = model::layer_kind(shape, layer).moe ? problem(TensorKind::expert_down, layer, rank.expert_intermediate)
                                                : problem(TensorKind::down, layer, rank.intermediate);
    if (!found.empty()) return found;
  }
  return {};
}

RankWeights load_rank(Backend& backend, const model::Architecture& architecture, const WeightSource& source,
                      RankPlace place) {
  return RankLoader(backend, architecture, source, place).load();
}

}  // namespace plimsoll::exec
