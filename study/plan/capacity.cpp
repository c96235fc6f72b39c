// SPDX-License-Identifier: Apache-2.0
#include "study/plan/capacity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "load/load_kind.h"
#include "study/plan/bracket.h"
#include "study/plan/ranking.h"
#include "study/run/load_variation.h"
#include "study/run/rate_bound.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kConfirmed = 0.02;  // relative width at which a confirming bracket ends
constexpr std::size_t kConfirmingRuns = 4, kWave = 3;
// Brackets of a few replications find a load that is slightly too large, because the worst case takes long to occur. So
// the result is checked by one much longer run, and lowered in steps until that passes.
constexpr double kLowered = 0.03;
constexpr int kSteps = 8;
// A long run has three times the requests of a confirming run. For a large fleet, over which chance evens out, it has
// 1.25 times as many.
constexpr double kLonger = 3, kLongerOfMany = 1.25;
constexpr std::int64_t kLongRequests = 100'000, kMany = 400'000;
// The first waves of a closed loop settle within tens of rounds. Their requests must be fewer than those that a
// quantile allows to be late.
constexpr double kLongRounds = 400;

bool whole_loads(const PointSpec& spec) { return load::is_whole(load::kind_of(spec.workload.load).quantity); }

// Brackets ignore throughput goals, which bound the load from below. They are checked at the load that is found.
PointSpec without_goals(PointSpec spec) {
  spec.slo.min_output_tokens_per_s = spec.slo.min_requests_per_s = spec.slo.min_goodput = std::nullopt;
  return spec;
}

// Returns the load at which a run of this many requests lasts ten years. At far larger loads, requests are already
// alone in the system; and runs of more than a hundred years cannot be simulated.
double least_load(const PointSpec& spec, std::int64_t requests) {
  constexpr double kTenYears = 10 * 365.25 * 86'400;  // seconds
  if (const auto* const replay = std::get_if<load::TraceReplay>(&spec.workload.load)) {
    const bool timed = replay->trace && replay->trace->has_arrivals();
    return timed ? 1e-9 * static_cast<double>(replay->trace->records.back().arrival) / kTenYears : 0;
  }
  if (whole_loads(spec) || spec.workload.duration.count() > 0) return 0;
  return static_cast<double>(std::max(requests, spec.workload.requests)) / kTenYears;
}

// Returns whether requests are practically alone in the system, so that less load does not help them. If arrivals
// cluster (a trace or a gamma distribution), requests wait even in a system that is empty on average, so the result is
// false.
bool is_alone(const PointSpec& spec, const sched::PointMetrics& m) {
  constexpr double kAlone = 1e-3;
  const bool measured = m.requests_completed + m.requests_rejected + m.requests_timed_out > 0;
  const bool clusters = !std::holds_alternative<load::Poisson>(spec.workload.load) &&
                        !std::holds_alternative<load::ConstantRate>(spec.workload.load);
  return measured && !clusters && m.in_system_mean < kAlone;
}

// Returns whether more clients would only wait longer and miss no limit: most clients of a closed loop already wait,
// and the SLO limits only the time between tokens.
bool only_waits(const PointSpec& spec, const sched::PointMetrics& m) {
  const auto between_tokens = [](const sched::Slo::Bound& b) { return is_between_tokens(b.metric); };
  const bool no_other =
      std::all_of(spec.slo.bounds.begin(), spec.slo.bounds.end(), between_tokens) && !spec.slo.max_timeout_rate;
  return load::is_closed_loop(spec.workload.load) && no_other && m.queue_mean > m.in_system_mean / 2;
}

struct Line {  // one bracket
  std::size_t slot = 0, candidate = 0, replication = 0;
  Bracket bracket;
  double requests_per_load = 0;
  double most = std::numeric_limits<double>::infinity();  // upper bound of the load: larger loads fail without a run
  bool dropped = false, waits = false;
};

