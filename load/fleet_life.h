// SPDX-License-Identifier: Apache-2.0
// The life of a fleet's replicas: autoscaling, start-up, draining, failures and restarts. The number of slots is the
// number of replicas that may run at once. Slot i is on instance i / slots_per_instance. An instance is paid for while
// any of its slots is in use.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "load/random.h"
#include "sched/autoscaler.h"
#include "sched/run_result.h"

namespace plimsoll::load {

/// Each replica fails independently after an exponentially distributed time in service.
struct FailureConfig {
  Nanos mean_between = 0;  // 0: no failures
  Nanos restart = 0;       // from the failure until the slot serves again
};

struct Scenario;

struct LifeConfig {
  std::int32_t initial = 1;  // replicas at the start, in service from time 0
  std::int32_t slots_per_instance = 1;
  std::optional<sched::AutoscalingConfig> autoscaling;
  FailureConfig failures;
};

/// Returns how long the fleet takes to follow a change of load or a failure. If failures are frequent, the time is long
/// enough to include some.
[[nodiscard]] Nanos settling_time(const LifeConfig& config);

/// States of all slots of a fleet over time. Each slot holds at most one replica. Its events come in order of time.
class FleetLife {
 public:
  /// How the replica in a slot changes, as the router and the runner see it.
  enum class Change : std::uint8_t {
    serves,  // a new replica accepts requests
    drains,  // accepts no more requests; those it has are finished
    dies     // fails with all its requests
  };
  struct Event {
    std::size_t slot = 0;
    Change change = Change::serves;
  };

  /// The fleet of a scenario that has a `life`. Each replication has failures of its own.
  FleetLife(const Scenario& scenario, std::uint64_t replication);

  /// Returns whether the slot has a replica that accepts requests.
  [[nodiscard]] bool serves(std::size_t slot) const { return slots_[slot].state == State::ready; }
  /// Returns whether replicas may fail, which loses what they hold.
  [[nodiscard]] bool fails() const { return config_.failures.mean_between > 0; }
  /// Returns the time of the next change or data point; kNever if there is none.
  [[nodiscard]] Nanos next() const { return next_; }
  /// Returns the next change at or before `now`; nullopt if there is none.
  [[nodiscard]] std::optional<Event> take(Nanos now);
  /// Returns the number of changes and data points so far.
  [[nodiscard]] std::int64_t events() const { return events_; }
  /// Counts a request that reached the fleet, whether or not a replica could serve it.
  void arrived() { ++arrivals_; }
  /// Changes the number of a slot's requests by `delta`. A draining slot is released when it has none left.
  void note(std::size_t slot, Nanos now, std::int64_t delta);
  /// Changes the number of requests that have left the fleet's load but whose KV the replica still keeps for another
  /// pool.
  void keep(std::size_t slot, Nanos now, std::int64_t delta);
  /// Returns the states from the start to `end`; only recorded for the first replication.
  [[nodiscard]] std::vector<sched::FleetRow> rows(Nanos end) const;
  /// Returns the usage from the end of the warm-up to `end`.
  [[nodiscard]] sched::FleetUsage use(Nanos end) const;

 private:
  enum class State : std::uint8_t { off, starting, ready, draining, dead };
  struct Slot {
    State state = State::off;
    Nanos launched = 0;                   // start of its current use
    Nanos due = sched::kNever;            // when a starting or dead replica serves, or a ready one dies
    std::int64_t requests = 0, kept = 0;  // kept: only their KV is still there
    std::uint64_t lives = 0;              // lifetimes drawn so far from its stream
  };
  struct Instance {
    std::int32_t used = 0;
    Nanos launched = 0;
  };

  void find_next();
  void launch(std::size_t slot, Nanos now, Nanos ready);
  void serve(std::size_t slot, Nanos now);
  void release(std::size_t slot, Nanos now);
  void end_drain(std::size_t slot, Nanos now);
  void end_period(Nanos now);
  void adjust(Nanos now);
  bool stop_one(Nanos now);
  [[nodiscard]] std::int32_t count(State state) const;
  [[nodiscard]] double paid(Nanos from, Nanos to) const;
  void integrate(Nanos now);
  void record(Nanos now);

  LifeConfig config_;
  RandomStream random_;
  Nanos warmup_ = 0;
  std::vector<Slot> slots_;
  std::vector<Instance> instances_;
  std::optional<sched::Autoscaler> scaler_;
  std::vector<Event> pending_;
  Nanos next_ = sched::kNever, next_point_ = sched::kNever, last_ = 0;
  std::int64_t arrivals_ = 0, requests_ = 0, events_ = 0;
  double request_s_ = 0;  // integral of the number of requests in the fleet over this period
  bool keep_rows_ = false;
  std::vector<sched::FleetRow> rows_;
  sched::FleetUsage use_;  // use of slots and instances that are already released
};

}  // namespace plimsoll::load
