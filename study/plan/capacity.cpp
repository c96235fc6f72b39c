// SPDX-License-Identifier: Apache-2.0
#include "study/plan/capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "load/load_kind.h"
#include "study/plan/bracket.h"
#include "study/plan/ranking.h"
#include "study/plan/rate_bound.h"
#include "study/run/load_variation.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kStillPossible = 0.85;  // of the best screened capacity, for a deployment to be confirmed
constexpr double kFine = 0.01;           // of a load, where a confirming bracket ends: closer ones cannot be told apart
constexpr std::size_t kMostConfirmed = 8, kConfirmingRuns = 4;
// What brackets of some replications find is a little too large, since it takes long for the worst to come: it is held
// against one run that is much longer, and lowered by steps until that passes.
constexpr double kLowered = 0.03, kLongLives = 3 * kConfirmingLives;
constexpr std::int64_t kLongRequests = 100'000;
constexpr int kPairs = 4;  // of steps

bool whole_loads(const PointSpec& spec) { return load::is_whole(load::kind_of(spec.workload.load).quantity); }

// Throughput that is to be kept bounds the load from below: it is asked for at the load that the limits above allow.
PointSpec without_goals(PointSpec spec) {
  spec.slo.min_output_tokens_per_s = spec.slo.min_requests_per_s = spec.slo.min_goodput = std::nullopt;
  return spec;
}

// The load with which a run of so many requests lasts ten years: its requests are long alone, and a run that lasts more
// than a hundred cannot be simulated.
double least_load(const PointSpec& spec, std::int64_t requests) {
  constexpr double kTenYears = 10 * 365.25 * 86'400;  // seconds
  if (const auto* const replay = std::get_if<load::TraceReplay>(&spec.workload.load)) {
    const bool timed = replay->trace && replay->trace->has_arrivals();
    return timed ? 1e-9 * static_cast<double>(replay->trace->records.back().arrival) / kTenYears : 0;
  }
  if (whole_loads(spec) || spec.workload.duration.count() > 0) return 0;
  return static_cast<double>(std::max(requests, spec.workload.requests)) / kTenYears;
}

// Requests that are alone in the system (but for one in a thousand, in the mean) do not fare better under less load.
// Where they come in clusters, of a trace or by a gamma distribution, the system is empty in the mean and they wait all
// the same.
bool is_alone(const PointSpec& spec, const sched::PointMetrics& m) {
  constexpr double kAlone = 1e-3;
  const bool measured = m.requests_completed + m.requests_rejected + m.requests_timed_out > 0;
  const bool clusters = !std::holds_alternative<load::Poisson>(spec.workload.load) &&
                        !std::holds_alternative<load::ConstantRate>(spec.workload.load);
  return measured && !clusters && m.in_system_mean < kAlone;
}

// Where most clients of a closed loop wait and the SLO limits nothing but the time between tokens, more clients wait
// longer and break nothing.
bool only_waits(const PointSpec& spec, const sched::PointMetrics& m) {
  const auto between_tokens = [](const sched::Slo::Bound& b) {
    return b.metric == sched::Slo::Metric::tpot || b.metric == sched::Slo::Metric::itl;
  };
  const bool no_other =
      std::all_of(spec.slo.bounds.begin(), spec.slo.bounds.end(), between_tokens) && !spec.slo.max_timeout_rate;
  return load::is_closed_loop(spec.workload.load) && no_other && m.queue_mean > m.in_system_mean / 2;
}

struct Line {  // one bracket
  std::size_t slot = 0, candidate = 0, replication = 0;
  Bracket bracket;
  double requests_per_load = 0;
  double most = std::numeric_limits<double>::infinity();  // of the load, by its bound: more fails without a run
  bool dropped = false;
};

class Rounds {
 public:
  Rounds(const Question& question, Trials& trials, const CapacityPlan& plan)
      : question_(question), trials_(trials), plan_(plan), limits_(without_goals(question.spec)) {}

