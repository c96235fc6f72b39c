// SPDX-License-Identifier: Apache-2.0
// A run in simulated time: the clock jumps from event to event, and the cost model prices the steps. The loop that
// drives it, and the order at equal times, are in load/run_loop.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "load/run_loop.h"
#include "load/scenario.h"
#include "sim/event_queue.h"
#include "sim/sim_replica.h"

namespace plimsoll::sim {

class SimRun : public load::ReplicaRunner {
 public:
  /// `scenario` and `options` must outlive the run.
  SimRun(const load::Scenario& scenario, const RunOptions& options);

  void start() override {}
  [[nodiscard]] Nanos next_event() const override { return events_.next(); }
  [[nodiscard]] bool in_flight() const override { return false; }
  [[nodiscard]] Nanos wait(Nanos until) override { return now_ = std::max(now_, until); }
  [[nodiscard]] bool looks_up(Nanos now) override;
  bool complete(Nanos now, load::RunLoop& loop) override;
  void end_plans() override {}

  [[nodiscard]] sched::Replica& replica(std::size_t slot) override { return slots_[slot]->replica(); }
  [[nodiscard]] bool busy(std::size_t slot) const override { return slots_[slot]->busy(); }
  [[nodiscard]] std::optional<sched::ReqId> arrive(std::size_t slot, const sched::NewRequest& request,
                                                   Nanos now) override;
  void cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) override;
  void abandon(std::size_t slot, sched::ReqId id, std::uint64_t serial) override { slots_[slot]->abandon(id, serial); }
  void decide(std::size_t slot, Nanos now) override;
  void replace(std::size_t slot, bool restarts, Nanos now) override;

  [[nodiscard]] const sched::Replica& scheduler(std::size_t slot) const override { return slots_[slot]->replica(); }
  [[nodiscard]] std::vector<sched::Load>& loads(std::size_t slot) override { return slots_[slot]->replica().loads(); }
  void land(std::size_t slot, const sched::Landing& landing, Nanos now) override;
  void release(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) override;
  [[nodiscard]] Nanos step_end(std::size_t slot) const override { return slots_[slot]->next_event(); }

  [[nodiscard]] load::FrontEnd front_end() override;
  void settle(Nanos now) override;
  [[nodiscard]] std::span<sched::Replica* const> replicas() const override { return all_; }
  void take(RunResult& result, bool logs) override;

 protected:
  /// Called when a busy replica reaches an event of its own at `now`: without leaps, the end of its step. The requests
  /// that ended with it are not collected yet.
  virtual void advanced(std::size_t /*slot*/, Nanos /*now*/) {}

 private:
  void put_new(std::size_t slot);
  void update(std::size_t slot);

  const load::Scenario& scenario_;
  const RunOptions& options_;
  const SimReplica::Shared shared_;
  std::optional<SimReplica::Shared> prefill_shared_;  // of the prefill pool, if there is one
  std::deque<SimReplica> replicas_;                   // never moved; failed ones are kept for their measurements
  std::vector<sched::Replica*> all_;                  // the schedulers of replicas_
  std::vector<SimReplica*> slots_;                    // the replica in each slot
  EventQueue events_;                                 // next event of each slot
  std::vector<std::size_t> due_;                      // slots with an event now
  Nanos now_ = 0;
  std::uint64_t looks_ = 0;
};

}  // namespace plimsoll::sim
