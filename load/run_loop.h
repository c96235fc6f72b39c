// SPDX-License-Identifier: Apache-2.0
// The loop of a run, the same in simulated and in real time. It owns the clients, the router and the warm-up. A Runner
// provides the clock and executes the steps. sim::SimRun and exec::LiveRun have replicas of their own (ReplicaRunner);
// endpoints::EndpointRun sends its requests to a server.
//
// Order at equal times: ends of steps, KV transfers, replicas that come and go, time-outs, arrivals by serial,
// decisions. A policy's timer counts as a reason to decide. If an event causes others at the same time, the loop
// repeats this order; replicas decide when no other event is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "load/dispatcher.h"
#include "load/request_chains.h"
#include "load/scenario.h"
#include "sched/metrics_collector.h"
#include "sched/replica.h"
#include "sched/run_result.h"

namespace plimsoll::load {

class RunLoop;

/// The clock of a run and the servers of its requests, one in each of the scenario's slots. Called from one thread.
class Runner {
 public:
  virtual ~Runner() = default;

  // ---- time ------------------------------------------------------------------------------------------------
  /// Starts the run: the clock reads 0.
  virtual void start() = 0;
  /// Returns when the next step is known to end (or a lower bound), or the next timer of a policy; kNever if there is
  /// neither.
  [[nodiscard]] virtual Nanos next_event() const = 0;
  /// Returns whether steps are in flight whose ends next_event() does not know.
  [[nodiscard]] virtual bool in_flight() const = 0;
  /// Advances the clock to `until`; stops earlier if a step ends or looks_up() is due. Returns the clock's time, which
  /// never decreases. May throw DeviceError.
  [[nodiscard]] virtual Nanos wait(Nanos until) = 0;
  /// Returns whether to report progress and check for a stop request now. Called before every pass of the loop.
  [[nodiscard]] virtual bool looks_up(Nanos now) = 0;
  /// Completes the steps that have ended by `now`, in order of their ends. For each it calls loop.reached() before and
  /// loop.collect() after, and loop.must_decide() for a replica without further steps. Returns whether a step may have
  /// ended.
  virtual bool complete(Nanos now, RunLoop& loop) = 0;
  /// Prevents further steps, except those started by decide().
  virtual void end_plans() = 0;

  // ---- the server in a slot --------------------------------------------------------------------------------
  /// Returns the requests that left the slot since the caller last cleared the list.
  [[nodiscard]] virtual std::vector<sched::FinishedAttempt>& ended(std::size_t slot) = 0;
  /// Fills in what the server in the slot reports to a router; fields that it does not know stay unchanged.
  virtual void describe(std::size_t /*slot*/, sched::ReplicaLoad& /*load*/) {}
  /// Returns how many tokens of a prompt with these blocks, at most `limit`, are in the server's prefix cache.
  [[nodiscard]] virtual sched::Tok cached_tokens(std::size_t /*slot*/, std::span<const std::uint64_t> /*blocks*/,
                                                 sched::Tok /*limit*/) {
    return 0;
  }
  /// Returns whether a step is in flight in the slot.
  [[nodiscard]] virtual bool busy(std::size_t slot) const = 0;
  /// Delivers a request. Returns its handle; nullopt if the front door refused it.
  [[nodiscard]] virtual std::optional<sched::ReqId> arrive(std::size_t slot, const sched::NewRequest& request,
                                                           Nanos now) = 0;
  /// Drops the request. If a step is in flight, the request is dropped after it.
  virtual void cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) = 0;
  /// Records that the client gave up, while the engine does not know and continues.
  virtual void abandon(std::size_t slot, sched::ReqId id, std::uint64_t serial) = 0;
  /// Asks the policy, and starts the steps that it decides.
  virtual void decide(std::size_t slot, Nanos now) = 0;
  /// Reports the requests that have left the replica, before the list is cleared. Some may be reported twice.
  virtual void left(std::size_t /*slot*/, const std::vector<sched::FinishedAttempt>& /*ended*/) {}
  /// Makes the replica fail. Its step in flight is lost; its measurements are kept. If `restarts` is true, a new, empty
  /// replica takes the slot.
  virtual void replace(std::size_t slot, bool restarts, Nanos now) = 0;

