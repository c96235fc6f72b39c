// SPDX-License-Identifier: Apache-2.0
// The loop of a run, the same in simulated and in real time. The loop owns the clients, the router and the warm-up. A
// Runner is the clock and runs the steps: sim::SimRun and exec::LiveRun, which have replicas of their own
// (ReplicaRunner), or endpoints::EndpointRun, whose requests a server answers.
//
// Order at equal times: steps done, replicas that come and go, time-outs, arrivals by serial, decisions. A policy's
// timer is a reason to decide. If an event causes others at the same time, the loop goes through this order again;
// replicas decide when no other event is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "load/dispatcher.h"
#include "load/scenario.h"
#include "sched/metrics_collector.h"
#include "sched/replica.h"
#include "sched/run_result.h"

namespace plimsoll::load {

class RunLoop;

/// The clock of a run, and what answers its requests: something in each of the scenario's slots. One thread calls.
class Runner {
 public:
  virtual ~Runner() = default;

  // ---- time ------------------------------------------------------------------------------------------------
  /// The run begins: the clock reads 0.
  virtual void start() = 0;
  /// The next end of a step or a lower bound of it, if it is known, or timer of a policy; kNever if there is neither.
  [[nodiscard]] virtual Nanos next_event() const = 0;
  /// Steps are in flight whose ends next_event() does not know.
  [[nodiscard]] virtual bool in_flight() const = 0;
  /// Advances the clock to `until`, or less far if a step ends or looks_up() is due. Returns its time, which never
  /// decreases. May throw DeviceError.
  [[nodiscard]] virtual Nanos wait(Nanos until) = 0;
  /// Whether it is time to report progress and to check for a stop request. Asked before every pass of the loop.
  [[nodiscard]] virtual bool looks_up(Nanos now) = 0;
  /// Completes the steps that have ended by `now`, in order of their ends. For each it calls loop.reached() before and
  /// loop.collect() after, and loop.must_decide() for a replica without further steps. True if a step may have ended.
  virtual bool complete(Nanos now, RunLoop& loop) = 0;
  /// No step starts any more, except by decide().
  virtual void end_plans() = 0;

  // ---- what serves in a slot ------------------------------------------------------------------------------
  /// Requests that left the slot since the caller last cleared the list.
  [[nodiscard]] virtual std::vector<sched::FinishedAttempt>& ended(std::size_t slot) = 0;
  /// For the router; 0 where it is not known.
  [[nodiscard]] virtual std::int64_t kv_blocks_in_use(std::size_t slot) = 0;
  [[nodiscard]] virtual bool busy(std::size_t slot) const = 0;
  /// Delivers a request. Its handle, or nothing if the front door refused it.
  [[nodiscard]] virtual std::optional<sched::ReqId> arrive(std::size_t slot, const sched::NewRequest& request,
                                                           Nanos now) = 0;
  /// Drops the request, after the step in flight if there is one.
  virtual void cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) = 0;
  /// The client gave up, but the engine does not know and continues.
  virtual void abandon(std::size_t slot, sched::ReqId id, std::uint64_t serial) = 0;
  /// Asks the policy, and starts the steps that it decides.
  virtual void decide(std::size_t slot, Nanos now) = 0;
  /// Called with the requests that have left the replica, before the list is cleared.
  virtual void left(std::size_t /*slot*/, const std::vector<sched::FinishedAttempt>& /*ended*/) {}
  /// The replica fails, and its step in flight is lost; its measurements are kept. With `restarts`, a new and empty
  /// replica takes the slot.
  virtual void replace(std::size_t slot, bool restarts, Nanos now) = 0;

  // ---- the run ----------------------------------------------------------------------------------------------
  /// The delays of an attempt before it is delivered.
  [[nodiscard]] virtual FrontEnd front_end() const { return {}; }
  /// Completes the steps that have ended by `now`, so that the replicas' counters can be read.
  virtual void settle(Nanos /*now*/) {}
  /// The warm-up ends: what is measured before does not count.
  virtual void end_warmup() = 0;
  /// Adds what was measured since the warm-up. Called once, when the last request has ended.
  virtual void measure(sched::MetricsCollector& out) = 0;
  /// Adds what the runner has kept, such as steps and, with `logs`, decision logs. Called once, after the run.
  virtual void take(sched::RunResult& result, bool logs) = 0;
};

/// A runner with a scheduler of its own in every slot.
class ReplicaRunner : public Runner {
 public:
  [[nodiscard]] virtual sched::Replica& replica(std::size_t slot) = 0;
  /// All replicas so far, failed ones included, in order of their starts.
  [[nodiscard]] virtual std::span<sched::Replica* const> replicas() const = 0;

  [[nodiscard]] std::vector<sched::FinishedAttempt>& ended(std::size_t slot) final { return replica(slot).ended(); }
  [[nodiscard]] std::int64_t kv_blocks_in_use(std::size_t slot) final;
  void end_warmup() final;
  void measure(sched::MetricsCollector& out) final;
  void take(sched::RunResult& result, bool logs) override;

 private:
  std::vector<sched::Integrals> before_;  // of each replica, at the end of the warm-up
};

/// Drives one run to its end. Uses the runner and the senders from one thread.
class RunLoop {
 public:
  /// Everything that is passed outlives the loop. The requests are those of the scenario's workload, or of `senders` if
  /// it is not null.
  RunLoop(const Replication& replication, Runner& runner, Senders* senders = nullptr);
  RunLoop(const RunLoop&) = delete;
  RunLoop& operator=(const RunLoop&) = delete;

  /// Runs to the end. False if options.stop was requested; no step runs on a device then. Throws InputError for a run
  /// without end, and any error of the runner.
  [[nodiscard]] bool run();
  /// Closes the replication.
  void report();
  /// Adds requests, logs and step counts; complete after run().
  void take(sched::RunResult& result);

  // ---- called by Runner::complete() ---------------------------------------------------------------------------
  /// A step ends at `time`. Ends the warm-up if it is over by then.
  void reached(Nanos time) {
    if (!warm_ && time >= warmup_) end_warmup();
  }
  /// Hands the requests that left the replica to their clients.
  void collect(std::size_t slot);
  /// The replica decides next.
  void must_decide(std::size_t slot);

 private:
  [[nodiscard]] Nanos next_event() const;
  bool happens(Nanos now);
  bool changes(Nanos now);
  bool time_outs(Nanos now);
  bool arrivals(Nanos now);
  void decide(Nanos now);
  void end_warmup();
  void measure(Nanos now);
  void stop(Nanos now);

  const Replication replication_;
  Runner& runner_;
  Dispatcher dispatcher_;
  std::vector<bool> undecided_;           // replicas that must decide
  std::vector<std::size_t> must_decide_;  // the same as a list
  Nanos warmup_ = 0;
  bool warm_ = false, measured_ = false;
};

/// Makes the runner of one replication, which keeps what `options` say.
using MakeRunner = std::function<std::unique_ptr<Runner>(std::uint64_t replication, const sched::RunOptions& options)>;

/// Runs all replications one after the other, and keeps requests, steps and logs of the first. Metrics are added to
/// `out`. If the runner throws DeviceError and `failure` is given, the text goes there and the result is partial and
/// `stopped`; otherwise the error is rethrown.
[[nodiscard]] sched::RunResult run_replications(const Scenario& scenario, const sched::RunOptions& options,
                                                sched::MetricsCollector& out, const MakeRunner& make,
                                                std::string* failure = nullptr);

}  // namespace plimsoll::load
