// SPDX-License-Identifier: Apache-2.0
// A ForwardInput as a message. Block tables are by far the largest part of it and hardly change from step to step: of a
// sequence's table only what differs from the last one sent for its slot is sent, so both ends remember the tables of
// slots.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "exec/forward_input.h"
#include "exec/group/wire.h"

namespace plimsoll::exec::group {

/// By slot; sequences without one (-1) send all of theirs.
using BlockTables = std::unordered_map<std::int32_t, std::vector<std::int32_t>>;

/// The messages of one encoder go to one decoder or several, all of them and in their order.
class ForwardEncoder {
 public:
  [[nodiscard]] net::Bytes encode(const ForwardInput& input);

 private:
  void blocks(Writer& out, std::int32_t slot, std::span<const std::int32_t> table);
  BlockTables tables_;
};

class ForwardDecoder {
 public:
  /// `message` is of Kind::forward. What it returns is overwritten by the call after the next but one: two forwards may
  /// be in flight while a third is read. Throws DeviceError for what is no message.
  [[nodiscard]] const ForwardInput& decode(Reader& message);

 private:
  struct Forward {
    ForwardInput input;
    std::deque<std::vector<std::int32_t>> numbers;  // what its spans point into
  };
  [[nodiscard]] std::span<const std::int32_t> blocks(Reader& in, std::int32_t slot, Forward& forward);
  PrefillRows prefill(Reader& in, Forward& forward);
  DecodeRow decode_row(Reader& in, Forward& forward);

  BlockTables tables_;
  Forward forwards_[3];
  std::size_t next_ = 0;
};

}  // namespace plimsoll::exec::group
