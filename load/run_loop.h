// SPDX-License-Identifier: Apache-2.0
// The loop of a run: one for simulated and for real time. The loop knows the clients, the router and the warm-up; a
// Runner knows the clock and what runs the steps (sim::SimRun, exec::LiveRun).
//
// Order at equal times: steps done, replicas that come and go, time-outs, arrivals by serial, decisions. Timers of
// policies count as reasons to decide. Whatever one of these causes at the same time is taken in the same order again,
// and replicas decide once nothing else happens.
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
#include "sched/measurements.h"
#include "sched/replica.h"
#include "sched/run_result.h"

namespace plimsoll::load {

class RunLoop;

/// Time, and the replicas whose steps take it. One thread calls; every slot of the scenario's replicas holds one.
class Runner {
 public:
  virtual ~Runner() = default;

  // ---- time ------------------------------------------------------------------------------------------------
  /// The run begins: the clock reads 0.
  virtual void start() = 0;
  /// When a step ends or a policy's timer goes off in some replica, as far as that is known; else kNever.
  [[nodiscard]] virtual Nanos next_event() const = 0;
  /// Steps are in flight whose ends are not known.
  [[nodiscard]] virtual bool in_flight() const = 0;
  /// Passes the time until `until`, or until steps have ended before. Returns what the clock reads then, which never
  /// runs backwards. May throw DeviceError.
  [[nodiscard]] virtual Nanos wait(Nanos until) = 0;
  /// Whether it is time to report progress and to look for a request to stop. Asked again and again.
  [[nodiscard]] virtual bool looks_up(Nanos now) = 0;
  /// Completes the steps that have ended by `now`: for each, in order of their ends, tells the loop the time that is
  /// reached(), and which replicas must decide(). True if a step has ended.
  virtual bool complete(Nanos now, RunLoop& loop) = 0;
  /// Ends every plan with the step in flight.
  virtual void end_plans() = 0;

  // ---- the replica in a slot ------------------------------------------------------------------------------
  [[nodiscard]] virtual sched::Replica& replica(std::size_t slot) = 0;
  [[nodiscard]] virtual bool busy(std::size_t slot) const = 0;
  /// Delivers a request. Its handle, or nothing if the front door refused it.
  [[nodiscard]] virtual std::optional<sched::ReqId> arrive(std::size_t slot, const sched::NewRequest& request,
                                                           Nanos now) = 0;
  /// The engine drops the request, once the step in flight has ended.
  virtual void cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) = 0;
  /// The client gave up, and the engine goes on.
  virtual void abandon(std::size_t slot, sched::ReqId id, std::uint64_t serial) = 0;
  /// Asks the policy, and starts the steps that it decides.
  virtual void decide(std::size_t slot, Nanos now) = 0;
  /// These requests have left the replica. Called once before the list is cleared.
  virtual void left(std::size_t /*slot*/, const std::vector<sched::Ended>& /*ended*/) {}
  /// The replica dies with its step; what it measured until then stays. `restarts`: a new and empty one follows.
  virtual void replace(std::size_t slot, bool restarts, Nanos now) = 0;

  // ---- the run ----------------------------------------------------------------------------------------------
  /// What an attempt takes before it is delivered.
  [[nodiscard]] virtual FrontEnd front_end() const { return {}; }
  /// Counters are to be read as of `now`: steps that have ended by then are completed.
  virtual void settle(Nanos /*now*/) {}
  /// Every replica that there has been, in order of its start.
  [[nodiscard]] virtual std::span<sched::Replica* const> replicas() const = 0;
  /// Adds what it kept by itself, such as steps. Called once, after the run.
  virtual void take(sched::RunResult& result) = 0;
};

class RunLoop {
 public:
  /// Everything that is passed outlives the loop.
  RunLoop(const Replication& replication, Runner& runner);
  RunLoop(const RunLoop&) = delete;
  RunLoop& operator=(const RunLoop&) = delete;

  /// Runs to the end. False if options.stop was requested: no step is in flight then. Throws InputError for a run
  /// without end, and what the runner throws.
  [[nodiscard]] bool run();
  /// Adds what the replicas measured and closes the replication.
  void report();
  /// What was kept so far; complete after run().
  void take(sched::RunResult& result);

  // ---- called by Runner::complete() ---------------------------------------------------------------------------
  /// A step has ended at `time`: the warm-up is over if that is not before its end.
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
  void stop(Nanos now);

  const Replication replication_;
  Runner& runner_;
  Dispatcher dispatcher_;
  std::vector<bool> undecided_;           // replicas that must decide
  std::vector<std::size_t> must_decide_;  // the same as a list
  Nanos warmup_ = 0;
  bool warm_ = false;
  std::vector<sched::Integrals> before_;  // of each replica, at the end of the warm-up
};

/// The runner of one replication. The options are those of its run.
using MakeRunner = std::function<std::unique_ptr<Runner>(std::uint64_t replication, const sched::RunOptions& options)>;

/// Runs all replications one after the other; requests, steps and logs are kept of the first. The metrics are left to
/// `out`. A DeviceError ends the run: where there is a `failure`, its text goes there, and the result, `stopped`, has
/// what there was until then.
[[nodiscard]] sched::RunResult run_replications(const Scenario& scenario, const sched::RunOptions& options,
                                                sched::Measurements& out, const MakeRunner& make,
                                                std::string* failure = nullptr);

}  // namespace plimsoll::load
