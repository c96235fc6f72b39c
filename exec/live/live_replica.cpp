// SPDX-License-Identifier: Apache-2.0
#include "exec/live/live_replica.h"

#include <algorithm>
#include <utility>

#include "model/error.h"

namespace plimsoll::exec {

LiveReplica::LiveReplica(const load::Scenario& scenario, std::size_t index, const sched::RunOptions& options,
                         load::EventLog& events)
    : replica_({.policy = scenario.policy,
                .kv = scenario.kv,
                .window = scenario.shape->sliding_window,
                .keep_log = options.keep_log}),
      index_(index),
      events_(events),
      keep_steps_(options.keep_steps) {}

std::optional<ReqId> LiveReplica::arrive(const sched::NewRequest& request, Nanos now) {
  events_.arrival(index_, request, now);
  const std::optional<ReqId> id = replica_.arrive(request, now);
  if (!id) return {};
  ids_[request.serial] = *id;
  changes_.push_back({.opens = true,
                      .request = {.id = *id,
                                  .serial = request.serial,
                                  .input = request.input,
                                  .prefix_hashes = {request.prefix_hashes.begin(), request.prefix_hashes.end()},
                                  .hash_block_tokens = request.hash_block_tokens,
                                  .seeded = request.seeded}});
  return id;
}

void LiveReplica::cancel(ReqId id, std::uint64_t serial, Nanos now) {
  if (!replica_.is_live(id, serial)) return;
  events_.cancel(index_, serial, now);
  replica_.cancel(id, sched::Outcome::timed_out, now);
}

void LiveReplica::abandon(ReqId id, std::uint64_t serial) {
  if (replica_.is_live(id, serial)) replica_.abandon(id);
}

// The worker keeps the blocks of a request until the scheduler frees them.
void LiveReplica::ended(const sched::FinishedAttempt& ended) {
  if (!replica_.is_held(ended.id, ended.serial)) close(ended.serial);
}

void LiveReplica::close(std::uint64_t serial) {
  const auto found = ids_.find(serial);
  if (found == ids_.end()) return;  // refused at the front door
  changes_.push_back(
      {.opens = false,
       .request = {.id = found->second, .serial = serial, .input = 0, .prefix_hashes = {}, .hash_block_tokens = 0}});
  ids_.erase(found);
}

void LiveReplica::land(const sched::Landing& landing, std::optional<LandedKv> kv, Nanos now) {
  if (!replica_.is_live(landing.id, landing.serial)) return;
  events_.land(index_, landing.serial, landing.arrived, now);
  if (kv) changes_.push_back({.opens = false, .request = {}, .kv = {}, .landed = std::move(kv)});
  replica_.land(landing, now);
}

void LiveReplica::release(ReqId id, std::uint64_t serial, Nanos now) {
  if (!replica_.is_held(id, serial)) return;
  events_.release(index_, serial, now);
  replica_.release_held(id);
  close(serial);
}

bool LiveReplica::decide(Nanos now) {
  events_.decide(index_, now);
  const bool step = replica_.decide(now);
  PLIMSOLL_CHECK(step || replica_.wake_at() > now, "a policy that waits states a later wake-up time");
  if (!step && !replica_.decision().kv.empty()) note_moves();
  if (step && idle_) last_end_ = now;
  idle_ = !step;
  return step;
}

// A decision may consist of preemptions only; the worker receives them with the next order. Requests that the decision
// refused have already returned their blocks.
void LiveReplica::note_moves() {
  for (const sched::FinishedAttempt& refused : replica_.ended()) ended(refused);
  changes_.push_back({.opens = false, .request = {}, .kv = replica_.decision().kv});
}

// Lists the decode group in the policy's batch order, which is also the order in the decision log.
OrderForward LiveReplica::expand(const sched::Forward& forward) const {
  OrderForward out{.prefill = forward.prefill, .decode = {}, .dead = forward.dead, .padded = forward.padded};
  if (forward.decodes == sched::Decodes::listed) out.decode = forward.listed;
  if (forward.decodes != sched::Decodes::group) return out;
  for (const ReqId id : replica_.policy().batch_order())
    if (replica_.requests().decoding(id)) out.decode.push_back(id);
  PLIMSOLL_CHECK(static_cast<std::int64_t>(out.decode.size()) == replica_.requests().group_size(),
                 "every member of the decode group is in the batch");
  return out;
}

StepOrder LiveReplica::make_order() {
  StepOrder order;
  order.changes.swap(changes_);
  order.kv = replica_.decision().kv;
  for (const sched::Forward& forward : replica_.decision().forwards()) order.forwards.push_back(expand(forward));
  order.steps = replica_.plan_steps();
  order.wake_at = replica_.wake_at();
  order.inflight = replica_.traits().max_inflight_steps;
  return order;
}

// Steps without a gap begin where the last one ended. The time until the device gets work counts as host time.
void LiveReplica::complete(const StepSpan& span) {
  events_.step(index_, span.start, span.end);
  sched::StepsTime time;
  time.start = 1e-9 * static_cast<double>(last_end_);
  time.first = time.total = 1e-9 * static_cast<double>(span.end - last_end_);
  time.parts.host = 1e-9 * static_cast<double>(std::max<Nanos>(0, span.start - last_end_));
  time.parts.other = time.total - time.parts.host;
  time.end = 1e-9 * static_cast<double>(span.end);
  time.end_stamp = span.end;
  if (keep_steps_) note_step(last_end_, span.end);
  last_end_ = span.end;
  replica_.complete(time);
}

void LiveReplica::complete_scripted(Nanos start, Nanos end, double real_start, double real_total) {
  sched::StepsTime time;
  time.start = real_start;
  time.first = time.total = real_total;
  time.parts.other = real_total;
  time.end = real_start + real_total;
  time.end_stamp = end;
  if (keep_steps_) note_step(start, end);
  replica_.complete(time);
}

void LiveReplica::note_step(Nanos start, Nanos end) {
  sched::StepRow row = sched::step_row(replica_, static_cast<std::int32_t>(index_));
  row.start = start;
  row.end = end;
  step_rows_.push_back(row);
}

}  // namespace plimsoll::exec
