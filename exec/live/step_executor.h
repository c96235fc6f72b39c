// SPDX-License-Identifier: Apache-2.0
// Runs the steps of live replicas and provides the clock of the run. One control thread calls it. Tests use an executor
// whose clock they advance by hand.
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "exec/live/live_replica.h"
#include "exec/live/live_transport.h"
#include "exec/live/step_builder.h"
#include "exec/live/step_order.h"
#include "model/units.h"

namespace plimsoll::exec {

/// A step that has ended.
struct StepReport {
  std::size_t replica = 0;
  StepSpan span;
  bool last = false;  // it is the last step of its order
};

class StepExecutor {
 public:
  virtual ~StepExecutor() = default;
  /// Starts the clock of the run at 0.
  virtual void start_clock() = 0;
  /// Starts an order. The replica must have none in progress.
  virtual void submit(std::size_t replica, StepOrder order) = 0;
  /// Ends the order in progress after the step in flight.
  virtual void end_order(std::size_t replica) = 0;
  /// Blocks until an order has ended or the clock reads `until`; returns immediately if that has already happened. May
  /// also return when another step ends. Appends the steps that have ended, in order of their ends, and returns the
  /// time. Every appended step ended by that time, and any step not appended ends later. Rethrows a worker's exception.
  [[nodiscard]] virtual Nanos wait(Nanos until, std::vector<StepReport>& reports) = 0;
  /// Returns a replica's builder. While an order is in progress, only its outgoing() and device() may be called.
  [[nodiscard]] virtual StepBuilder& builder(std::size_t replica) = 0;
  /// Makes the wait() in progress, or the next one, return. Any thread.
  virtual void wake() = 0;
  /// Makes wait() throw the exception, once the steps that ended before are reported. Any thread.
  virtual void fail(std::exception_ptr failure) = 0;
  /// Returns what carries KV from the replicas after the first `targets` ones to these (live_transport.h).
  [[nodiscard]] virtual std::unique_ptr<LiveTransport> transport(const load::KvTransport::Rates& rates,
                                                                 std::size_t sources, std::size_t targets) = 0;
};

}  // namespace plimsoll::exec