  void add(std::size_t slot, std::size_t candidate, const CapacityStart& start) {
    const double least = least_load(question_.spec, requests_at(start.load, 0));
    const double most = bounds_.most(question_.candidates[candidate]).value_or(std::numeric_limits<double>::infinity());
    for (std::size_t r = 0; r < plan_.replications; ++r) {
      lines_.push_back({slot, candidate, r,
                        Bracket({.start = start.load,
                                 .stride = plan_.stride,
                                 .tolerance = plan_.tolerance,
                                 .whole = whole_loads(limits_),
                                 .least = least}),
                        start.requests_per_load, most});
      skip_impossible(lines_.back());
    }
  }

  void run() {
    for (;;) {
      std::vector<Trial> todo;
      for (const Line& line : lines_) {
        if (const auto load = next_of(line)) todo.push_back(trial(line, *load));
      }
      if (todo.empty()) return;
      trials_.run(todo);
      for (Line& line : lines_) {
        const auto load = next_of(line);
        if (load) answer(line, *load, trials_.of(trial(line, *load)));
        skip_impossible(line);
      }
      if (plan_.stop_losers) drop_losers();
    }
  }

  // Lowers what was found to loads that long runs sustain.
  void hold_against_long_runs(const std::vector<std::size_t>& candidates, std::vector<Capacity>& found) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i].failing && found[i].passing > 0) open.push_back(i);
    }
    const std::vector<Capacity> first = found;
    for (int pair = 0; pair < kPairs && !open.empty(); ++pair) {
      std::vector<Trial> todo;
      for (const std::size_t i : open) {
        for (const int step : {2 * pair, 2 * pair + 1}) todo.push_back(long_trial(candidates[i], first[i], step));
      }
      trials_.run(todo);
      std::erase_if(open, [&](std::size_t i) { return take_long_run(candidates[i], first[i], 2 * pair, found[i]); });
    }
    for (const std::size_t i : open) found[i].confirmed = false;
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
    }
    out.load = estimate(values, question_.search.confidence);
    out.confirmed = plan_.confirms;
    return out;
  }

 private:
  [[nodiscard]] static std::optional<double> next_of(const Line& line) {
    return line.dropped ? std::nullopt : line.bracket.next();
  }

  [[nodiscard]] Trial trial(const Line& line, double load) const {
    return {.candidate = line.candidate,
            .replication = static_cast<std::int32_t>(line.replication),
            .requests = requests_at(load, line.requests_per_load),
            .load = load,
            .lives = plan_.confirms ? kConfirmingLives : kScreeningLives};
  }

  [[nodiscard]] std::int64_t requests_at(double load, double requests_per_load) const {
    const PointSpec spec = with_load_value(question_.spec, load).value_or(question_.spec);
    const std::int64_t least = plan_.confirms ? confirming_requests(spec) : screening_requests(spec);
    return least > 0 ? std::max<std::int64_t>(least, std::llround(load * requests_per_load)) : 0;
  }

  [[nodiscard]] Trial long_trial(std::size_t candidate, const Capacity& found, int step) const {
    double load = found.load.mean * (1 - kLowered * step);
    if (whole_loads(limits_))
      load = std::max(
          1.0, std::round(found.load.mean) - std::max<double>(step, std::ceil(kLowered * step * found.load.mean)));
    Trial trial{.candidate = candidate,
                .replication = static_cast<std::int32_t>(kConfirmingRuns),
                .load = load,
                .lives = kLongLives};
    const double used = found.at_passing ? static_cast<double>(found.at_passing->requests_completed) : 0;
    if (can_be_longer(question_.spec))
      trial.requests = std::max<std::int64_t>({requests_at(load, 0), kLongRequests, std::llround(2 * used)});
    return trial;
  }

  // From this step or the next; false: neither passes.
  bool take_long_run(std::size_t candidate, const Capacity& first, int step, Capacity& out) const {
    for (const int s : {step, step + 1}) {
      const Trial trial = long_trial(candidate, first, s);
      const sched::PointMetrics& metrics = trials_.of(trial);
      if (!passes(metrics)) {
        out.failing = trial.load;
        out.at_failing = metrics;
        continue;
      }
      if (s == 0) return true;
      out.load.mean = out.passing = trial.load;
      out.at_passing = metrics;
      return true;
    }
    return false;
  }

  [[nodiscard]] bool passes(const sched::PointMetrics& metrics) const {
    const sched::PointMetrics* const run = &metrics;
    return standing_of(limits_, std::span(&run, 1), question_.search.confidence).meets;
  }

  static void skip_impossible(Line& line) {
    for (auto load = next_of(line); load && *load >= line.most; load = next_of(line)) line.bracket.answer(*load, false);
  }

  void answer(Line& line, double load, const sched::PointMetrics& metrics) const {
    const bool keeps = passes(metrics);
    line.bracket.answer(load, keeps);
    if (keeps ? only_waits(limits_, metrics) : is_alone(limits_, metrics)) line.bracket.end_search();
  }

  void drop_losers() {
    double best = 0;
    for (const Line& line : lines_) best = std::max(best, worth(line, line.bracket.passing()));
    for (Line& line : lines_) {
      const auto failing = line.bracket.failing();
      line.dropped = line.dropped || (failing && worth(line, *failing) < kStillPossible * best);
    }
  }

  [[nodiscard]] double worth(const Line& line, double load) const {
    return plan_.for_its_rent ? load / question_.candidates[line.candidate].rent : load;
  }

  const Question& question_;
  Trials& trials_;
  const CapacityPlan& plan_;
  const PointSpec limits_;
  RateBound bounds_;
  std::vector<Line> lines_;
};

