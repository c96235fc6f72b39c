// SPDX-License-Identifier: Apache-2.0
// What every process of a group loads. A model goes by its name: all have the same catalogue, and a file is compared by
// its digest (cli/rank_group.h), so what it means needs no bytes of its own.
#pragma once

#include <cstdint>
#include <string>

#include "exec/engine.h"
#include "exec/group/wire.h"

namespace plimsoll::exec::group {

struct EngineOrder {
  std::string model, weights;  // as open_model() and open_weights() take them
  std::uint64_t seed = 0;
  std::string digest;  // of the sender's model file; empty: a name of the catalogue
  std::int32_t replicas = 1;
  EngineConfig config;  // without the architecture, and what each process knows of its own machine
};

[[nodiscard]] net::Bytes encode(const EngineOrder& order);
/// Throws DeviceError for what is no order, and for numbers and names that no order has.
[[nodiscard]] EngineOrder decode_order(const net::Bytes& message);

}  // namespace plimsoll::exec::group
