// SPDX-License-Identifier: Apache-2.0
// Encodes a ForwardInput as a message. Block tables are its largest part by far and hardly change between steps. Both
// ends therefore remember the last table of every slot, and a message holds only the difference from it.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "exec/forward_input.h"
#include "exec/group/wire.h"

namespace plimsoll::exec::group {

/// By slot. Sequences without a slot (-1) send their whole table.
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
