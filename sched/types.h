// SPDX-License-Identifier: Apache-2.0
// Small types shared by the scheduler layer.
#pragma once

#include <cstdint>
#include <limits>

#include "model/units.h"

namespace plimsoll::sched {

using ReqId = std::uint32_t;  // handle of a live request in its replica's RequestTable; reused after its end
using Tok = std::int32_t;     // tokens of one request
using Blk = std::int64_t;     // KV blocks

inline constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
inline constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max() / 4;  // "no limit" for step counts
inline constexpr ReqId kNoRequest = std::numeric_limits<ReqId>::max();

enum class State : std::uint8_t { waiting, running, swapped };

}  // namespace plimsoll::sched
