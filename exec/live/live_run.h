// SPDX-License-Identifier: Apache-2.0
// A run in real time: the clock is the machine's, and steps run on devices. load/run_loop.h contains the loop that
// drives it and defines the order of simultaneous events.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "exec/live/live_replica.h"
#include "exec/live/step_executor.h"
#include "load/event_log.h"
#include "load/run_loop.h"

namespace plimsoll::exec {

class LiveRun : public load::ReplicaRunner {
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

  [[nodiscard]] const sched::Replica& scheduler(std::size_t slot) const override { return lanes_[slot].live.replica(); }
  [[nodiscard]] std::vector<sched::Load>& loads(std::size_t slot) override { return replica(slot).loads(); }
  void land(std::size_t slot, const sched::Landing& landing, Nanos now) override;
  void release(std::size_t slot, ReqId id, std::uint64_t serial, Nanos now) override;
  [[nodiscard]] std::unique_ptr<load::KvTransport> transport(const load::KvTransport::Rates& rates, std::size_t sources,
                                                             std::size_t targets) override;

  [[nodiscard]] std::span<sched::Replica* const> replicas() const override { return replicas_; }
  void take(sched::RunResult& result, bool logs) override;

 protected:
  /// Called when a step has run, before the scheduler knows.
  virtual void step_ran(const StepReport& /*report*/) {}
  /// Called when the scheduler knows that the step has ended, before the requests that ended with it are collected.
  virtual void step_done(const StepReport& /*report*/) {}

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
    // These wait until the order in flight has ended.
    std::vector<Cancel> cancels, releases;
    std::vector<std::pair<sched::Landing, std::optional<LandedKv>>> landings;
  };

  void end_order(Lane& lane);
  void catch_up(Lane& lane, Nanos now);

  StepExecutor& executor_;
  LiveTransport* transport_ = nullptr;  // of a scenario with two pools; the loop owns it
  load::EventLog events_;
  std::deque<Lane> lanes_;  // a deque, so that lanes never move
  std::vector<sched::Replica*> replicas_;
  std::vector<StepReport> reports_;  // steps that have ended but are not processed yet
  Nanos last_ = 0;                   // time of the last wake-up
  Nanos look_at_ = 0;
};

}  // namespace plimsoll::exec