// Replications start at slightly different loads, so that the mean of their brackets is finer than a single one.
double dithered(double load, std::size_t replication, const CapacityPlan& plan) {
  const auto all = static_cast<double>(plan.replications);
  return load * (1 + plan.tolerance * ((static_cast<double>(replication) + 0.5) / all - 0.5));
}

class Rounds {
 public:
  Rounds(Trials& trials, const CapacityPlan& plan)
      : question_(trials.question()), trials_(trials), plan_(plan), limits_(without_goals(question_.spec)) {}

  void add(std::size_t slot, std::size_t candidate, const CapacityStart& start) {
    const double least = least_load(question_.spec, requests_at(start.load, 0));
    const double most =
        bounds_.most(question_.candidates[candidate].spec).value_or(std::numeric_limits<double>::infinity());
    for (std::size_t r = 0; r < plan_.replications; ++r) {
      lines_.push_back({slot, candidate, r,
                        Bracket({.start = dithered(start.load, r, plan_),
                                 .stride = plan_.stride,
                                 .tolerance = plan_.tolerance,
                                 .whole = whole_loads(limits_),
                                 .least = least}),
                        start.requests_per_load, most});
      skip_impossible(lines_.back());
    }
  }

  // The candidates with the highest upper bounds run first, and their loads must be beaten. Most other candidates then
  // need only one run, just below the best load.
  void run() {
    hold_back();
    for (;;) {
      if (ask()) continue;
      const bool any = std::any_of(lines_.begin(), lines_.end(), [](const Line& l) { return l.waits; });
      if (!any) return;
      for (Line& line : lines_) line.waits = false;
    }
  }

