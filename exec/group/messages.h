// SPDX-License-Identifier: Apache-2.0
// The two messages of a group that carry more than a few numbers (wire.h): the order to load an engine, and a forward.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "exec/engine.h"
#include "exec/forward_input.h"
#include "exec/group/wire.h"

namespace plimsoll::exec::group {

/// The order to load an engine, sent to every process of a group. It names the model instead of carrying it: all
/// processes have the same catalogue, and files are compared by digest (cli/rank_group.h).
struct EngineOrder {
  std::string model, weights;  // as open_model() and open_weights() accept them
  std::uint64_t seed = 0;
  std::string digest;  // of the model's file on the sender; empty for a catalogue name
  std::int32_t replicas = 1;
  EngineConfig config;  // without the architecture and the fields that each process determines itself
};

[[nodiscard]] net::Bytes encode(const EngineOrder& order);
/// Throws DeviceError if the message is not an order or holds a number or name that no order can have.
[[nodiscard]] EngineOrder decode_order(const net::Bytes& message);

// Block tables are the largest part of a forward by far and hardly change between steps. Both ends therefore remember
// the last table of every slot, and a message holds only the difference from it.

/// Indexed by slot. Sequences without a slot (-1) send their whole table.
using BlockTables = std::unordered_map<std::int32_t, std::vector<std::int32_t>>;

/// A decoder must receive every message of one encoder, in order. Several decoders may read the same encoder.
class ForwardEncoder {
 public:
  [[nodiscard]] net::Bytes encode(const ForwardInput& input);

 private:
  void blocks(Writer& out, std::int32_t slot, std::span<const std::int32_t> table);
  BlockTables tables_;
};

class ForwardDecoder {
 public:
  /// Decodes a message of Kind::forward. The result stays valid until the next call but one, so two forwards may be in
  /// flight while a third is decoded. Throws DeviceError on a malformed message.
  [[nodiscard]] const ForwardInput& decode(Reader& message);

 private:
  struct Forward {
    ForwardInput input;
    std::deque<std::vector<std::int32_t>> numbers;  // memory that the spans of `input` point into
  };
  [[nodiscard]] std::span<const std::int32_t> blocks(Reader& in, std::int32_t slot, Forward& forward);
  PrefillRows prefill(Reader& in, Forward& forward);
  DecodeRow decode_row(Reader& in, Forward& forward);

  BlockTables tables_;
  Forward forwards_[3];
  std::size_t next_ = 0;
};

}  // namespace plimsoll::exec::group
