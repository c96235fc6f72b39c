// SPDX-License-Identifier: Apache-2.0
#include "exec/rank_runner.h"

#include <algorithm>
#include <chrono>

#include "model/error.h"

namespace plimsoll::exec {

using model::Op;
using model::OpId;
using model::OpKind;

RankRunner::RankRunner(const EngineConfig& config, std::int32_t rank, std::unique_ptr<Backend> backend,
                       const WeightSource& source)
    : architecture_(config.architecture),
      weight_dtype_(config.weight_dtype),
      kv_dtype_(config.kv_dtype),
      rank_(rank),
      tp_(config.tp),
      block_tokens_(config.block_tokens),
      shape_(model::rank_shape(config.architecture.shape, config.tp)),
      backend_(std::move(backend)),
      weights_(load_rank(*backend_, architecture_, source, {rank, config.tp})) {}

void RankRunner::start(const ForwardInput& input) {
  // A captured graph holds a fixed number of rows. A step with fewer runs on the next larger graph, with dead rows.
  const bool decodes_only = input.prefill.empty() && !input.all_logits;
  const auto rows = static_cast<std::int64_t>(input.decode.size());
  const ForwardInput* run = &input;
  // Pad to the row count of a graph, so that a few recorded graphs serve every number of decode rows.
  if (decodes_only && backend_->padded_decode_rows(rows) > rows) {
    pad_decodes(input);
    run = &padded_;
  }
  lay_out(*run, block_tokens_, table_);
  in_flight_.push_back({table_.sampled.size(), input.all_logits});
  ++step_;
  // False: the backend replays a graph that it captured for this shape, so there are no ops left to enqueue.
  if (!backend_->begin(table_)) return;
  const model::OpListInputs inputs{.shape = &architecture_.shape,
                                   .weight_dtype = weight_dtype_,
                                   .kv_dtype = kv_dtype_,
                                   .tp = tp_,
                                   .pp = 1,
                                   .capabilities = backend_->capabilities()};
  walk(model::make_op_list(inputs, work_of(*run, architecture_.shape.sliding_window, spans_)));
  backend_->end();
}

void RankRunner::pad_decodes(const ForwardInput& input) {
  padded_ = input;
  DecodeRow lane;
  lane.dead = true;
  padded_.decode.resize(
      static_cast<std::size_t>(backend_->padded_decode_rows(static_cast<std::int64_t>(input.decode.size()))), lane);
}

// Forwards end in the order in which they were started, so the oldest one is answered.
void RankRunner::finish(std::vector<std::int32_t>& tokens, std::vector<float>& logits) {
  PLIMSOLL_CHECK(!in_flight_.empty(), "a forward was started");
  const InFlight oldest = in_flight_.front();
  in_flight_.erase(in_flight_.begin());
  tokens.resize(oldest.sampled);
  logits.resize(oldest.all_logits ? oldest.sampled * static_cast<std::size_t>(shape_.vocab_rows) : 0);
  backend_->wait(tokens.data(), oldest.all_logits ? logits.data() : nullptr);
}

void RankRunner::walk(const model::OpList& list) {
  has_delta_ = false;
  for (const Op& op : list.before) run(op, -1);
  for (std::int32_t layer = 0; layer < architecture_.shape.layers; ++layer) {
    const model::LayerKind kind = model::layer_kind(architecture_.shape, layer);
    const auto group =
        std::find_if(list.layers.begin(), list.layers.end(), [&](const model::LayerOps& g) { return g.kind == kind; });
    span_ = 0;
    for (const Op& op : group->ops) run(op, layer);
  }
  for (const Op& op : list.after) run(op, -1);
}

void RankRunner::run(const Op& op, std::int32_t layer) {
  if (!tracing_) {
    execute(op, layer);
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  execute(op, layer);
  // Tracing waits for every op, so each op is timed alone, and the whole step is slower than without tracing.
  backend_->synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  traces_.push_back({step_, rank_, layer, op, took.count()});
}

void RankRunner::execute(const Op& op, std::int32_t layer) {
  const model::LlmShape& shape = architecture_.shape;
  switch (op.kind) {
    case OpKind::embed:
      backend_->embed(*weights_.embedding, rank_ * shape_.vocab_rows, weights_.positions.get());
      return;
    case OpKind::norm: run_norm(op, layer); return;
    case OpKind::gemm: run_gemm(op, layer); return;
    case OpKind::moe_gemm: run_moe_gemm(op, layer); return;
    case OpKind::rope_append: {
      const RopeSpec& rope = weights_.layers[static_cast<std::size_t>(layer)].rope;
      shape.mla ? backend_->latent_rope_append(rope, layer) : backend_->rope_append(rope, layer);
      return;
    }
    case OpKind::prefill_attention: backend_->prefill_attention(attention_of(layer), span_++); return;
    case OpKind::decode_attention: backend_->decode_attention(attention_of(layer)); return;
    case OpKind::activation: run_activation(op); return;
    case OpKind::route:
      backend_->route(shape.moe->experts, shape.moe->experts_per_token,
                      weights_.layers[static_cast<std::size_t>(layer)].router_choice_bias);
      if (rank_ == 0 && in_flight_.back().all_logits) backend_->append_choices(layer, experts_);
      return;
    case OpKind::combine:
      backend_->combine(shape.moe->experts_per_token);
      has_delta_ = true;
      return;
    case OpKind::all_reduce: run_all_reduce(op); return;
    case OpKind::sample: {
      const std::int64_t first = rank_ * shape_.vocab_rows;
      backend_->sample(first, std::clamp<std::int64_t>(shape.vocab - first, 0, shape_.vocab_rows));
      if (tp_ == 1) backend_->exchange_samples();  // the op list of a single rank has no exchange
      return;
    }
    // A norm adds the residual itself here, and pipelines are not executed.
    case OpKind::residual_add:
    case OpKind::send: break;
  }
  PLIMSOLL_CHECK(false, "the executor knows every op of the list");
}

AttentionSpec RankRunner::attention_of(std::int32_t layer) const {
  const bool windowed = model::layer_kind(architecture_.shape, layer).windowed;
  return {.layer = layer,
          .window = windowed ? architecture_.shape.sliding_window : 0,
          .sinks = weights_.layers[static_cast<std::size_t>(layer)].sinks};
}

void RankRunner::run_norm(const Op& op, std::int32_t layer) {
  // Without norms before the sublayers, each step from one sublayer to the next starts with the norm after the first.
  const bool after = architecture_.norms_only_after && has_delta_;
  if (layer < 0) {
    if (after) backend_->norm_delta(weights_.layers.back().post_mlp_norm);
    backend_->final_norm(weights_.final_norm, has_delta_);
    return;
  }
  const LayerWeights& l = weights_.layers[static_cast<std::size_t>(layer)];
  if (after && op.id != OpId::q_norm && op.id != OpId::kv_norm)
    backend_->norm_delta(op.id == OpId::input_norm ? weights_.layers[static_cast<std::size_t>(layer) - 1].post_mlp_norm
                                                   : l.post_attention_norm);
  if (op.id == OpId::input_norm) {
    backend_->norm(l.input_norm, has_delta_);
    has_delta_ = false;
  } else if (op.id == OpId::post_attention_norm) {
    backend_->norm_delta(l.post_attention_norm);
  } else if (op.id == OpId::post_mlp_norm) {
    backend_->norm_delta(l.post_mlp_norm);
  } else if (op.id == OpId::q_norm) {
    backend_->norm_latent(l.q_latent_norm, Buffer::query_latent, op.n);
  } else if (op.id == OpId::kv_norm) {
    backend_->norm_latent(l.kv_latent_norm, Buffer::latent, op.n);
  } else {
    PLIMSOLL_CHECK(op.id == OpId::mlp_norm, "a layer has no other norms");
    // With parallel attention and MLP, both read the same residual, and delta is added once it has the MLP's output.
    backend_->norm(l.mlp_norm, has_delta_ && !architecture_.shape.parallel_attention);
    has_delta_ = has_delta_ && architecture_.shape.parallel_attention;
  }
}

void RankRunner::run_gemm(const Op& op, std::int32_t layer) {
  if (layer < 0) {
    PLIMSOLL_CHECK(op.id == OpId::lm_head, "the only product outside the layers is the LM head");
    backend_->linear(weights_.head(), Buffer::normed, Buffer::logits, op.m,
                     {.bias = weights_.head_bias, .accumulate = false});
    return;
  }
  const LayerWeights& l = weights_.layers[static_cast<std::size_t>(layer)];
  switch (op.id) {
    case OpId::qkv:  // rope_append() adds the bias
      backend_->linear(*l.qkv, Buffer::normed, Buffer::qkv, op.m, {});
      return;
    case OpId::attention_out:
      if (architecture_.shape.mla) backend_->expand_values({l.latent_keys.get(), l.latent_values.get()});
      backend_->linear(*l.attention_out, Buffer::attended, Buffer::delta, op.m,
                       {.bias = l.attention_out_bias, .accumulate = false});
      has_delta_ = true;
      return;
    case OpId::gate_up:
    case OpId::up:
      backend_->linear(*l.up, Buffer::normed, Buffer::up, op.m,
                       {.bias = l.up_bias, .accumulate = false, .then = activation_after_up()});
      return;
    case OpId::down:
      backend_->linear(*l.down, Buffer::gated, Buffer::delta, op.m,
                       {.bias = l.down_bias, .accumulate = architecture_.shape.parallel_attention});
      has_delta_ = true;
      return;
    case OpId::router:
      backend_->linear(*l.router, Buffer::normed, Buffer::router, op.m, {.bias = l.router_bias});
      return;
    default:
      PLIMSOLL_CHECK(run_latent_gemm(op, l) || run_shared_gemm(op, l), "the executor knows every matrix of the list");
  }
}

bool RankRunner::run_latent_gemm(const Op& op, const LayerWeights& l) {
  switch (op.id) {
    case OpId::q: backend_->linear(*l.q_up, Buffer::normed, Buffer::queries, op.m, {}); return true;
    case OpId::q_down: backend_->linear(*l.q_down, Buffer::normed, Buffer::query_latent, op.m, {}); return true;
    case OpId::q_up: backend_->linear(*l.q_up, Buffer::query_latent, Buffer::queries, op.m, {}); return true;
    case OpId::kv_down: backend_->linear(*l.kv_down, Buffer::normed, Buffer::latent, op.m, {}); return true;
    // The op list prices the whole matrix here. Its second half runs after the attention, in expand_values().
    case OpId::kv_up: backend_->absorb_queries({l.latent_keys.get(), l.latent_values.get()}); return true;
    default: return false;
  }
}

bool RankRunner::run_shared_gemm(const Op& op, const LayerWeights& l) {
  switch (op.id) {
    case OpId::shared_gate:
      backend_->linear(*l.shared_gate, Buffer::normed, Buffer::shared_gate, op.m, {});
      return true;
    case OpId::shared_gate_up:
    case OpId::shared_up:
      backend_->linear(*l.shared_up, Buffer::normed, Buffer::up, op.m, {.then = activation_after_up()});
      return true;
    case OpId::shared_down: backend_->linear(*l.shared_down, Buffer::gated, Buffer::delta, op.m, {}); return true;
    default: return false;
  }
}

void RankRunner::run_moe_gemm(const Op& op, std::int32_t layer) {
  const LayerWeights& l = weights_.layers[static_cast<std::size_t>(layer)];
  if (op.id == OpId::expert_down)
    backend_->expert_linear(*l.expert_down, Buffer::expert_gated, Buffer::expert_out, l.expert_down_bias);
  else
    backend_->expert_linear(*l.expert_up, Buffer::expert_in, Buffer::expert_up, l.expert_up_bias);
}

// Returns the activation after the up product, which the product's kernel then computes; nullopt if each op is timed by
// itself.
std::optional<ActivationAfter> RankRunner::activation_after_up() const {
  if (tracing_) return std::nullopt;
  return ActivationAfter{architecture_.activation, architecture_.shape.gated_mlp, Buffer::gated};
}

void RankRunner::run_activation(const Op& op) {
  const bool expert = op.id == OpId::expert_activation;
  if (!expert && activation_after_up()) return;  // the product has computed it
  backend_->activation(architecture_.activation, architecture_.shape.gated_mlp, expert ? Buffer::expert_up : Buffer::up,
                       expert ? Buffer::expert_gated : Buffer::gated, op.m, op.n);
}

void RankRunner::run_all_reduce(const Op& op) {
  if (op.id == OpId::sample_exchange)
    backend_->exchange_samples();
  else
    backend_->all_reduce(op.id == OpId::embedding_all_reduce ? Buffer::residual : Buffer::delta, op.m);
}

}  // namespace plimsoll::exec
