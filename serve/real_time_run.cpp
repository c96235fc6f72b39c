// SPDX-License-Identifier: Apache-2.0
#include "serve/real_time_run.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::serve {

namespace {
// All three are real time.
constexpr std::chrono::milliseconds kLookEvery{50};
constexpr std::chrono::milliseconds kGatherGap{2}, kGatherLongest{20};  // Arrivals::gather
constexpr Nanos kGatherModel = 10'000'000;                              // of the model's time: as long as a short step
}  // namespace

Nanos ModelClock::time_of(Time time) const {
  const std::chrono::nanoseconds elapsed = time - start_;
  return static_cast<Nanos>(static_cast<double>(elapsed.count()) * speed_);
}

ModelClock::Time ModelClock::at(Nanos time) const {
  if (time > load::kMaxRun) return Time::max();
  return start_ + std::chrono::nanoseconds(std::llround(std::ceil(static_cast<double>(time) / speed_)));
}

// ---- what steps mean for clients ----------------------------------------------------------------------------

StepNotes::StepNotes(const load::Scenario& scenario, const RunParts& parts)
    : parts_(parts),
      whole_batches_(sched::traits_of(scenario.policy).returns_at_batch_end),
      caching_(scenario.kv.prefix_caching) {}

void StepNotes::arrived(ClientId client) {
  if (client >= cached_.size()) cached_.resize(client + 1);
  cached_[client] = 0;
}

void StepNotes::decided(std::size_t slot, const sched::Replica& replica) {
  const sched::StepRow row = sched::step_row(replica, static_cast<std::int32_t>(slot));
  parts_.metrics.step(slot, row.prefill_tokens + row.decode_rows);
  if (!caching_) return;
  const sched::RequestTable& table = replica.requests();
  for (const sched::KvOp& op : replica.decision().kv) {
    const bool reuses = op.kind == sched::KvOp::Kind::attach_prefix || op.kind == sched::KvOp::Kind::keep;
    if (!reuses || table.generated(op.id) > 0) continue;
    const auto client = parts_.arrivals.client_of(slot, op.id, table[op.id].serial);
    if (!client) continue;
    cached_[*client] = static_cast<sched::Tok>(op.tokens);
  }
}

void StepNotes::ended(std::size_t slot, const sched::Replica& replica, Nanos now) {
  if (whole_batches_) return;
  tell_produced(slot, replica, replica.policy().batch_order(), now);
  // A policy that decides ahead may already have preempted requests that this step contained.
  tell_produced(slot, replica, replica.decision().preempted, now);
}

// Writing takes some microseconds per stream. The youngest requests are last in a batch, so they are written first:
// otherwise their first tokens would be the most delayed.
void StepNotes::tell_produced(std::size_t slot, const sched::Replica& replica, std::span<const sched::ReqId> requests,
                              Nanos now) {
  const sched::RequestTable& table = replica.requests();
  for (std::size_t i = requests.size(); i-- > 0;) {
    const sched::ReqId id = requests[i];
    const sched::Tok generated = table.generated(id);
    if (generated == 0) continue;
    if (const auto client = parts_.arrivals.client_of(slot, id, table[id].serial))
      parts_.listener.produced(*client, generated, now);
  }
}

// ---- the run ------------------------------------------------------------------------------------------------

RealTimeRun::RealTimeRun(const load::Scenario& scenario, const sched::RunOptions& options, const RunParts& parts)
    : SimRun(scenario, options),
      parts_(parts),
      notes_(scenario, parts),
      lanes_(static_cast<std::size_t>(scenario.replicas)) {
  const auto machine_time = [&](std::chrono::nanoseconds time) {
    return std::llround(static_cast<double>(time.count()) * parts.clock.speed());
  };
  const Nanos gap = std::max<Nanos>(1, std::min<Nanos>(machine_time(kGatherGap), kGatherModel));
  parts_.arrivals.gather(gap, std::max<Nanos>(gap, machine_time(kGatherLongest)));
}

void RealTimeRun::note_lateness() {
  longest_step_ = 0;
  for (const Ended& step : ended_) {
    longest_step_ = std::max(longest_step_, step.end - step.start);
    const auto late = std::chrono::duration<double>(std::chrono::steady_clock::now() - parts_.clock.at(step.end));
    parts_.lateness.add(std::max(0.0, late.count()),
                        1e-9 * static_cast<double>(step.end - step.start) / parts_.clock.speed());
  }
  ended_.clear();
}

// Requests that clients send in reaction to the tokens of this instant belong to the step that begins now. Waiting for
// them costs no model time, since the step keeps its start. Other events do not wait.
void RealTimeRun::gather(Nanos now) {
  Arrivals& arrivals = parts_.arrivals;
  arrivals.told(parts_.clock.now(), longest_step_);
  while (!ends_ && arrivals.next_send() > now) {
    const Nanos until = std::min({arrivals.awaited_until(now), next_event(), arrivals.next_send()});
    if (parts_.clock.now() >= until) return;
    parts_.server.run_until(parts_.clock.at(until));
  }
}

// Each event is handled at its own model time, however late it really is: the time returned never passes the next
// event.
Nanos RealTimeRun::wait(Nanos until) {
  if (ends_) return now_;
  const auto look_at = std::chrono::steady_clock::now() + kLookEvery;
  parts_.server.run_until(std::min(parts_.clock.at(until), look_at));
  now_ = std::max(now_, std::min({until, parts_.arrivals.next_send(), parts_.clock.now()}));
  return now_;
}

// Called before every pass, even if the time is the same: requests received until then take part in the pass.
bool RealTimeRun::looks_up(Nanos now) {
  note_lateness();
  gather(now);
  const bool due = parts_.clock.now() >= look_at_;
  if (due) look_at_ = parts_.clock.now() + static_cast<Nanos>(5e7 * parts_.clock.speed());
  return due && look(now);
}

std::optional<sched::ReqId> RealTimeRun::arrive(std::size_t slot, const sched::NewRequest& request, Nanos now) {
  parts_.events.arrival(slot, request, now);
  notes_.arrived(request.client);
  return SimRun::arrive(slot, request, now);
}

// A step in flight completes with the request; the request is cancelled after it.
void RealTimeRun::cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) {
  if (busy(slot))
    lanes_[slot].cancels.push_back({id, serial});
  else
    cancel_now(slot, {id, serial}, now);
}

void RealTimeRun::cancel_now(std::size_t slot, const Cancel& cancel, Nanos now) {
  if (!replica(slot).is_live(cancel.id, cancel.serial)) return;
  parts_.events.cancel(slot, cancel.serial, now);
  SimRun::cancel(slot, cancel.id, cancel.serial, now);
}

void RealTimeRun::decide(std::size_t slot, Nanos now) {
  if (busy(slot)) return;
  parts_.events.decide(slot, now);
  SimRun::decide(slot, now);
  lanes_[slot].started = now;
  if (busy(slot)) notes_.decided(slot, replica(slot));
}

void RealTimeRun::advanced(std::size_t slot, Nanos now) {
  Lane& lane = lanes_[slot];
  parts_.events.step(slot, lane.started, now);
  ended_.push_back({lane.started, now});
  notes_.ended(slot, replica(slot), now);
  for (const Cancel& cancel : lane.cancels) cancel_now(slot, cancel, now);
  lane.cancels.clear();
}

void RealTimeRun::replace(std::size_t slot, bool restarts, Nanos now) {
  lanes_[slot].cancels.clear();
  lanes_[slot].dead = !restarts;
  SimRun::replace(slot, restarts, now);
}

}  // namespace plimsoll::serve
