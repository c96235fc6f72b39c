// SPDX-License-Identifier: Apache-2.0
// The paged KV cache of one rank: [layer][K|V][block][kv head][token in block][head_dim], f32 or bf16. Pages to which
// no token has been written take no memory. In multi-head latent attention a token has one latent instead: there is one
// head of that width and no part for values, which are the beginning of the keys.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/backend.h"
#include "exec/cpu/host_memory.h"

namespace plimsoll::exec {

/// Keys and values of all layers of a rank, by block. Within a block a head's tokens lie one after the other.
class KvCache {
 public:
  /// Allocates the sizes of the config, filled with NaN if the config says so. Throws DeviceError if the address space
  /// is exhausted.
  explicit KvCache(const BackendConfig& config);

  [[nodiscard]] bool bf16() const { return bf16_; }
  [[nodiscard]] std::int64_t head_stride() const { return head_stride_; }  // elements
  [[nodiscard]] std::int64_t block_stride() const { return block_stride_; }
  // Returns the elements from a key to its value.
  [[nodiscard]] std::int64_t value_offset() const { return parts_ == 1 ? 0 : part_stride_; }
  /// Returns the keys of a head in block 0 of a layer.
  [[nodiscard]] const void* keys(std::int32_t layer, std::int64_t head) const {
    return memory_.data() + (parts_ * layer * part_stride_ + head * head_stride_) * element_;
  }
  /// Returns where the key of a token is stored; slot = block * block_tokens + offset.
  [[nodiscard]] void* key_at(std::int32_t layer, std::int64_t head, std::int64_t slot) const;
  [[nodiscard]] void* value_at(std::int32_t layer, std::int64_t head, std::int64_t slot) const;

  [[nodiscard]] std::int64_t bytes_per_block() const { return parts_ * layers_ * block_stride_ * element_; }
  void read_block(std::int32_t block, void* host) const;
  void write_block(std::int32_t block, const void* host);

 private:
  [[nodiscard]] std::byte* part(std::int64_t index, std::int32_t block) const;

  bool bf16_;
  std::int64_t element_, parts_, layers_, block_tokens_, head_dim_, blocks_;
  std::int64_t head_stride_, block_stride_, part_stride_;
  HostMemory memory_;
};

}  // namespace plimsoll::exec