  // Lowers the results to loads that long runs sustain, two steps at a time. A result from part of a fleet may also be
  // too low.
  void hold_against_long_runs(const std::vector<std::size_t>& candidates, const std::vector<CapacityStart>& starts,
                              std::vector<Capacity>& found) {
    std::vector<Descent> open;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool has_bracket = found[i].failing && found[i].passing > 0;
      if (has_bracket || starts[i].kept != nullptr) open.push_back(descent_of(i, candidates[i], found[i], starts[i]));
    }
    for (std::size_t step = 0; !open.empty(); step += 2) {
      std::vector<Trial> todo;
      for (const Descent& d : open) {
        for (std::size_t s = step; s < std::min(step + 2, d.loads.size()); ++s) {
          if (!d.is_kept(d.loads[s])) todo.push_back(long_trial(d, d.loads[s]));
        }
      }
      trials_.run(todo);
      std::erase_if(open, [&](const Descent& d) { return take_steps(d, step, found[d.slot]); });
    }
  }

  /// Makes the long trial at `load`. `run` is a confirming run near that load, or null.
  [[nodiscard]] Trial long_trial(std::size_t candidate, const sched::PointMetrics* run, double load) {
    Trial trial{.candidate = candidate,
                .replication = static_cast<std::int32_t>(kConfirmingRuns),
                .load = load,
                .lives = kConfirmingLives};
    const double used = run != nullptr ? static_cast<double>(run->requests_completed) : 0;
    const double longer = std::max(kLongerOfMany * used, std::min(kLonger * used, static_cast<double>(kMany)));
    const double rounds = load::is_closed_loop(question_.spec.workload.load) ? kLongRounds * load : 0;
    const auto settled = std::min<std::int64_t>(kMany, std::llround(rounds));
    if (can_be_longer(question_.spec))
      trial.requests = std::max<std::int64_t>(
          {requests_at(load, 0), kLongRequests, std::llround(longer), settled, remembered(candidate, load)});
    else
      trial.lives = kLonger * kConfirmingLives;
    return trial;
  }

  [[nodiscard]] Capacity capacity(std::size_t slot) const {
    Capacity out;
    std::vector<double> values;
    for (const Line& line : lines_) {
      if (line.slot != slot) continue;
      values.push_back(line.bracket.value());
      if (line.replication > 0) continue;
      out.passing = line.bracket.passing();
      out.failing = line.bracket.failing();
      if (out.passing > 0) out.at_passing = trials_.of(trial(line, out.passing));
      if (out.failing && *out.failing < line.most) out.at_failing = trials_.of(trial(line, *out.failing));
      if (!line.dropped) continue;
      out.failing = std::min(line.most, out.failing.value_or(line.most));
      if (out.passing > 0) values.back() = *out.failing;  // its bracket is incomplete: only an upper bound is known
    }
    out.load = estimate(values, question_.search.confidence);
    out.confirmed = plan_.long_runs;
    return out;
  }

 private:
  // Runs one round. Returns false if no bracket needs another run.
  bool ask() {
    std::vector<std::pair<Line*, double>> asked;
    std::vector<Trial> todo;
    for (Line& line : lines_) {
      const auto load = next_of(line);
      if (!load) continue;
      asked.emplace_back(&line, *load);
      todo.push_back(trial(line, *load));
    }
    if (todo.empty()) return false;
    trials_.run(todo);
    for (const auto& [line, load] : asked) {
      answer(*line, load, trials_.of(trial(*line, load)));
      skip_impossible(*line);
      double& best = best_[hardware_of(*line)];
      best = std::max(best, worth(*line, line->bracket.passing()));
    }
    if (plan_.worth_following > 0) drop_losers();
    return true;
  }

  void hold_back() {
    if (!(plan_.worth_following > 0)) return;
    // Brackets are compared only among candidates on the same kind of hardware, so that each kind keeps its best.
    std::map<std::string, std::vector<Line*>> kinds;
    for (Line& line : lines_) kinds[hardware_of(line)].push_back(&line);
    for (auto& [hardware, lines] : kinds) {
      std::stable_sort(lines.begin(), lines.end(),
                       [&](const Line* a, const Line* b) { return worth(*a, a->most) > worth(*b, b->most); });
      for (std::size_t i = kWave; i < lines.size(); ++i) lines[i]->waits = true;
    }
  }

  [[nodiscard]] std::optional<double> next_of(const Line& line) const {
    if (line.dropped || line.waits) return {};
    const auto next = line.bracket.next();
    if (!next || !(plan_.worth_following > 0)) return next;
    const auto best = best_.find(hardware_of(line));
    if (best == best_.end()) return next;
    if (const auto least = telling_load(line, plan_.worth_following * best->second)) return least;
    if (!(plan_.alike > 0) || worth(line, line.bracket.passing()) >= best->second) return next;
    return telling_load(line, plan_.alike * best->second);  // nullopt: it is indistinguishable from the best
  }

  // Returns the load with this worth, if it lies within the bracket.
  [[nodiscard]] std::optional<double> telling_load(const Line& line, double worth) const {
    const double exact = worth * share_of(line), load = whole_loads(limits_) ? std::floor(exact) : exact;
    const bool tells = load > line.bracket.passing() && load < line.bracket.failing().value_or(line.most);
    return tells && load > 0 ? std::optional(load) : std::nullopt;
  }

  [[nodiscard]] const std::string& hardware_of(const Line& line) const {
    return label_of(question_.candidates[line.candidate]);
  }

  [[nodiscard]] Trial trial(const Line& line, double load) const {
    return {.candidate = line.candidate,
            .replication = static_cast<std::int32_t>(line.replication),
            .requests = requests_at(load, line.requests_per_load),
            .load = load,
            .lives = plan_.confirms ? kConfirmingLives : kScreeningLives,
            .replicas = sampled_of(line.candidate)};
  }

  [[nodiscard]] std::int32_t sampled_of(std::size_t candidate) const {
    return plan_.part < 1 ? sampled_replicas(question_.candidates[candidate].spec, plan_.part) : 0;
  }

  [[nodiscard]] std::int64_t requests_at(double load, double requests_per_load) const {
    const PointSpec spec = with_load_value(question_.spec, load).value_or(question_.spec);
    const std::int64_t least = plan_.confirms ? confirming_requests(spec) : screening_requests(spec);
    return least > 0 ? std::max<std::int64_t>(least, std::llround(load * requests_per_load)) : 0;
  }

  /// The loads at which one capacity is checked by long runs, in falling order.
  struct Descent {
    std::size_t slot = 0, candidate = 0;
    double found = 0;  // the result of the brackets
    std::optional<sched::PointMetrics> at_passing;
    std::vector<double> loads;
    CapacityStart start;
    /// Brackets may end too low if they ran part of a fleet, if the first waves of a closed loop still had an effect,
    /// or if the replications differ much. So if the load that was found passes, larger loads are tried.
    bool looks_up = false;
    [[nodiscard]] bool is_kept(double load) const { return start.kept != nullptr && load == start.asked_for; }
  };

  // Includes the study's own load: if the answer recommends this deployment, its capacity must not end just below it.
  [[nodiscard]] Descent descent_of(std::size_t slot, std::size_t candidate, const Capacity& found,
                                   const CapacityStart& start) const {
    const bool whole = whole_loads(limits_);
    Descent d{.slot = slot,
              .candidate = candidate,
              .found = whole ? std::round(found.load.mean) : found.load.mean,
              .at_passing = found.at_passing,
              .loads = {},
              .start = start,
              .looks_up = whole || sampled_of(candidate) > 0 || found.load.half_width > kLowered * found.load.mean};
    for (int step = 0; step < kSteps; ++step) {
      const double lower = d.found * kLowered * step;
      d.loads.push_back(whole ? std::max(1.0, d.found - std::max<double>(step, std::round(lower))) : d.found - lower);
    }
    // Next to the load found so far: latency need not rise with every client.
    if (d.looks_up && whole) d.loads.push_back(d.found + std::max(1.0, std::round(d.found * kLowered)));
    const double lowest = *std::min_element(d.loads.begin(), d.loads.end());
    const bool is_near = start.asked_for > lowest && start.asked_for <= (1 + kLowered) * d.found;
    if (is_near || (start.kept != nullptr && start.asked_for > d.found)) {
      std::erase_if(d.loads,
                    [&](double l) { return std::abs(l - start.asked_for) <= kTellsApart / 2 * start.asked_for; });
      d.loads.push_back(start.asked_for);
    }
    std::sort(d.loads.begin(), d.loads.end(), std::greater<>());
    d.loads.erase(std::unique(d.loads.begin(), d.loads.end()), d.loads.end());
    std::erase_if(d.loads, [](double load) { return !(load > 0); });  // the brackets found no passing load
    return d;
  }

  // A queue forgets its past only after about u / (1 - u)^2 requests, where u is the part of the deployment's rate that
  // the load uses: the relaxation time of an M/G/c queue. A run that is not much longer shows waits that are too short.
  [[nodiscard]] std::int64_t remembered(std::size_t candidate, double load) {
    constexpr double kTimes = 20, kMost = 700'000;
    const std::optional<double> most = bounds_.most(question_.candidates[candidate].spec);
    if (!most || !(load < *most) || question_.spec.limits.timeout.count() > 0) return 0;
    const double used = load / *most;
    return std::llround(std::min(kMost, kTimes * used / ((1 - used) * (1 - used))));
  }

  [[nodiscard]] Trial long_trial(const Descent& d, double load) {
    return long_trial(d.candidate, d.at_passing ? &*d.at_passing : nullptr, load);
  }

  // Takes the results of two steps. Returns whether this capacity is settled.
  bool take_steps(const Descent& d, std::size_t step, Capacity& out) {
    for (std::size_t s = step; s < std::min(step + 2, d.loads.size()); ++s) {
      const double load = d.loads[s];
      if (!take(d, load, out)) continue;
      // The load passed but the step above it failed: try the middle, if the gap is wide enough to matter.
      const bool can_be_finer = s > 0 && load != d.found && !whole_loads(limits_);
      if (can_be_finer && d.loads[s - 1] - load > kConfirmed * load) {
        const double middle = (d.loads[s - 1] + load) / 2;
        trials_.one(long_trial(d, middle));
        take(d, middle, out);
      }
      climb(d, out);
      return true;
    }
    if (step + 2 < d.loads.size()) return false;
    if (search_below(d, out)) return true;
    out.confirmed = false;  // no load passes: the lowest that failed is an upper bound
    out.load.mean = std::min(out.load.mean, out.failing.value_or(out.load.mean));
    return true;
  }

  // Short runs may be far off if the events that a limit concerns are rare or occur late.
  bool search_below(const Descent& d, Capacity& out) {
    constexpr double kFurther = 0.8;
    const auto rounded = [this](double load) { return whole_loads(limits_) ? std::floor(load) : load; };
    double failing = d.loads.back(), passing = 0;
    const auto ask = [&](double load) {
      trials_.one(long_trial(d, load));
      (take(d, load, out) ? passing : failing) = load;
    };
    for (int step = 0; step < kSteps && passing == 0; ++step) {
      const double load = rounded(kFurther * failing);
      if (!(load > 0)) return false;
      ask(load);
    }
    while (passing > 0 && failing > (1 + kLowered) * passing) {
      const double load = rounded((failing + passing) / 2);
      if (load <= passing) break;
      ask(load);
    }
    return passing > 0;
  }

  // If a long run passes a load at which a shorter run failed, the smallest failing load is higher: look for it.
  void climb(const Descent& d, Capacity& out) {
    for (int step = 0; step < kSteps && (!out.failing || *out.failing <= out.passing); ++step) {
      const double higher = (1 + kLowered) * out.passing;
      const double load = whole_loads(limits_) ? std::max(out.passing + 1, std::round(higher)) : higher;
      trials_.one(long_trial(d, load));
      take(d, load, out);
    }
    if (out.failing && *out.failing <= out.passing) out.failing.reset();  // no load above is known to fail
  }

  bool take(const Descent& d, double load, Capacity& out) {
    const sched::PointMetrics& metrics = d.is_kept(load) ? *d.start.kept : trials_.of(long_trial(d, load));
    if (!passes(metrics)) {
      out.failing = load;
      out.at_failing = metrics;
      return false;
    }
    if (d.looks_up && load == d.loads.front()) out.failing.reset();  // only brackets failed above it
    // Keeps the mean of the brackets. Their ends are kept only if they enclose it.
    if (load == d.found && out.failing && *out.failing <= load) return true;
    if (load != d.found) out.load.mean = load;
    out.passing = load;
    out.at_passing = metrics;
    return true;
  }

  [[nodiscard]] bool passes(const sched::PointMetrics& metrics) const {
    const sched::PointMetrics* const run = &metrics;
    return standing_of(limits_, std::span(&run, 1), question_.search.confidence).meets;
  }

  static void skip_impossible(Line& line) {
    for (auto load = line.bracket.next(); load && *load >= line.most; load = line.bracket.next())
      line.bracket.answer(*load, false);
  }

  void answer(Line& line, double load, const sched::PointMetrics& metrics) const {
    const bool keeps = passes(metrics);
    line.bracket.answer(load, keeps);
    if (keeps ? only_waits(limits_, metrics) : is_alone(limits_, metrics)) line.bracket.end_search();
  }

  void drop_losers() {
    constexpr double kRounding = 1 + 1e-9;
    for (Line& line : lines_) {
      const double most = std::min(line.most, line.bracket.failing().value_or(line.most));
      line.dropped = line.dropped || worth(line, most) <= kRounding * plan_.worth_following * best_[hardware_of(line)];
    }
  }

  [[nodiscard]] double worth(const Line& line, double load) const { return load / share_of(line); }
  [[nodiscard]] double share_of(const Line& line) const {
    return plan_.for_its_rent ? question_.candidates[line.candidate].rent : 1;
  }

  const Question& question_;
  Trials& trials_;
  const CapacityPlan& plan_;
  const PointSpec limits_;
  RateBound bounds_;
  std::vector<Line> lines_;
  std::map<std::string, double> best_;  // largest passing worth so far, by kind of hardware
};

}  // namespace

