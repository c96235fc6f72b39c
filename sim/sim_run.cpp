// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_run.h"

namespace plimsoll::sim {

SimRun::SimRun(const load::Scenario& scenario, const RunOptions& options)
    : scenario_(scenario), options_(options), shared_(scenario), slots_(scenario.slots()), events_(scenario.slots()) {
  if (scenario.pools) {
    prefill_shared_.emplace(*scenario.pools->prefill);
    prefill_shared_->itl = shared_.itl;  // times between tokens are added up once
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) put_new(slot);
}

// The replicas are in a deque, because the loop keeps pointers to them. Failed ones stay for their measurements.
void SimRun::put_new(std::size_t slot) {
  const bool prefill = slot >= static_cast<std::size_t>(scenario_.replicas);
  slots_[slot] =
      &replicas_.emplace_back(prefill ? *scenario_.pools->prefill : scenario_, static_cast<std::int32_t>(slot),
                              options_, prefill ? *prefill_shared_ : shared_);
  all_.push_back(&slots_[slot]->replica());
}

load::FrontEnd SimRun::front_end() {
  if (load::script_of(scenario_.workload) != nullptr) return {};  // times are the script's
  const model::FrontEndTime time = scenario_.engine->arrival_time(scenario_.front_end);
  load::FrontEnd front_end{.intake = time.intake, .delay = time.delay, .drift = scenario_.drift};
  front_end.stream = time.stream;
  front_end.tokens = [this](Nanos now) {
    settle(now);
    return *shared_.tokens;
  };
  return front_end;
}

// Checks only in every 1024th pass, because the check costs more than a pass.
bool SimRun::looks_up(Nanos /*now*/) { return (++looks_ & 1023U) == 0; }

// A replica that is not busy decides at this very time, so its timer, if any, is no longer needed.
void SimRun::update(std::size_t slot) {
  events_.set(slot, slots_[slot]->busy() ? slots_[slot]->next_event() : sched::kNever);
}

bool SimRun::complete(Nanos now, load::RunLoop& loop) {
  if (events_.next() > now) return false;
  loop.reached(now);
  bool any = false;
  events_.due(now, due_);
  for (const std::size_t slot : due_) {
    // A timer of an idle replica only triggers a decision; it does not count as an event of the run.
    const bool was_busy = slots_[slot]->busy();
    any = any || was_busy;
    const bool decides = slots_[slot]->advance(now);
    if (was_busy) advanced(slot, now);
    loop.collect(slot);
    if (decides) loop.must_decide(slot);
    update(slot);
  }
  return any;
}

std::optional<sched::ReqId> SimRun::arrive(std::size_t slot, const sched::NewRequest& request, Nanos now) {
  const std::optional<sched::ReqId> id = slots_[slot]->arrive(request, now);
  update(slot);
  return id;
}

void SimRun::cancel(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) {
  slots_[slot]->cancel(id, serial, now);
  update(slot);
}

void SimRun::land(std::size_t slot, const sched::Landing& landing, Nanos now) {
  slots_[slot]->land(landing, now);
  update(slot);
}

void SimRun::release(std::size_t slot, sched::ReqId id, std::uint64_t serial, Nanos now) {
  slots_[slot]->release(id, serial, now);
  update(slot);
}

void SimRun::decide(std::size_t slot, Nanos now) {
  slots_[slot]->decide(now);
  events_.set(slot, slots_[slot]->next_event());
}

// A replica that has had no request need not be replaced.
void SimRun::replace(std::size_t slot, bool restarts, Nanos now) {
  if (slots_[slot]->unused()) return;
  slots_[slot]->die(now);
  events_.set(slot, sched::kNever);
  if (restarts) put_new(slot);
}

// Timers of idle replicas stay in the queue.
void SimRun::settle(Nanos now) {
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot]->settle(now);
    if (slots_[slot]->busy()) events_.set(slot, slots_[slot]->next_event());
  }
}

void SimRun::take(RunResult& result, bool logs) {
  load::ReplicaRunner::take(result, logs);
  for (const SimReplica& replica : replicas_)
    result.steps.insert(result.steps.end(), replica.step_rows().begin(), replica.step_rows().end());
  result.beyond_measured.insert(shared_.cost->beyond_measured().begin(), shared_.cost->beyond_measured().end());
  if (!prefill_shared_) return;
  const std::set<std::string>& beyond = prefill_shared_->cost->beyond_measured();
  result.beyond_measured.insert(beyond.begin(), beyond.end());
}

}  // namespace plimsoll::sim
