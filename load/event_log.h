// SPDX-License-Identifier: Apache-2.0
// events.jsonl (docs/measure.md): everything that reached the schedulers of a run in real time, in order, with times in
// nanoseconds since its start. Replaying it to the same policy gives the same decisions (sim/simulate.h).
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "load/scenario.h"
#include "sched/replica.h"

namespace plimsoll::load {

/// Writes the events of a live run as JSON lines, which `simulate --replay` reads.
class EventLog {
 public:
  /// A disabled log records nothing.
  explicit EventLog(bool enabled) : enabled_(enabled) {}

  /// Writes the first event: the values besides the study's scheduler section on which decisions depend.
  void begin(const Scenario& scenario, std::size_t point);
  /// Write what reached a replica's scheduler: a request, a cancellation, a decision.
  void arrival(std::size_t replica, const sched::NewRequest& request, Nanos now);
  void cancel(std::size_t replica, std::uint64_t serial, Nanos now);
  void decide(std::size_t replica, Nanos now);
  /// With pools: KV of a request has arrived or is lost; the blocks of a request that has ended are freed.
  void land(std::size_t replica, std::uint64_t serial, bool arrived, Nanos now);
  void release(std::size_t replica, std::uint64_t serial, Nanos now);
  /// Writes that a step has ended; `start` is when its first forward was handed to the device.
  void step(std::size_t replica, Nanos start, Nanos end);
  /// Writes the last event; a file without it is truncated.
  void end(Nanos now);
  /// Returns the text so far and clears it.
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  bool enabled_;
  std::string text_;
};

}  // namespace plimsoll::load