bool ends_somewhere(const PointSpec& spec) {
  const load::LoadClass loads = load::kind_of(spec.workload.load).load_class;
  const bool queues = loads != load::LoadClass::closed && loads != load::LoadClass::burst;
  return queues || !spec.slo.bounds.empty() || spec.slo.max_timeout_rate;
}

std::vector<Capacity> find_capacities(Trials& trials, const std::vector<std::size_t>& candidates,
                                      const std::vector<CapacityStart>& starts, const CapacityPlan& plan) {
  Rounds rounds(trials, plan);
  for (std::size_t i = 0; i < candidates.size(); ++i) rounds.add(i, candidates[i], starts[i]);
  rounds.run();
  std::vector<Capacity> out;
  for (std::size_t i = 0; i < candidates.size(); ++i) out.push_back(rounds.capacity(i));
  if (plan.long_runs) rounds.hold_against_long_runs(candidates, starts, out);
  return out;
}

// Settings of confirming brackets, which start from a load that is close.
CapacityPlan confirming_brackets() {
  return {.confirms = true,
          .long_runs = true,
          .replications = kConfirmingRuns,
          .stride = 1 + 2 * kConfirmed,
          .tolerance = kConfirmed,
          .part = kSampledPart};
}

// If one run has passed, brackets start near its load, with the number of requests that it needed.
CapacityStart confirming_start(const Question& question, const Capacity& first) {
  CapacityStart start{.load = first.load.mean};
  if (first.at_passing) start = start_from(question.spec, first.load.mean, first.passing, *first.at_passing);
  if (!finds_load(question.search.objective)) start.asked_for = load::load_value(question.spec.workload.load);
  return start;
}

