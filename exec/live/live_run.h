// SPDX-License-Identifier: Apache-2.0
// A run in real time: the clock is the machine's, and steps run on devices. load/run_loop.h contains the loop that
// drives it and defines the order of simultaneous events.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "exec/live/live_replica.h"
#include "exec/live/step_executor.h"
#include "load/event_log.h"
#include "load/run_loop.h"

namespace plimsoll::exec {

class LiveRun final : public load::ReplicaRunner {
 public:
  /// Logs events if options.keep_log. All arguments must outlive the run.
  LiveRun(const load::Scenario& scenario, const sched::RunOptions& options, StepExecutor& executor);

  void start() override { executor_.start_clock(); }
  [[nodiscard]] Nanos next_event() const override;
  [[nodiscard]] bool in_flight() const override;
  [[nodiscard]] Nanos wait(Nanos until) override;
  [[nodiscard]] bool looks_up(Nanos now) override;
  bool complete(Nanos now, load::RunLoop& loop) override;
  void end_plans() override;

  [[nodiscard]] sched::Replica& replica(std::size_t slot) override { return lanes_[slot].live.replica(); }
  [[nodiscard]] bool busy(std::size_t slot) const override { return lanes_[slot].busy; }
  [[nodiscard]] std::optional<ReqId> arrive(std::size_t slot, const sched::NewRequest& request, Nanos now) override;
  void cancel(std::size_t slot, ReqId id, std::uint64_t serial, Nanos now) override;
  void abandon(std::size_t slot, ReqId id, std::uint64_t serial) override { lanes_[slot].live.abandon(id, serial); }
  void decide(std::size_t slot, Nanos now) override;
  void left(std::size_t slot, const std::vector<sched::FinishedAttempt>& ended) override;
  void replace(std::size_t slot, bool restarts, Nanos now) override;

  [[nodiscard]] std::span<sched::Replica* const> replicas() const override { return replicas_; }
  void take(sched::RunResult& result, bool logs) override;

 private:
  struct Cancel {
    ReqId id;
    std::uint64_t serial;
  };
  struct Lane {  // a replica and its work in flight
    Lane(const load::Scenario& scenario, std::size_t index, const sched::RunOptions& options, load::EventLog& events)
        : live(scenario, index, options, events) {}
    LiveReplica live;
    bool busy = false, ending = false;
    std::vector<Cancel> cancels;  // wait until the order in flight has ended
  };

  void end_order(Lane& lane);

  StepExecutor& executor_;
  load::EventLog events_;
  std::deque<Lane> lanes_;  // a deque, so that lanes never move
  std::vector<sched::Replica*> replicas_;
  std::vector<StepReport> reports_;  // steps that have ended but are not processed yet
  Nanos last_ = 0;                   // time of the last wake-up
  Nanos look_at_ = 0;
};

}  // namespace plimsoll::exec
