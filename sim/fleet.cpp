// SPDX-License-Identifier: Apache-2.0
#include "sim/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::sim {

namespace {
constexpr std::uint64_t kRouterStream = 0x726f75746572;  // keeps the router's draws apart from the workload's
}

Fleet::Fleet(const Scenario& scenario, std::uint64_t replication, const RunOptions& options, sched::Measurements& out)
    : scenario_(scenario), options_(options), clients_(scenario, replication, options, out),
      router_(sched::make_router(scenario.router, (scenario.workload.seed ^ kRouterStream) + replication)),
      loads_(static_cast<std::size_t>(scenario.replicas)),
      events_(static_cast<std::size_t>(scenario.replicas), sched::kNever),
      dirty_(static_cast<std::size_t>(scenario.replicas), false),
      warmup_(std::llround(scenario.warmup.count() * 1e9)), warm_(warmup_ == 0) {
  for (std::int32_t i = 0; i < scenario.replicas; ++i) replicas_.emplace_back(scenario, i, options);
}

Nanos Fleet::next_event() const {
  Nanos next = clients_.next_send();
  for (const Nanos time : events_) next = std::min(next, time);
  if (!clients_.done()) next = std::min(next, clients_.next_timeout());
  return next;
}

bool Fleet::run() {
  while (!stopped_) {
    const Nanos now = next_event();
    if (now == sched::kNever) return true;
    if (now > kLongestRun) throw InputError("the run lasts more than 100 years of simulated time; lower the times or the requests");
    if (!warm_ && now >= warmup_) end_warmup(warmup_);
    process(now);
  }
  return false;
}

// Now and then: whether somebody wants the run to end, and how far it is.
bool Fleet::may_go_on() {
  if ((++events_seen_ & 1023U) != 0) return true;
  stopped_ = options_.stop.stop_requested();
  if (clients_.attempts() > kMostAttempts)
    throw InputError(fmt::format("more than {} requests have been sent; state requests, or a shorter duration", kMostAttempts));
  if (options_.progress && clients_.planned() > 0)
    options_.progress(static_cast<double>(clients_.finished()) / static_cast<double>(clients_.planned()));
  return !stopped_;
}

// Everything that happens at `now`, until nothing more does: a decision may end requests whose clients send at once, and
// where requests take no time that may go on for ever.
void Fleet::process(Nanos now) {
  while (may_go_on()) {
    bool any = steps_and_timers(now);
    any = time_outs(now) || any;
    any = arrivals(now) || any;
    if (any) continue;
    if (dirty_list_.empty()) return;
    std::sort(dirty_list_.begin(), dirty_list_.end());
    for (const std::size_t i : dirty_list_) {
      dirty_[i] = false;
      replicas_[i].decide(now);
      collect(i, now);
      events_[i] = replicas_[i].next_event();
    }
    dirty_list_.clear();
  }
}

bool Fleet::steps_and_timers(Nanos now) {
  bool any = false;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (events_[i] > now) continue;
    const bool was_busy = replicas_[i].busy();
    const bool decide = replicas_[i].advance(now);
    any = any || was_busy;
    collect(i, now);
    if (decide && !dirty_[i]) {
      dirty_[i] = true;
      dirty_list_.push_back(i);
    }
    events_[i] = replicas_[i].busy() ? replicas_[i].next_event() : sched::kNever;  // a timer has fired
  }
  return any;
}

bool Fleet::time_outs(Nanos now) {
  bool any = false;
  while (const std::optional<TimedOut> out = clients_.time_out(now)) {
    any = true;
    const auto i = static_cast<std::size_t>(out->replica);
    --loads_[i].outstanding;
    loads_[i].outstanding_tokens -= out->tokens;
    if (scenario_.limits.cancel_on_timeout) {
      replicas_[i].cancel(out->id, out->serial, now);
      collect(i, now);
      if (!replicas_[i].busy() && !dirty_[i]) {
        dirty_[i] = true;
        dirty_list_.push_back(i);
      }
      events_[i] = replicas_[i].busy() ? replicas_[i].next_event() : sched::kNever;
    } else {
      replicas_[i].abandon(out->id, out->serial);
    }
  }
  return any;
}

