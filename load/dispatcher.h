// SPDX-License-Identifier: Apache-2.0
// Between the clients and the replicas of a run: which replica gets a request, what is outstanding where, and what the
// run gives in the end. The same in simulated and in real time; the caller brings the clock and the replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "load/clients.h"
#include "load/fleet_life.h"
#include "load/scenario.h"
#include "sched/measurements.h"
#include "sched/replica.h"
#include "sched/router.h"
#include "sched/run_result.h"

namespace plimsoll::load {

class Dispatcher {
 public:
  Dispatcher(const Scenario& scenario, std::uint64_t replication, const sched::RunOptions& options,
             sched::Measurements& out, const FrontEnd& front_end = {});

  [[nodiscard]] Clients& clients() { return clients_; }
  [[nodiscard]] const Clients& clients() const { return clients_; }

  /// Whether the router looks at the KV use of the replicas: then note_kv() brings it up to date before route().
  [[nodiscard]] bool routes_by_kv() const {
    return loads_.size() > 1 && scenario_.router == sched::RouterKind::least_kv;
  }
  void note_kv(std::size_t replica, sched::Blk in_use) { loads_[replica].kv_blocks_in_use = in_use; }
  /// Fleets whose replicas come and go: the next change by `now`, already known to the router. A replica that serves is
  /// new and empty; of one that dies all requests have failed.
  [[nodiscard]] std::optional<FleetLife::Event> change(Nanos now);
  [[nodiscard]] Nanos next_change() const { return life_ ? life_->next() : sched::kNever; }
  /// How the fleet changed until the last request ended; empty where all replicas are there all the time.
  [[nodiscard]] std::vector<sched::FleetRow> fleet_rows() const {
    return life_ ? life_->rows(clients_.last_end()) : std::vector<sched::FleetRow>{};
  }
  /// Whether any replica serves; otherwise refuse() the attempt instead of routing it.
  [[nodiscard]] bool can_route() const;
  void refuse(const Attempt& attempt, Nanos now);

  /// The replica that gets this attempt, which counts as outstanding there from now on.
  [[nodiscard]] std::size_t route(const Attempt& attempt, Nanos now);
  /// The next attempt whose client gives up at or before `now`; it is no longer outstanding.
  [[nodiscard]] std::optional<TimedOut> time_out(Nanos now);
  /// Hands the requests that left a replica to their clients, and clears the list.
  void collect(std::size_t replica, std::vector<sched::Ended>& ended);

  /// How far the run is (0 where nobody knows), told to options.progress, and whether it may go on. Throws InputError
  /// for a run without end.
  [[nodiscard]] bool may_go_on() const;

  /// Adds what a replica measured since `before` (null: since its start).
  static void report(sched::Replica& replica, const sched::Integrals* before, sched::Measurements& out);
  /// Closes the replication.
  void end_run(sched::Measurements& out) const;

 private:
  [[nodiscard]] sched::OfferedLoad offered() const;
  void count(std::size_t replica, Nanos now, std::int64_t requests, std::int64_t tokens);

  const Scenario& scenario_;
  const sched::RunOptions& options_;
  Clients clients_;
  std::unique_ptr<sched::Router> router_;
  std::vector<sched::ReplicaLoad> loads_;
  std::optional<FleetLife> life_;  // none: all replicas serve all the time
};

}  // namespace plimsoll::load
