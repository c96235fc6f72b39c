// SPDX-License-Identifier: Apache-2.0
// A follower process executes on its own ranks the same forwards, in the same order, as the leader on its ranks.
#pragma once

#include <functional>

#include "exec/group/member.h"
#include "exec/group/messages.h"
#include "exec/weights/open_model.h"

namespace plimsoll::exec::group {

/// Loads the model of an order. Throws InputError and DeviceError.
using OpenOrder = std::function<OpenModel(const EngineOrder& order)>;

/// Serves until the run ends. Returns true if the leader ended it; false if the leader is gone, or if an error occurred
/// here, which is reported to the leader. Sends a heartbeat every second. Uses one thread per replica. Throws
/// bad_alloc if a message does not fit in memory; no order or message causes any other exception.
bool follow(Member& member, const OpenOrder& open);

/// Serves one engine. Returns true if the leader ended the engine, false if the leader is gone. Throws what the engine
/// throws.
bool serve_steps(const net::Link& leader, Engine& engine, RankShare share);

}  // namespace plimsoll::exec::group