  // ---- pools for prefill and decode (request_chains.h). Only for runners of such scenarios. ----------------
  /// Returns the scheduler in the slot.
  [[nodiscard]] virtual const sched::Replica& scheduler(std::size_t slot) const;
  /// Returns the requests for whose expected KV blocks were taken since the caller last cleared the list.
  [[nodiscard]] virtual std::vector<sched::Load>& loads(std::size_t slot);
  /// Reports that the KV of a request has arrived or is lost. If a step is in flight, this takes effect at its end.
  virtual void land(std::size_t slot, const sched::Landing& landing, Nanos now);
  /// Frees the blocks of a request that has ended. If a step is in flight, this takes effect at its end.
  virtual void release(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now);
  /// Returns whether the request has ended and keeps its blocks.
  [[nodiscard]] bool is_held(std::size_t slot, sched::ReqId id, std::uint64_t serial) const {
    return scheduler(slot).is_held(id, serial);
  }
  /// Returns when the step in flight ends.
  [[nodiscard]] virtual Nanos step_end(std::size_t slot) const;
  /// Returns the transport of KV between `sources` prefill and `targets` decode replicas: simulated links with these
  /// rates, unless the runner sends real KV. Called once.
  [[nodiscard]] virtual std::unique_ptr<KvTransport> transport(const KvTransport::Rates& rates, std::size_t sources,
                                                               std::size_t targets);

  // ---- the run ----------------------------------------------------------------------------------------------
  /// Returns the delays of an attempt before it is delivered.
  [[nodiscard]] virtual FrontEnd front_end() { return {}; }
  /// Completes the steps that have ended by `now`, so that the replicas' counters can be read.
  virtual void settle(Nanos /*now*/) {}
  /// Ends the warm-up: earlier measurements do not count.
  virtual void end_warmup() = 0;
  /// Adds the measurements since the warm-up. Called once, when the last request has ended.
  virtual void measure(sched::MetricsCollector& out) = 0;
  /// Adds what the runner recorded, such as steps and, with `logs`, decision logs. Called once, after the run.
  virtual void take(sched::RunResult& result, bool logs) = 0;
};

/// A runner with a scheduler of its own in every slot.
class ReplicaRunner : public Runner {
 public:
  /// Returns the replica that is in the slot now.
  [[nodiscard]] virtual sched::Replica& replica(std::size_t slot) = 0;
  /// Returns all replicas so far, failed ones included, in order of their starts.
  [[nodiscard]] virtual std::span<sched::Replica* const> replicas() const = 0;

  [[nodiscard]] std::vector<sched::FinishedAttempt>& ended(std::size_t slot) final { return replica(slot).ended(); }
  void describe(std::size_t slot, sched::ReplicaLoad& load) final { replica(slot).describe(load); }
  [[nodiscard]] sched::Tok cached_tokens(std::size_t slot, std::span<const std::uint64_t> blocks,
                                         sched::Tok limit) final {
    return replica(slot).kv().cached_tokens(blocks, limit);
  }
  void end_warmup() final;
  void measure(sched::MetricsCollector& out) final;
  void take(sched::RunResult& result, bool logs) override;

 private:
  std::vector<sched::Integrals> before_;  // integrals of each replica at the end of the warm-up
};

/// Drives one run to its end. Uses the runner and the senders from one thread.
class RunLoop {
 public:
  /// All arguments must outlive the loop. Sends the requests of the scenario's workload, or those of `senders` if not
  /// null.
  RunLoop(const Replication& replication, Runner& runner, Senders* senders = nullptr);
  RunLoop(const RunLoop&) = delete;
  RunLoop& operator=(const RunLoop&) = delete;

  /// Runs to the end. Returns false if options.stop was requested; then no step is running on a device any more. Throws
  /// InputError for a run without end, and any error of the runner.
  [[nodiscard]] bool run();
  /// Closes the replication in the metrics.
  void report();
  /// Adds requests, logs and step counts; they are complete after run().
  void take(sched::RunResult& result);

  // ---- called by Runner::complete() ---------------------------------------------------------------------------
  /// Reports that a step ends at `time`. Ends the warm-up if it is over by then.
  void reached(Nanos time) {
    now_ = time;
    if (!warm_ && time >= warmup_) end_warmup();
  }
  /// Reports the requests that left the replica to their clients.
  void collect(std::size_t slot);
  /// Makes the replica decide next.
  void must_decide(std::size_t slot);

 private:
  [[nodiscard]] Nanos next_event() const;
  void end_failed();
  void end_stuck(Nanos now);
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
  std::optional<RequestChains> chains_;   // of a scenario with two pools
  std::vector<bool> undecided_;           // true for replicas that must decide
  std::vector<std::size_t> must_decide_;  // the same replicas as a list
  std::vector<std::size_t> deciding_;
  Nanos warmup_ = 0, now_ = 0, measured_at_ = 0, settled_ = -1;
  bool warm_ = false, measured_ = false;
};

/// Makes the runner of one replication. The runner records what `options` ask for.
using MakeRunner = std::function<std::unique_ptr<Runner>(std::uint64_t replication, const sched::RunOptions& options)>;

/// Runs all replications one after the other, recording requests, steps and logs of the first. Adds the metrics to
/// `out`. If the runner throws DeviceError, the partial result contains its text (RunResult::failure).
[[nodiscard]] sched::RunResult run_replications(const Scenario& scenario, const sched::RunOptions& options,
                                                sched::MetricsCollector& out, const MakeRunner& make);

}  // namespace plimsoll::load
