// SPDX-License-Identifier: Apache-2.0
#include "sim/fleet.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::sim {

Fleet::Fleet(const load::Scenario& scenario, std::uint64_t replication, const RunOptions& options,
             sched::Measurements& out)
    : scenario_(scenario),
      options_(options),
      cost_(SimReplica::make_cost(scenario)),
      dispatcher_(scenario, replication, options, out,
                  {scenario.engine->front_end, scenario.engine->intake, scenario.drift}),
      events_(static_cast<std::size_t>(scenario.replicas)),
      dirty_(static_cast<std::size_t>(scenario.replicas), false),
      warmup_(std::llround(scenario.warmup.count() * 1e9)),
      warm_(warmup_ == 0) {
  for (std::int32_t i = 0; i < scenario.replicas; ++i) {
    replicas_.emplace_back(scenario, i, options, cost_);
    slots_.push_back(&replicas_.back());
  }
}

Nanos Fleet::next_event() const {
  const load::Clients& clients = dispatcher_.clients();
  Nanos next = std::min(clients.next_send(), events_.next());
  if (!clients.done()) next = std::min({next, clients.next_timeout(), dispatcher_.next_change()});
  return next;
}

bool Fleet::run() {
  while (!stopped_) {
    const Nanos now = next_event();
    if (now == sched::kNever) return true;
    if (now > load::kLongestRun)
      throw InputError("the run lasts more than 100 years of simulated time; lower the times or the requests");
    if (!warm_ && now >= warmup_) end_warmup(warmup_);
    process(now);
  }
  return false;
}

// Now and then: whether somebody wants the run to end, and how far it is.
bool Fleet::may_go_on() {
  if ((++events_seen_ & 1023U) != 0) return true;
  stopped_ = !dispatcher_.may_go_on();
  return !stopped_;
}

// Everything that happens at `now`, until nothing more does: a decision may end requests whose clients send at once,
// and where requests take no time that may go on for ever.
void Fleet::process(Nanos now) {
  while (may_go_on()) {
    bool any = steps_and_timers(now);
    if (scenario_.life) any = changes(now) || any;
    any = time_outs(now) || any;
    any = arrivals(now) || any;
    if (any) continue;
    if (dirty_list_.empty()) return;
    std::sort(dirty_list_.begin(), dirty_list_.end());
    for (const std::size_t i : dirty_list_) {
      dirty_[i] = false;
      slots_[i]->decide(now);
      collect(i);
      events_.set(i, slots_[i]->next_event());
    }
    dirty_list_.clear();
  }
}

bool Fleet::steps_and_timers(Nanos now) {
  bool any = false;
  events_.due(now, due_);
  for (const std::size_t i : due_) {
    const bool was_busy = slots_[i]->busy();
    const bool decide = slots_[i]->advance(now);
    any = any || was_busy;
    collect(i);
    if (decide && !dirty_[i]) {
      dirty_[i] = true;
      dirty_list_.push_back(i);
    }
    events_.set(i, slots_[i]->busy() ? slots_[i]->next_event() : sched::kNever);  // a timer has fired
  }
  return any;
}

// A replica that dies takes its step with it; what it measured until then stays. A new one begins empty. Work that no
// client waits for may still go on in a slot that is started again: it ends there.
bool Fleet::changes(Nanos now) {
  bool any = false;
  if (dispatcher_.clients().done()) return any;  // nobody is left to be served
  while (const std::optional<load::FleetLife::Event> event = dispatcher_.change(now)) {
    any = true;
    const std::size_t i = event->slot;
    if (event->change == load::FleetLife::Change::drains) continue;
    if (slots_[i]->unused()) continue;
    slots_[i]->die(now);
    events_.set(i, sched::kNever);
    if (event->change == load::FleetLife::Change::dies) continue;
    replicas_.emplace_back(scenario_, static_cast<std::int32_t>(i), options_, cost_);
    slots_[i] = &replicas_.back();
  }
  return any;
}

bool Fleet::time_outs(Nanos now) {
  bool any = false;
  while (const std::optional<load::TimedOut> out = dispatcher_.time_out(now)) {
    any = true;
    const auto i = static_cast<std::size_t>(out->replica);
    if (scenario_.limits.cancel_on_timeout) {
      slots_[i]->cancel(out->id, out->serial, now);
      collect(i);
      if (!slots_[i]->busy() && !dirty_[i]) {
        dirty_[i] = true;
        dirty_list_.push_back(i);
      }
      events_.set(i, slots_[i]->busy() ? slots_[i]->next_event() : sched::kNever);
    } else {
      slots_[i]->abandon(out->id, out->serial);
    }
  }
  return any;
}

bool Fleet::arrivals(Nanos now) {
  bool any = false;
  while (const std::optional<load::Attempt> attempt = dispatcher_.clients().send(now)) {
    any = true;
    dispatch(*attempt, now);
  }
  return any;
}

// What every replica holds at `now`: leaps come up to date first.
void Fleet::note_kv(Nanos now) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i]->settle(now);
    if (slots_[i]->busy()) events_.set(i, slots_[i]->next_event());
    dispatcher_.note_kv(i, slots_[i]->replica().kv().in_use());
  }
}

void Fleet::dispatch(const load::Attempt& attempt, Nanos now) {
  if (!dispatcher_.can_route()) {
    dispatcher_.refuse(attempt, now);
    return;
  }
  if (dispatcher_.routes_by_kv()) note_kv(now);
  const std::size_t i = dispatcher_.route(attempt, now);
  const std::optional<sched::ReqId> id = slots_[i]->arrive(attempt.request, now);
  dispatcher_.clients().dispatched(attempt.client, static_cast<std::int32_t>(i), id, now);
  collect(i);
  if (slots_[i]->busy()) {
    events_.set(i, slots_[i]->next_event());
  } else if (!dirty_[i]) {
    dirty_[i] = true;
    dirty_list_.push_back(i);
    events_.set(i, sched::kNever);
  }
}

void Fleet::collect(std::size_t replica) { dispatcher_.collect(replica, slots_[replica]->replica().ended()); }

void Fleet::end_warmup(Nanos now) {
  warm_ = true;
  for (SimReplica& r : replicas_) {
    r.settle(now - 1);  // a step that ends right now still belongs to it, leaping or not
    before_.push_back(r.replica().integrals());
    r.replica().itl() = {};
  }
}

void Fleet::report(sched::Measurements& out) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    load::Dispatcher::report(replicas_[i].replica(), i >= before_.size() ? nullptr : &before_[i], out);
  }
  dispatcher_.end_run(out);
}

}  // namespace plimsoll::sim
