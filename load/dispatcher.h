// SPDX-License-Identifier: Apache-2.0
// Sits between the clients and the replicas of a run. It chooses the replica for each request, tracks which requests
// are outstanding, and closes the run's results. Its caller, the loop of the run (run_loop.h), supplies the time and
// the replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "load/clients.h"
#include "load/fleet_life.h"
#include "load/scenario.h"
#include "sched/metrics_collector.h"
#include "sched/replica.h"
#include "sched/router.h"
#include "sched/run_result.h"

namespace plimsoll::load {

/// An attempt, and the replica that it is routed to.
struct RoutedAttempt : Attempt {
  std::size_t replica = 0;
};

/// What a router may ask of the replicas.
struct Probes {
  /// Updates the figures that replicas report, and those of tracked requests, as they are at `now`.
  std::function<void(Nanos now, std::vector<sched::ReplicaLoad>& loads)> loads = {};
  /// Returns how many tokens of a prompt with these blocks, at most `limit`, are in the cache of a replica.
  std::function<sched::Tok(std::size_t replica, std::span<const std::uint64_t> blocks, sched::Tok limit)> cached = {};
};

class Dispatcher {
 public:
  /// Sends the requests of the scenario's workload, or those of `senders` if not null; `senders` must outlive the
  /// dispatcher.
  Dispatcher(const Replication& replication, const FrontEnd& front_end, Probes probes, Senders* senders = nullptr);

  /// Returns the next time at which a client sends or gives up, or a replica comes or goes; kNever if there is none.
  [[nodiscard]] Nanos next_event() const;
  /// Returns whether no client will send or give up, and no replica may fail, before a request ends. Only an autoscaler
  /// can act until then.
  [[nodiscard]] bool rests() const {
    return senders_.next_send() == sched::kNever && senders_.next_timeout() == sched::kNever &&
           (!life_ || !life_->fails());
  }
  /// Returns whether every request has ended and none will be sent.
  [[nodiscard]] bool done() const { return senders_.done(); }
  /// Returns the next change of the fleet at or before `now`, and informs the router of it. A replica that begins to
  /// serve is new and empty. If a replica dies, its requests have failed.
  [[nodiscard]] std::optional<FleetLife::Event> change(Nanos now);
  /// Returns when next() may have an attempt; kNever if every client waits for an answer or has finished. Attempts that
  /// the router holds back may be sent at any event.
  [[nodiscard]] Nanos next_arrival() const { return held_.empty() ? senders_.next_send() : 0; }
  /// Lets the replicas report if a report was due before `now`. Call before the events of `now`, at every event.
  void look(Nanos now);
  /// Returns the next attempt that reaches the fleet by `now`, in order of sending. It counts as outstanding at its
  /// replica; a call of delivered() must follow. While no replica serves, attempts fail here. The request's spans and
  /// name are valid until the next call.
  [[nodiscard]] std::optional<RoutedAttempt> next(Nanos now);
  /// Reports that the replica accepted the attempt under handle `id`, or refused it (no handle).
  void delivered(const RoutedAttempt& attempt, std::optional<sched::ReqId> id, Nanos now);
  /// Returns when time_out() may have an attempt; kNever if no attempt has a deadline.
  [[nodiscard]] Nanos next_time_out() const { return senders_.next_timeout(); }
  /// Returns the next attempt whose client gives up at or before `now`; it is no longer outstanding.
  [[nodiscard]] std::optional<TimedOut> time_out(Nanos now);
  /// Reports the requests that left a replica to their clients, and clears the list.
  void collect(std::size_t replica, std::vector<sched::FinishedAttempt>& ended);

  /// Reports progress to options.progress (0 if the total is unknown). Returns false if options.stop was requested.
  /// Throws InputError for a run without end.
  [[nodiscard]] bool may_go_on() const;

  /// Adds what a replica measured since `before` (null: since its start), except its times between tokens.
  static void report(const sched::Replica& replica, const sched::Integrals* before, sched::MetricsCollector& out);
  /// Closes the replication in the metrics; only for a workload.
  void end_run() const;
  /// Adds the rows of the requests, and the changes of the fleet until the last request ended.
  void take(sched::RunResult& result);

 private:
  [[nodiscard]] sched::OfferedLoad offered() const;
  [[nodiscard]] bool serves() const;
  struct Held {  // an attempt that waits in the router, with what its request refers to
    Attempt attempt;
    std::vector<std::uint64_t> hashes;
    std::string name;
  };
  [[nodiscard]] bool holds_back(Nanos now);
  void hold(const Attempt& attempt);
  [[nodiscard]] std::optional<RoutedAttempt> send_held(Nanos now);
  [[nodiscard]] RoutedAttempt routed(const Attempt& attempt, Nanos now);
  void refuse(const Attempt& attempt, Nanos now);
  [[nodiscard]] std::size_t route(sched::NewRequest& request, Nanos now);
  [[nodiscard]] std::size_t ask_router(sched::NewRequest& request, Nanos now);
  void find_cached(const sched::NewRequest& request);
  void count(std::size_t replica, Nanos now, std::int64_t requests, std::int64_t tokens);

  const Replication run_;
  Probes probes_;
  std::optional<Clients> clients_;  // the clients of the workload; none: other senders
  Senders& senders_;
  std::unique_ptr<sched::Router> router_;
  const sched::RouterInfo& info_;  // of the router
  Nanos reports_every_ = 0, reported_ = 0;
  std::vector<sched::ReplicaLoad> loads_;
  std::vector<sched::Tok> cached_;  // tokens of the prompt in the cache of each replica
  std::int64_t hold_from_ = 0;      // a replica with more prompt tokens in prefill gets no request
  std::deque<Held> held_;           // in order of sending
  Held sending_;                    // the last one that left held_
  std::optional<FleetLife> life_;   // none: all replicas serve throughout the run
};

}  // namespace plimsoll::load