// USD a million output tokens at the largest load, with whose interval that of the tokens widens. Infinite without one.
Estimate cost_of_a_million(const Candidate& candidate, const Capacity& capacity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!capacity.at_passing || !(capacity.at_passing->output_tokens_per_s > 0) || !(capacity.load.mean > 0))
    return {kInfinity, 0, 1};
  const double here = run_cost(candidate, *capacity.at_passing) / 3600 / capacity.at_passing->output_tokens_per_s * 1e6;
  const double mean = here * capacity.passing / capacity.load.mean;
  return {mean, mean * capacity.load.half_width / capacity.load.mean, capacity.load.values};
}

// The figures of an entry of a search for capacity are those at the load that it carries.
void fill_entry(const Question& question, Answer& answer, std::size_t candidate, Capacity capacity, Stage stage) {
  Entry& entry = answer.entries[candidate];
  entry.stage = stage;
  const auto& shown = capacity.at_passing ? capacity.at_passing : capacity.at_failing;
  if (shown) {
    const sched::PointMetrics* const run = &*shown;
    entry.standing = standing_of(question.spec, std::span(&run, 1), question.search.confidence);
    entry.metrics = *shown;
  }
  // Each replication has its load that passes.
  entry.standing.runs = capacity.load.values;
  entry.standing.certain = entry.standing.meets && stage == Stage::confirmed && capacity.load.low() > 0;
  entry.objective = question.search.objective == Objective::capacity
                        ? capacity.load
                        : cost_of_a_million(question.candidates[candidate], capacity);
  // One run may be wrong by chance about a load that is close.
  constexpr double kByChance = 1.05;
  if (!capacity.confirmed && capacity.failing) entry.capacity_at_most = kByChance * *capacity.failing;
  entry.capacity = std::move(capacity);
}

// Overlapping intervals are ties.
void settle_overlapping(const Question& question, Answer& answer, std::vector<std::size_t>& leaders) {
  const bool less = is_minimised(question.search.objective);
  const auto overlaps = [&](std::size_t a, std::size_t b) {
    const Estimate &mine = answer.entries[a].objective, &best = answer.entries[b].objective;
    return less ? mine.low() <= best.high() + kFine * best.mean : mine.high() >= best.low() - kFine * best.mean;
  };
  settle(question, answer, leaders, overlaps, [&](std::size_t a, std::size_t b) {
    return answer.entries[a].standing.latency_p90.mean == answer.entries[b].standing.latency_p90.mean;
  });
}

}  // namespace

bool ends_somewhere(const PointSpec& spec) {
  const load::LoadClass loads = load::kind_of(spec.workload.load).load_class;
  const bool queues = loads != load::LoadClass::closed && loads != load::LoadClass::burst;
  return queues || !spec.slo.bounds.empty() || spec.slo.max_timeout_rate;
}

