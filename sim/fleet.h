// SPDX-License-Identifier: Apache-2.0
// One run in simulated time: clients, router and replicas, advanced from event to event.
// Order at equal times: steps done, time-outs, arrivals by serial, timers, decisions.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "sched/router.h"
#include "sim/clients.h"
#include "sim/scenario.h"
#include "sim/sim_replica.h"
#include "sim/simulate.h"

namespace plimsoll::sim {

class Fleet {
 public:
  Fleet(const Scenario& scenario, std::uint64_t replication, const RunOptions& options, sched::Measurements& out);

  /// Runs to the end. False if `options.stop` was requested.
  bool run();
  /// Adds what the replicas measured and closes the replication.
  void report(sched::Measurements& out);
  [[nodiscard]] std::deque<SimReplica>& replicas() { return replicas_; }
  [[nodiscard]] Clients& clients() { return clients_; }

 private:
  [[nodiscard]] Nanos next_event() const;
  void process(Nanos now);
  bool may_go_on();
  bool steps_and_timers(Nanos now);
  bool time_outs(Nanos now);
  bool arrivals(Nanos now);
  void note_kv(Nanos now);
  void dispatch(const Attempt& attempt, Nanos now);
  void collect(std::size_t replica, Nanos now);
  void end_warmup(Nanos now);
  void watch_queue();

  const Scenario& scenario_;
  const RunOptions& options_;
  Clients clients_;
  std::unique_ptr<sched::Router> router_;
  std::deque<SimReplica> replicas_;    // never moved
  std::vector<sched::ReplicaLoad> loads_;
  std::vector<Nanos> events_;          // next event of each replica
  std::vector<bool> dirty_;            // must decide
  std::vector<std::size_t> dirty_list_;
  Nanos warmup_ = 0;
  bool warm_ = false, stopped_ = false;
  std::uint64_t events_seen_ = 0;
  std::vector<sched::Integrals> before_;   // at the end of the warm-up
  // The queue at the moment the last open-loop request was sent, and half way there: a backlog that grows says that
  // the point is beyond capacity.
  std::int64_t backlog_ = 0, backlog_half_ = 0;
  bool backlog_taken_ = false;
};

}  // namespace plimsoll::sim
