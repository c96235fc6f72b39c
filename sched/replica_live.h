// SPDX-License-Identifier: Apache-2.0
// What a Replica knows of a live request beyond the request table: private to sched/replica*.cpp. What only service
// brings is made when service begins, for millions may wait.
#pragma once

#include <memory>

#include "sched/replica.h"

namespace plimsoll::sched {

struct Replica::Live {
  /// Of a request that has been given blocks or a step.
  struct Served {
    Nanos first_scheduled = -1, first_token = -1;
    double queue_s = 0, preempt_s = 0;
    model::TimeParts service;
    model::TimeParts service_begin;  // the replica's time by cause when the request last entered service
    Nanos stopped = 0;               // when it was last preempted
    double emitted = 0;              // seconds: its last token; members take group_emitted_ unless fresh
    std::int64_t decoded = -1;       // the step in which it last decoded as one of a list
    std::int64_t prefilled = -1;     // the step that completed its (re)prefill
    KvShare kv;
  };

  Nanos sent = 0;
  std::unique_ptr<Served> served_;  // null: it has only waited
  std::uint32_t client = 0;
  Tok output = 0;
  std::uint32_t epoch = 0;  // tells stale heap entries from live ones
  bool live = true, abandoned = false, fresh = false, was_decoding = false;
  bool ahead = false;  // a row of the step that is decided ahead, although the request has ended

  [[nodiscard]] Served& served() {
    if (!served_) served_ = std::make_unique<Served>();
    return *served_;
  }
};

}  // namespace plimsoll::sched
