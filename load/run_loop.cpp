// SPDX-License-Identifier: Apache-2.0
#include "load/run_loop.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "load/transfer_links.h"
#include "model/error.h"

namespace plimsoll::load {

namespace {
[[noreturn]] void no_pools() {
  PLIMSOLL_CHECK(false, "this runner serves one pool");
  std::abort();
}
}  // namespace

RunLoop::RunLoop(const Replication& replication, Runner& runner, Senders* senders)
    : replication_(replication),
      runner_(runner),
      dispatcher_(replication, runner.front_end(),
                  {.loads =
                       [this](Nanos now, std::vector<sched::ReplicaLoad>& loads) {
                         // Inside a leap, only the KV usage changes.
                         if (sched::router_info(replication_.scenario.router).sees_kv) runner_.settle(now);
                         for (std::size_t i = 0; i < loads.size(); ++i) runner_.describe(i, loads[i]);
                       },
                   .cached =
                       [this](std::size_t slot, std::span<const std::uint64_t> blocks, sched::Tok limit) {
                         // Inside a leap, decodes evict cached blocks.
                         if (std::exchange(settled_, now_) != now_) runner_.settle(now_);
                         return runner_.cached_tokens(slot, blocks, limit);
                       }},
                  senders),
      undecided_(replication.scenario.slots(), false),
      warmup_(std::llround(replication.scenario.warmup.count() * 1e9)),
      warm_(warmup_ == 0) {
  if (replication.scenario.pools)
    chains_.emplace(replication_, runner, [this](std::size_t slot) { must_decide(slot); });
}

Nanos RunLoop::next_event() const {
  const Nanos next = std::min(dispatcher_.next_event(), runner_.next_event());
  return chains_ ? std::min(next, chains_->next_event()) : next;
}

bool RunLoop::run() {
  runner_.start();
  Nanos now = 0;
  for (Nanos next = next_event(); next != sched::kNever || runner_.in_flight(); next = next_event()) {
    // Simulated runs jump to the next event; runs in real time sleep until it, or until a step of the device ends.
    now = now_ = runner_.wait(next);
    if (now > kMaxRun)
      throw InputError("the run lasts more than 100 years of simulated time; lower the times or the requests");
    dispatcher_.look(now);
    // The stop check is inside this loop, because the loop may run for ever if requests take no time.
    do {
      if (runner_.looks_up(now) && !dispatcher_.may_go_on()) {
        stop(now);
        return false;
      }
    } while (happens(now));
    decide(now);
    if (chains_) end_stuck(now);
    // A decision may refuse the last request, so the end is checked here. Waiting for the next event would end a run
    // with leaps at another time than one without.
    if (!measured_ && dispatcher_.done()) measure(now);
    if (measured_ && chains_) chains_->end_life();
  }
  if (!measured_) measure(now);
  return true;
}

// Makes one pass in the order at equal times (run_loop.h). Returns true if anything happened, since that may cause more
// events.
bool RunLoop::happens(Nanos now) {
  bool any = runner_.complete(now, *this);
  reached(now);
  if (chains_ && chains_->next_event() <= now) {
    any = chains_->advance(now) || any;
    end_failed();
  }
  if (replication_.scenario.life) any = changes(now) || any;
  if (dispatcher_.next_time_out() <= now) any = time_outs(now) || any;
  if (dispatcher_.next_arrival() <= now) any = arrivals(now) || any;
  return any;
}

// A restarted slot may still run requests whose clients gave up; they end with the old replica.
bool RunLoop::changes(Nanos now) {
  bool any = false;
  if (dispatcher_.done()) return any;  // no request is left to serve
  while (const std::optional<FleetLife::Event> event = dispatcher_.change(now)) {
    any = true;
    if (event->change == FleetLife::Change::drains) continue;
    if (chains_) chains_->lose(event->slot, now);
    runner_.replace(event->slot, event->change == FleetLife::Change::serves, now);
  }
  return any;
}

bool RunLoop::time_outs(Nanos now) {
  bool any = false;
  while (const std::optional<TimedOut> out = dispatcher_.time_out(now)) {
    any = true;
    const auto slot = static_cast<std::size_t>(out->replica);
    if (chains_) {
      if (replication_.scenario.limits.cancel_on_timeout)
        chains_->cancel(out->id, out->serial, now);
      else
        chains_->abandon(out->id, out->serial);
      collect(slot);
      continue;
    }
    if (!replication_.scenario.limits.cancel_on_timeout) {
      runner_.abandon(slot, out->id, out->serial);
      continue;
    }
    runner_.cancel(slot, out->id, out->serial, now);
    collect(slot);
    if (!runner_.busy(slot)) must_decide(slot);
  }
  return any;
}

bool RunLoop::arrivals(Nanos now) {
  bool any = false;
  while (const std::optional<RoutedAttempt> attempt = dispatcher_.next(now)) {
    any = true;
    const std::size_t slot = attempt->replica;
    if (chains_) {
      dispatcher_.delivered(*attempt, chains_->arrive(slot, attempt->request, now), now);
      collect(slot);
      end_failed();
      continue;
    }
    dispatcher_.delivered(*attempt, runner_.arrive(slot, attempt->request, now), now);
    collect(slot);
    if (!runner_.busy(slot)) must_decide(slot);
  }
  return any;
}

// Decisions wait until everything of this instant has happened: a policy sees all arrivals of one time together.
void RunLoop::must_decide(std::size_t slot) {
  if (undecided_[slot]) return;
  undecided_[slot] = true;
  must_decide_.push_back(slot);
}

void RunLoop::decide(Nanos now) {
  // A decision for a decode pool may hand prompts to prefill replicas, which then decide as well.
  while (!must_decide_.empty()) {
    // In the order of the slots, so that the order of the events of one instant does not matter.
    std::sort(must_decide_.begin(), must_decide_.end());
    deciding_.swap(must_decide_);
    for (const std::size_t slot : deciding_) {
      undecided_[slot] = false;
      runner_.decide(slot, now);
      if (chains_) chains_->decided(slot, now);
      collect(slot);
    }
    deciding_.clear();
  }
}

void RunLoop::collect(std::size_t slot) {
  std::vector<sched::FinishedAttempt>& ended = runner_.ended(slot);
  if (chains_) {
    runner_.left(slot, ended);  // the chains keep some ends for themselves
    chains_->collect(slot, ended, now_);
    end_failed();
  }
  if (ended.empty()) return;
  if (!chains_) runner_.left(slot, ended);
  dispatcher_.collect(slot, ended);
}

// Ends requests of two pools that failed before a decode replica could end them.
void RunLoop::end_failed() {
  if (chains_->failed().empty()) return;
  for (auto& [slot, ended] : std::exchange(chains_->failed(), {})) {
    std::vector<sched::FinishedAttempt> one{ended};
    dispatcher_.collect(slot, one);
  }
}

// A step that ends exactly at the end of the warm-up is measured, whether or not it is part of a leap.
void RunLoop::end_warmup() {
  warm_ = true;
  runner_.settle(warmup_ - 1);
  runner_.end_warmup();
}

// With little memory, requests whose KV has arrived may hold all blocks of a decode replica while they wait behind a
// request that needs more. The product then waits for ever (docs/pools.md).
void RunLoop::end_stuck(Nanos now) {
  if (!chains_->rests() || !dispatcher_.rests() || runner_.in_flight() || runner_.next_event() != sched::kNever) return;
  chains_->fail_all(now);
  end_failed();
  decide(now);
}

// Steps that are running on a device are still completed and logged.
void RunLoop::stop(Nanos now) {
  if (!runner_.in_flight()) return;
  runner_.end_plans();
  while (true) {
    runner_.complete(now, *this);
    if (!runner_.in_flight()) return;
    now = runner_.wait(sched::kNever);
  }
}

// The measured time ends with the last request. Engines may continue to work for clients that have given up; this time
// must not enter the means.
void RunLoop::measure(Nanos now) {
  measured_ = true;
  measured_at_ = now;
  runner_.settle(now);
  runner_.measure(replication_.out);
}

void RunLoop::report() {
  if (const auto use = chains_ ? chains_->use(measured_at_) : std::nullopt) replication_.out.add_prefill_fleet(*use);
  dispatcher_.end_run();
}

void RunLoop::take(sched::RunResult& result) {
  const bool first = replication_.index == 0;
  if (first) dispatcher_.take(result);
  runner_.take(result, first);
}

// ---- Runner ----------------------------------------------------------------------------------------------------

const sched::Replica& Runner::scheduler(std::size_t /*slot*/) const { no_pools(); }
std::vector<sched::Load>& Runner::loads(std::size_t /*slot*/) { no_pools(); }
void Runner::land(std::size_t /*slot*/, const sched::Landing& /*landing*/, Nanos /*now*/) { no_pools(); }
void Runner::release(std::size_t /*slot*/, sched::ReqId /*id*/, std::uint64_t /*serial*/, Nanos /*now*/) { no_pools(); }
Nanos Runner::step_end(std::size_t /*slot*/) const { no_pools(); }
std::unique_ptr<KvTransport> Runner::transport(const KvTransport::Rates& rates, std::size_t sources,
                                               std::size_t targets) {
  return std::make_unique<TransferLinks>(rates, sources, targets);
}

// ---- ReplicaRunner ----------------------------------------------------------------------------------------

void ReplicaRunner::end_warmup() {
  for (sched::Replica* const replica : replicas()) {
    before_.push_back(replica->integrals());
    replica->itl().clear();
  }
}

void ReplicaRunner::measure(sched::MetricsCollector& out) {
  const std::span<sched::Replica* const> all = replicas();
  for (std::size_t i = 0; i < all.size(); ++i)
    Dispatcher::report(*all[i], i < before_.size() ? &before_[i] : nullptr, out);
  const sched::LogHistogram* added = nullptr;  // replicas of a simulated run share one
  for (sched::Replica* const replica : all) {
    if (&replica->itl().counts() != added) out.add_itl(*(added = &replica->itl().counts()));
    out.add_itl_sum(replica->itl().sum());
  }
}

void ReplicaRunner::take(sched::RunResult& result, bool logs) {
  for (sched::Replica* const replica : replicas()) {
    result.steps_run += replica->steps();
    if (!logs) continue;
    replica->log().finish();
    if (replica->log().enabled()) result.logs.push_back(replica->log().text());
  }
}

sched::RunResult run_replications(const Scenario& scenario, const sched::RunOptions& options,
                                  sched::MetricsCollector& out, const MakeRunner& make) {
  sched::RunResult result;
  const std::int32_t replications = script_of(scenario.workload) != nullptr ? 1 : scenario.replications;
  for (std::int32_t i = 0; i < replications && !result.stopped; ++i) {
    sched::RunOptions kept = options;
    if (i > 0) kept.keep_requests = kept.keep_log = kept.keep_steps = false;
    const auto index = static_cast<std::uint64_t>(i);
    const std::unique_ptr<Runner> runner = make(index, kept);
    RunLoop loop({.scenario = scenario, .index = index, .options = kept, .out = out}, *runner);
    try {
      result.stopped = !loop.run();
    } catch (const DeviceError& error) {
      result.failure = error.what();
      result.stopped = true;
    }
    loop.take(result);
    if (!result.stopped) loop.report();
  }
  return result;
}

}  // namespace plimsoll::load
