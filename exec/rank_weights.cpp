// SPDX-License-Identifier: Apache-2.0
#include "exec/rank_weights.h"

#include <algorithm>

#include "model/memory_plan.h"

namespace plimsoll::exec {

namespace {

// Rows of one unsharded tensor that become part of a fused matrix.
struct Part {
  TensorKind kind;
  std::int64_t first_row = 0, rows = 0;
};

class RankLoader {
 public:
  RankLoader(Backend& backend, const model::Architecture& architecture, const WeightSource& source, RankPlace place)
      : backend_(backend),
        a_(architecture),
        s_(architecture.shape),
        source_(source),
        place_(place),
        rank_(model::rank_shape(architecture.shape, place.tp)) {}

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
    for (const Part& part : parts) kind.n += part.rows;
    const FillRows fill = [&, parts](std::int64_t copy, std::int64_t row, std::int64_t rows, float* out) {
      for (const Part& part : parts) {
        const std::int64_t begin = std::clamp<std::int64_t>(row, 0, part.rows),
                           end = std::clamp<std::int64_t>(row + rows, 0, part.rows);
        if (end > begin) {
          const auto expert = part.kind >= TensorKind::expert_gate ? static_cast<std::int32_t>(copy) : -1;
          source_.read({part.kind, layer, expert}, {part.first_row + begin, end - begin, columns.first, columns.count},
                       out);
          out += (end - begin) * columns.count;
        }
        row -= part.rows;
      }
    };
    return backend_.make_linear(kind, fill);
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
    return spec;
  }

  // ---- layers ---------------------------------------------------------------------------------------------

  // With fewer KV heads than ranks, tp / kv_heads neighbouring ranks hold the same head.
  [[nodiscard]] std::int64_t first_kv_head() const { return std::int64_t{place_.rank} * s_.kv_heads / place_.tp; }

  LayerWeights load_layer(std::int32_t layer) {
    LayerWeights l;
    l.input_norm = norm(TensorKind::input_norm, TensorKind::input_norm_bias, layer);
    if (model::norms_per_layer(s_) >= 2) l.mlp_norm = norm(TensorKind::mlp_norm, TensorKind::mlp_norm_bias, layer);
    load_attention(l, layer);
    if (model::layer_kind(s_, layer).moe)
      load_experts(l, layer);
    else
      load_mlp(l, layer);
    return l;
  }

  void load_attention(LayerWeights& l, std::int32_t layer) {
    const std::int64_t d = s_.head_dim, queries = rank_.heads * d, keys = rank_.kv_heads * d;
    const std::int64_t first_query = place_.rank * queries, first_key = first_kv_head() * d;
    l.qkv = stack(
        {{TensorKind::q, first_query, queries}, {TensorKind::k, first_key, keys}, {TensorKind::v, first_key, keys}},
        layer, {0, s_.hidden});
    // Each rank takes the input columns of its own heads. An all-reduce then adds the ranks' partial outputs.
    l.attention_out = stack({{TensorKind::attention_out, 0, s_.hidden}}, layer, {first_query, queries});
    l.rope.rope = a_.rope;
    l.rope.norm_epsilon = static_cast<float>(a_.norm_epsilon);
    if (s_.qkv_bias)
      l.rope.bias = join({{TensorKind::q_bias, first_query, queries},
                          {TensorKind::k_bias, first_key, keys},
                          {TensorKind::v_bias, first_key, keys}},
                         layer);
    if (s_.qk_norm) {
      l.rope.q_norm = whole(TensorKind::q_norm, layer);
      l.rope.k_norm = whole(TensorKind::k_norm, layer);
    }
    if (a_.attention_out_bias) l.attention_out_bias = once(TensorKind::attention_out_bias, layer);
  }

  void load_mlp(LayerWeights& l, std::int32_t layer) {
    const std::int64_t width = rank_.intermediate, first = place_.rank * width;
    std::vector<Part> up, bias;
    if (s_.gated_mlp) {
      up.push_back({TensorKind::gate, first, width});
      bias.push_back({TensorKind::gate_bias, first, width});
    }
    up.push_back({TensorKind::up, first, width});
    bias.push_back({TensorKind::up_bias, first, width});
    l.up = stack(up, layer, {0, s_.hidden});
    // Each rank takes the input columns of its own part of the MLP, so the ranks' outputs are partial sums.
    l.down = stack({{TensorKind::down, 0, s_.hidden}}, layer, {first, width});
    if (!a_.mlp_bias) return;
    l.up_bias = join(bias, layer);
    l.down_bias = once(TensorKind::down_bias, layer);
  }

  void load_experts(LayerWeights& l, std::int32_t layer) {
    const std::int64_t experts = s_.moe->experts, width = rank_.expert_intermediate, first = place_.rank * width;
    // Every rank has the whole router, so all ranks choose the same experts without communication.
    l.router = stack({{TensorKind::router, 0, experts}}, layer, {0, s_.hidden}, {.full_precision = true});
    std::vector<Part> up;
    if (s_.gated_mlp) up.push_back({TensorKind::expert_gate, first, width});
    up.push_back({TensorKind::expert_up, first, width});
    l.expert_up = stack(up, layer, {0, s_.hidden}, {.copies = experts});
    l.expert_down = stack({{TensorKind::expert_down, 0, s_.hidden}}, layer, {first, width}, {.copies = experts});
  }

  Backend& backend_;
  const model::Architecture& a_;
  const model::LlmShape& s_;
  const WeightSource& source_;
  RankPlace place_;
  model::RankShape rank_;
  RankWeights w_;
};

}  // namespace

RankWeights load_rank(Backend& backend, const model::Architecture& architecture, const WeightSource& source,
                      RankPlace place) {
  return RankLoader(backend, architecture, source, place).load();
}

}  // namespace plimsoll::exec
