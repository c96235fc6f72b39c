// SPDX-License-Identifier: Apache-2.0
// A simulated run in real time: requests come from a server, and every event happens when its time has come. The time
// of the run is that of the model, so delays do not accumulate. An event that is handled late still counts at its own
// time, and the following ones catch up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "load/event_log.h"
#include "net/http_server.h"
#include "serve/arrivals.h"
#include "serve/server_metrics.h"
#include "sim/sim_run.h"

namespace plimsoll::serve {

/// The model's time: nanoseconds since the start, `speed` times faster than real time.
class ModelClock {
 public:
  using Time = std::chrono::steady_clock::time_point;
  explicit ModelClock(double speed) : start_(std::chrono::steady_clock::now()), speed_(speed) {}
  void restart() { start_ = std::chrono::steady_clock::now(); }
  [[nodiscard]] Nanos now() const { return time_of(std::chrono::steady_clock::now()); }
  [[nodiscard]] Nanos time_of(Time time) const;
  /// Returns the real time at which the model's time is `time`; Time::max() for sched::kNever.
  [[nodiscard]] Time at(Nanos time) const;
  [[nodiscard]] double speed() const { return speed_; }

 private:
  Time start_;
  double speed_;
};

/// The replicas of a served run: the simulator's, in real time, or real engines.
class ServedRun {
 public:
  virtual ~ServedRun() = default;
  [[nodiscard]] virtual load::ReplicaRunner& runner() = 0;
  /// Returns whether the replica in the slot has failed and is not replaced yet.
  [[nodiscard]] virtual bool is_dead(std::size_t /*slot*/) const { return false; }
  /// Returns how many prompt tokens of the request were found in the prefix cache.
  [[nodiscard]] virtual sched::Tok cached(ClientId client) const = 0;
  /// Called about every 50 ms with the run's time. Returns true to end the run.
  std::function<bool(Nanos now)> look;
};

/// The parts that a run uses and notifies. All must outlive it.
struct RunParts {
  ModelClock& clock;
  net::HttpServer& server;
  Arrivals& arrivals;
  CallListener& listener;
  ServerMetrics& metrics;
  Lateness& lateness;
  load::EventLog& events;
};

/// What the steps of any served run mean for its clients and its metrics.
class StepNotes {
 public:
  StepNotes(const load::Scenario& scenario, const RunParts& parts);
  void arrived(ClientId client);
  /// Call when the replica has decided a step.
  void decided(std::size_t slot, const sched::Replica& replica);
  /// Call when the replica has completed a step at `now`. Tells the clients, those of the last requests first.
  void ended(std::size_t slot, const sched::Replica& replica, Nanos now);
  [[nodiscard]] sched::Tok cached(ClientId client) const { return client < cached_.size() ? cached_[client] : 0; }

 private:
  void tell_produced(std::size_t slot, const sched::Replica& replica, std::span<const sched::ReqId> requests,
                     Nanos now);

  RunParts parts_;
  bool whole_batches_;  // all answers of a batch return at its end, so no token leaves earlier
  bool caching_;
  std::vector<sched::Tok> cached_;
};

class RealTimeRun final : public sim::SimRun, public ServedRun {
 public:
  /// The scenario must be `stepwise`: its steps are simulated one by one. Scenario and options must outlive the run.
  RealTimeRun(const load::Scenario& scenario, const sched::RunOptions& options, const RunParts& parts);

  void start() override { parts_.clock.restart(); }
  [[nodiscard]] bool in_flight() const override { return !ends_; }
  [[nodiscard]] Nanos wait(Nanos until) override;
  [[nodiscard]] bool looks_up(Nanos now) override;
  void end_plans() override { ends_ = true; }
  [[nodiscard]] std::optional<sched::ReqId> arrive(std::size_t slot, const sched::NewRequest& request,
                                                   Nanos now) override;
  void cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) override;
  void decide(std::size_t slot, Nanos now) override;
  void replace(std::size_t slot, bool restarts, Nanos now) override;

  // ---- ServedRun --------------------------------------------------------------------------------------------
  [[nodiscard]] load::ReplicaRunner& runner() override { return *this; }
  [[nodiscard]] bool is_dead(std::size_t slot) const override { return lanes_[slot].dead; }
  [[nodiscard]] sched::Tok cached(ClientId client) const override { return notes_.cached(client); }

 protected:
  void advanced(std::size_t slot, Nanos now) override;

 private:
  struct Cancel {
    sched::ReqId id;
    std::uint64_t serial;
  };
  struct Lane {
    Nanos started = 0;  // when the step in flight started
    bool dead = false;
    std::vector<Cancel> cancels;
  };
  struct Ended {
    Nanos start, end;
  };

  void note_lateness();
  void gather(Nanos now);
  void cancel_now(std::size_t slot, const Cancel& cancel, Nanos now);

  RunParts parts_;
  StepNotes notes_;
  std::vector<Lane> lanes_;
  std::vector<Ended> ended_;  // steps whose tokens were sent since the last wait()
  Nanos longest_step_ = 0;    // of those at the last look
  Nanos now_ = 0, look_at_ = 0;
  bool ends_ = false;
};

}  // namespace plimsoll::serve
