// SPDX-License-Identifier: Apache-2.0
#include "serve/serve.h"

#include <fmt/format.h>

#include <fstream>
#include <optional>

#include "load/run_loop.h"
#include "model/error.h"
#include "serve/real_time_run.h"

namespace plimsoll::serve {

namespace {

/// A file that is written while the run goes on.
class GrowingFile {
 public:
  explicit GrowingFile(const std::string& path) : path_(path), out_(path, std::ios::binary | std::ios::trunc) {
    check();
  }
  void append(const std::string& text) {
    if (text.empty()) return;
    out_.write(text.data(), static_cast<std::streamsize>(text.size()));
    check();
  }
  void close() {
    out_.close();
    check();
  }

 private:
  void check() const {
    if (!out_) throw DeviceError(fmt::format("cannot write {}", path_));
  }
  std::string path_;
  std::ofstream out_;
};

/// Writes events.jsonl and decisions.txt.
class Record {
 public:
  explicit Record(const ServeSettings& settings) : log_(!settings.events_file.empty()) {
    if (!log_enabled(settings)) return;
    events_.emplace(settings.events_file);
    for (const std::string& path : settings.decision_files) decisions_.emplace_back(path);
  }
  [[nodiscard]] static bool log_enabled(const ServeSettings& settings) { return !settings.events_file.empty(); }
  [[nodiscard]] load::EventLog& log() { return log_; }
  void write(load::ReplicaRunner& run) {
    if (!events_) return;
    events_->append(log_.take());
    for (std::size_t i = 0; i < decisions_.size(); ++i) decisions_[i].append(run.replica(i).log().take());
  }
  void end(load::ReplicaRunner& run, Nanos now) {
    if (!events_) return;
    log_.end(now);
    for (std::size_t i = 0; i < decisions_.size(); ++i) run.replica(i).log().finish();
    write(run);
    events_->close();
    for (GrowingFile& file : decisions_) file.close();
  }

 private:
  load::EventLog log_;
  std::optional<GrowingFile> events_;
  std::vector<GrowingFile> decisions_;
};

// Adapts the scenario to real clients. They leave when they like, which cancels their request, so the limits of the
// study do not apply. Every step is an event, because its tokens are sent when it ends.
load::Scenario served(const load::Scenario& scenario) {
  load::Scenario out = scenario;
  out.stepwise = true;
  out.limits = {.timeout = Seconds{0}, .cancel_on_timeout = true, .retries = 0};
  out.warmup = Seconds{0};
  out.replications = 1;
  return out;
}

ServerDescription description(const load::Scenario& scenario, const ServeSettings& settings) {
  const std::vector<std::string>& names = settings.service.served_names;
  return {.model = names.empty() ? settings.service.model : names.front(),
          .longest = settings.service.longest,
          .speed = settings.speed,
          .replicas = static_cast<std::size_t>(scenario.replicas),
          .cache_dtype = model::name(scenario.kv_dtype),
          .unusable_blocks = sched::policy_info(scenario.policy.policy).unusable_blocks,
          .backend = settings.service.backend};
}

/// A served run: its parts, and the way it ends.
class Served {
 public:
  Served(const load::Scenario& scenario, const ServeSettings& settings)
      : settings_(settings),
        scenario_(served(scenario)),
        clock_(settings.speed),
        service_(scenario_, settings.service, clock_),
        arrivals_(scenario.replicas, service_),
        metrics_(description(scenario, settings)),
        record_(settings),
        server_(service_, settings.limits, fmt::format("Plimsoll-Speed: {}\r\n", settings.speed)),
        reader_(service_.prompt_rules()),
        options_{.keep_log = !settings.decision_files.empty(),
                 .point = settings.point,
                 .stop = stop_.get_token(),
                 .progress = {}},
        run_(make_run({.clock = clock_,
                       .server = server_,
                       .arrivals = arrivals_,
                       .listener = service_,
                       .metrics = metrics_,
                       .lateness = lateness_,
                       .events = record_.log()})) {
    service_.connect(server_, arrivals_, metrics_, lateness_);
    service_.connect(*run_, reader_);
    arrivals_.pass_through(run_->runner().front_end());
    run_->look = [this](Nanos now) { return look(now); };
  }

  ServeSummary run() {
    sched::MetricsCollector unused({}, Seconds{0}, false);
    load::RunLoop loop({.scenario = scenario_, .index = 0, .options = options_, .out = unused}, run_->runner(),
                       &arrivals_);
    record_.log().begin(scenario_, settings_.point);
    const std::string url = server_.listen(settings_.host, settings_.port);
    if (settings_.watches_signals) server_.watch_signals();
    if (settings_.on_listening) settings_.on_listening(url);
    (void)loop.run();
    record_.end(run_->runner(), clock_.now());
    return summary();
  }

 private:
  [[nodiscard]] std::unique_ptr<ServedRun> make_run(const RunParts& parts) {
    if (settings_.make_run) return settings_.make_run(scenario_, options_, parts);
    return std::make_unique<RealTimeRun>(scenario_, options_, parts);
  }

  // After a signal, open requests get `drain` to end; then they are cut.
  bool look(Nanos /*now*/) {
    record_.write(run_->runner());
    const auto now = std::chrono::steady_clock::now();
    if (!cut_at_) {
      if (service_.stops_wanted() == 0 && !settings_.stop.stop_requested()) return false;
      server_.stop_listening();
      service_.drain();
      cut_at_ = now + std::chrono::duration_cast<std::chrono::nanoseconds>(settings_.drain);
    }
    const bool idle = service_.is_idle() && server_.is_idle();
    if (!idle && now < *cut_at_ && service_.stops_wanted() < 2) return false;  // a second signal waits for nothing
    cut_ = static_cast<std::int64_t>(service_.open());
    service_.cut_all();
    stop_.request_stop();
    return true;
  }

  [[nodiscard]] ServeSummary summary() const {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - clock_.at(0);
    return {.completed = service_.completed(),
            .refused = service_.refused(),
            .left = service_.left() - cut_,
            .output_tokens = service_.output_tokens(),
            .cut = cut_,
            .seconds = elapsed.count(),
            .steps = lateness_.all().count(),
            .late_steps = lateness_.late_steps(),
            .late_p50 = lateness_.all().quantile(0.5),
            .late_p99 = lateness_.all().quantile(0.99),
            .is_late = lateness_.is_flagged()};
  }

  const ServeSettings& settings_;
  load::Scenario scenario_;
  ModelClock clock_;
  Service service_;
  Arrivals arrivals_;
  ServerMetrics metrics_;
  Lateness lateness_;
  Record record_;
  net::HttpServer server_;  // after all that it notifies, also from its destructor
  BodyReader reader_;       // after the server, which it uses
  std::stop_source stop_;
  sched::RunOptions options_;
  std::unique_ptr<ServedRun> run_;
  std::optional<ModelClock::Time> cut_at_;
  std::int64_t cut_ = 0;
};

}  // namespace

ServeSummary serve(const load::Scenario& scenario, const ServeSettings& settings) {
  Served run(scenario, settings);
  return run.run();
}

}  // namespace plimsoll::serve