bool Fleet::arrivals(Nanos now) {
  bool any = false;
  while (const std::optional<Attempt> attempt = clients_.send(now)) {
    any = true;
    dispatch(*attempt, now);
    watch_queue();
  }
  return any;
}

// What every replica holds at `now`: leaps come up to date first.
void Fleet::note_kv(Nanos now) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    replicas_[i].settle(now);
    if (replicas_[i].busy()) events_[i] = replicas_[i].next_event();
    loads_[i].kv_blocks_in_use = replicas_[i].replica().kv().in_use();
  }
}

void Fleet::dispatch(const Attempt& attempt, Nanos now) {
  const sched::NewRequest& request = attempt.request;
  std::size_t i = 0;
  const std::int64_t tokens = std::int64_t{request.input} + request.max_new;
  if (replicas_.size() > 1) {
    if (scenario_.router == sched::RouterKind::least_kv) note_kv(now);
    i = router_->route({.session = request.session, .tokens = tokens, .prefix_hashes = request.prefix_hashes, .now = now},
                       loads_);
  }
  ++loads_[i].outstanding;
  loads_[i].outstanding_tokens += tokens;
  const std::optional<sched::ReqId> id = replicas_[i].arrive(request, now);
  clients_.dispatched(attempt.client, static_cast<std::int32_t>(i), id, now);
  collect(i, now);
  if (replicas_[i].busy()) {
    events_[i] = replicas_[i].next_event();
  } else if (!dirty_[i]) {
    dirty_[i] = true;
    dirty_list_.push_back(i);
    events_[i] = sched::kNever;
  }
}

// Hands the requests that left a replica to their clients.
void Fleet::collect(std::size_t replica, Nanos now) {
  std::vector<sched::Ended>& ended = replicas_[replica].replica().ended();
  for (const sched::Ended& e : ended) {
    if (!clients_.ended(e, now)) continue;  // its client gave up before: no longer outstanding
    --loads_[replica].outstanding;
    loads_[replica].outstanding_tokens -= std::int64_t{e.input} + e.max_new;
  }
  ended.clear();
}

void Fleet::end_warmup(Nanos now) {
  warm_ = true;
  for (SimReplica& r : replicas_) {
    r.settle(now - 1);                 // a step that ends right now still belongs to it, leaping or not
    before_.push_back(r.replica().integrals());
    r.replica().itl() = {};
  }
}

void Fleet::watch_queue() {
  if (backlog_taken_ || traces::is_closed_loop(scenario_.workload.load)) return;
  const bool last = clients_.arrivals_over();
  const bool half = clients_.planned() > 0 && clients_.arrivals() == clients_.planned() / 2;
  if (!last && !half) return;
  std::int64_t queued = 0;
  for (const SimReplica& r : replicas_) queued += r.replica().policy().queued();
  (last ? backlog_ : backlog_half_) = queued;
  backlog_taken_ = last;
}

void Fleet::report(sched::Measurements& out) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    sched::Replica& r = replicas_[i].replica();
    sched::Integrals sums = r.integrals();
    if (!before_.empty()) sums = sums - before_[i];
    const double pool = static_cast<double>(r.kv().total()) * r.kv().block_tokens();
    out.add_replica(sums, r.peak_used_tokens(), pool, r.preemptions());
    out.add_itl(r.itl());
  }
  // At the edge of capacity the excess of arrivals over services wanders like sqrt(cv^2 N); a queue three times as long
  // when the last request is sent, and longer than half way, means that the service cannot keep up.
  const double wander = std::sqrt(std::max(1.0, clients_.gap_scv()) * static_cast<double>(clients_.arrivals()));
  const bool growing = static_cast<double>(backlog_) > 3 * wander && backlog_ > backlog_half_;
  const bool open = std::holds_alternative<traces::Poisson>(scenario_.workload.load) ||
                    std::holds_alternative<traces::GammaArrivals>(scenario_.workload.load) ||
                    std::holds_alternative<traces::ConstantRate>(scenario_.workload.load) ||
                    std::holds_alternative<traces::TraceReplay>(scenario_.workload.load);
  const double start = std::min(scenario_.warmup.count(), 1e-9 * static_cast<double>(clients_.last_end()));
  out.end_run(start, 1e-9 * static_cast<double>(clients_.last_end()), clients_.in_system_integral(),
              clients_.queue_integral(), !(open && growing));
}

}  // namespace plimsoll::sim
