// SPDX-License-Identifier: Apache-2.0
// A process that does with its ranks what the leader does with its own: the same forwards in the same order.
#pragma once

#include <functional>

#include "exec/group/engine_order.h"
#include "exec/group/member.h"
#include "exec/weights/open_model.h"

namespace plimsoll::exec::group {

/// The model of an order. Throws InputError and DeviceError.
using OpenOrder = std::function<OpenModel(const EngineOrder& order)>;

/// Serves until the leader ends the run (true), or is gone, or something fails here, which the leader is told (false).
/// Says every second that it is alive. One thread a replica. Nothing is thrown that an order or a message may cause;
/// bad_alloc where a message does not fit in memory before it is read.
bool follow(Member& member, const OpenOrder& open);

/// One engine's part of it: until the leader ends it (true) or is gone (false). Throws what the engine throws.
bool serve_steps(const net::Link& leader, Engine& engine, RankShare share);

}  // namespace plimsoll::exec::group
