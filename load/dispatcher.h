// SPDX-License-Identifier: Apache-2.0
// Between the clients and the replicas of a run: which replica gets a request, what is outstanding where, and what the
// run gives in the end. The caller, the loop of the run (run_loop.h), brings the time and the replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "load/clients.h"
#include "load/fleet_life.h"
#include "load/scenario.h"
#include "sched/metrics_collector.h"
#include "sched/replica.h"
#include "sched/router.h"
#include "sched/run_result.h"

namespace plimsoll::load {

/// An attempt, and the replica that gets it.
struct RoutedAttempt : Attempt {
  std::size_t replica = 0;
};

/// Updates kv_blocks_in_use of all replicas. Called before each choice of a router that compares KV use.
using UpdateKv = std::function<void(Nanos now, std::vector<sched::ReplicaLoad>& loads)>;

class Dispatcher {
 public:
  /// The requests are those of the scenario's workload, or of `senders` if it is not null; it outlives the dispatcher.
  Dispatcher(const Replication& replication, const FrontEnd& front_end, UpdateKv update_kv, Senders* senders = nullptr);

  /// The next time at which a client sends or gives up, or a replica comes or goes; kNever if there is none.
  [[nodiscard]] Nanos next_event() const;
  /// Every request has ended, and none will be sent.
  [[nodiscard]] bool done() const { return senders_.done(); }
  /// The next change of the fleet by `now`. The router knows of it already. A replica that begins to serve is new and
  /// empty; if a replica dies, its requests have failed.
  [[nodiscard]] std::optional<FleetLife::Event> change(Nanos now);
  /// When next() has an attempt; kNever when every client waits for an answer, or has finished.
  [[nodiscard]] Nanos next_arrival() const { return senders_.next_send(); }
  /// The next attempt that reaches the fleet by `now`, in order of sending. It counts as outstanding at its replica;
  /// delivered() must follow. While no replica serves, attempts fail here. The request's spans and name are valid until
  /// the next call.
  [[nodiscard]] std::optional<RoutedAttempt> next(Nanos now);
  /// The replica accepted the attempt under handle `id`; no handle: it refused it.
  void delivered(const RoutedAttempt& attempt, std::optional<sched::ReqId> id, Nanos now);
  /// When time_out() may have an attempt; kNever when none has a deadline.
  [[nodiscard]] Nanos next_time_out() const { return senders_.next_timeout(); }
  /// The next attempt whose client gives up at or before `now`; it is no longer outstanding.
  [[nodiscard]] std::optional<TimedOut> time_out(Nanos now);
  /// Hands the requests that left a replica to their clients, and clears the list.
  void collect(std::size_t replica, std::vector<sched::FinishedAttempt>& ended);

  /// Reports progress to options.progress (0 if the total is unknown). False if options.stop was requested. Throws
  /// InputError for a run without end.
  [[nodiscard]] bool may_go_on() const;

  /// Adds what a replica measured since `before` (null: since its start), except its times between tokens.
  static void report(const sched::Replica& replica, const sched::Integrals* before, sched::MetricsCollector& out);
  /// Closes the replication of a workload.
  void end_run() const;
  /// Adds the rows of requests, and the changes of the fleet until the last request ended.
  void take(sched::RunResult& result);

 private:
  [[nodiscard]] sched::OfferedLoad offered() const;
  [[nodiscard]] bool serves() const;
  [[nodiscard]] std::size_t route(const sched::NewRequest& request, Nanos now);
  void count(std::size_t replica, Nanos now, std::int64_t requests, std::int64_t tokens);

  const Replication run_;
  UpdateKv update_kv_;
  std::optional<Clients> clients_;  // of the workload; none: the senders are others
  Senders& senders_;
  std::unique_ptr<sched::Router> router_;
  std::vector<sched::ReplicaLoad> loads_;
  std::optional<FleetLife> life_;  // none: all replicas serve all the time
};

}  // namespace plimsoll::load
