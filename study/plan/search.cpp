// SPDX-License-Identifier: Apache-2.0
#include "study/plan/search.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "model/error.h"
#include "study/plan/bounds.h"
#include "study/plan/capacity.h"
#include "study/plan/confirm.h"
#include "study/plan/explain.h"
#include "study/plan/load_curve.h"
#include "study/plan/ranking.h"
#include "study/plan/rate_bound.h"
#include "study/plan/sensitivity.h"

namespace plimsoll::study::plan {
namespace {

// A run that uses so many times its limit is no case for confirming. A short one may be so by how it begins (all clients at
// once) and ends (in its last requests' time): unless its queue grows, it gets a longer one before it is left out.
constexpr double kHopeless = 1.5;
constexpr std::size_t kAtOnce = 12;    // candidates confirmed side by side
constexpr std::size_t kNearest = 24;   // of those excluded by bounds, where all are

class Search {
 public:
  Search(const Question& question, Trials& trials) : question_(question), trials_(trials) {
    answer_.entries.resize(question.candidates.size());
  }

  Answer run(const SearchOptions& options) {
    try {
      apply_bounds();
      if (finds_load(question_.search.objective)) {
        leaders_ = rank_by_capacity(question_, trials_, answer_);
      } else {
        take_back_nearest();
        screen();
        leaders_ = is_known(question_) ? confirm_by_level() : confirm_by_measure();
      }
      rank(question_, answer_, leaders_);
      if (options.fewest_on_each) find_fewest();
      if (options.examine_winner && answer_.winner) examine();
    } catch (const Cancelled&) {
      answer_.cancelled = true;
      take_what_is_known();
      rank(question_, answer_, leaders_);
    }
    mark_frontier(question_, answer_);
    explain(question_, answer_);
    answer_.trials = trials_.count();
    return std::move(answer_);
  }

 private:
  void apply_bounds() {
    Bounds bounds;
    RateBound rates;
    const bool loads_vary = finds_load(question_.search.objective);
    for (std::size_t i = 0; i < question_.candidates.size(); ++i) {
      Entry& entry = answer_.entries[i];
      const Candidate& candidate = question_.candidates[i];
      entry.reason = candidate.excluded;
      if (!entry.reason.empty()) entry.stage = Stage::excluded;
      if (!entry.reason.empty() || loads_vary) continue;
      entry.capacity_at_most = rates.most(candidate);
      Bounded bounded = bounds.problem(candidate);
      if (bounded.reason.empty()) bounded = beyond_rate(candidate, entry.capacity_at_most);
      entry.reason = std::move(bounded.reason);
      if (entry.reason.empty()) continue;
      entry.stage = Stage::bounded;
      bounded_.emplace_back(bounded.ratio, i);
    }
  }

  // Where nobody may meet the SLO, those that miss it by least are simulated all the same, to say what comes nearest.
  void take_back_nearest() {
    const bool any = std::any_of(answer_.entries.begin(), answer_.entries.end(), [](const Entry& e) { return e.stage == Stage::waiting; });
    if (any) return;
    std::sort(bounded_.begin(), bounded_.end());
    for (std::size_t i = 0; i < std::min(kNearest, bounded_.size()); ++i) {
      Entry& entry = answer_.entries[bounded_[i].second];
      entry.stage = Stage::waiting;
      entry.reason.clear();
    }
  }

  [[nodiscard]] Trial first_of(std::size_t candidate) const { return first_trial(question_.spec, candidate); }
  [[nodiscard]] Trial longer_of(std::size_t candidate) const { return {.candidate = candidate, .requests = confirming_requests(question_.spec)}; }

  void fill_screened(std::size_t i, const Trial& trial) {
    const sched::PointMetrics* const run = &trials_.of(trial);
    Entry& entry = answer_.entries[i];
    entry.stage = Stage::screened;
    entry.standing = standing_of(question_.spec, std::span(&run, 1), question_.search.confidence);
    entry.metrics = *run;
    entry.objective = objective_of(question_, question_.candidates[i], entry.standing);
  }

  void screen() {
    std::vector<Trial> todo;
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) {
      if (answer_.entries[i].stage == Stage::waiting) todo.push_back(first_of(i));
    }
    trials_.run(todo);
    for (const Trial& trial : todo) fill_screened(trial.candidate, trial);
  }

  void take_what_is_known() {
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) {
      if (answer_.entries[i].stage == Stage::waiting && trials_.knows(first_of(i))) fill_screened(i, first_of(i));
    }
  }

  [[nodiscard]] bool is_hopeful(std::size_t i) const {
    const Entry& entry = answer_.entries[i];
    return entry.stage == Stage::screened && entry.standing.ratio <= kHopeless;
  }

