// SPDX-License-Identifier: Apache-2.0
// A replica in simulated time: the cost model computes the duration of the steps that the policy decides.
//
// A decision starts a plan: the decided step and the identical steps that the policy would take after it
// (Replica::plan_steps). The plan runs in pieces. A piece is one event: the steps up to the next point where their cost
// changes its form, such as a kink of the cost model. A piece of pure decode steps is a leap: its steps are summed in
// closed form (step_series.h), not priced one by one. Any other piece is a single step. A leap is cut when an event
// must see the counters of its steps: an arrival, a cancellation, or a router that compares KV use. Steps that have
// ended by then are completed; the rest continues as a shorter piece or stops at the next step boundary.
//
// The clock is a double, and only stamps are rounded to nanoseconds, so that leaping and stepping do not drift apart.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "load/scenario.h"
#include "model/forward_cost.h"
#include "sched/replica.h"
#include "sim/simulate.h"
#include "sim/step_series.h"

namespace plimsoll::sim {

/// Collects the cost model's inputs from the deployment. The pointers belong to the scenario.
[[nodiscard]] model::CostInputs cost_inputs(const load::Scenario& scenario);

class SimReplica {
 public:
  /// Objects that the replicas of a run share, which one thread drives. Shared, they stay in the CPU's cache with any
  /// number of replicas.
  struct Shared {
    explicit Shared(const load::Scenario& scenario);
    std::shared_ptr<model::ForwardCost> cost;  // the prices of the scenario's steps
    std::shared_ptr<sched::LogHistogram> itl;  // Replica::itl()
    std::shared_ptr<std::int64_t> tokens;      // put out by completed steps
  };

  SimReplica(const load::Scenario& scenario, std::int32_t index, const RunOptions& options, const Shared& shared);

  /// Returns the time of the next event: the end of the piece in flight, or the policy's wake-up; kNever if neither.
  [[nodiscard]] Nanos next_event() const;
  /// Returns whether a step is in flight.
  [[nodiscard]] bool busy() const { return remaining_ > 0; }
  /// Reports that the KV of a request has arrived or is lost, at the next step boundary if a step is in flight.
  void land(const sched::Landing& landing, Nanos now);
  /// Frees the blocks of a request that has ended, at the next step boundary if a step is in flight.
  void release(sched::ReqId id, std::uint64_t serial, Nanos now);
  /// Returns whether no request has arrived yet.
  [[nodiscard]] bool unused() const { return unused_; }
  /// Completes the steps that have ended by `now`. Returns true if the replica must decide.
  bool advance(Nanos now);
  /// Completes the steps that have ended by `now`, then delivers a request. Returns its handle; nullopt if it was
  /// refused.
  std::optional<sched::ReqId> arrive(const sched::NewRequest& request, Nanos now);
  /// Drops the request, at the next step boundary if a step is in flight.
  void cancel(sched::ReqId id, std::uint64_t serial, Nanos now);
  /// Records that the client gave up, while the engine does not know and continues.
  void abandon(sched::ReqId id, std::uint64_t serial);
  /// If no step is in flight, asks the policy and starts the steps that it decides.
  void decide(Nanos now);
  /// Completes the steps that have ended by `now`, without deciding.
  void settle(Nanos now);
  /// Makes the replica fail: steps ended by `now` count, the step in flight is lost, and no further event occurs.
  void die(Nanos now);

  [[nodiscard]] sched::Replica& replica() { return replica_; }
  [[nodiscard]] const sched::Replica& replica() const { return replica_; }
  [[nodiscard]] const std::vector<StepRow>& step_rows() const { return step_rows_; }
  /// Returns why some steps so far lie outside the accelerator's measured kernels (model/forward_cost.h).
  [[nodiscard]] const std::set<std::string>& beyond_measured() const { return cost_->beyond_measured(); }
  /// For scripts: runs the decided step with the given stamps. Returns the duration from the cost model, in seconds.
  double run_scripted_step(Nanos start, Nanos end, double real_start);

 private:
  struct Cancel {
    sched::ReqId id;
    std::uint64_t serial;
  };

  void end_plan(Nanos now);
  void start_piece();
  void start_leap(const sched::Forward& forward);
  void stop_at_next_boundary(Nanos now);
  void bound_piece();
  void find_piece_end();
  void complete(std::int64_t steps, double total);
  [[nodiscard]] bool is_leapable() const;
  [[nodiscard]] model::TimeParts price_forwards();
  [[nodiscard]] model::TimeParts price(const sched::Forward& forward);
  [[nodiscard]] double swap_seconds() const;
  [[nodiscard]] std::int64_t steps_to_reach(Nanos time) const;
  void note_step(std::int64_t steps, double start, Nanos end);
  [[nodiscard]] static Nanos stamp(double seconds);

  sched::Replica replica_;
  std::shared_ptr<model::ForwardCost> cost_;
  std::shared_ptr<std::int64_t> tokens_;
  std::int64_t sampled_ = 0;  // tokens that a step of the piece puts out
  std::int32_t index_ = 0;
  double scripted_s_ = 0;  // seconds of every step, on a script's clock; 0: the cost model's
  bool stepwise_ = false, keep_steps_ = false, gaps_ = true;
  double swap_bytes_per_block_ = 0, host_link_ = 0;
  double clock_ = 0;            // seconds: end of the last completed step, or when idling ended
  std::int64_t remaining_ = 0;  // steps of the plan in flight
  std::int64_t piece_ = 0;      // steps of the piece in flight
  double piece_total_ = 0;      // seconds; for a leap computed only on demand (piece_exact_)
  bool piece_exact_ = true;
  Nanos piece_end_ = sched::kNever;  // a lower bound while the piece is not exact: most leaps are cut before they end
  bool unused_ = true, dead_ = false;
  bool leap_ = false;              // series_ describes the piece; if false, single_ does
  bool stop_after_piece_ = false;  // decide when the piece ends, even if steps of the plan remain
  StepSeries series_;
  model::TimeParts single_;
  Nanos boundary_ = -1;  // stamp of the last step boundary inside a plan
  // To be applied when the step in flight ends.
  std::vector<Cancel> cancels_, releases_;
  std::vector<sched::Landing> landings_;
  std::vector<model::PrefillSpan> spans_;
  std::vector<StepRow> step_rows_;
};

}  // namespace plimsoll::sim
