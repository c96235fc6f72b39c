// SPDX-License-Identifier: Apache-2.0
// Who runs the steps of live replicas, and the clock of the run. One control thread calls; tests have a hand-ticked
// one.
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
  /// A replica without an order in progress gets one.
  virtual void submit(std::size_t replica, StepOrder order) = 0;
  /// The order in progress ends with the step in flight.
  virtual void end_order(std::size_t replica) = 0;
  /// Waits until an order has ended or the clock reads `until`; at once if one of them is the case already, and maybe
  /// when any step ends. Appends the steps that have ended, in order of their ends, and returns the time: none of them
  /// ended later, and every step not yet reported ends at that time or after. Throws what a worker threw.
  [[nodiscard]] virtual Nanos wait(Nanos until, std::vector<StepReport>& reports) = 0;
};

}  // namespace plimsoll::exec
