// SPDX-License-Identifier: Apache-2.0
#include "exec/live/live_run.h"

#include <algorithm>
#include <utility>

#include "model/error.h"

namespace plimsoll::exec {

namespace {
constexpr Nanos kLookEvery = 50'000'000;  // ns; short enough for a progress bar and for Ctrl-C
}  // namespace

LiveRun::LiveRun(const load::Scenario& scenario, const sched::RunOptions& options, StepExecutor& executor)
    : executor_(executor), events_(options.keep_log) {
  const auto decodes = static_cast<std::size_t>(scenario.replicas);
  for (std::size_t i = 0; i < scenario.slots(); ++i)
    replicas_.push_back(
        &lanes_.emplace_back(i < decodes ? scenario : *scenario.pools->prefill, i, options, events_).live.replica());
  events_.begin(scenario, options.point);
}

Nanos LiveRun::next_event() const {
  Nanos next = sched::kNever;
  for (const Lane& lane : lanes_)
    if (!lane.busy) next = std::min(next, lane.live.replica().wake_at());
  return next;
}

bool LiveRun::in_flight() const {
  return (transport_ != nullptr && transport_->is_busy()) ||
         std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.busy; });
}

Nanos LiveRun::wait(Nanos until) { return last_ = executor_.wait(std::min(until, look_at_), reports_); }

// Waits end at least this often, even while nothing happens.
bool LiveRun::looks_up(Nanos now) {
  if (now < look_at_) return false;
  look_at_ = now + kLookEvery;
  return true;
}

// Completes all steps before it cancels requests that waited for them: the steps ended earlier, and the times in the
// event log must not decrease.
bool LiveRun::complete(Nanos now, load::RunLoop& loop) {
  const bool any = !reports_.empty();
  for (const StepReport& report : reports_) {
    loop.reached(report.span.end);
    Lane& lane = lanes_[report.replica];
    step_ran(report);
    lane.live.complete(report.span);
    step_done(report);
    loop.collect(report.replica);
    if (!report.last) continue;
    lane.busy = lane.ending = false;
    loop.must_decide(report.replica);
  }
  reports_.clear();
  for (Lane& lane : lanes_) {
    if (lane.busy) continue;
    catch_up(lane, now);
    loop.collect(lane.live.index());
    if (lane.live.replica().wake_at() <= now) loop.must_decide(lane.live.index());
  }
  return any;
}

void LiveRun::catch_up(Lane& lane, Nanos now) {
  for (const Cancel& cancel : std::exchange(lane.cancels, {})) lane.live.cancel(cancel.id, cancel.serial, now);
  for (const Cancel& held : std::exchange(lane.releases, {})) lane.live.release(held.id, held.serial, now);
  for (auto& [landing, kv] : std::exchange(lane.landings, {})) lane.live.land(landing, std::move(kv), now);
}

void LiveRun::end_plans() {
  look_at_ = sched::kNever;  // the loop stops polling: a wait must last until a step ends
  for (Lane& lane : lanes_)
    if (lane.busy) end_order(lane);
}

std::optional<ReqId> LiveRun::arrive(std::size_t slot, const sched::NewRequest& request, Nanos now) {
  Lane& lane = lanes_[slot];
  const std::optional<ReqId> id = lane.live.arrive(request, now);
  // A refusal does not change the policy's state, but the log writes it on the line of the next decided step.
  sched::Replica& scheduler = lane.live.replica();
  if (lane.busy && (id ? scheduler.decision().arrival_breaks : scheduler.log().enabled())) end_order(lane);
  return id;
}

void LiveRun::cancel(std::size_t slot, ReqId id, std::uint64_t serial, Nanos now) {
  Lane& lane = lanes_[slot];
  if (!lane.busy) {
    lane.live.cancel(id, serial, now);
  } else if (lane.live.replica().is_live(id, serial)) {
    lane.cancels.push_back({id, serial});
    end_order(lane);
  }
}

void LiveRun::land(std::size_t slot, const sched::Landing& landing, Nanos now) {
  Lane& lane = lanes_[slot];
  std::optional<LandedKv> kv;
  if (landing.arrived) kv = transport_->landed(landing.serial);
  if (!lane.busy) return lane.live.land(landing, std::move(kv), now);
  lane.landings.emplace_back(landing, std::move(kv));
  end_order(lane);
}

void LiveRun::release(std::size_t slot, ReqId id, std::uint64_t serial, Nanos now) {
  Lane& lane = lanes_[slot];
  if (!lane.busy) return lane.live.release(id, serial, now);
  lane.releases.push_back({id, serial});
  end_order(lane);
}

std::unique_ptr<load::KvTransport> LiveRun::transport(const load::KvTransport::Rates& rates, std::size_t sources,
                                                      std::size_t targets) {
  std::unique_ptr<LiveTransport> transport = executor_.transport(rates, sources, targets);
  transport_ = transport.get();
  return transport;
}

void LiveRun::end_order(Lane& lane) {
  if (lane.ending) return;
  lane.ending = true;
  executor_.end_order(lane.live.index());
}

// Decide before making the order, because the order contains the requests that this decision refused.
void LiveRun::decide(std::size_t slot, Nanos now) {
  Lane& lane = lanes_[slot];
  const bool step = lane.live.decide(now);
  left(slot, lane.live.replica().ended());
  if (!step) return;
  lane.busy = true;
  executor_.submit(slot, lane.live.make_order());
}

void LiveRun::left(std::size_t slot, const std::vector<sched::FinishedAttempt>& ended) {
  for (const sched::FinishedAttempt& request : ended) lanes_[slot].live.ended(request);
}

void LiveRun::replace(std::size_t /*slot*/, bool /*restarts*/, Nanos /*now*/) {
  PLIMSOLL_CHECK(false, "only fixed fleets are measured");
}

void LiveRun::take(sched::RunResult& result, bool logs) {
  load::ReplicaRunner::take(result, logs);
  for (Lane& lane : lanes_)
    result.steps.insert(result.steps.end(), lane.live.step_rows().begin(), lane.live.step_rows().end());
  events_.end(last_);
  result.events += events_.take();
}

}  // namespace plimsoll::exec
