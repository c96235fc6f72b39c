// SPDX-License-Identifier: Apache-2.0
#include "load/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/error.h"
#include "sched/prefix_cache.h"
#include "sched/steady_state.h"

namespace plimsoll::load {

namespace {
constexpr std::uint64_t kRouterStream = 0x726f75746572;  // separates the router's random numbers from the workload's
// Dynamo's --router-queue-threshold: the prompt tokens that may wait at a replica, in multiples of a step's token
// budget.
constexpr std::int64_t kStepsAhead = 4;

// Returns the limit on a replica's prompt tokens in prefill, above which a router that tracks them sends it nothing.
std::int64_t holds_from(const Scenario& scenario) {
  const std::int64_t step = sched::resolve_limits(scenario.policy).step_tokens;
  const bool holds = sched::router_info(scenario.router).tracks_prefill && step < sched::kForever / kStepsAhead;
  return holds ? kStepsAhead * step : sched::kForever;
}
}  // namespace

Dispatcher::Dispatcher(const Replication& replication, const FrontEnd& front_end, Probes probes, Senders* senders)
    : run_(replication),
      probes_(std::move(probes)),
      clients_(senders == nullptr ? std::optional<Clients>(std::in_place, replication, front_end) : std::nullopt),
      senders_(senders == nullptr ? *clients_ : *senders),
      router_(sched::make_router(run_.scenario.router,
                                 (run_.scenario.workload.seed ^ kRouterStream) + replication.index,
                                 run_.scenario.router_options)),
      info_(sched::router_info(run_.scenario.router)),
      reports_every_(sched::reports_every(run_.scenario.router, run_.scenario.router_options)),
      loads_(static_cast<std::size_t>(run_.scenario.replicas)),
      hold_from_(holds_from(run_.scenario)) {
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
  if (event->change != FleetLife::Change::drains) load = sched::ReplicaLoad{.healthy = load.healthy};
  router_->changed(event->slot, loads_);
  if (event->change == FleetLife::Change::dies) senders_.lose(static_cast<std::int32_t>(event->slot), now);
  return event;
}

bool Dispatcher::serves() const {
  return !life_ ||
         std::any_of(loads_.begin(), loads_.end(), [](const sched::ReplicaLoad& load) { return load.healthy; });
}

RoutedAttempt Dispatcher::routed(const Attempt& attempt, Nanos now) {
  RoutedAttempt routed{attempt};
  routed.replica = route(routed.request, now);
  return routed;
}

void Dispatcher::refuse(const Attempt& attempt, Nanos now) {
  senders_.dispatched(attempt.client, -1, std::nullopt, now);
  senders_.refuse(attempt.client, now);
}

// Returns whether every replica in service has so many prompt tokens left to compute that the router holds requests
// back.
bool Dispatcher::holds_back(Nanos now) {
  if (hold_from_ == sched::kForever || loads_.size() < 2) return false;
  probes_.loads(now, loads_);
  return std::all_of(loads_.begin(), loads_.end(), [this](const sched::ReplicaLoad& load) {
    return !load.healthy || load.prefill_tokens > hold_from_;
  });
}

void Dispatcher::hold(const Attempt& attempt) {
  const sched::NewRequest& request = attempt.request;
  held_.push_back({attempt, {request.prefix_hashes.begin(), request.prefix_hashes.end()}, std::string(request.name)});
}

// Sends the request that has been held longest, whatever has arrived meanwhile.
std::optional<RoutedAttempt> Dispatcher::send_held(Nanos now) {
  while (!held_.empty() && (!serves() || !holds_back(now))) {
    sending_ = std::move(held_.front());
    held_.pop_front();
    sending_.attempt.request.prefix_hashes = sending_.hashes;
    sending_.attempt.request.name = sending_.name;
    if (serves()) return routed(sending_.attempt, now);
    refuse(sending_.attempt, now);
  }
  return {};
}

std::optional<RoutedAttempt> Dispatcher::next(Nanos now) {
  if (std::optional<RoutedAttempt> first = send_held(now)) return first;
  while (const std::optional<Attempt> attempt = senders_.send(now)) {
    if (life_) life_->arrived();
    if (!serves())
      refuse(*attempt, now);
    else if (!held_.empty() || holds_back(now))
      hold(*attempt);
    else
      return routed(*attempt, now);
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

// A report shows the state after all events of its time. Between two events only the steps in flight continue, so the
// last report before this event suffices.
void Dispatcher::look(Nanos now) {
  if (reports_every_ == 0 || info_.own_reports || loads_.size() < 2 || now == 0) return;
  const Nanos due = (now - 1) / reports_every_ * reports_every_;
  if (due <= reported_) return;
  reported_ = due;
  probes_.loads(due, loads_);
  router_->reported(loads_);
}

// Finds how many tokens of the prompt each replica has in its cache. The last token is always computed.
void Dispatcher::find_cached(const sched::NewRequest& request) {
  const std::vector<std::uint64_t> blocks = sched::block_hashes({.hashes = request.prefix_hashes,
                                                                 .block_tokens = request.hash_block_tokens,
                                                                 .tokens = request.input,
                                                                 .chain = request.hashes_chain},
                                                                run_.scenario.kv.block_tokens);
  cached_.assign(loads_.size(), 0);
  for (std::size_t i = 0; i < loads_.size(); ++i)
    if (loads_[i].healthy) cached_[i] = probes_.cached(i, blocks, request.input - 1);
}

std::size_t Dispatcher::ask_router(sched::NewRequest& request, Nanos now) {
  const bool reports = info_.sees_kv || info_.sees_queues;
  if (info_.tracks_prefill || (reports && (reports_every_ == 0 || info_.own_reports))) {
    probes_.loads(now, loads_);
    router_->reported(loads_);
  }
  if (info_.sees_cache) find_cached(request);
  // The hashes may extend into the answer, which no router can know.
  auto known = request.prefix_hashes;
  if (request.content > request.input)
    known = known.first(std::min<std::size_t>(known.size(), request.input / request.hash_block_tokens));
  const bool by_hash = !info_.sees_cache && request.hash_block_tokens > 0;
  const std::size_t replica =
      router_->route({.session = request.session,
                      .tokens = std::int64_t{request.input} + request.max_new,
                      .prefix_hashes = known,
                      .now = now,
                      .prompt = request.input,
                      .block_tokens = by_hash ? request.hash_block_tokens : run_.scenario.kv.block_tokens,
                      .cached = cached_},
                     loads_);
  if (info_.tracks_prefill) request.tracked_prefill = request.input - (cached_.empty() ? 0 : cached_[replica]);
  return replica;
}

std::size_t Dispatcher::route(sched::NewRequest& request, Nanos now) {
  const std::size_t replica = loads_.size() > 1 ? ask_router(request, now) : 0;
  count(replica, now, 1, std::int64_t{request.input} + request.max_new);
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
    throw InputError(
        fmt::format("replicas have started, ended or been counted by the autoscaler more than {} times; state a longer "
                    "autoscaling.period or "
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
  // The columns of batches and KV describe the pool that decodes.
  if (replica.role() != sched::Role::whole) {
    const bool prefill = replica.role() == sched::Role::prefill;
    out.add_pool_replica(replica.role(), sums.busy_s, replica.staged_peak(), prefill ? replica.preemptions() : 0);
    if (prefill) return;
  }
  out.add_replica(sums, replica.peak_used_tokens(), pool, replica.preemptions());
}

// Bursts, scripts and the JumpStart protocol sustain no rate or concurrency: their kind stays `none`.
sched::OfferedLoad Dispatcher::offered() const {
  using Kind = sched::OfferedLoad::Kind;
  const LoadSpec& load = run_.scenario.workload.load;
  sched::OfferedLoad out;
  out.last_sent_s = 1e-9 * static_cast<double>(clients_->last_sent());
  out.settles_s = life_ ? 1e-9 * static_cast<double>(settling_time(*run_.scenario.life)) : 0;
  if (const auto& pools = run_.scenario.pools; pools && pools->prefill->life)
    out.settles_s = std::max(out.settles_s, 1e-9 * static_cast<double>(settling_time(*pools->prefill->life)));
  out.timeout_s = run_.scenario.limits.timeout.count();
  out.tries_again = run_.scenario.limits.retries > 0;
  if (const auto* closed = std::get_if<ClosedLoop>(&load)) {
    out.kind = Kind::closed;
    out.clients = closed->concurrency;
  } else if (const auto* sessions = std::get_if<Sessions>(&load)) {
    constexpr double kSessionsNeeded = 3;
    out.kind = Kind::closed;
    out.clients = sessions->concurrency;
    out.rounds = std::max(out.rounds, kSessionsNeeded * std::round(length_mean(sessions->talk.turns)));
  } else if (std::holds_alternative<SessionArrivals>(load)) {
    out.kind = Kind::open;
    out.gap_scv = clients_->gap_scv();
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
