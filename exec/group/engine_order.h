// SPDX-License-Identifier: Apache-2.0
// The order to load an engine, sent to every process of a group. It names the model instead of carrying it: all
// processes have the same catalogue, and files are compared by digest (cli/rank_group.h).
#pragma once

#include <cstdint>
#include <string>

#include "exec/engine.h"
#include "exec/group/wire.h"

namespace plimsoll::exec::group {

struct EngineOrder {
  std::string model, weights;  // as open_model() and open_weights() take them
  std::uint64_t seed = 0;
  std::string digest;  // of the model's file on the sender; empty for a catalogue name
  std::int32_t replicas = 1;
  EngineConfig config;  // without the architecture and without what each process finds out about its own machine
};

[[nodiscard]] net::Bytes encode(const EngineOrder& order);
/// Throws DeviceError if the message is not an order or holds a number or name that no order can have.
[[nodiscard]] EngineOrder decode_order(const net::Bytes& message);

}  // namespace plimsoll::exec::group