std::vector<Capacity> find_capacities(const Question& question, Trials& trials,
                                      const std::vector<std::size_t>& candidates,
                                      const std::vector<CapacityStart>& starts, const CapacityPlan& plan) {
  Rounds rounds(question, trials, plan);
  for (std::size_t i = 0; i < candidates.size(); ++i) rounds.add(i, candidates[i], starts[i]);
  rounds.run();
  std::vector<Capacity> out;
  for (std::size_t i = 0; i < candidates.size(); ++i) out.push_back(rounds.capacity(i));
  if (plan.confirms) rounds.hold_against_long_runs(candidates, out);
  return out;
}

// Open loops: in proportion to the rate, since the loads to come are close.
CapacityStart start_from(const PointSpec& spec, double load, double run_load, const sched::PointMetrics& run) {
  if (!can_be_longer(spec) || load::is_closed_loop(spec.workload.load) || !run.latency.mean || !(run_load > 0))
    return {load, 0};
  const double lives = run.duration_s / *run.latency.mean - 1;
  if (!(lives >= kScreeningLives / 2)) return {load, 0};
  return {load, static_cast<double>(run.requests_completed) / run_load * 1.05 * kConfirmingLives / lives};
}

CapacityPlan confirming_brackets() {
  return {.confirms = true,
          .replications = kConfirmingRuns,
          .stride = 1.05,
          .tolerance = kFine,
          .stop_losers = false,
          .for_its_rent = false};
}

Capacity capacity_of(const Question& question, Trials& trials, std::size_t candidate, const CapacityStart& start) {
  const CapacityPlan plan{.confirms = true,
                          .replications = kConfirmingRuns,
                          .stride = 1.2,
                          .tolerance = kFine,
                          .stop_losers = false,
                          .for_its_rent = false};
  return find_capacities(question, trials, {candidate}, {start}, plan).front();
}

std::vector<std::size_t> rank_by_capacity(const Question& question, Trials& trials, Answer& answer) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < answer.entries.size(); ++i) {
    if (answer.entries[i].stage == Stage::waiting) candidates.push_back(i);
  }
  const std::vector<CapacityStart> starts(candidates.size(), {load::load_value(question.spec.workload.load), 0});
  const bool per_token = question.search.objective == Objective::cost_per_token;
  const CapacityPlan coarse{.confirms = false,
                            .replications = 1,
                            .stride = 2,
                            .tolerance = 0.05,
                            .stop_losers = !per_token || question.spec.deployment.is_fixed(),
                            .for_its_rent = per_token};
  std::vector<Capacity> found = find_capacities(question, trials, candidates, starts, coarse);
  for (std::size_t i = 0; i < candidates.size(); ++i)
    fill_entry(question, answer, candidates[i], std::move(found[i]), Stage::screened);

  const auto before = [&](std::size_t a, std::size_t b) { return goes_before(question, answer, a, b); };
  std::sort(candidates.begin(), candidates.end(), before);
  std::vector<std::size_t> leaders;
  std::vector<CapacityStart> leader_starts;
  for (const std::size_t c : candidates) {
    const double load = answer.entries[c].capacity->load.mean;
    const double mine = answer.entries[c].objective.mean, best = answer.entries[candidates.front()].objective.mean;
    const bool too_far =
        is_minimised(question.search.objective) ? kStillPossible * mine > best : mine < kStillPossible * best;
    if (leaders.size() == kMostConfirmed || load <= 0 || too_far) break;
    leaders.push_back(c);
    const Capacity& first = *answer.entries[c].capacity;
    leader_starts.push_back(first.at_passing ? start_from(question.spec, load, first.passing, *first.at_passing)
                                             : CapacityStart{load, 0});
  }
  std::vector<Capacity> confirmed = find_capacities(question, trials, leaders, leader_starts, confirming_brackets());
  for (std::size_t i = 0; i < leaders.size(); ++i)
    fill_entry(question, answer, leaders[i], std::move(confirmed[i]), Stage::confirmed);
  std::erase_if(leaders,
                [&](std::size_t c) { return !answer.entries[c].standing.meets; });  // too little throughput there
  settle_overlapping(question, answer, leaders);
  return leaders;
}

}  // namespace plimsoll::study::plan
