// SPDX-License-Identifier: Apache-2.0
// What a Replica knows of a live request beyond the request table: private to sched/replica*.cpp.
#pragma once

#include "sched/replica.h"

namespace plimsoll::sched {

/// Orders a heap so that the earliest clock is on top.
inline constexpr auto kLater = [](const auto& a, const auto& b) { return a.clock > b.clock; };

struct Replica::Live {
  Ended record;
  model::TimeParts service_begin;      // the replica's time by cause when the request last entered service
  Nanos stopped = 0;                   // when it was last preempted
  double emitted = 0;                  // seconds: its last token; members take group_emitted_ unless fresh
  double reserved_tokens = 0, reserved_final = 0, pending = 0;
  std::uint32_t epoch = 0;             // tells stale heap entries from live ones
  bool live = true, abandoned = false, fresh = false, was_decoding = false;
};

}  // namespace plimsoll::sched
