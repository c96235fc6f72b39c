// SPDX-License-Identifier: Apache-2.0
#include "study/plan/trials.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "study/output/metrics_record.h"
#include "study/plan/judgement.h"
#include "study/run/rate_bound.h"
#include "study/run/resolve.h"
#include "study/run/run_control.h"
#include "study/run/simulate_point.h"

namespace plimsoll::study::plan {

/// Runs the trials of one call side by side.
class Trials::Batch {
 public:
  Batch(Trials& owner, const std::vector<Trial>& todo)
      : owner_(owner),
        todo_(todo),
        results_(todo.size()),
        most_at_once_(todo.size()),
        fraction_(todo.size(), 0.0F),
        base_(static_cast<double>(owner.known_.size())) {}

  void run() {
    run_pieces(todo_.size(), settings().jobs, settings().control, [this](std::size_t i) { run_one(i); });
    for (std::size_t i = 0; i < todo_.size(); ++i) {
      if (results_[i]) owner_.known_.emplace(todo_[i], std::move(*results_[i]));
      if (most_at_once_[i]) note_leader(todo_[i], *most_at_once_[i]);
    }
    if (settings().control != nullptr && settings().control->cancelled()) throw Cancelled{};
  }

 private:
  [[nodiscard]] const TrialSettings& settings() const { return owner_.settings_; }

  // The run with the largest limit shows whether that limit was ever reached: if not, its twins need no run.
  void note_leader(const Trial& trial, std::int64_t most_at_once) {
    const std::int64_t most_running = owner_.question_.candidates[trial.candidate].most_running;
    Leader& leader = owner_.leaders_[owner_.twins_of(trial)];
    if (most_running > leader.most_running) leader = {trial, most_running, most_at_once};
  }

  void run_one(std::size_t i) {
    const Trial& trial = todo_[i];
    const Candidate& candidate = owner_.question_.candidates[trial.candidate];
    std::optional<sched::PointMetrics> metrics;
    // What an interrupted search has simulated is found in its store and not run again.
    if (settings().store != nullptr) {
      if (const auto text = settings().store->find(owner_.key_of(trial))) metrics = read_metrics_record(*text);
    }
    const bool recalled = metrics.has_value();
    if (!recalled) metrics = simulate(i, trial, candidate);
    if (!metrics) return;  // the run was stopped
    const std::lock_guard lock(mutex_);
    if (settings().store != nullptr && !recalled) settings().store->put(owner_.key_of(trial), metrics_record(*metrics));
    if (recalled) owner_.recalled_ += 1;
    if (settings().on_first && trial == first_trial(owner_.question_.spec, trial.candidate))
      settings().on_first(candidate, *metrics);
    results_[i] = std::move(metrics);
    report(i, 1);
  }

  std::optional<sched::PointMetrics> simulate(std::size_t i, const Trial& trial, const Candidate& candidate) {
    sim::RunOptions options;
    if (settings().control != nullptr) options.stop = settings().control->stop();
    options.progress = [this, i](double fraction) {
      if (settings().control != nullptr) settings().control->check_in();
      const std::lock_guard lock(mutex_);
      report(i, static_cast<float>(std::clamp(fraction, 0.0, 1.0)));
    };
    // Runs the trial in this process. Otherwise any free process of the group runs it, and the result returns as text.
    if (!settings().spread) {
      options.keep_requests = owner_.asked_of_twins_.count(owner_.twins_of(trial)) > 0;
      std::optional<TrialRun> run = simulate_trial(candidate, trial, settings().stepwise, options);
      if (!run) return {};
      most_at_once_[i] = run->most_at_once;
      return std::move(run->metrics);
    }
    const std::string text = settings().spread(trial_task(owner_.question_.index, trial), [&] {
      const auto run = simulate_trial(candidate, trial, settings().stepwise, options);
      return run ? metrics_record(run->metrics) : std::string();
    });
    if (text.empty()) return {};
    return read_metrics_record(text);
  }

