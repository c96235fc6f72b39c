// SPDX-License-Identifier: Apache-2.0
// KV blocks with identities: content that outlives its request can be shared by later ones with the same prefix.
// Blocks that nobody holds stand in a queue, least recently freed first; a block is reused from its head and loses its
// content then (vLLM's free-block queue; a request's blocks go back tail first).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sched/kv_ledger.h"
#include "sched/types.h"

namespace plimsoll::sched {

class PrefixCache {
 public:
  PrefixCache(Blk blocks, Tok block_tokens);
  void open(ReqId id, std::uint64_t serial, std::span<const std::uint64_t> prompt_hashes);
  /// See KvLedger::prefix_hit.
  [[nodiscard]] PrefixHit hit(ReqId id, Tok limit) const;
  /// Gives the request `blocks` blocks from the head of the queue.
  void take(ReqId id, Blk blocks);
  /// Shares the blocks of the first `tokens` tokens; returns how many of them were idle until now.
  Blk attach(ReqId id, Tok tokens);
  /// Whole prompt blocks up to `computed` become findable.
  void publish(ReqId id, Tok computed);
  /// Gives the request's blocks back; whole blocks up to `computed` keep their content, blocks of generated tokens under
  /// hashes unique to the request. Returns how many became idle.
  Blk release(ReqId id, Tok computed);
  void close(ReqId id);

 private:
  struct Block { std::uint64_t hash = 0; std::int32_t holders = 0; std::int32_t previous = -1, next = -1; bool hashed = false; };
  struct Holder { std::uint64_t serial = 0; std::vector<std::uint64_t> hashes; std::vector<std::int32_t> blocks; };
  [[nodiscard]] std::uint64_t hash_of(const Holder& holder, std::size_t block) const;
  void push_idle(std::int32_t block);
  void unlink_idle(std::int32_t block);
  void name_blocks(Holder& holder, std::size_t blocks);

  Tok block_tokens_;
  std::vector<Block> blocks_;
  std::vector<Holder> holders_;                       // by ReqId
  std::unordered_map<std::uint64_t, std::int32_t> by_hash_;
  std::int32_t idle_head_ = -1, idle_tail_ = -1;
};

}  // namespace plimsoll::sched
