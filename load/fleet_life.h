// SPDX-License-Identifier: Apache-2.0
// The life of a fleet's replicas: autoscaling, start-up, drain, failures and restarts. There are as many slots as
// replicas may run at once. Slot i is on instance i / slots_per_instance, and an instance is paid for while any of its
// slots is in use.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "load/random.h"
#include "sched/autoscaler.h"
#include "sched/run_result.h"

namespace plimsoll::load {

/// Failures: each replica dies independently after an exponential time in service.
struct FailureConfig {
  Nanos mean_between = 0;  // 0: never
  Nanos restart = 0;       // until the replica serves again
};

struct LifeConfig {
  std::int32_t initial = 1;  // replicas at the start, in service from the first moment
  std::int32_t slots_per_instance = 1;
  std::optional<sched::AutoscalingConfig> autoscaling;
  FailureConfig failures;
};

/// How long the fleet takes to follow a change of the load or a failure; frequent failures: until it has seen some.
[[nodiscard]] Nanos settling_time(const LifeConfig& config);

/// What a run used, within its measured window.
struct FleetUse {
  double replica_s = 0, instance_s = 0;
  std::int64_t starts = 0, failures = 0;
};

/// States of all slots of a fleet over time. Each slot holds at most one replica. Its events come in order of time.
class FleetLife {
 public:
  enum class Change : std::uint8_t {
    serves,  // a new replica takes requests
    drains,  // takes no more; what it has is finished
    dies     // with everything in it
  };
  struct Event {
    std::size_t slot = 0;
    Change change = Change::serves;
  };

  FleetLife(const LifeConfig& config, std::int32_t slots, std::uint64_t seed, std::uint64_t replication, Nanos warmup);

  [[nodiscard]] bool serves(std::size_t slot) const { return slots_[slot].state == State::ready; }
  /// The time of the next change or data point; kNever if there is none.
  [[nodiscard]] Nanos next() const { return next_; }
  /// The next change at or before `now`.
  [[nodiscard]] std::optional<Event> take(Nanos now);
  /// Changes and data points so far.
  [[nodiscard]] std::int64_t events() const { return events_; }
  /// Counts a request that arrived at the fleet, whether or not a replica could serve it.
  void arrived() { ++arrivals_; }
  /// A slot's requests change by `delta`. A slot that drains is released when it has none.
  void note(std::size_t slot, Nanos now, std::int64_t delta);
  /// The states from the start to `end`, of the first replication alone.
  [[nodiscard]] std::vector<sched::FleetRow> rows(Nanos end) const;
  /// What was used from the warm-up to `end`.
  [[nodiscard]] FleetUse use(Nanos end) const;

 private:
  enum class State : std::uint8_t { off, starting, ready, draining, dead };
  struct Slot {
    State state = State::off;
    Nanos launched = 0;         // in use since
    Nanos due = sched::kNever;  // when a starting or dead one serves, or a ready one dies
    std::int64_t requests = 0;
    std::uint64_t lives = 0;  // draws of its stream
  };
  struct Instance {
    std::int32_t used = 0;
    Nanos launched = 0;
  };

  void find_next();
  void launch(std::size_t slot, Nanos now, Nanos ready);
  void serve(std::size_t slot, Nanos now);
  void release(std::size_t slot, Nanos now);
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
  double request_s_ = 0;  // integral of the requests in the fleet, in this period
  bool keep_rows_ = false;
  std::vector<sched::FleetRow> rows_;
  FleetUse use_;  // of slots and instances that were released
};

}  // namespace plimsoll::load
