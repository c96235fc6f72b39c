// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kv_cache.h"

#include <cstring>

#include "exec/cpu/kernels.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {

std::int64_t head_width(const model::LlmShape& shape) {
  return shape.mla ? shape.mla->kv_lora_rank + shape.mla->qk_rope_head_dim : shape.head_dim;
}

}  // namespace

KvCache::KvCache(const BackendConfig& config)
    : bf16_(config.kv_dtype == model::DType::bf16),
      element_(bf16_ ? 2 : 4),
      parts_(config.architecture.shape.mla ? 1 : 2),
      layers_(config.architecture.shape.layers),
      block_tokens_(config.block_tokens),
      head_dim_(head_width(config.architecture.shape)),
      blocks_(config.kv_blocks),
      head_stride_(block_tokens_ * head_dim_),
      block_stride_((config.architecture.shape.mla ? 1 : config.rank.kv_heads) * head_stride_),
      part_stride_(blocks_ * block_stride_),
      memory_(static_cast<std::size_t>(parts_ * layers_ * part_stride_ * element_) + attention_padding(head_dim_),
              "the KV cache") {
  // All bits set is a NaN in both types.
  if (config.poison) std::memset(memory_.data(), 0xff, memory_.bytes());
}

void* KvCache::key_at(std::int32_t layer, std::int64_t head, std::int64_t slot) const {
  const std::int64_t block = slot / block_tokens_, offset = slot % block_tokens_;
  PLIMSOLL_CHECK(block < blocks_, "the block is one of the cache");
  return memory_.data() +
         (parts_ * layer * part_stride_ + block * block_stride_ + head * head_stride_ + offset * head_dim_) * element_;
}

// Values lie in a part of their own behind the keys, with the same strides.
void* KvCache::value_at(std::int32_t layer, std::int64_t head, std::int64_t slot) const {
  return static_cast<std::byte*>(key_at(layer, head, slot)) + part_stride_ * element_;
}

std::byte* KvCache::part(std::int64_t index, std::int32_t block) const {
  PLIMSOLL_CHECK(block >= 0 && block < blocks_, "the block is one of the cache");
  return memory_.data() + (index * part_stride_ + block * block_stride_) * element_;
}

// A block has a piece for keys and one for values in each layer. On the host the pieces lie one after the other.
void KvCache::read_block(std::int32_t block, void* host) const {
  const auto bytes = static_cast<std::size_t>(block_stride_ * element_);
  for (std::int64_t i = 0; i < parts_ * layers_; ++i)
    std::memcpy(static_cast<std::byte*>(host) + i * block_stride_ * element_, part(i, block), bytes);
}

void KvCache::write_block(std::int32_t block, const void* host) {
  const auto bytes = static_cast<std::size_t>(block_stride_ * element_);
  for (std::int64_t i = 0; i < parts_ * layers_; ++i)
    std::memcpy(part(i, block), static_cast<const std::byte*>(host) + i * block_stride_ * element_, bytes);
}

}  // namespace plimsoll::exec
