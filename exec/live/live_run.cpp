// SPDX-License-Identifier: Apache-2.0
#include "exec/live/live_run.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::exec {

namespace {
// Somebody may want the run to end, and to know how far it is, this often.
constexpr Nanos kCheckEvery = 50'000'000;
}  // namespace

LiveRun::LiveRun(const load::Scenario& scenario, std::uint64_t replication, const sched::RunOptions& options,
                 StepExecutor& executor, sched::Measurements& out)
    : scenario_(scenario),
      executor_(executor),
      events_(options.keep_log && replication == 0),
      dispatcher_(scenario, replication, options, out),
      warmup_(std::llround(scenario.warmup.count() * 1e9)),
      warm_(warmup_ == 0) {
  for (std::int32_t i = 0; i < scenario.replicas; ++i)
    lanes_.emplace_back(scenario, static_cast<std::size_t>(i), options, events_);
  events_.begin(scenario, options.point);
}

Nanos LiveRun::next_event() const {
  const load::Clients& clients = dispatcher_.clients();
  Nanos next = clients.next_send();
  if (!clients.done()) next = std::min(next, clients.next_timeout());
  for (const Lane& lane : lanes_)
    if (!lane.busy) next = std::min(next, lane.live.replica().wake_at());
  return next;
}

bool LiveRun::is_over(Nanos next) const {
  return next == sched::kNever &&
         std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.busy; });
}

bool LiveRun::run() {
  std::vector<StepReport> reports;
  executor_.start_clock();
  Nanos check = 0;
  for (Nanos next = next_event(); !is_over(next); next = next_event()) {
    reports.clear();
    const Nanos now = executor_.wait(std::min(next, check), reports);
    last_ = now;
    take_reports(reports, now);
    if (now >= check) {
      if (!dispatcher_.may_go_on()) {
        drain();
        return false;
      }
      check = now + kCheckEvery;
    }
    time_outs(now);
    arrivals(now);
    for (Lane& lane : lanes_)
      if (!lane.busy && (lane.dirty || lane.live.replica().wake_at() <= now)) decide(lane, now);
  }
  return true;
}

// All steps first: they ended before now, which is when what waited for their ends is cancelled. The log's time must
// not run backwards.
void LiveRun::take_reports(const std::vector<StepReport>& reports, Nanos now) {
  for (const StepReport& report : reports) {
    if (!warm_ && report.span.end > warmup_) end_warmup();
    take_report(report);
  }
  if (!warm_ && now > warmup_) end_warmup();
  for (Lane& lane : lanes_)
    if (!lane.busy) cancel_pending(lane, now);
}

void LiveRun::take_report(const StepReport& report) {
  Lane& lane = lanes_[report.replica];
  lane.live.complete(report.span);
  collect(lane);
  if (!report.last) return;
  lane.busy = lane.ending = false;
  lane.dirty = true;
}

void LiveRun::cancel_pending(Lane& lane, Nanos now) {
  if (lane.cancels.empty()) return;
  for (const Cancel& cancel : lane.cancels) lane.live.cancel(cancel.id, cancel.serial, now);
  lane.cancels.clear();
  collect(lane);
}

void LiveRun::time_outs(Nanos now) {
  while (const std::optional<load::TimedOut> out = dispatcher_.time_out(now)) {
    Lane& lane = lanes_[static_cast<std::size_t>(out->replica)];
    if (!scenario_.limits.cancel_on_timeout) {
      lane.live.abandon(out->id, out->serial);
    } else if (lane.busy) {
      if (!lane.live.replica().is_live(out->id, out->serial)) continue;
      lane.cancels.push_back({out->id, out->serial});
      break_order(lane);
    } else {
      lane.live.cancel(out->id, out->serial, now);
      collect(lane);
      lane.dirty = true;
    }
  }
}

void LiveRun::arrivals(Nanos now) {
  while (const std::optional<load::Attempt> attempt = dispatcher_.clients().send(now)) {
    dispatch(*attempt, now);
  }
}

void LiveRun::dispatch(const load::Attempt& attempt, Nanos now) {
  if (dispatcher_.routes_by_kv()) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) dispatcher_.note_kv(i, lanes_[i].live.replica().kv().in_use());
  }
  const std::size_t replica = dispatcher_.route(attempt, now);
  Lane& lane = lanes_[replica];
  const std::optional<ReqId> id = lane.live.arrive(attempt.request, now);
  dispatcher_.clients().dispatched(attempt.client, static_cast<std::int32_t>(replica), id, now);
  collect(lane);
  if (!lane.busy) {
    lane.dirty = true;
    return;
  }
  // A refused request leaves the policy as it was, but its refusal stands on the next step's line of the log.
  sched::Replica& scheduler = lane.live.replica();
  if (id ? scheduler.decision().arrival_breaks : scheduler.log().enabled()) break_order(lane);
}

void LiveRun::break_order(Lane& lane) {
  if (lane.ending) return;
  lane.ending = true;
  executor_.end_order(lane.live.index());
}

void LiveRun::decide(Lane& lane, Nanos now) {
  lane.dirty = false;
  const bool step = lane.live.decide(now);
  collect(lane);
  if (!step) return;
  lane.busy = true;
  executor_.submit(lane.live.index(), lane.live.make_order());
}

// Hands the requests that left a replica to their clients.
void LiveRun::collect(Lane& lane) {
  for (const sched::Ended& ended : lane.live.replica().ended()) lane.live.ended(ended);
  dispatcher_.collect(lane.live.index(), lane.live.replica().ended());
}

void LiveRun::end_warmup() {
  warm_ = true;
  for (Lane& lane : lanes_) {
    before_.push_back(lane.live.replica().integrals());
    lane.live.replica().itl() = {};
  }
}

// Workers come to rest before what they work for goes away.
void LiveRun::drain() {
  std::vector<StepReport> reports;
  for (Lane& lane : lanes_)
    if (lane.busy) break_order(lane);
  while (std::any_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.busy; })) {
    reports.clear();
    const Nanos now = executor_.wait(sched::kNever, reports);
    last_ = now;
    take_reports(reports, now);
  }
}

void LiveRun::report(sched::Measurements& out) {
  for (std::size_t i = 0; i < lanes_.size(); ++i)
    load::Dispatcher::report(lanes_[i].live.replica(), before_.empty() ? nullptr : &before_[i], out);
  dispatcher_.end_run(out);
}

void LiveRun::take(sched::RunResult& result) {
  result.requests = dispatcher_.clients().take_rows();
  for (Lane& lane : lanes_) {
    sched::DecisionLog& log = lane.live.replica().log();
    log.finish();
    if (log.enabled()) result.logs.push_back(log.text());
    result.steps.insert(result.steps.end(), lane.live.step_rows().begin(), lane.live.step_rows().end());
  }
  events_.end(last_);
  result.events = events_.take();
}

std::int64_t LiveRun::steps() const {
  std::int64_t steps = 0;
  for (const Lane& lane : lanes_) steps += lane.live.replica().steps();
  return steps;
}

}  // namespace plimsoll::exec
