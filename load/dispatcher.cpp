// SPDX-License-Identifier: Apache-2.0
#include "load/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/error.h"

namespace plimsoll::load {

namespace {
constexpr std::uint64_t kRouterStream = 0x726f75746572;  // separates the router's random numbers from the workload's
}

Dispatcher::Dispatcher(const Replication& replication, const FrontEnd& front_end, UpdateKv update_kv, Senders* senders)
    : run_(replication),
      update_kv_(std::move(update_kv)),
      clients_(senders == nullptr ? std::optional<Clients>(std::in_place, replication, front_end) : std::nullopt),
      senders_(senders == nullptr ? *clients_ : *senders),
      router_(
          sched::make_router(run_.scenario.router, (run_.scenario.workload.seed ^ kRouterStream) + replication.index)),
      loads_(static_cast<std::size_t>(run_.scenario.replicas)) {
  const Scenario& scenario = run_.scenario;
  if (!scenario.life) return;
  life_.emplace(scenario, replication.index);
  for (std::size_t i = 0; i < loads_.size(); ++i) loads_[i].healthy = life_->serves(i);
}

Nanos Dispatcher::next_event() const {
  const Nanos send = senders_.next_send();
  if (senders_.done()) return send;
  return std::min({send, senders_.next_timeout(), life_ ? life_->next() : sched::kNever});
}

std::optional<FleetLife::Event> Dispatcher::change(Nanos now) {
  if (!life_) return {};
  const std::optional<FleetLife::Event> event = life_->take(now);
  if (!event) return {};
  sched::ReplicaLoad& load = loads_[event->slot];
  load.healthy = event->change == FleetLife::Change::serves;
  if (event->change != FleetLife::Change::drains)
    load = {.healthy = load.healthy, .outstanding = 0, .outstanding_tokens = 0, .kv_blocks_in_use = 0};
  router_->changed(event->slot, loads_);
  if (event->change == FleetLife::Change::dies) senders_.lose(static_cast<std::int32_t>(event->slot), now);
  return event;
}

bool Dispatcher::serves() const {
  return !life_ ||
         std::any_of(loads_.begin(), loads_.end(), [](const sched::ReplicaLoad& load) { return load.healthy; });
}

std::optional<RoutedAttempt> Dispatcher::next(Nanos now) {
  while (const std::optional<Attempt> attempt = senders_.send(now)) {
    if (life_) life_->arrived();
    if (serves()) return RoutedAttempt{*attempt, route(attempt->request, now)};
    senders_.dispatched(attempt->client, -1, std::nullopt, now);
    senders_.refuse(attempt->client, now);
  }
  return {};
}

void Dispatcher::delivered(const RoutedAttempt& attempt, std::optional<sched::ReqId> id, Nanos now) {
  senders_.dispatched(attempt.client, static_cast<std::int32_t>(attempt.replica), id, now);
}

void Dispatcher::count(std::size_t replica, Nanos now, std::int64_t requests, std::int64_t tokens) {
  loads_[replica].outstanding += requests;
  loads_[replica].outstanding_tokens += tokens;
  router_->changed(replica, loads_);
  if (life_) life_->note(replica, now, requests);
}

std::size_t Dispatcher::route(const sched::NewRequest& request, Nanos now) {
  const std::int64_t tokens = std::int64_t{request.input} + request.max_new;
  std::size_t replica = 0;
  if (loads_.size() > 1) {
    if (run_.scenario.router == sched::RouterKind::least_kv) update_kv_(now, loads_);
    replica = router_->route(
        {.session = request.session, .tokens = tokens, .prefix_hashes = request.prefix_hashes, .now = now}, loads_);
  }
  count(replica, now, 1, tokens);
  return replica;
}

std::optional<TimedOut> Dispatcher::time_out(Nanos now) {
  const std::optional<TimedOut> out = senders_.time_out(now);
  if (!out) return {};
  count(static_cast<std::size_t>(out->replica), now, -1, -out->tokens);
  return out;
}

void Dispatcher::collect(std::size_t replica, std::vector<sched::FinishedAttempt>& ended) {
  for (const sched::FinishedAttempt& e : ended) {
    if (!senders_.ended(e, e.end)) continue;  // its client gave up: it no longer counts as outstanding
    count(replica, e.end, -1, -(std::int64_t{e.input} + e.max_new));
  }
  ended.clear();
}

bool Dispatcher::may_go_on() const {
  if (clients_ && clients_->attempts() > kMaxAttempts)
    throw InputError(
        fmt::format("more than {} requests have been sent; state requests, or a shorter duration", kMaxAttempts));
  if (life_ && life_->events() > kMaxLifeEvents)
    throw InputError(fmt::format(
        "replicas have come and gone, or been counted, more than {} times; state a longer autoscaling.period or "
        "failures.mean_time_between, or a shorter run",
        kMaxLifeEvents));
  // Called even if the progress is unknown: the callback is also where callers check for a cancellation and request a
  // stop.
  if (run_.options.progress && clients_)
    run_.options.progress(clients_->planned() > 0
                              ? static_cast<double>(clients_->finished()) / static_cast<double>(clients_->planned())
                              : 0);
  return !run_.options.stop.stop_requested();
}

void Dispatcher::report(const sched::Replica& replica, const sched::Integrals* before, sched::MetricsCollector& out) {
  sched::Integrals sums = replica.integrals();
  if (before != nullptr) sums = sums - *before;
  const double pool = static_cast<double>(replica.kv().total()) * replica.kv().block_tokens();
  out.add_replica(sums, replica.peak_used_tokens(), pool, replica.preemptions());
}

// Bursts, scripts and the JumpStart protocol sustain no rate or concurrency: their kind stays `none`.
sched::OfferedLoad Dispatcher::offered() const {
  using Kind = sched::OfferedLoad::Kind;
  const LoadSpec& load = run_.scenario.workload.load;
  sched::OfferedLoad out;
  out.last_sent_s = 1e-9 * static_cast<double>(clients_->last_sent());
  out.settles_s = life_ ? 1e-9 * static_cast<double>(settling_time(*run_.scenario.life)) : 0;
  out.timeout_s = run_.scenario.limits.timeout.count();
  out.tries_again = run_.scenario.limits.retries > 0;
  if (const auto* closed = std::get_if<ClosedLoop>(&load)) {
    out.kind = Kind::closed;
    out.clients = closed->concurrency;
  } else if (const auto rate = stationary_rate(load)) {
    out.kind = Kind::open;
    out.rate = *rate;
    out.gap_scv = gap_scv(load);
  } else if (std::holds_alternative<TraceReplay>(load)) {
    out.kind = Kind::open;
    out.gap_scv = clients_->gap_scv();
  }
  return out;
}

void Dispatcher::end_run() const {
  if (!clients_) return;
  const double end = 1e-9 * static_cast<double>(clients_->last_end());
  if (life_) run_.out.add_fleet(life_->use(clients_->last_end()));
  run_.out.end_run({.start_s = std::min(run_.scenario.warmup.count(), end),
                    .end_s = end,
                    .in_system = clients_->in_system_integral(),
                    .queue = clients_->queue_integral()},
                   offered());
}

void Dispatcher::take(sched::RunResult& result) {
  if (!clients_) return;
  result.requests = clients_->take_rows();
  if (life_) result.fleet = life_->rows(clients_->last_end());
}

}  // namespace plimsoll::load