// For open loops the number of requests is proportional to the rate, since the next loads are close.
CapacityStart start_from(const PointSpec& spec, double load, double run_load, const sched::PointMetrics& run) {
  if (!can_be_longer(spec) || load::is_closed_loop(spec.workload.load) || !run.latency.mean || !(run_load > 0))
    return {load, 0};
  const double lives = run.duration_s / *run.latency.mean - 1;
  if (!(lives >= kScreeningLives / 2)) return {load, 0};
  return {load, static_cast<double>(run.requests_completed) / run_load * 1.05 * kConfirmingLives / lives};
}

sched::PointMetrics long_run(Trials& trials, std::size_t candidate, const sched::PointMetrics& run) {
  const CapacityPlan plan = confirming_brackets();
  const double load = load::load_value(trials.question().spec.workload.load);
  return trials.one(Rounds(trials, plan).long_trial(candidate, &run, load));
}

Capacity capacity_of(Trials& trials, std::size_t candidate, const CapacityStart& start, const Capacity* look) {
  const CapacityPlan coarse{.stride = 1.25, .tolerance = kLowered, .part = 0};
  const Capacity first = look != nullptr ? *look : find_capacities(trials, {candidate}, {start}, coarse).front();
  if (first.is_open()) {  // nothing limits the load
    Capacity open = first;
    open.confirmed = true;
    return open;
  }
  CapacityStart from = start;
  if (first.load.mean > 0) {
    const CapacityStart near = confirming_start(trials.question(), first);
    from.load = near.load;
    from.requests_per_load = near.requests_per_load;
  }
  return find_capacities(trials, {candidate}, {from}, confirming_brackets()).front();
}

}  // namespace plimsoll::study::plan
