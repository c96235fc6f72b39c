// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/workspace.h"

#include <algorithm>

namespace plimsoll::exec::cuda {

namespace {

std::int64_t per_token(const BackendConfig& config) {
  return config.architecture.shape.moe ? config.architecture.shape.moe->experts_per_token : 0;
}

// Returns the elements of a buffer per row of the forward (per sampled row for logits).
std::int64_t width(const BackendConfig& config, Buffer buffer) {
  const model::LlmShape& shape = config.architecture.shape;
  const model::RankShape& rank = config.rank;
  const std::int64_t halves = shape.gated_mlp ? 2 : 1, mlp = std::max(rank.intermediate, rank.shared_intermediate);
  switch (buffer) {
    case Buffer::residual:
    case Buffer::delta:
    case Buffer::normed: return shape.hidden;
    case Buffer::qkv: return (rank.heads + 2 * rank.kv_heads) * shape.head_dim;
    case Buffer::attended: return rank.heads * shape.head_dim;
    case Buffer::up: return halves * mlp;
    case Buffer::gated: return mlp;
    case Buffer::logits: return rank.vocab_rows;
    case Buffer::router: return shape.moe ? shape.moe->experts : 0;
    case Buffer::expert_in:
    case Buffer::expert_out: return per_token(config) * shape.hidden;
    case Buffer::expert_up: return per_token(config) * halves * rank.expert_intermediate;
    case Buffer::expert_gated: return per_token(config) * rank.expert_intermediate;
    case Buffer::shared_gate: return shape.moe && shape.moe->shared_gate ? 1 : 0;
    // Latent attention is not computed here: model::cpu_only_part().
    case Buffer::queries:
    case Buffer::latent:
    case Buffer::query_latent: return 0;
  }
  return 0;
}

// Sampling and routing compare these values, so they are not rounded to bf16.
bool is_f32(Buffer buffer) {
  return buffer == Buffer::logits || buffer == Buffer::router || buffer == Buffer::shared_gate;
}

std::size_t buffer_bytes(const BackendConfig& config, Buffer buffer, std::int64_t rows) {
  const Element element = is_f32(buffer) ? Element::f32 : element_of(config.weight_dtype);
  return static_cast<std::size_t>(rows * width(config, buffer) * bytes_of(element));
}

std::int64_t rope_width(const BackendConfig& config) { return config.architecture.shape.head_dim / 2; }

std::size_t rope_bytes(const BackendConfig& config, std::int64_t rows) {
  return Workspace::rotations(config) * static_cast<std::size_t>(rows * rope_width(config)) * sizeof(float2);
}

std::array<Buffer, kBuffers> all_buffers() {
  std::array<Buffer, kBuffers> buffers{};
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i] = static_cast<Buffer>(i);
  return buffers;
}

}  // namespace

Workspace::Workspace(const BackendConfig& config, int multiprocessors, int ranks)
    : config_(config), element_(element_of(config.weight_dtype)), ranks_(ranks) {
  const model::LlmShape& shape = config.architecture.shape;
  const std::int64_t floats = decode_partial_floats(shape.head_dim, multiprocessors);
  partial_ = DeviceBuffer(static_cast<std::size_t>(floats) * sizeof(float), "attention scratch");
  if (shape.moe)
    offsets_ = DeviceBuffer(static_cast<std::size_t>(shape.moe->experts + 1) * sizeof(std::int32_t), "routing");
}

std::size_t Workspace::rotations(const BackendConfig& config) { return config.architecture.window_rope ? 2 : 1; }

float2* Workspace::rope(std::size_t rotation) const {
  return rope_.as<float2>() + static_cast<std::int64_t>(rotation) * rows_ * rope_width(config_);
}

Element Workspace::element(Buffer buffer) const { return is_f32(buffer) ? Element::f32 : element_; }

DeviceBuffer Workspace::make(std::size_t bytes) const {
  DeviceBuffer buffer(bytes, "activations");
  if (config_.poison) fill(buffer, 0xff, "filling activations with NaN");
  return buffer;
}

void Workspace::reserve(std::int64_t rows, std::int64_t sampled) {
  if (rows > rows_) reserve_rows(rows);
  if (sampled > sampled_) reserve_sampled(sampled);
}

void Workspace::reserve_rows(std::int64_t rows) {
  rows_ = 0;  // nothing counts as reserved if an allocation throws
  for (const Buffer buffer : all_buffers()) {
    if (buffer == Buffer::logits) continue;
    DeviceBuffer& memory = buffers_[static_cast<std::size_t>(buffer)];
    memory = {};  // free the old memory before allocating the new
    memory = make(buffer_bytes(config_, buffer, rows));
  }
  const auto count = static_cast<std::size_t>(rows);
  rope_ = {};
  rope_ = make(rope_bytes(config_, rows));
  const std::size_t choices = count * static_cast<std::size_t>(per_token(config_));
  chosen_ = make(choices * sizeof(std::int32_t));
  weight_ = make(choices * sizeof(float));
  place_ = make(choices * sizeof(std::int32_t));
  routing_ = {.chosen = chosen_.as<std::int32_t>(),
              .weight = weight_.as<float>(),
              .place = place_.as<std::int32_t>(),
              .offsets = offsets_.as<std::int32_t>()};
  const std::int64_t counters = decode_counters(rows, static_cast<std::int32_t>(config_.rank.heads),
                                                static_cast<std::int32_t>(config_.rank.kv_heads));
  arrived_ = {};
  arrived_ = DeviceBuffer(static_cast<std::size_t>(counters) * sizeof(std::uint32_t), "attention scratch");
  // Kernels leave the counters at 0, so they are cleared only here.
  fill(arrived_, 0, "clearing counters");
  rows_ = rows;
}

void Workspace::reserve_sampled(std::int64_t sampled) {
  sampled_ = 0;
  DeviceBuffer& logits = buffers_[static_cast<std::size_t>(Buffer::logits)];
  logits = {};
  logits = make(buffer_bytes(config_, Buffer::logits, sampled));
  const auto count = static_cast<std::size_t>(sampled);
  best_ = make(count * sizeof(std::uint64_t));
  least_ = make(count * sizeof(float));
  gathered_ = make(ranks_ > 1 ? count * static_cast<std::size_t>(ranks_) * sizeof(std::uint64_t) : 0);
  ids_ = make(count * sizeof(std::int32_t));
  sampled_ = sampled;
}

DecodeScratch Workspace::decode_scratch() const {
  return {.partial = partial_.as<float>(), .arrived = arrived_.as<std::uint32_t>()};
}

std::size_t Workspace::bytes(const BackendConfig& config, std::int64_t rows, std::int64_t sampled) {
  std::size_t sum = rope_bytes(config, rows);
  for (const Buffer buffer : all_buffers())
    sum += buffer_bytes(config, buffer, buffer == Buffer::logits ? sampled : rows);
  return sum;
}

std::size_t Workspace::largest(const BackendConfig& config, std::int64_t rows, std::int64_t sampled) {
  std::size_t most = 0;
  for (const Buffer buffer : all_buffers())
    most = std::max(most, buffer_bytes(config, buffer, buffer == Buffer::logits ? sampled : rows));
  return most;
}

std::size_t Workspace::largest() const { return largest(config_, rows_, sampled_); }

}  // namespace plimsoll::exec::cuda
