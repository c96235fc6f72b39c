// SPDX-License-Identifier: Apache-2.0
// The data of a live request that only the Replica keeps, beyond the request table. Private to sched/replica*.cpp.
#pragma once

#include "sched/replica.h"

namespace plimsoll::sched {

/// 24 bytes, since millions may wait at once.
struct Replica::Live {
  Nanos sent = 0;
  std::uint32_t client = 0;
  Tok output = 0;
  std::int32_t service = -1;     // in services_; -1: it has only waited
  std::uint32_t epoch : 23 = 0;  // distinguishes stale heap entries from live ones
  std::uint32_t live : 1 = 1, abandoned : 1 = 0, fresh : 1 = 0, was_decoding : 1 = 0;
  std::uint32_t known : 1 = 0;   // its hashes extend into the answer, which later requests may find
  std::uint32_t ahead : 1 = 0;   // still a row of the step decided ahead, although the request has ended
  std::uint32_t seeded : 1 = 0;  // its first token comes with its KV
  // `hold`: its blocks stay after its end. `held`: it has ended and still has them.
  std::uint32_t hold : 1 = 0, held : 1 = 0;
};

/// Data of a request that has had blocks or a step.
struct Replica::Service {
  double emitted = 0;  // seconds: its last token; group members that are not fresh use group_emitted_
  KvShare kv;
  Nanos first_scheduled = -1, first_token = -1;
  Nanos stopped = 0;            // when it was last preempted
  std::int64_t decoded = -1;    // the last step in which it decoded as a listed row
  std::int64_t prefilled = -1;  // the step that completed its (re)prefill
  double preempt_s = 0;
  model::TimeParts time;   // in steps, by cause, until it last left service
  model::TimeParts begin;  // the replica's time by cause when the request last (re)entered service
};

inline Replica::Service& Replica::service(Live& live) {
  if (live.service < 0) {
    live.service = services_.take();
    services_[live.service] = {};
  }
  return services_[live.service];
}

inline Replica::Service& Replica::service(ReqId id) { return service(live_[id]); }

}  // namespace plimsoll::sched
