// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, appendix C): the cache keeps a latent and one rotated key
// for each token. The up-projection of the latents is applied to queries and results instead, so that attention is that
// of one KV head whose values are the beginning of its keys.
#include <algorithm>
#include <vector>

#include "exec/cpu/cpu_backend.h"

namespace plimsoll::exec {

namespace {

const float* values_of(const Vector* vector) { return static_cast<const CpuVector*>(vector)->data(); }

// Copies `width` elements of each head: rows of heads become heads of rows, or the reverse.
struct HeadCopy {
  std::int64_t heads = 0, rows = 0, width = 0;
};

void gather_heads(const HeadCopy& copy, const float* from, std::int64_t head_stride, float* to, std::int64_t row) {
  for (std::int64_t head = 0; head < copy.heads; ++head)
    std::copy_n(from + (row * copy.heads + head) * head_stride, copy.width, to + (head * copy.rows + row) * copy.width);
}

void scatter_heads(const HeadCopy& copy, const float* from, float* to, std::int64_t head_stride, std::int64_t row) {
  for (std::int64_t head = 0; head < copy.heads; ++head)
    std::copy_n(from + (head * copy.rows + row) * copy.width, copy.width, to + (row * copy.heads + head) * head_stride);
}

}  // namespace

void CpuBackend::norm_latent(const NormSpec& spec, Buffer buffer, std::int64_t width) {
  const model::MlaShape& m = *shape_.mla;
  const std::int64_t stride = buffer == Buffer::latent ? m.kv_lora_rank + m.qk_rope_head_dim : m.q_lora_rank;
  over_rows(table_->rows, width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* const x = workspace_[buffer] + row * stride;
      kernels_.norm({.epsilon = spec.epsilon, .weight = values_of(spec.weight)}, x, width, x);
    }
  });
}

void CpuBackend::multiply_heads(const Linear& weights, const float* from, float* to) {
  std::vector<ProductRows> products;
  for (std::int64_t head = 0; head < config_.rank.heads; ++head) {
    products.push_back({.copy = head,
                        .x = from + head * table_->rows * weights.k(),
                        .y = to + head * table_->rows * weights.n(),
                        .rows = table_->rows});
  }
  multiply(weights, products, nullptr, false);
}

void CpuBackend::absorb_queries(const LatentSpec& spec) {
  const model::MlaShape& m = *shape_.mla;
  const std::int64_t heads = config_.rank.heads, rows = table_->rows;
  const std::int64_t query = m.qk_nope_head_dim + m.qk_rope_head_dim;
  const auto room = [&](HostMemory& memory, std::int64_t width) {
    const std::size_t bytes = static_cast<std::size_t>(heads * rows * width) * sizeof(float);
    if (memory.bytes() < bytes) memory = HostMemory(bytes, "the heads of latent attention");
    return memory.as<float>();
  };
  float* const in = room(heads_in_, std::max(m.qk_nope_head_dim, m.kv_lora_rank));
  float* const out = room(heads_out_, std::max(m.kv_lora_rank, m.v_head_dim));
  const HeadCopy from{heads, rows, m.qk_nope_head_dim}, to{heads, rows, m.kv_lora_rank};
  over_rows(rows, heads * from.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) gather_heads(from, workspace_[Buffer::queries], query, in, row);
  });
  multiply_heads(*spec.keys, in, out);
  over_rows(rows, heads * to.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) scatter_heads(to, out, workspace_[Buffer::qkv], head_width_, row);
  });
}

void CpuBackend::latent_rope_append(const RopeSpec& spec, std::int32_t layer) {
  const model::MlaShape& m = *shape_.mla;
  const std::int64_t heads = config_.rank.heads, rotated = m.qk_rope_head_dim;
  const std::int64_t query = m.qk_nope_head_dim + rotated;
  const HeadRope head_rope{.rotary_dim = spec.rope.rotary_dim, .interleaved = spec.rope.interleaved};
  const RopeTable& angles = rope_table(spec.rope);
  over_rows(table_->rows, qkv_width_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto rotate = [&](float* x) {
        kernels_.rope(head_rope, angles.cosines(row), angles.sines(row), rotated, x);
      };
      for (std::int64_t head = 0; head < heads; ++head) {
        float* const to = workspace_[Buffer::qkv] + row * qkv_width_ + head * head_width_ + m.kv_lora_rank;
        std::copy_n(workspace_[Buffer::queries] + (row * heads + head) * query + m.qk_nope_head_dim, rotated, to);
        rotate(to);
      }
      float* const latent = workspace_[Buffer::latent] + row * head_width_;
      rotate(latent + m.kv_lora_rank);
      // A padding row is not written to the cache.
      const std::int64_t slot = table_->cache_slot[static_cast<std::size_t>(row)];
      if (slot >= 0) store(latent, cache_.key_at(layer, 0, slot), head_width_);
    }
  });
}

void CpuBackend::expand_values(const LatentSpec& spec) {
  const model::MlaShape& m = *shape_.mla;
  const HeadCopy from{config_.rank.heads, table_->rows, m.kv_lora_rank};
  const HeadCopy to{config_.rank.heads, table_->rows, m.v_head_dim};
  float* const in = heads_in_.as<float>();
  float* const out = heads_out_.as<float>();
  over_rows(from.rows, from.heads * from.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) gather_heads(from, workspace_[Buffer::qkv], head_width_, in, row);
  });
  multiply_heads(*spec.values, in, out);
  over_rows(to.rows, to.heads * to.width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      scatter_heads(to, out, workspace_[Buffer::attended], m.v_head_dim, row);
  });
}

}  // namespace plimsoll::exec
