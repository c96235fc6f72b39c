// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_replica.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"
#include "model/memory_plan.h"

namespace plimsoll::sim {

namespace {
constexpr double kTooLong = 2e-9 * static_cast<double>(load::kMaxRun);
}  // namespace

model::CostInputs cost_inputs(const load::Scenario& s) {
  return {.shape = s.shape.get(),
          .accelerator = s.accelerator.get(),
          .interconnect = s.interconnect.get(),
          .engine = s.engine.get(),
          .weight_dtype = s.weight_dtype,
          .kv_dtype = s.kv_dtype,
          .tp = s.tp,
          .pp = s.pp,
          .ep = s.ep,
          .front_end = s.front_end};
}

SimReplica::Shared::Shared(const load::Scenario& scenario)
    : cost(std::make_shared<model::ForwardCost>(cost_inputs(scenario))),
      itl(std::make_shared<sched::LogHistogram>()),
      tokens(std::make_shared<std::int64_t>(0)) {}

SimReplica::SimReplica(const load::Scenario& scenario, std::int32_t index, const RunOptions& options,
                       const Shared& shared)
    : replica_({.policy = scenario.policy,
                .kv = scenario.kv,
                .window = scenario.shape->sliding_window,
                .keep_log = options.keep_log,
                .itl = shared.itl}),
      cost_(shared.cost),
      tokens_(shared.tokens),
      index_(index),
      scripted_s_(load::script_of(scenario.workload) != nullptr
                      ? 1e-9 * static_cast<double>(load::script_of(scenario.workload)->step)
                      : 0),
      stepwise_(scenario.stepwise || scripted_s_ > 0),
      keep_steps_(options.keep_steps),
      gaps_(!replica_.traits().returns_at_batch_end) {
  swap_bytes_per_block_ =
      scenario.kv.block_tokens *
      model::kv_bytes_per_token_per_rank(*scenario.shape, scenario.kv_dtype, scenario.tp, scenario.pp).value;
  host_link_ = scenario.accelerator->host_link.value;
}

// Times beyond the longest run (scenario.h) are all too late and need not be distinguished.
Nanos SimReplica::stamp(double seconds) { return seconds < kTooLong ? std::llround(seconds * 1e9) : 2 * load::kMaxRun; }

Nanos SimReplica::next_event() const {
  if (dead_) return sched::kNever;
  if (remaining_ > 0) return piece_end_;
  return replica_.wake_at();
}

// ---- what happens while a plan is in flight -----------------------------------------------------------------

// An event is due. At first only a lower bound of the piece's end is known. The exact end is computed when that bound
// is reached, because an arrival may cut the piece earlier.
bool SimReplica::advance(Nanos now) {
  if (remaining_ == 0) return replica_.wake_at() <= now;
  if (piece_end_ > now) return false;
  // So far the end was only a lower bound: compute it now that it matters.
  if (!piece_exact_) {
    find_piece_end();
    if (piece_end_ > now) return false;
  }
  const bool stop = stop_after_piece_ || remaining_ == piece_;
  complete(piece_, piece_total_);
  if (!stop) {
    boundary_ = stamp(clock_);
    start_piece();
    return false;
  }
  end_plan(now);
  return true;
}

// Requests whose clients gave up during a step leave at its end, because a device cannot remove a row from a running
// step.
void SimReplica::end_plan(Nanos now) {
  remaining_ = 0;
  for (const Cancel& c : cancels_)
    if (replica_.is_live(c.id, c.serial)) replica_.cancel(c.id, sched::Outcome::timed_out, now);
  cancels_.clear();
  for (const Cancel& held : releases_)
    if (replica_.is_held(held.id, held.serial)) replica_.release_held(held.id);
  releases_.clear();
  for (const sched::Landing& landing : landings_)
    if (replica_.is_live(landing.id, landing.serial)) replica_.land(landing, now);
  landings_.clear();
}

// Completes the steps of a leap that have ended by now, so that an observer sees what it would see if every step were
// an event.
void SimReplica::settle(Nanos now) {
  if (remaining_ == 0 || !leap_ || piece_ <= 1) return;
  // Whether a step has ended is decided by rounded stamps, as when every step is an event of its own.
  double elapsed = 0;
  const double span = (static_cast<double>(now) + 0.5) * 1e-9 - clock_;
  std::int64_t steps = series_.steps_within(span, piece_, elapsed);
  // The last step of a leap is left to the leap's own event, which may be due at the same time.
  while (steps > 0 && (steps == piece_ || stamp(clock_ + elapsed) > now))
    elapsed -= series_.at(static_cast<double>(--steps));
  if (steps == 0) return;
  const double rest = piece_total_ - elapsed;
  complete(steps, elapsed);
  // The rest of a leap with a known end keeps that end, so that cutting it does not add rounding errors.
  if (piece_exact_)
    piece_total_ = rest;
  else
    bound_piece();
  boundary_ = stamp(clock_);
}

// Steps that had ended count; the one in flight is lost with its tokens.
void SimReplica::die(Nanos now) {
  settle(now);
  remaining_ = 0;
  cancels_.clear();
  releases_.clear();
  landings_.clear();
  dead_ = true;
}

// Completes the first `steps` steps of the piece, which take `total` seconds, and shortens the plan by them.
void SimReplica::complete(std::int64_t steps, double total) {
  sched::StepsTime time;
  time.start = clock_;
  if (leap_) {
    series_.measure(steps, time);
    time.total = total;
    if (gaps_ && steps > 1) series_.add_gaps(steps, replica_.requests().group_size(), total, replica_.itl());
    series_.advance(steps);
  } else {
    time.first = time.total = total;
    time.parts = single_;
  }
  clock_ += total;
  time.end = clock_;
  time.end_stamp = stamp(clock_);
  // Called before the replica completes the steps, because the row describes the step as it was decided.
  if (keep_steps_) note_step(steps, time.start, time.end_stamp);
  remaining_ -= steps;
  piece_ -= steps;
  *tokens_ += steps * sampled_;
  replica_.complete(time);
}

std::optional<sched::ReqId> SimReplica::arrive(const sched::NewRequest& request, Nanos now) {
  settle(now);
  unused_ = false;
  const auto id = replica_.arrive(request, now);
  // A refusal does not change the policy's state, but the decision log writes it on the next step's line.
  const bool breaks = id ? replica_.decision().arrival_breaks : replica_.log().enabled();
  if (remaining_ > 0 && breaks) stop_at_next_boundary(now);
  return id;
}

void SimReplica::cancel(sched::ReqId id, std::uint64_t serial, Nanos now) {
  settle(now);
  if (!replica_.is_live(id, serial)) return;
  if (remaining_ == 0) {
    replica_.cancel(id, sched::Outcome::timed_out, now);
    return;
  }
  cancels_.push_back({id, serial});
  stop_at_next_boundary(now);
}

void SimReplica::abandon(sched::ReqId id, std::uint64_t serial) {
  if (replica_.is_live(id, serial)) replica_.abandon(id);
}

void SimReplica::land(const sched::Landing& landing, Nanos now) {
  settle(now);
  if (remaining_ == 0) {
    replica_.land(landing, now);
    return;
  }
  landings_.push_back(landing);
  stop_at_next_boundary(now);
}

void SimReplica::release(sched::ReqId id, std::uint64_t serial, Nanos now) {
  settle(now);
  if (remaining_ > 0) {
    releases_.push_back({id, serial});
    stop_at_next_boundary(now);
  } else if (replica_.is_held(id, serial)) {
    replica_.release_held(id);
  }
}

// The plan ends with the step in flight. If `now` is a boundary between two of its steps, the plan ends at once: by the
// stamps, the next step has not begun.
void SimReplica::stop_at_next_boundary(Nanos now) {
  if (boundary_ == now) {
    end_plan(now);
    return;
  }
  // Only the step in flight remains of the piece.
  if (piece_ > 1) {
    piece_ = 1;
    bound_piece();
  }
  stop_after_piece_ = true;
}

// ---- starting steps -----------------------------------------------------------------------------------------

void SimReplica::decide(Nanos now) {
  if (remaining_ > 0 || dead_) return;
  const bool step = replica_.decide(now);
  PLIMSOLL_CHECK(step || replica_.wake_at() > now, "a policy that waits states a later wake-up time");
  if (!step) return;
  boundary_ = -1;
  if (stamp(clock_) < now) clock_ = 1e-9 * static_cast<double>(now);  // the replica was idle
  remaining_ = stepwise_ ? 1 : replica_.plan_steps();
  leap_ = scripted_s_ == 0 && is_leapable();
  start_piece();
}

// Only decodes of the whole group grow evenly, by one token per row and step. A step that moves blocks or computes
// prompts is never part of a leap.
bool SimReplica::is_leapable() const {
  const auto forwards = replica_.decision().forwards();
  return forwards.size() == 1 && forwards[0].decodes == sched::Decodes::group && forwards[0].prefill.empty() &&
         replica_.decision().kv.empty();
}

void SimReplica::start_piece() {
  stop_after_piece_ = false;
  if (leap_) {
    start_leap(replica_.decision().forwards()[0]);
  } else {
    if (scripted_s_ > 0)
      single_ = model::TimeParts{.other = scripted_s_};
    else
      single_ = price_forwards();
    piece_ = 1;
    piece_total_ = single_.total();
    piece_exact_ = true;
    piece_end_ = stamp(clock_ + piece_total_);
    stop_after_piece_ = true;
  }
}

// Sets a lower bound of the piece's end: no step is shorter than the first. Exact for a piece of one step.
void SimReplica::bound_piece() {
  piece_exact_ = piece_ == 1;
  piece_total_ = series_.first() * static_cast<double>(piece_);
  piece_end_ = stamp(clock_ + piece_total_);
}

void SimReplica::find_piece_end() {
  piece_exact_ = true;
  piece_total_ = series_.sum(piece_);
  piece_end_ = stamp(clock_ + piece_total_);
}

void SimReplica::start_leap(const sched::Forward& forward) {
  const sched::Replica::DecodeLoad load = replica_.decode_load(forward);
  sampled_ = load.rows;
  const model::DecodeCurve& curve = cost_->decode_curve(load.rows);
  cost_->note_decode(load.rows, load.context);
  const auto growth = static_cast<double>(load.rows);
  const bool padded = forward.padded > 0;
  const auto windowed_growth = padded ? growth : static_cast<double>(replica_.requests().window_growing());
  series_ = StepSeries(curve, {load.context, load.context_windowed}, {growth, windowed_growth});
  if (series_.first() <= 0)
    remaining_ = 1;  // steps take no time: the policy decides each, so that events at this instant come between them
  // A piece ends where the cost stops being smooth: at the end of a cell, where a row fills the sliding window, and at
  // a knot of the measured curve.
  piece_ = std::min(remaining_, series_.cell());
  if (!padded) piece_ = std::min(piece_, std::max<std::int64_t>(replica_.requests().steps_to_window_kink(), 1));
  if (piece_ > 1) {
    const double kink = curve.steps_to_kink(load.context, load.context_windowed, growth, windowed_growth);
    if (kink < static_cast<double>(piece_)) piece_ = std::max<std::int64_t>(static_cast<std::int64_t>(kink), 1);
  }
  bound_piece();
  const Nanos wake = replica_.wake_at();
  if (wake == sched::kNever) return;
  find_piece_end();
  if (wake < piece_end_) {  // the plan ends at the first step boundary at or after the wake-up
    piece_ = steps_to_reach(wake);
    find_piece_end();
    stop_after_piece_ = true;
  }
}

// Stamps are rounded. The two loops move to the first boundary whose stamp is at or after the time, as stepping would
// find it.
std::int64_t SimReplica::steps_to_reach(Nanos time) const {
  double elapsed = 0;
  const double span = 1e-9 * static_cast<double>(time) - clock_;
  std::int64_t steps = series_.steps_within(span, piece_, elapsed);
  while (steps > 0 && stamp(clock_ + elapsed) >= time) elapsed -= series_.at(static_cast<double>(--steps));
  while (steps < piece_ && (steps == 0 || stamp(clock_ + elapsed) < time))
    elapsed += series_.at(static_cast<double>(steps++));
  return steps;
}

model::TimeParts SimReplica::price_forwards() {
  model::TimeParts parts;
  sampled_ = 0;
  for (const sched::Forward& forward : replica_.decision().forwards()) parts += price(forward);
  parts.other += swap_seconds();
  return parts;
}

model::TimeParts SimReplica::price(const sched::Forward& forward) {
  sched::Replica::DecodeLoad load = replica_.decode_load(forward);
  spans_.clear();
  std::int64_t sampled = load.rows;
  for (const sched::Segment& segment : forward.prefill) {
    // The last token of a prompt whose KV came from a prefill replica is computed like any token of a decode.
    if (replica_.role() == sched::Role::decode && segment.new_tokens == 1 && segment.emits) {
      const sched::Tok window = replica_.requests().window();
      ++load.rows;
      load.context += segment.context + 1;
      load.context_windowed += window > 0 ? std::min(segment.context + 1, window) : segment.context + 1;
      ++sampled;
      continue;
    }
    // Static batches compute every row at the width of the widest: padding costs as much as tokens.
    spans_.push_back({std::max(segment.new_tokens, forward.padded), segment.context});
    if (segment.emits) ++sampled;
  }
  sampled_ += sampled;
  return cost_->forward({.prefill = spans_,
                         .decode_rows = load.rows,
                         .decode_context = load.context,
                         .decode_context_windowed = load.context_windowed,
                         .sampled = sampled});
}

// Swapped blocks cross the host link before the step; each rank copies its share in parallel.
double SimReplica::swap_seconds() const {
  if (host_link_ <= 0) return 0;
  sched::Blk blocks = 0;
  for (const sched::KvOp& op : replica_.decision().kv) {
    if (op.kind == sched::KvOp::Kind::swap_out) blocks += replica_.kv().swapped(op.id);
    if (op.kind == sched::KvOp::Kind::swap_in) blocks += replica_.kv().held(op.id);
  }
  return static_cast<double>(blocks) * swap_bytes_per_block_ / host_link_;
}

double SimReplica::run_scripted_step(Nanos start, Nanos end, double real_start) {
  const model::TimeParts parts = price_forwards();
  sched::StepsTime time;
  time.start = real_start;
  time.first = time.total = parts.total();
  time.parts = parts;
  time.end = real_start + time.total;
  time.end_stamp = end;
  if (keep_steps_) note_step(1, 1e-9 * static_cast<double>(start), end);
  replica_.complete(time);
  return time.total;
}

void SimReplica::note_step(std::int64_t steps, double start, Nanos end) {
  StepRow row = sched::step_row(replica_, index_);
  row.start = stamp(start);
  row.end = end;
  row.steps = steps;
  step_rows_.push_back(row);
}

}  // namespace plimsoll::sim
