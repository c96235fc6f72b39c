// SPDX-License-Identifier: Apache-2.0
// The ops of a forward: translates the calls of exec/backend.h to the kernels of kernels.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/cpu/rope_table.h"
#include "exec/cuda/cuda_backend.h"
#include "exec/cuda/cuda_weights.h"
#include "model/error.h"

namespace plimsoll::exec::cuda {

namespace {

const float* f32(const Vector* vector) {
  return vector == nullptr ? nullptr : static_cast<const CudaVector*>(vector)->f32();
}

const CudaLinear& on_gpu(const Linear& linear) { return static_cast<const CudaLinear&>(linear); }

}  // namespace

void CudaBackend::embed(const Linear& embedding, std::int64_t vocab_begin, const Linear* positions) {
  EmbedArguments a;
  a.table = on_gpu(embedding).get();
  a.vocab_begin = vocab_begin;
  a.vocab_rows = embedding.n();
  if (positions != nullptr) {
    a.positions = on_gpu(*positions).get();
    a.max_position = positions->n();
  }
  a.slots = slots_.as<const std::int32_t>();
  a.residual = workspace_[Buffer::residual];
  a.rows = table_->rows;
  a.width = shape_.hidden;
  a.scale = embedding_scale(config_);
  if (a.rows > 0) cuda::embed(element_, a, step_, stream_.get());
}

NormArguments CudaBackend::norm_of(const NormSpec& spec, bool add_delta) const {
  NormArguments a;
  a.weight = f32(spec.weight);
  a.bias = f32(spec.bias);
  a.epsilon = spec.epsilon;
  a.kind = spec.kind;
  a.residual = workspace_[Buffer::residual];
  a.delta = add_delta ? workspace_[Buffer::delta] : nullptr;
  a.delta_scale = spec.delta_scale;
  a.identity = spec.identity;
  a.normed = workspace_[Buffer::normed];
  a.rows = table_->rows;
  a.width = shape_.hidden;
  return a;
}

void CudaBackend::norm(const NormSpec& spec, bool add_delta) {
  const NormArguments a = norm_of(spec, add_delta);
  if (a.rows > 0) cuda::norm(element_, a, stream_.get());
}

void CudaBackend::norm_delta(const NormSpec& spec) {
  NormArguments a = norm_of(spec, false);
  a.residual = a.normed = workspace_[Buffer::delta];
  if (a.rows > 0) cuda::norm(element_, a, stream_.get());
}

void CudaBackend::final_norm(const NormSpec& spec, bool add_delta) {
  NormArguments a = norm_of(spec, add_delta);
  // Only sampled rows are needed from here on, so the LM head multiplies a dense matrix.
  a.gather = step_.sampled;
  a.rows = static_cast<std::int64_t>(table_->sampled.size());
  if (a.rows > 0) cuda::norm(element_, a, stream_.get());
}

void CudaBackend::linear(const Linear& weight, Buffer x, Buffer y, std::int64_t rows, const LinearOptions& options) {
  PLIMSOLL_CHECK(workspace_.element(x) == element_, "the input of a product has the activation type");
  const Element y_element = workspace_.element(y);
  const MatmulShape shape{.x = element_,
                          .y = y_element,
                          .m = rows,
                          .n = weight.n(),
                          .k = weight.k(),
                          .bias = options.bias != nullptr,
                          .accumulate = options.accumulate};
  const auto* bias = static_cast<const CudaVector*>(options.bias);
  GemmOperands operands{.w = on_gpu(weight).get(),
                        .x = workspace_[x],
                        // Our own kernel adds the bias in f32, cuBLASLt in y's type.
                        .bias_f32 = f32(options.bias),
                        .bias = bias == nullptr ? nullptr : bias->in(y_element),
                        .y = workspace_[y]};
  const bool together = options.then && options.then->kind != model::Activation::clamped_swiglu;
  if (together) operands.then = {workspace_[options.then->to], options.then->kind, options.then->gated};
  gemm_.run(shape, operands, !capturing_, stream_.get());
  if (options.then && !together) activation(options.then->kind, true, y, options.then->to, rows, weight.n() / 2);
}

// Returns the table of this forward, which all layers with this rotation share.
const float2* CudaBackend::rope_table_of(const model::Rope& rope) {
  auto found = std::find_if(rotations_.begin(), rotations_.end(), [&](const Rotation& r) { return r.rope == rope; });
  if (found == rotations_.end()) {
    // The first forward of a shape runs op by op, so its copy never becomes part of a graph.
    PLIMSOLL_CHECK(!capturing_, "a graph is captured after its ops have run");
    found = rotations_.begin() + static_cast<std::ptrdiff_t>(next_rotation_++ % rotations_.size());
    const std::vector<double> frequencies = rope_frequencies(rope);
    PLIMSOLL_CHECK(frequencies.size() * sizeof(double) <= found->frequencies.bytes(),
                   "a head has at least as many "
                   "dimensions as rotate");
    // The source is pageable memory, so it has been read when the call returns.
    check(cudaMemcpyAsync(found->frequencies.get(), frequencies.data(), frequencies.size() * sizeof(double),
                          cudaMemcpyHostToDevice, stream_.get()),
          "copying frequencies");
    found->rope = rope;
    found->filled = false;
  }
  float2* const table = workspace_.rope(static_cast<std::size_t>(found - rotations_.begin()));
  if (!found->filled) {
    rope_table({found->frequencies.as<const double>(), rope.rotary_dim / 2, rope.magnitude}, table_->rows, step_, table,
               stream_.get());
  }
  found->filled = true;
  return table;
}

void CudaBackend::rope_append(const RopeSpec& spec, std::int32_t layer) {
  if (table_->rows == 0) return;
  RopeArguments a;
  a.bias = f32(spec.bias);
  a.q_norm = f32(spec.q_norm);
  a.k_norm = f32(spec.k_norm);
  a.epsilon = spec.norm_epsilon;
  if (spec.rope.rotary_dim > 0) a.table = rope_table_of(spec.rope);
  a.pairs = spec.rope.rotary_dim / 2;
  a.interleaved = spec.rope.interleaved;
  a.qkv = workspace_[Buffer::qkv];
  a.keys = plane(layer, 0);
  a.values = plane(layer, 1);
  a.heads = static_cast<std::int32_t>(config_.rank.heads);
  a.rows = table_->rows;
  if (spec.wide_norms) {
    wide_norms(element_, a, kv_, stream_.get());
    a.bias = a.q_norm = a.k_norm = nullptr;
  }
  cuda::rope_append(element_, kv_element_, a, kv_, step_, stream_.get());
}

void* CudaBackend::plane(std::int32_t layer, int value) const {
  return cache_.as<std::byte>() + (2 * std::int64_t{layer} + value) * kv_.plane * bytes_of(kv_element_);
}

AttentionArguments CudaBackend::attention(const AttentionSpec& spec) const {
  const model::Architecture& of = config_.architecture;
  AttentionArguments a;
  a.qkv = workspace_[Buffer::qkv];
  a.keys = plane(spec.layer, 0);
  a.values = plane(spec.layer, 1);
  a.attended = workspace_[Buffer::attended];
  a.row_stride = (config_.rank.heads + 2 * config_.rank.kv_heads) * kv_.head_dim;
  a.heads = static_cast<std::int32_t>(config_.rank.heads);
  a.window = spec.window;
  a.scale = of.attention_scale > 0 ? static_cast<float>(of.attention_scale)
                                   : 1.0F / std::sqrt(static_cast<float>(kv_.head_dim));
  a.cap = static_cast<float>(of.attention_cap);
  a.sinks = f32(spec.sinks);
  return a;
}

bool CudaBackend::tensor_core_attention() const {
  return element_ == Element::bf16 && kv_element_ == Element::bf16 && has_tensor_core_attention(kv_.head_dim);
}

// The launch for the first span computes all spans.
void CudaBackend::prefill_attention(const AttentionSpec& spec, std::size_t index) {
  // The op list has one op per span, but a launch for each would leave the GPU idle in between.
  if (index > 0) return;
  if (tensor_core_attention()) {
    prefill_attention_bf16(attention(spec), kv_, step_, static_cast<std::int64_t>(plan_.tiles.size()), stream_.get());
    return;
  }
  std::int64_t longest = 0;
  for (const SequenceRows& sequence : table_->prefill) longest = std::max(longest, sequence.rows);
  plain_attention(element_, kv_element_, attention(spec), kv_, step_, step_.prefill,
                  static_cast<std::int64_t>(table_->prefill.size()), longest, stream_.get());
}

void CudaBackend::decode_attention(const AttentionSpec& spec) {
  const auto sequences = static_cast<std::int64_t>(table_->decode.size());
  if (sequences == 0) return;
  if (tensor_core_attention()) {
    decode_attention_bf16(attention(spec), kv_, step_, static_cast<std::int64_t>(plan_.decode.parts.size()),
                          workspace_.decode_scratch(), stream_.get());
  } else {
    plain_attention(element_, kv_element_, attention(spec), kv_, step_, step_.decode, sequences, 1, stream_.get());
  }
}

void CudaBackend::activation(model::Activation kind, bool gated, Buffer x, Buffer y, std::int64_t rows,
                             std::int64_t width) {
  if (rows == 0) return;
  if (kind == model::Activation::clamped_swiglu) {
    const model::ClampedSwiglu& clamps = config_.architecture.clamped_swiglu;
    clamped_swiglu(element_,
                   {.x = workspace_[x],
                    .y = workspace_[y],
                    .rows = rows,
                    .width = width,
                    .limit = static_cast<float>(clamps.limit),
                    .alpha = static_cast<float>(clamps.alpha)},
                   stream_.get());
    return;
  }
  cuda::activation(element_, kind, gated, workspace_[x], workspace_[y], rows, width, stream_.get());
}

void CudaBackend::route(std::int32_t experts, std::int32_t per_token, const Vector* choice_bias) {
  if (table_->rows == 0) return;
  const model::Routing& routing = config_.architecture.routing;
  RouteArguments a;
  a.logits = static_cast<const float*>(workspace_[Buffer::router]);
  a.choice_bias = f32(choice_bias);
  a.tokens = table_->rows;
  a.width = shape_.hidden;
  a.experts = experts;
  a.per_token = per_token;
  a.sigmoid = routing.sigmoid;
  a.normalised = routing.normalised;
  a.scale = static_cast<float>(routing.scale);
  a.from = workspace_[Buffer::normed];
  a.to = workspace_[Buffer::expert_in];
  cuda::route(element_, a, workspace_.routing(), stream_.get());
}

void CudaBackend::expert_linear(const Linear& weights, Buffer x, Buffer y, const Vector* bias) {
  if (table_->rows == 0) return;
  const CudaLinear& experts = on_gpu(weights);
  ExpertArguments a;
  a.weight = experts.get();
  a.bias = f32(bias);
  a.x = workspace_[x];
  a.y = workspace_[y];
  a.rows = table_->rows * shape_.moe->experts_per_token;
  a.n = experts.n();
  a.k = experts.k();
  a.experts = static_cast<std::int32_t>(experts.copies());
  a.offsets = workspace_.routing().offsets;
  cuda::expert_linear(element_, a, stream_.get());
}

void CudaBackend::combine(std::int32_t per_token) {
  if (table_->rows == 0) return;
  CombineArguments a;
  a.expert_out = workspace_[Buffer::expert_out];
  a.delta = workspace_[Buffer::delta];
  a.shared = config_.rank.shared_intermediate > 0;
  if (a.shared && shape_.moe->shared_gate) a.gate = static_cast<const float*>(workspace_[Buffer::shared_gate]);
  a.tokens = table_->rows;
  a.width = shape_.hidden;
  a.per_token = per_token;
  cuda::combine(element_, a, workspace_.routing(), stream_.get());
}

void CudaBackend::all_reduce(Buffer buffer, std::int64_t rows) {
  if (communicator_ == nullptr || rows == 0) return;
  communicator_->all_reduce(workspace_[buffer], rows * shape_.hidden,
                            element_ == Element::f32 ? model::DType::fp32 : model::DType::bf16, stream_.get());
}

void CudaBackend::sample(std::int64_t vocab_begin, std::int64_t valid) {
  const auto rows = static_cast<std::int64_t>(table_->sampled.size());
  if (rows == 0) return;
  auto* const logits = static_cast<float*>(workspace_[Buffer::logits]);
  const std::int64_t stride = config_.rank.vocab_rows;
  const auto scale = static_cast<float>(config_.architecture.logit_scale);
  const auto cap = static_cast<float>(config_.architecture.logit_cap);
  if (scale != 1 || cap > 0) finish_logits(logits, rows * stride, scale, cap, stream_.get());
  float* least = nullptr;
  if (filters_) {
    least = workspace_.least();
    least_logits(logits, rows, stride, valid, step_, least, stream_.get());
  }
  cuda::sample(logits, rows, stride, vocab_begin, valid, step_, least, workspace_.best(), stream_.get());
}

void CudaBackend::exchange_samples() {
  const auto rows = static_cast<std::int64_t>(table_->sampled.size());
  if (rows == 0) return;
  // Eight bytes per rank and sequence: value and token in one ordered number.
  const std::uint64_t* all = workspace_.best();
  const int ranks = communicator_ == nullptr ? 1 : communicator_->size();
  if (ranks > 1) {
    communicator_->all_gather(workspace_.best(), workspace_.gathered(), rows * static_cast<std::int64_t>(sizeof *all),
                              stream_.get());
    all = workspace_.gathered();
  }
  choose(all, ranks, rows, step_, workspace_.ids(), slots_.as<std::int32_t>(), stream_.get());
}

}  // namespace plimsoll::exec::cuda
