// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/workspace.h"

#include <algorithm>

namespace plimsoll::exec::cuda {

namespace {

constexpr int kSlots = 13;
static_assert(static_cast<int>(Slot::expert_out) + 1 == kSlots);

Element element_of(model::DType dtype) { return dtype == model::DType::fp32 ? Element::f32 : Element::bf16; }

std::int64_t per_token(const BackendConfig& config) {
  return config.architecture.shape.moe ? config.architecture.shape.moe->experts_per_token : 0;
}

// Elements a row of the forward (a sampled row for logits) takes in a slot.
std::int64_t width(const BackendConfig& config, Slot slot) {
  const model::LlmShape& shape = config.architecture.shape;
  const model::RankShape& rank = config.rank;
  const std::int64_t halves = shape.gated_mlp ? 2 : 1, mlp = std::max(rank.intermediate, rank.shared_intermediate);
  switch (slot) {
    case Slot::residual:
    case Slot::delta:
    case Slot::normed: return shape.hidden;
    case Slot::qkv: return (rank.heads + 2 * rank.kv_heads) * shape.head_dim;
    case Slot::attended: return rank.heads * shape.head_dim;
    case Slot::up: return halves * mlp;
    case Slot::gated: return mlp;
    case Slot::logits: return rank.vocab_rows;
    case Slot::router: return shape.moe ? shape.moe->experts : 0;
    case Slot::expert_in:
    case Slot::expert_out: return per_token(config) * shape.hidden;
    case Slot::expert_up: return per_token(config) * halves * rank.expert_intermediate;
    case Slot::expert_gated: return per_token(config) * rank.expert_intermediate;
  }
  return 0;
}

bool is_f32(Slot slot) { return slot == Slot::logits || slot == Slot::router; }

std::size_t slot_bytes(const BackendConfig& config, Slot slot, std::int64_t rows) {
  const Element element = is_f32(slot) ? Element::f32 : element_of(config.weight_dtype);
  return static_cast<std::size_t>(rows * width(config, slot) * bytes_of(element));
}

std::size_t rope_bytes(const BackendConfig& config, std::int64_t rows) {
  return static_cast<std::size_t>(rows * (config.architecture.shape.head_dim / 2)) * sizeof(float2);
}

std::array<Slot, kSlots> all_slots() {
  std::array<Slot, kSlots> slots{};
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<Slot>(i);
  return slots;
}

}  // namespace

Workspace::Workspace(const BackendConfig& config, int multiprocessors, int ranks)
    : config_(config), element_(element_of(config.weight_dtype)), multiprocessors_(multiprocessors), ranks_(ranks) {
  const model::LlmShape& shape = config.architecture.shape;
  // With fewer tiles than 2 a multiprocessor, decode_max_splits() makes them less than 4 a multiprocessor of parts.
  const std::int64_t part = decode_partial_floats(1, 1, 1, shape.head_dim, 2) / 2;
  partial_ = DeviceBuffer(static_cast<std::size_t>(4 * multiprocessors * part) * sizeof(float), "attention scratch");
  if (shape.moe)
    offsets_ = DeviceBuffer(static_cast<std::size_t>(shape.moe->experts + 1) * sizeof(std::int32_t), "routing");
}

Element Workspace::element(Slot slot) const { return is_f32(slot) ? Element::f32 : element_; }

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
  rows_ = 0;  // nothing is there if an allocation throws
  for (const Slot slot : all_slots()) {
    if (slot == Slot::logits) continue;
    DeviceBuffer& buffer = slots_[static_cast<std::size_t>(slot)];
    buffer = {};  // first free, then take
    buffer = make(slot_bytes(config_, slot, rows));
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
  fill(arrived_, 0, "clearing counters");
  rows_ = rows;
}

void Workspace::reserve_sampled(std::int64_t sampled) {
  sampled_ = 0;
  DeviceBuffer& logits = slots_[static_cast<std::size_t>(Slot::logits)];
  logits = {};
  logits = make(slot_bytes(config_, Slot::logits, sampled));
  const auto count = static_cast<std::size_t>(sampled);
  best_ = make(count * sizeof(std::uint64_t));
  gathered_ = make(ranks_ > 1 ? count * static_cast<std::size_t>(ranks_) * sizeof(std::uint64_t) : 0);
  ids_ = make(count * sizeof(std::int32_t));
  sampled_ = sampled;
}

DecodeScratch Workspace::decode_scratch(std::int64_t sequences) const {
  return {.partial = partial_.as<float>(),
          .arrived = arrived_.as<std::uint32_t>(),
          .max_splits = decode_max_splits(sequences, static_cast<std::int32_t>(config_.rank.heads),
                                          static_cast<std::int32_t>(config_.rank.kv_heads), multiprocessors_)};
}

std::size_t Workspace::bytes(const BackendConfig& config, std::int64_t rows, std::int64_t sampled) {
  std::size_t sum = rope_bytes(config, rows);
  for (const Slot slot : all_slots()) sum += slot_bytes(config, slot, slot == Slot::logits ? sampled : rows);
  return sum;
}

std::size_t Workspace::largest(const BackendConfig& config, std::int64_t rows, std::int64_t sampled) {
  std::size_t most = 0;
  for (const Slot slot : all_slots())
    most = std::max(most, slot_bytes(config, slot, slot == Slot::logits ? sampled : rows));
  return most;
}

std::size_t Workspace::largest() const { return largest(config_, rows_, sampled_); }

}  // namespace plimsoll::exec::cuda