  // A longer run may say better of it.
  [[nodiscard]] bool is_doubtful(std::size_t i) const {
    const Entry& entry = answer_.entries[i];
    if (entry.stage != Stage::screened || entry.standing.ratio <= kHopeless || entry.metrics->steady.grows) return false;
    return can_be_longer(question_.spec) && !trials_.knows(longer_of(i));
  }

  template <class Test>
  [[nodiscard]] std::vector<std::size_t> all_that(Test test) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) {
      if (test(i)) out.push_back(i);
    }
    return out;
  }

  // The members that are worth confirming, or are confirmed, after a longer run of the doubtful ones.
  std::vector<std::size_t> without_hopeless(const std::vector<std::size_t>& members) {
    std::vector<Trial> todo;
    for (const std::size_t i : members) {
      if (is_doubtful(i)) todo.push_back(longer_of(i));
    }
    trials_.run(todo);
    for (const Trial& trial : todo) fill_screened(trial.candidate, trial);
    std::vector<std::size_t> out;
    std::copy_if(members.begin(), members.end(), std::back_inserter(out), [&](std::size_t i) { return is_hopeful(i) || answer_.entries[i].stage == Stage::confirmed; });
    return out;
  }

  // The objective is known beforehand: the first level of it on which somebody surely keeps the SLO has the winner.
  std::vector<std::size_t> confirm_by_level() {
    std::map<std::pair<double, std::int64_t>, std::vector<std::size_t>> levels;
    const auto may_win = [&](std::size_t i) { return is_hopeful(i) || is_doubtful(i); };
    for (const std::size_t i : all_that(may_win)) levels[{answer_.entries[i].objective.mean, question_.candidates[i].gpus}].push_back(i);
    for (auto& [level, all] : levels) {
      std::vector<std::size_t> members = without_hopeless(all);
      std::sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) { return screened_before(a, b); });
      const std::vector<std::size_t> order = first_order_of(members);
      if (!order.empty()) return order;
    }
    return {};
  }

  // The order of the first few of the members among whom somebody keeps the SLO.
  std::vector<std::size_t> first_order_of(const std::vector<std::size_t>& members) {
    for (std::size_t from = 0; from < members.size(); from += kAtOnce) {
      const auto first = members.begin() + static_cast<std::ptrdiff_t>(from);
      const auto last = members.begin() + static_cast<std::ptrdiff_t>(std::min(from + kAtOnce, members.size()));
      std::vector<std::size_t> order = Confirm(question_, trials_, answer_).order_of({first, last});
      if (!order.empty()) return order;
    }
    return {};
  }

  [[nodiscard]] bool screened_before(std::size_t a, std::size_t b) const {
    const double x = answer_.entries[a].standing.latency_p90.mean, y = answer_.entries[b].standing.latency_p90.mean;
    return x != y ? x < y : name_before(question_.candidates[a].name, question_.candidates[b].name);
  }

  // The objective is what the runs say: all who are near the best so far are confirmed, in rounds until one stands. Then
  // those that it beats by a short run only have their longer one.
  std::vector<std::size_t> confirm_by_measure() {
    std::vector<std::size_t> order = first_order_near_best(all_that([&](std::size_t i) { return is_hopeful(i); }));
    const auto rivals = [&](std::size_t i) { return is_doubtful(i) && (order.empty() || may_beat(i, order.front())); };
    std::vector<std::size_t> more = without_hopeless(all_that(rivals));
    if (more.empty()) return order;
    for (const std::size_t i : order) answer_.entries[i].ties = false;
    more.insert(more.end(), order.begin(), order.end());
    return first_order_near_best(std::move(more));
  }

  // By a short run, whose objective may be as wrong as its limits.
  [[nodiscard]] bool may_beat(std::size_t i, std::size_t leader) const {
    const Entry& entry = answer_.entries[i];
    if (entry.metrics->requests_completed == 0) return true;   // nothing was measured
    const double mine = entry.objective.mean, best = answer_.entries[leader].objective.mean;
    return is_minimised(question_.search.objective) ? mine <= kHopeless * best : kHopeless * mine >= best;
  }

  std::vector<std::size_t> first_order_near_best(std::vector<std::size_t> left) {
    while (!left.empty()) {
      const double best = best_of(left);   // not within the comparison, while `left` is being sorted
      std::sort(left.begin(), left.end(), [&](std::size_t a, std::size_t b) { return near_before(a, b, best); });
      const std::vector<std::size_t> contenders(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(std::min(kAtOnce, left.size())));
      left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(contenders.size()));
      std::vector<std::size_t> order = Confirm(question_, trials_, answer_).order_of(contenders);
      if (!order.empty()) return order;
    }
    return {};
  }

  [[nodiscard]] double best_of(const std::vector<std::size_t>& candidates) const {
    const auto best = std::min_element(candidates.begin(), candidates.end(), [&](std::size_t a, std::size_t b) { return goes_first(a, b); });
    return answer_.entries[*best].objective.mean;
  }

  // Throughput that is to be kept is not for a short run to judge.
  [[nodiscard]] bool may_meet(std::size_t i) const {
    const Entry& entry = answer_.entries[i];
    if (entry.standing.meets || entry.stage == Stage::confirmed || !can_be_longer(question_.spec)) return entry.standing.meets;
    return std::all_of(entry.standing.checks.begin(), entry.standing.checks.end(), [](const Check& c) { return c.at_least || c.ratio() <= 1; });
  }

  [[nodiscard]] bool goes_first(std::size_t a, std::size_t b) const {
    if (may_meet(a) != may_meet(b)) return may_meet(a);
    if (!may_meet(a)) return goes_before(question_, answer_, a, b);
    const double x = answer_.entries[a].objective.mean, y = answer_.entries[b].objective.mean;
    if (x != y) return (x < y) == is_minimised(question_.search.objective);
    const std::int64_t mine = question_.candidates[a].gpus, others = question_.candidates[b].gpus;
    return mine != others ? mine < others : screened_before(a, b);
  }

  // Those who cannot be told from the best by one run come first, fewer GPUs first; then the others by their objective.
  [[nodiscard]] bool near_before(std::size_t a, std::size_t b, double best) const {
    const double tolerance = question_.search.objective == Objective::throughput ? 0.02 : 0;
    const auto is_near = [&](std::size_t i) { return may_meet(i) && std::abs(answer_.entries[i].objective.mean - best) <= tolerance * std::abs(best); };
    const bool near_a = is_near(a), near_b = is_near(b);
    if (near_a != near_b) return near_a;
    if (near_a && question_.candidates[a].gpus != question_.candidates[b].gpus) return question_.candidates[a].gpus < question_.candidates[b].gpus;
    return near_a ? screened_before(a, b) : goes_first(a, b);
  }

  // On each instance type, the fewest GPUs on which somebody surely keeps the SLO.
  void find_fewest() {
    std::map<std::string, std::map<std::int64_t, std::vector<std::size_t>>> levels;
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) {
      const Entry& entry = answer_.entries[i];
      const bool possible = is_hopeful(i) || is_doubtful(i) || (entry.stage == Stage::confirmed && entry.standing.meets);
      if (possible) levels[question_.candidates[i].spec.hardware.label][question_.candidates[i].gpus].push_back(i);
    }
    std::vector<bool> ties;              // with the winner, not with the leader of a type
    for (const Entry& entry : answer_.entries) ties.push_back(entry.ties);
    for (auto& [hardware, by_gpus] : levels) {
      for (auto& [gpus, all] : by_gpus) {
        std::vector<std::size_t> members = without_hopeless(all);
        std::sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) { return screened_before(a, b); });
        const std::vector<std::size_t> order = first_order_of(members);
        if (order.empty()) continue;
        answer_.fewest_gpus.emplace(hardware, order.front());
        break;
      }
    }
    for (std::size_t i = 0; i < ties.size(); ++i) answer_.entries[i].ties = ties[i];
    rank(question_, answer_, leaders_);
  }

  void examine() {
    const std::size_t winner = *answer_.winner;
    Entry& entry = answer_.entries[winner];
    if (std::holds_alternative<load::Script>(question_.spec.workload.load)) return;
    const double load = load::load_value(question_.spec.workload.load);
    if (!entry.capacity && ends_somewhere(question_.spec)) {
      const CapacityStart start = entry.metrics ? start_from(question_.spec, load, load, *entry.metrics) : CapacityStart{load, 0};
      entry.capacity = capacity_of(question_, trials_, winner, start);
    }
    if (entry.capacity) answer_.curve = load_curve(question_, trials_, winner, *entry.capacity);
    if (!finds_load(question_.search.objective)) answer_.sensitivities = sensitivities(question_, trials_, answer_);
  }

  const Question& question_;
  Trials& trials_;
  Answer answer_;
  std::vector<std::size_t> leaders_;   // in their settled order
  std::vector<std::pair<double, std::size_t>> bounded_;   // how far beyond the bound, and who
};

}  // namespace

Answer find_best(const Question& question, Trials& trials, const SearchOptions& options) {
  if (finds_load(question.search.objective) && std::holds_alternative<load::Script>(question.spec.workload.load)) {
    throw InputError(question.spec.places.workload, "an objective that looks for the load needs one that has a size: a script has none");
  }
  if (finds_load(question.search.objective) && !ends_somewhere(question.spec)) {
    throw InputError(question.spec.places.workload, "an objective that looks for the load needs a limit in slo: a closed loop or a burst of any size is carried, only slower");
  }
  return Search(question, trials).run(options);
}

}  // namespace plimsoll::study::plan
