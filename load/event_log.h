// SPDX-License-Identifier: Apache-2.0
// events.jsonl (docs/measure.md): everything that reached the schedulers of a run in real time, in order, in
// nanoseconds since its start. Feeding it to the same policy again gives the same decisions (sim/simulate.h).
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
  /// A disabled log does nothing.
  explicit EventLog(bool enabled) : enabled_(enabled) {}

  /// The first event: the values that decisions depend on besides the study's scheduler section.
  void begin(const Scenario& scenario, std::size_t point);
  void arrival(std::size_t replica, const sched::NewRequest& request, Nanos now);
  void cancel(std::size_t replica, std::uint64_t serial, Nanos now);
  void decide(std::size_t replica, Nanos now);
  /// A step has ended; `start` is when its first forward was handed to the device.
  void step(std::size_t replica, Nanos start, Nanos end);
  /// The last event; a file without it is truncated.
  void end(Nanos now);
  /// The text so far; it is forgotten here.
  [[nodiscard]] std::string take() { return std::exchange(text_, {}); }

 private:
  bool enabled_;
  std::string text_;
};

}  // namespace plimsoll::load
