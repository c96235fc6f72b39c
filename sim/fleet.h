// SPDX-License-Identifier: Apache-2.0
// One run in simulated time: clients, router and replicas, advanced from event to event.
// Order at equal times: steps done, replicas that come and go, time-outs, arrivals by serial, timers, decisions.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "load/dispatcher.h"
#include "load/scenario.h"
#include "sim/event_queue.h"
#include "sim/sim_replica.h"
#include "sim/simulate.h"

namespace plimsoll::sim {

class Fleet {
 public:
  Fleet(const load::Scenario& scenario, std::uint64_t replication, const RunOptions& options, sched::Measurements& out);

  /// Runs to the end. False if `options.stop` was requested.
  bool run();
  /// Adds what the replicas measured and closes the replication.
  void report(sched::Measurements& out);
  [[nodiscard]] std::deque<SimReplica>& replicas() { return replicas_; }
  [[nodiscard]] load::Clients& clients() { return dispatcher_.clients(); }
  [[nodiscard]] const std::set<std::string>& beyond_measured() const { return cost_->beyond_measured(); }
  [[nodiscard]] const load::Dispatcher& dispatcher() const { return dispatcher_; }

 private:
  [[nodiscard]] Nanos next_event() const;
  void process(Nanos now);
  bool may_go_on();
  bool steps_and_timers(Nanos now);
  bool changes(Nanos now);
  bool time_outs(Nanos now);
  bool arrivals(Nanos now);
  void note_kv(Nanos now);
  void dispatch(const load::Attempt& attempt, Nanos now);
  void collect(std::size_t replica);
  void end_warmup(Nanos now);

  const load::Scenario& scenario_;
  const RunOptions& options_;
  std::shared_ptr<model::ForwardCost> cost_;
  load::Dispatcher dispatcher_;
  std::deque<SimReplica> replicas_;  // never moved; those that have died stay, for what they measured
  std::vector<SimReplica*> slots_;   // the one in each slot of the fleet
  EventQueue events_;                // next event of each replica
  std::vector<std::size_t> due_;     // those with an event now
  std::vector<bool> dirty_;          // must decide
  std::vector<std::size_t> dirty_list_;
  Nanos warmup_ = 0;
  bool warm_ = false, stopped_ = false;
  std::uint64_t events_seen_ = 0;
  std::vector<sched::Integrals> before_;  // at the end of the warm-up
};

}  // namespace plimsoll::sim
