// SPDX-License-Identifier: Apache-2.0
#include "load/fleet_life.h"

#include <algorithm>
#include <cmath>

#include "load/scenario.h"

namespace plimsoll::load {

namespace {
constexpr double kNanosASecond = 1e9;
constexpr double kNanosAMinute = 60e9;
}  // namespace

FleetLife::FleetLife(const Scenario& scenario, std::uint64_t replication)
    : config_(scenario.life.value()),
      random_(scenario.workload.seed, replication, Purpose::failure),
      warmup_(std::llround(scenario.warmup.count() * kNanosASecond)),
      slots_(static_cast<std::size_t>(scenario.replicas)),
      instances_((slots_.size() + static_cast<std::size_t>(config_.slots_per_instance) - 1) /
                 static_cast<std::size_t>(config_.slots_per_instance)),
      keep_rows_(replication == 0) {
  if (config_.autoscaling) {
    scaler_.emplace(*config_.autoscaling, config_.initial);
    next_point_ = config_.autoscaling->period;
  }
  // The initial replicas serve at once; only added ones have a start-up time.
  const std::int32_t initial = scaler_ ? scaler_->wanted() : config_.initial;
  for (std::size_t i = 0; i < static_cast<std::size_t>(initial); ++i) {
    launch(i, 0, 0);
    serve(i, 0);
  }
  use_.starts = 0;  // replicas present at the start do not count
  pending_.clear();
  find_next();
  record(0);
}

// Changes at the same time share one row, and a change without effect adds none.
void FleetLife::record(Nanos now) {
  if (!keep_rows_) return;
  sched::FleetRow row{.time = now, .starting = 0, .serving = 0, .draining = 0, .failed = 0, .instances = 0};
  for (const Slot& slot : slots_) {
    switch (slot.state) {
      case State::off: break;
      case State::starting: ++row.starting; break;
      case State::ready: ++row.serving; break;
      case State::draining: ++row.draining; break;
      case State::dead: ++row.failed; break;
    }
  }
  for (const Instance& instance : instances_) row.instances += instance.used > 0 ? 1 : 0;
  if (!rows_.empty() && rows_.back().time == now) rows_.pop_back();
  const auto same = [&row](const sched::FleetRow& last) {
    return last.starting == row.starting && last.serving == row.serving && last.draining == row.draining &&
           last.failed == row.failed && last.instances == row.instances;
  };
  if (rows_.empty() || !same(rows_.back())) rows_.push_back(row);
}

// Changes after the last request belong to no run. The last row is repeated at the end, so that charts extend to it.
std::vector<sched::FleetRow> FleetLife::rows(Nanos end) const {
  std::vector<sched::FleetRow> rows = rows_;
  while (!rows.empty() && rows.back().time > end) rows.pop_back();
  if (rows.empty()) return rows;
  rows.push_back(rows.back());
  rows.back().time = end;
  return rows;
}

// Updates next_, so that the loop of a run reads one number instead of scanning the slots at every event.
void FleetLife::find_next() {
  // Changes that are not reported yet are due at once.
  next_ = pending_.empty() ? next_point_ : 0;
  for (const Slot& slot : slots_) next_ = std::min(next_, slot.due);
}

void FleetLife::launch(std::size_t slot, Nanos now, Nanos ready) {
  slots_[slot].state = State::starting;
  slots_[slot].launched = now;
  slots_[slot].due = ready;
  ++use_.starts;
  Instance& instance = instances_[slot / static_cast<std::size_t>(config_.slots_per_instance)];
  if (instance.used++ == 0) instance.launched = now;
}

void FleetLife::serve(std::size_t slot, Nanos now) {
  Slot& s = slots_[slot];
  s.state = State::ready;
  s.due = sched::kNever;
  if (config_.failures.mean_between > 0) {
    constexpr std::uint64_t kLives = std::uint64_t{1} << 32U;  // per slot; more than any run sees
    const double mean = static_cast<double>(config_.failures.mean_between);
    // Draws are numbered by slot and life, so the failures of one slot do not depend on the other slots.
    const double life = mean * standard_exponential(random_.block(slot * kLives + s.lives++)[0]);
    constexpr double kForever = 4e18;
    s.due = life < kForever ? now + static_cast<Nanos>(life) : sched::kNever;
  }
  pending_.push_back({slot, Change::serves});
}

double FleetLife::paid(Nanos from, Nanos to) const {
  return static_cast<double>(std::max<Nanos>(0, to - std::max(from, warmup_))) / kNanosASecond;
}

// An instance with several replicas is paid for until the last of them has gone.
void FleetLife::release(std::size_t slot, Nanos now) {
  slots_[slot].state = State::off;
  slots_[slot].due = sched::kNever;
  use_.replica_s += paid(slots_[slot].launched, now);
  Instance& instance = instances_[slot / static_cast<std::size_t>(config_.slots_per_instance)];
  if (--instance.used == 0) use_.instance_s += paid(instance.launched, now);
}

std::int32_t FleetLife::count(State state) const {
  return static_cast<std::int32_t>(
      std::count_if(slots_.begin(), slots_.end(), [state](const Slot& s) { return s.state == state; }));
}

void FleetLife::integrate(Nanos now) {
  if (now <= last_) return;
  request_s_ += static_cast<double>(requests_) * static_cast<double>(now - last_) / kNanosASecond;
  last_ = now;
}

void FleetLife::note(std::size_t slot, Nanos now, std::int64_t delta) {
  integrate(now);
  requests_ += delta;
  slots_[slot].requests += delta;
  end_drain(slot, now);
}

void FleetLife::keep(std::size_t slot, Nanos now, std::int64_t delta) {
  slots_[slot].kept += delta;
  end_drain(slot, now);
}

void FleetLife::end_drain(std::size_t slot, Nanos now) {
  const Slot& s = slots_[slot];
  if (s.state != State::draining || s.requests + s.kept > 0) return;
  integrate(now);
  release(slot, now);
  adjust(now);  // a new replica may have been waiting for a free slot
  record(now);
  find_next();
}

// Computes a data point: requests per minute over this period, or the mean number of requests in the fleet during it.
void FleetLife::end_period(Nanos now) {
  integrate(now);
  const sched::AutoscalingConfig& scaling = *config_.autoscaling;
  const auto period = static_cast<double>(scaling.period);
  const double load = scaling.metric == sched::ScalingMetric::invocations
                          ? static_cast<double>(arrivals_) * kNanosAMinute / period
                          : request_s_ * kNanosASecond / period;
  scaler_->on_point(now, load, count(State::ready));
  arrivals_ = 0;
  request_s_ = 0;
  next_point_ = now + scaling.period;
  adjust(now);
}

void FleetLife::adjust(Nanos now) {
  if (!scaler_) return;
  const auto there = [this] { return count(State::starting) + count(State::ready) + count(State::dead); };
  // Fills the lowest free slots, because the highest are released first: instances fill up and empty as a whole.
  for (std::size_t i = 0; i < slots_.size() && there() < scaler_->wanted(); ++i) {
    if (slots_[i].state == State::off) launch(i, now, now + config_.autoscaling->start_up);
  }
  while (there() > scaler_->wanted() && stop_one(now)) {}
}

// Replicas that do not serve yet stop first, then those in the highest slots, so that whole instances become free.
bool FleetLife::stop_one(Nanos now) {
  for (const State state : {State::starting, State::dead, State::ready}) {
    for (std::size_t i = slots_.size(); i-- > 0;) {
      if (slots_[i].state != state) continue;
      if (state == State::ready) pending_.push_back({i, Change::drains});
      if (state == State::ready && slots_[i].requests + slots_[i].kept > 0) {
        slots_[i].state = State::draining;
        slots_[i].due = sched::kNever;
      } else {
        release(i, now);
      }
      return true;
    }
  }
  return false;
}

// Handles slots and the autoscaler's periods in order of time. At equal times the slot comes first, so that the
// autoscaler counts the new state.
std::optional<FleetLife::Event> FleetLife::take(Nanos now) {
  while (pending_.empty() && next_ <= now) {
    ++events_;
    const auto first =
        std::min_element(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) { return a.due < b.due; });
    const Nanos at = std::min(next_point_, first->due);
    if (next_point_ < first->due) {
      end_period(at);
    } else if (const auto slot = static_cast<std::size_t>(first - slots_.begin()); first->state == State::ready) {
      // A ready slot whose time has come fails; one that starts or is dead serves again.
      integrate(at);
      // The requests of a failed replica are no longer in the fleet.
      requests_ -= first->requests;
      first->requests = first->kept = 0;
      first->state = State::dead;
      first->due = at + config_.failures.restart;
      ++use_.failures;
      pending_.push_back({slot, Change::dies});
    } else {
      serve(slot, at);
    }
    record(at);
    find_next();
  }
  if (pending_.empty()) return {};
  const Event event = pending_.front();
  pending_.erase(pending_.begin());
  find_next();
  return event;
}

Nanos settling_time(const LifeConfig& config) {
  const FailureConfig& failures = config.failures;
  Nanos time = failures.mean_between > 0 ? failures.restart : 0;
  // Failures that cost more than a hundredth of the capacity must occur in the measurement. On average two of them
  // occur in three times this time.
  constexpr Nanos kHundred = 100;
  if (failures.mean_between > 0 && failures.mean_between / kHundred < failures.restart)
    time = std::max(time, failures.mean_between / (3 * Nanos{config.initial}) * 2);
  if (const auto& scaling = config.autoscaling) {
    // From a rise of the load to replicas that serve it: the alarm needs its data points, then the replicas start.
    time = std::max(time, scaling->out_points * scaling->period + scaling->start_up + scaling->out_cooldown);
  }
  return time;
}

sched::FleetUsage FleetLife::use(Nanos end) const {
  sched::FleetUsage use = use_;
  for (const Slot& slot : slots_) use.replica_s += slot.state == State::off ? 0 : paid(slot.launched, end);
  for (const Instance& instance : instances_) use.instance_s += instance.used == 0 ? 0 : paid(instance.launched, end);
  return use;
}

}  // namespace plimsoll::load
