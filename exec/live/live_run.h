// SPDX-License-Identifier: Apache-2.0
// One run in real time: the clients, the router and the schedulers of the simulator, driven by the clock and by steps
// that really run. Order at one wake-up: steps done, time-outs, arrivals by serial, timers, decisions.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "exec/live/event_log.h"
#include "exec/live/live_replica.h"
#include "exec/live/step_executor.h"
#include "load/dispatcher.h"

namespace plimsoll::exec {

class LiveRun {
 public:
  LiveRun(const load::Scenario& scenario, std::uint64_t replication, const sched::RunOptions& options,
          StepExecutor& executor, sched::Measurements& out);

  /// Runs to the end. False if `options.stop` was requested: orders in progress have been ended then.
  bool run();
  /// Adds what the replicas measured and closes the replication.
  void report(sched::Measurements& out);
  /// Rows, logs, steps and events kept so far; complete after run().
  void take(sched::RunResult& result);
  [[nodiscard]] std::int64_t steps() const;

 private:
  struct Cancel {
    ReqId id;
    std::uint64_t serial;
  };
  struct Lane {  // a replica with what is in flight there
    Lane(const load::Scenario& scenario, std::size_t index, const sched::RunOptions& options, EventLog& events)
        : live(scenario, index, options, events) {}
    LiveReplica live;
    bool busy = false, ending = false, dirty = false;
    std::vector<Cancel> cancels;  // wait for the order in flight
  };

  [[nodiscard]] Nanos next_event() const;
  [[nodiscard]] bool is_over(Nanos next) const;
  void take_reports(const std::vector<StepReport>& reports, Nanos now);
  void take_report(const StepReport& report);
  void cancel_pending(Lane& lane, Nanos now);
  void time_outs(Nanos now);
  void arrivals(Nanos now);
  void dispatch(const load::Attempt& attempt, Nanos now);
  void decide(Lane& lane, Nanos now);
  void break_order(Lane& lane);
  void collect(Lane& lane);
  void end_warmup();
  void drain();

  const load::Scenario& scenario_;
  StepExecutor& executor_;
  EventLog events_;
  load::Dispatcher dispatcher_;
  std::deque<Lane> lanes_;  // never moved
  Nanos last_ = 0;          // of the last wake-up
  Nanos warmup_ = 0;
  bool warm_ = false;
  std::vector<sched::Integrals> before_;  // at the end of the warm-up
};

}  // namespace plimsoll::exec
