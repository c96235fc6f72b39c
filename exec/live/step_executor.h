// SPDX-License-Identifier: Apache-2.0
// Runs the steps of live replicas, and is the clock of the run. One control thread calls. Tests use an executor whose
// clock they advance by hand.
#pragma once

#include <cstddef>
#include <vector>

#include "exec/live/live_replica.h"
#include "exec/live/step_order.h"
#include "model/units.h"

namespace plimsoll::exec {

/// A step that has ended.
struct StepReport {
  std::size_t replica = 0;
  StepSpan span;
  bool last = false;  // no further step of its order follows
};

class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  /// The run begins: its clock reads 0.
  virtual void start_clock() = 0;
  /// Starts an order. The replica must have none in progress.
  virtual void submit(std::size_t replica, StepOrder order) = 0;
  /// The order in progress ends with the step in flight.
  virtual void end_order(std::size_t replica) = 0;
  /// Blocks until an order has ended or the clock reads `until`, and returns at once if either is so already. May also
  /// return when another step ends. Appends the steps that have ended, in order of their ends, and returns the time. No
  /// appended step ended later than that time, and no other step ended before it. Throws what a worker threw.
  [[nodiscard]] virtual Nanos wait(Nanos until, std::vector<StepReport>& reports) = 0;
};

}  // namespace plimsoll::exec