  // Call with the mutex held.
  void report(std::size_t i, float fraction) {
    done_ += static_cast<double>(fraction) - static_cast<double>(fraction_[i]);
    fraction_[i] = fraction;
    if (settings().store != nullptr) settings().store->tick();
    if (settings().on_progress)
      settings().on_progress(base_ + done_, owner_.asked_, static_cast<double>(owner_.recalled_));
  }

  Trials& owner_;
  const std::vector<Trial>& todo_;
  std::vector<std::optional<sched::PointMetrics>> results_;
  std::vector<std::optional<std::int64_t>> most_at_once_;
  std::vector<float> fraction_;
  std::mutex mutex_;
  double base_ = 0, done_ = 0;
};

namespace {

// A run that misses a limit by more than this factor need not be lengthened: queues only grow with time.
constexpr double kFarOff = 1.5;
constexpr int kMaxRuns = 8;

bool is_far_off(const PointSpec& spec, const sched::PointMetrics& metrics) {
  if (load::is_closed_loop(spec.workload.load)) return false;  // here the first wave is the worst
  const sched::PointMetrics* const run = &metrics;
  const SloVerdict standing = standing_of(spec, std::span(&run, 1), 0.95);
  return std::any_of(standing.checks.begin(), standing.checks.end(),
                     [](const Check& c) { return c.kind != CheckKind::queue && !c.at_least && c.ratio() > kFarOff; });
}

// Returns the length beyond which a run is not extended. If retries may turn time-outs into a collapse, even a longer
// run need not decide it, because its waits are longer too. The same holds for whether a few time-outs become many.
double most_requests(const PointSpec& spec) {
  constexpr double kMostWithRetries = 400'000, kMostWithTimeouts = 100'000;
  const auto most = static_cast<double>(kMaxRun);
  if (!(spec.limits.timeout.count() > 0)) return most;
  return std::clamp(static_cast<double>(spec.workload.requests),
                    spec.limits.retries > 0 ? kMostWithRetries : kMostWithTimeouts, most);
}

// Returns whether a run with almost no time-out is too short to prove that there will never be many. Such a run is
// judged as if clients never gave up, which needs less proof. That suffices for a search: it finds loads within a few
// percent, and beyond the capacity its last, long runs do have time-outs.
bool could_wait(const PointSpec& spec, const sched::PointMetrics& m) {
  constexpr double kFew = 0.01;
  return m.steady.verdict == sched::Steadiness::too_short && spec.limits.timeout.count() > 0 &&
         spec.limits.retries == 0 &&
         static_cast<double>(m.requests_timed_out) <= kFew * static_cast<double>(m.requests_completed);
}

// Returns how many requests this run should have had; 0: it was long enough.
double requests_wanted(const PointSpec& spec, const Trial& trial, const sched::PointMetrics& m) {
  using sched::Steadiness;
  if (m.steady.verdict == Steadiness::unstable || is_far_off(spec, m)) return 0;
  if (m.steady.verdict == Steadiness::too_short) return static_cast<double>(m.steady.requests_needed);
  if (load::is_closed_loop(spec.workload.load) || !m.latency.mean || !(m.duration_s > *m.latency.mean)) return 0;
  const double lives = m.duration_s / *m.latency.mean - 1;  // the last requests end one latency after the load
  constexpr double kMargin = 1.1;
  const auto sent = static_cast<double>(m.requests_completed + m.requests_rejected + m.requests_timed_out);
  return lives < trial.lives ? kMargin * sent * trial.lives / lives : 0;
}

// A request that timed out or was retried may have been in a replica at times that its row does not show.
std::optional<std::int64_t> most_at_once(const PointSpec& spec, const sched::PointMetrics& m,
                                         const std::vector<sched::RequestRow>& rows) {
  if (rows.empty() || m.requests_timed_out > 0 || spec.limits.retries > 0 || spec.limits.timeout.count() > 0) return {};
  struct Stay {
    std::vector<Nanos> begins, ends;
  };
  std::vector<Stay> replicas(static_cast<std::size_t>(spec.deployment.most_replicas()));
  for (const sched::RequestRow& row : rows) {
    if (row.replica < 0 || row.dispatched < 0) continue;
    Stay& stay = replicas.at(static_cast<std::size_t>(row.replica));
    stay.begins.push_back(row.dispatched);
    stay.ends.push_back(row.end);
  }
  // Compares sorted begins with sorted ends to find the most requests that were in one replica at one time.
  std::int64_t most = 0;
  for (Stay& stay : replicas) {
    std::sort(stay.begins.begin(), stay.begins.end());
    std::sort(stay.ends.begin(), stay.ends.end());
    auto end = stay.ends.begin();
    for (auto begin = stay.begins.begin(); begin != stay.begins.end(); ++begin) {
      while (*end < *begin) ++end;  // a request that ends at this very time still counts
      most = std::max<std::int64_t>(most, (begin - stay.begins.begin()) + 1 - (end - stay.ends.begin()));
    }
  }
  return most;
}

// Returns whether even full batches could not serve the offered load; then no longer run is needed to show it.
bool is_hopeless(const Candidate& candidate, const Trial& trial) {
  if (trial.length_scale != 1 || trial.step_scale != 1) return false;
  const double load = trial.load > 0 ? trial.load : load::load_value(candidate.spec.workload.load);
  const std::optional<double> most = RateBound().most(candidate.spec);
  return most && is_beyond(candidate.spec, load * trial.load_scale, *most);
}

std::optional<TrialRun> simulate_once(const PointSpec& spec, bool stepwise, const sim::RunOptions& options) {
  ResolvedPoint point = resolve_spec(spec);
  // The candidate's memory and degrees are known to be possible; only the workload of a variation can be wrong.
  point.require_possible();
  FinishedPoint finished = simulate_point(std::move(point), {.stepwise = stepwise, .options = options});
  if (!finished.result.metrics) return {};
  if (could_wait(spec, *finished.result.metrics)) {
    PointSpec patient = spec;
    patient.limits.timeout = {};
    std::optional<TrialRun> run = simulate_once(patient, stepwise, options);
    if (!run || finished.result.metrics->requests_timed_out == 0) return run;  // identical except for its verdict
    finished.result.metrics->steady = run->metrics.steady;
  }
  const auto most = most_at_once(spec, *finished.result.metrics, finished.run.requests);
  return TrialRun{std::move(*finished.result.metrics), most};
}

}  // namespace

std::optional<TrialRun> simulate_trial(const Candidate& candidate, const Trial& trial, bool stepwise,
                                       const sim::RunOptions& options) {
  constexpr std::int64_t kMaxRows = 500'000;  // request rows to keep in memory
  PointSpec spec = trial_spec(candidate.spec, trial);
  const auto finished = [&](std::optional<TrialRun> run) {
    if (run && trial.replicas > 0) {
      const double part = static_cast<double>(trial.replicas) / candidate.spec.deployment.replicas;
      run->metrics = of_whole_fleet(std::move(run->metrics), part);
    }
    return run;
  };
  const double most = most_requests(spec);
  sim::RunOptions these = options;
  for (int run = 1;; ++run) {
    these.keep_requests = options.keep_requests && spec.workload.requests <= kMaxRows;
    std::optional<TrialRun> found = simulate_once(spec, stepwise, these);
    if (!found || run == kMaxRuns) return finished(std::move(found));
    const sched::PointMetrics& m = found->metrics;
    const double wanted = requests_wanted(spec, trial, m);
    const auto sent = static_cast<double>(m.requests_completed + m.requests_rejected + m.requests_timed_out);
    if (wanted <= sent || sent >= most || (run == 1 && is_hopeless(candidate, trial)))
      return finished(std::move(found));
    auto longer = with_requests(spec, static_cast<std::int64_t>(std::min(wanted, most)));
    if (!longer) return finished(std::move(found));
    spec = std::move(*longer);
  }
}

Trials::Trials(const Question& question, TrialSettings settings) : question_(question), settings_(std::move(settings)) {
  if (settings_.store != nullptr)
    keys_ = std::make_unique<PointKeys>(*question.study, settings_.stepwise ? "stepwise" : "");
}

Trials::~Trials() = default;

Digest Trials::key_of(const Trial& trial) const {
  return keys_->of_point(question_.index, trial_text(trial), question_.candidates[trial.candidate].settings);
}

void Trials::run(std::span<const Trial> trials) {
  std::vector<Trial> todo;
  for (const Trial& trial : trials) {
    if (!knows(trial)) todo.push_back(trial);
  }
  std::sort(todo.begin(), todo.end());
  todo.erase(std::unique(todo.begin(), todo.end()), todo.end());
  if (todo.empty()) return;
  asked_ += todo.size();
  run_all(std::move(todo));
  // Trials that took another trial's result have not reported any progress.
  if (settings_.on_progress)
    settings_.on_progress(static_cast<double>(known_.size()), asked_, static_cast<double>(recalled_ + shared_));
}

// Among twins with the same trial, the one with the largest limit runs first. Its result also holds for twins whose
// limit it never reached; the others run themselves.
void Trials::run_all(std::vector<Trial> todo) {
  std::erase_if(todo, [this](const Trial& trial) { return take_from_twin(trial); });
  if (todo.empty()) return;
  const std::vector<Trial> first = without_twins(todo);
  asked_of_twins_.clear();
  for (const Trial& trial : todo) asked_of_twins_.insert(twins_of(trial));
  Batch(*this, first).run();
  std::erase_if(todo, [this](const Trial& trial) { return take_from_twin(trial); });
  if (!todo.empty()) Batch(*this, todo).run();
}

// Returns the first trial of each group of twins; the others stay in `todo`.
std::vector<Trial> Trials::without_twins(std::vector<Trial>& todo) {
  const auto limit = [this](const Trial& trial) { return question_.candidates[trial.candidate].most_running; };
  std::map<Trial, Trial> largest;
  for (const Trial& trial : todo) {
    const auto [at, is_new] = largest.try_emplace(twins_of(trial), trial);
    if (!is_new && limit(trial) > limit(at->second)) at->second = trial;
  }
  const auto others = std::stable_partition(todo.begin(), todo.end(),
                                            [&](const Trial& trial) { return largest.at(twins_of(trial)) == trial; });
  std::vector<Trial> out(todo.begin(), others);
  todo.erase(todo.begin(), others);
  return out;
}

bool Trials::take_from_twin(const Trial& trial) {
  const auto found = leaders_.find(twins_of(trial));
  if (found == leaders_.end()) return false;
  const Leader& leader = found->second;
  const Candidate& candidate = question_.candidates[trial.candidate];
  if (leader.most_at_once >= std::min(leader.most_running, candidate.most_running)) return false;
  const sched::PointMetrics& metrics = known_.emplace(trial, known_.at(leader.trial)).first->second;
  shared_ += 1;
  if (settings_.store != nullptr) settings_.store->put(key_of(trial), metrics_record(metrics));
  if (settings_.on_first && trial == first_trial(question_.spec, trial.candidate))
    settings_.on_first(candidate, metrics);
  return true;
}

Trial Trials::twins_of(Trial trial) const {
  trial.candidate = question_.candidates[trial.candidate].twins;
  return trial;
}

const sched::PointMetrics& Trials::of(const Trial& trial) const {
  const auto found = known_.find(trial);
  PLIMSOLL_CHECK(found != known_.end(), "the requested trial was run");
  return found->second;
}

const sched::PointMetrics& Trials::one(const Trial& trial) {
  run(std::span(&trial, 1));
  return of(trial);
}

}  // namespace plimsoll::study::plan
