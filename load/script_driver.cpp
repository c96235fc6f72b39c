// SPDX-License-Identifier: Apache-2.0
#include "load/script_driver.h"

#include <algorithm>
#include <map>

#include "load/dispatcher.h"
#include "model/error.h"

namespace plimsoll::load {

namespace {

class ScriptRun {
 public:
  ScriptRun(const Scenario& scenario, const sched::RunOptions& options, ScriptReplica& replica,
            sched::MetricsCollector& out)
      : script_(std::get<Script>(scenario.workload.load)),
        options_(options),
        out_(out),
        driver_(replica),
        replica_(replica.replica()) {
    for (std::size_t i = 0; i < script_.requests.size(); ++i) order_.push_back(i);
    std::stable_sort(order_.begin(), order_.end(), [this](std::size_t a, std::size_t b) {
      return script_.requests[a].visible_before_step < script_.requests[b].visible_before_step;
    });
    real_at_[0] = 0;
  }

  /// Returns false if options.stop was requested.
  bool run() {
    while (may_go_on()) {
      deliver();
      const bool step = driver_.decide(now_);
      collect();
      if (step) {
        run_step();
      } else if (replica_.wake_at() != sched::kNever) {
        pass_to(replica_.wake_at());
      } else if (next_ < order_.size()) {
        // Nothing can happen before the next request appears: skip to its step.
        k_ = std::max(k_, script_.requests[order_[next_]].visible_before_step);
        replica_.log().jump_to(k_);
      } else {
        break;
      }
    }
    replica_.log().finish();
    return !options_.stop.stop_requested();
  }

  void measure() {
    Dispatcher::report(replica_, nullptr, out_);
    out_.add_itl(replica_.itl().counts());
    out_.add_itl_sum(replica_.itl().sum());
    out_.end_run({.start_s = 0, .end_s = real_, .in_system = in_system_, .queue = queue_}, {});
  }

  void report(sched::RunResult& result) {
    std::sort(rows_.begin(), rows_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    result.requests = std::move(rows_);
    if (options_.keep_log) result.logs.push_back(replica_.log().text());
    result.steps_run = replica_.steps();
  }

 private:
  [[nodiscard]] bool may_go_on() const {
    if (options_.progress)
      options_.progress(static_cast<double>(ended_) / static_cast<double>(std::max<std::size_t>(1, order_.size())));
    return !options_.stop.stop_requested();
  }

  void deliver() {
    for (; next_ < order_.size() && script_.requests[order_[next_]].visible_before_step <= k_; ++next_) {
      const ScriptRequest& r = script_.requests[order_[next_]];
      sched::NewRequest request;
      request.serial = next_;
      request.input = r.prompt;
      request.output = std::min(r.output, r.cap);
      request.max_new = r.cap;
      request.sent = now_;
      request.name = r.name;
      (void)driver_.arrive(request, now_);
    }
  }

  void run_step() {
    if (now_ > kMaxRun - script_.step) throw InputError("the script lasts more than 100 years; lower script_step");
    real_ += driver_.run_step(now_, now_ + script_.step, real_);
    now_ += script_.step;
    real_at_[now_] = real_;
    ++k_;
    collect();
  }

  // While the policy waits, both clocks advance by the same amount.
  void pass_to(Nanos wake) {
    real_ += 1e-9 * static_cast<double>(wake - now_);
    now_ = wake;
    real_at_[now_] = real_;
  }

  // Converts a stamp of the script's clock to a time of the run, both in nanoseconds; -1 stays -1.
  [[nodiscard]] Nanos real(Nanos stamp) const {
    if (stamp < 0) return -1;
    return static_cast<Nanos>(1e9 * std::prev(real_at_.upper_bound(stamp))->second + 0.5);
  }

  void collect() {
    for (const sched::FinishedAttempt& e : replica_.ended()) {
      driver_.ended(e);
      ++ended_;
      sched::RequestResult result;
      result.sent = real(e.sent);
      result.first_token = real(e.first_token);
      result.end = real(e.end);
      result.input = e.input;
      result.output = e.output;
      result.generated = e.generated;
      result.outcome = e.outcome;
      result.code = e.code;
      // The attempt's own durations are on the script's clock, so they are computed again from converted times.
      const double latency = 1e-9 * static_cast<double>(result.end - result.sent);
      result.queue_s =
          e.first_scheduled < 0 ? latency : 1e-9 * static_cast<double>(real(e.first_scheduled) - result.sent);
      result.service = e.service;
      if (e.preemptions > 0) result.preempt_s = std::max(0.0, latency - result.queue_s - e.service.total());
      in_system_ += latency;
      queue_ += result.queue_s;
      out_.add(result);
      if (options_.keep_requests) keep_row(e, result);
    }
    replica_.ended().clear();
  }

  void keep_row(const sched::FinishedAttempt& e, const sched::RequestResult& result) {
    sched::RequestRow row;
    row.id = e.serial;
    row.name = script_.requests[order_[static_cast<std::size_t>(e.serial)]].name;
    row.replica = 0;
    row.arrival = row.dispatched = result.sent;
    row.first_token = result.first_token;
    row.end = result.end;
    row.input = e.input;
    row.output = e.output;
    row.generated = e.generated;
    row.outcome = e.outcome;
    row.http = e.http;
    row.code = e.code;
    row.preemptions = e.preemptions;
    rows_.push_back(row);
  }

  const Script& script_;
  const sched::RunOptions& options_;
  sched::MetricsCollector& out_;
  ScriptReplica& driver_;
  sched::Replica& replica_;
  std::vector<std::size_t> order_;  // requests, sorted by the step before which they appear
  std::size_t next_ = 0, ended_ = 0;
  std::int64_t k_ = 1;               // the step about to be decided
  Nanos now_ = 0;                    // the script's clock
  double real_ = 0;                  // seconds of the run
  std::map<Nanos, double> real_at_;  // run time at each stamp of the script's clock
  double in_system_ = 0, queue_ = 0;
  std::vector<sched::RequestRow> rows_;
};

}  // namespace

sched::RunResult run_script(const Scenario& scenario, const sched::RunOptions& options, ScriptReplica& replica,
                            sched::MetricsCollector& out) {
  PLIMSOLL_CHECK(scenario.replicas == 1, "a script drives one replica");
  ScriptRun run(scenario, options, replica, out);
  sched::RunResult result;
  try {
    result.stopped = !run.run();
    run.measure();
  } catch (const DeviceError& error) {
    result.failure = error.what();
    result.stopped = true;
  }
  run.report(result);
  return result;
}

}  // namespace plimsoll::load
