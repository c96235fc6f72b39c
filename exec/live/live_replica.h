// SPDX-License-Identifier: Apache-2.0
// A replica in real time, as seen by the control thread: the scheduler's Replica and the changes to send to its worker.
// The worker itself is behind StepExecutor (step_executor.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "exec/live/step_order.h"
#include "load/event_log.h"
#include "load/scenario.h"
#include "sched/replica.h"
#include "sched/run_result.h"

namespace plimsoll::exec {

/// The times when a step's first forward was handed to the device and when its last one had ended.
struct StepSpan {
  Nanos start = 0, end = 0;
};

/// The scheduler of a replica that runs on a device. Only the control thread calls it.
class LiveReplica {
 public:
  LiveReplica(const load::Scenario& scenario, std::size_t index, const sched::RunOptions& options,
              load::EventLog& events);

  [[nodiscard]] sched::Replica& replica() { return replica_; }
  [[nodiscard]] const sched::Replica& replica() const { return replica_; }
  [[nodiscard]] std::size_t index() const { return index_; }

  std::optional<ReqId> arrive(const sched::NewRequest& request, Nanos now);
  /// Call only while no step is in flight.
  void cancel(ReqId id, std::uint64_t serial, Nanos now);
  void abandon(ReqId id, std::uint64_t serial);
  /// Hands over KV that has arrived, or reports that it is lost (null). Call only while no step is in flight.
  void land(const sched::Landing& landing, std::optional<LandedKv> kv, Nanos now);
  /// Frees the blocks that a request keeps after its end; does nothing if it keeps none. Call only while no step is in
  /// flight.
  void release(ReqId id, std::uint64_t serial, Nanos now);
  /// Records a request that has left (Replica::ended). Call it once for each before the list is cleared; repeated calls
  /// do nothing.
  void ended(const sched::FinishedAttempt& ended);
  /// Asks the policy for a decision. Returns true if there are steps to run, which make_order() then returns.
  bool decide(Nanos now);
  /// Returns what the worker needs for the decided step: changes since the last order, and its forwards.
  [[nodiscard]] StepOrder make_order();
  /// Records that one of the order's steps has ended.
  void complete(const StepSpan& span);
  /// The same on a script's clock. `start` and `end` are the times that the policy sees; `real_start` and `real_total`
  /// are in seconds of the run.
  void complete_scripted(Nanos start, Nanos end, double real_start, double real_total);
  [[nodiscard]] std::vector<sched::StepRow>& step_rows() { return step_rows_; }

 private:
  void note_moves();
  void close(std::uint64_t serial);
  void note_step(Nanos start, Nanos end);
  [[nodiscard]] OrderForward expand(const sched::Forward& forward) const;

  sched::Replica replica_;
  std::size_t index_;
  load::EventLog& events_;
  bool keep_steps_;
  std::vector<Change> changes_;                   // since the last order
  std::unordered_map<std::uint64_t, ReqId> ids_;  // ids of live requests by serial; for look-ups only, never iterated
  std::vector<sched::StepRow> step_rows_;
  Nanos last_end_ = 0;  // when the last step or the idle time ended
  bool idle_ = true;
};

}  // namespace plimsoll::exec
