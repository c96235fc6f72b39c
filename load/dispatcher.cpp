// SPDX-License-Identifier: Apache-2.0
#include "load/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::load {

namespace {
constexpr std::uint64_t kRouterStream = 0x726f75746572;  // keeps the router's draws apart from the workload's
}

Dispatcher::Dispatcher(const Scenario& scenario, std::uint64_t replication, const sched::RunOptions& options,
                       sched::Measurements& out, const FrontEnd& front_end)
    : scenario_(scenario),
      options_(options),
      clients_(scenario, replication, options, out, front_end),
      router_(sched::make_router(scenario.router, (scenario.workload.seed ^ kRouterStream) + replication)),
      loads_(static_cast<std::size_t>(scenario.replicas)) {
  if (!scenario.life) return;
  life_.emplace(*scenario.life, scenario.replicas, scenario.workload.seed, replication,
                std::llround(scenario.warmup.count() * 1e9));
  for (std::size_t i = 0; i < loads_.size(); ++i) loads_[i].healthy = life_->serves(i);
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
  if (event->change == FleetLife::Change::dies) clients_.lose(static_cast<std::int32_t>(event->slot), now);
  return event;
}

bool Dispatcher::can_route() const {
  return !life_ ||
         std::any_of(loads_.begin(), loads_.end(), [](const sched::ReplicaLoad& load) { return load.healthy; });
}

void Dispatcher::refuse(const Attempt& attempt, Nanos now) {
  if (life_) life_->arrived();
  clients_.dispatched(attempt.client, -1, std::nullopt, now);
  clients_.refuse(attempt.client, now);
}

void Dispatcher::count(std::size_t replica, Nanos now, std::int64_t requests, std::int64_t tokens) {
  loads_[replica].outstanding += requests;
  loads_[replica].outstanding_tokens += tokens;
  router_->changed(replica, loads_);
  if (life_) life_->note(replica, now, requests);
}

std::size_t Dispatcher::route(const Attempt& attempt, Nanos now) {
  const sched::NewRequest& request = attempt.request;
  const std::int64_t tokens = std::int64_t{request.input} + request.max_new;
  std::size_t replica = 0;
  if (loads_.size() > 1) {
    replica = router_->route(
        {.session = request.session, .tokens = tokens, .prefix_hashes = request.prefix_hashes, .now = now}, loads_);
  }
  if (life_) life_->arrived();
  count(replica, now, 1, tokens);
  return replica;
}

std::optional<TimedOut> Dispatcher::time_out(Nanos now) {
  const std::optional<TimedOut> out = clients_.time_out(now);
  if (!out) return {};
  count(static_cast<std::size_t>(out->replica), now, -1, -out->tokens);
  return out;
}

void Dispatcher::collect(std::size_t replica, std::vector<sched::Ended>& ended) {
  for (const sched::Ended& e : ended) {
    if (!clients_.ended(e, e.end)) continue;  // its client gave up before: no longer outstanding
    count(replica, e.end, -1, -(std::int64_t{e.input} + e.max_new));
  }
  ended.clear();
}

bool Dispatcher::may_go_on() const {
  if (clients_.attempts() > kMostAttempts)
    throw InputError(
        fmt::format("more than {} requests have been sent; state requests, or a shorter duration", kMostAttempts));
  if (life_ && life_->events() > kMostLifeEvents)
    throw InputError(fmt::format(
        "replicas have come and gone, or been counted, more than {} times; state a longer autoscaling.period or "
        "failures.mean_time_between, or a shorter run",
        kMostLifeEvents));
  // Told even where it is unknown: whoever is told may want to stop the run.
  if (options_.progress)
    options_.progress(clients_.planned() > 0
                          ? static_cast<double>(clients_.finished()) / static_cast<double>(clients_.planned())
                          : 0);
  return !options_.stop.stop_requested();
}

void Dispatcher::report(sched::Replica& replica, const sched::Integrals* before, sched::Measurements& out) {
  sched::Integrals sums = replica.integrals();
  if (before != nullptr) sums = sums - *before;
  const double pool = static_cast<double>(replica.kv().total()) * replica.kv().block_tokens();
  out.add_replica(sums, replica.peak_used_tokens(), pool, replica.preemptions());
  out.add_itl(replica.itl());
}

// Bursts, scripts and the published protocol end by themselves.
sched::OfferedLoad Dispatcher::offered() const {
  using Kind = sched::OfferedLoad::Kind;
  const LoadSpec& load = scenario_.workload.load;
  sched::OfferedLoad out;
  out.last_sent_s = 1e-9 * static_cast<double>(clients_.last_sent());
  out.settles_s = life_ ? 1e-9 * static_cast<double>(settling_time(*scenario_.life)) : 0;
  if (const auto* closed = std::get_if<ClosedLoop>(&load)) {
    out.kind = Kind::closed;
    out.clients = closed->concurrency;
  } else if (const auto rate = stationary_rate(load)) {
    out.kind = Kind::open;
    out.rate = *rate;
    out.gap_scv = gap_scv(load);
  } else if (std::holds_alternative<TraceReplay>(load)) {
    out.kind = Kind::open;
    out.gap_scv = clients_.gap_scv();
  }
  return out;
}

void Dispatcher::end_run(sched::Measurements& out) const {
  const double end = 1e-9 * static_cast<double>(clients_.last_end());
  if (life_) {
    const FleetUse use = life_->use(clients_.last_end());
    out.add_fleet(
        {.replica_s = use.replica_s, .instance_s = use.instance_s, .starts = use.starts, .failures = use.failures});
  }
  out.end_run(std::min(scenario_.warmup.count(), end), end, clients_.in_system_integral(), clients_.queue_integral(),
              offered());
}

}  // namespace plimsoll::load
