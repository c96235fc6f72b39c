// SPDX-License-Identifier: Apache-2.0
#include "study/plan/search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "model/error.h"
#include "study/plan/bounds.h"
#include "study/plan/capacity.h"
#include "study/plan/confirm.h"
#include "study/plan/explain.h"
#include "study/plan/ranking.h"
#include "study/plan/screening.h"
#include "study/run/rate_bound.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kMuchWorse = 1.5;      // a short run's objective may be wrong by this factor
constexpr std::size_t kAtOnce = 12;     // candidates confirmed side by side
constexpr std::size_t kNearest = 24;    // candidates to simulate, if bounds exclude all
constexpr std::size_t kNextFleets = 6;  // run after the winner, for the table and for scenarios that differ by 10 %
constexpr std::size_t kMostRivals = 4;  // rivals of equal price whose capacities are confirmed
constexpr double kCoarse = 0.03;        // relative width at which brackets end if they only choose contenders

using Candidates = std::vector<std::size_t>;

class Search {
 public:
  Search(const Question& question, Trials& trials)
      : question_(question), trials_(trials), screening_(question, trials, answer_) {
    answer_.entries.resize(question_.candidates.size());
  }

  Answer run(const SearchOptions& options) {
    try {
      apply_bounds();
      find_leaders();
      rank(question_, answer_, leaders_);
      if (options.fewest_on_each) find_fewest();
      if (answer_.winner && is_known(question_)) find_others();
      if (options.examine_winner && answer_.winner) examine();
    } catch (const Cancelled&) {
      answer_.cancelled = true;
      screening_.take_what_is_known();
      rank(question_, answer_, leaders_);
    }
    if (!answer_.cancelled) say_why_left_out();
    mark_frontier(question_, answer_);
    explain(question_, answer_);
    answer_.trials = trials_.count();
    return std::move(answer_);
  }

 private:
  void find_leaders() {
    if (finds_load(question_.search.objective)) {
      leaders_ = rank_by_capacity(question_, trials_, answer_);
      return;
    }
    take_back_nearest();
    const Candidates all = all_that([](std::size_t) { return true; });
    if (is_known(question_)) {
      leaders_ = first_level(all, objective_level(), true);
      return;
    }
    screening_.screen(all);
    leaders_ = confirm_by_measure();
  }

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
      entry.capacity_at_most = rates.most(candidate.spec);
      Bounded bounded = bounds.problem(candidate);
      if (bounded.reason.empty()) bounded = beyond_rate(candidate, entry.capacity_at_most);
      entry.reason = std::move(bounded.reason);
      if (entry.reason.empty()) continue;
      entry.stage = Stage::bounded;
      bounded_.emplace_back(bounded.ratio, i);
    }
  }

  // If no candidate may meet the SLO, simulates those that miss it by least, to show what comes nearest.
  void take_back_nearest() {
    const bool any = std::any_of(answer_.entries.begin(), answer_.entries.end(),
                                 [](const Entry& e) { return e.stage == Stage::waiting; });
    if (any) return;
    std::sort(bounded_.begin(), bounded_.end());
    for (std::size_t i = 0; i < std::min(kNearest, bounded_.size()); ++i) {
      Entry& entry = answer_.entries[bounded_[i].second];
      entry.stage = Stage::waiting;
      entry.reason.clear();
    }
  }

  template <class Test>
  [[nodiscard]] Candidates all_that(Test test) const {
    Candidates out;
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) {
      if (test(i)) out.push_back(i);
    }
    return out;
  }

  void sort_by_rank(Candidates& candidates) const {
    std::sort(candidates.begin(), candidates.end(),
              [&](std::size_t a, std::size_t b) { return goes_before(question_, answer_, a, b); });
  }

  // ---- objectives that are known without a run ---------------------------------------------------------------

  // For a fixed deployment the objective is known without a run.
  [[nodiscard]] Screening::Level objective_level() const {
    return [this](std::size_t i) { return objective_of(question_, question_.candidates[i], {}).mean; };
  }

  // Returns the candidates of the first level on which some keep the SLO, in order. With `confirms` they are confirmed,
  // else one run decides.
  Candidates first_level(const Candidates& set, const Screening::Level& level, bool confirms) {
    screening_.scout(set, level);
    std::map<double, Candidates> levels;
    for (const std::size_t i : set) levels[level(i)].push_back(i);
    for (const auto& [value, all] : levels) {
      const Candidates members = largest_of_each_family(all);
      screening_.screen(members);
      Candidates order = confirms ? leaders_of(members) : keeping(members);
      if (!order.empty()) return order;
    }
    return {};
  }

  // At an equal price more replicas carry more, so only the largest can win.
  [[nodiscard]] Candidates largest_of_each_family(const Candidates& members) const {
    if (!capacity_counts()) return members;
    std::map<std::pair<std::size_t, double>, Candidates> kin;  // of one family and price
    Candidates out;
    for (const std::size_t i : all_simulable(members)) {
      const Candidate& c = question_.candidates[i];
      if (more_replicas_help(c.spec))
        kin[{c.family, c.rent}].push_back(i);
      else
        out.push_back(i);
    }
    for (const auto& [key, some] : kin) {
      const Candidates largest = largest_of(question_, some);
      out.insert(out.end(), largest.begin(), largest.end());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  [[nodiscard]] Candidates keeping(const Candidates& members) const {
    Candidates out;
    std::copy_if(members.begin(), members.end(), std::back_inserter(out), [&](std::size_t i) {
      const Stage stage = answer_.entries[i].stage;
      return (stage == Stage::screened || stage == Stage::confirmed) && answer_.entries[i].standing.meets;
    });
    sort_by_rank(out);
    return out;
  }

  // At an equal objective the cheaper candidates are confirmed first, and at an equal price those that carry most.
  Candidates leaders_of(const Candidates& members) {
    Candidates able = screening_.worth_confirming(members);
    std::erase_if(able, [this](std::size_t i) { return dropped_.count(i) > 0; });
    sort_by_rank(able);  // those that keep the SLO in one run come first
    const auto rest =
        std::find_if(able.begin(), able.end(), [&](std::size_t i) { return !answer_.entries[i].standing.meets; });
    // Several candidates keep the SLO: choose by price, then by what they carry.
    if (rest - able.begin() > 1 && capacity_counts()) {
      std::map<double, Candidates> prices;
      for (auto i = able.begin(); i != rest; ++i) prices[question_.candidates[*i].rent].push_back(*i);
      for (const auto& [price, some] : prices) {
        Candidates order = first_that_lasts(by_capacity(some));
        if (!order.empty()) return order;
      }
      able.erase(able.begin(), rest);
    }
    for (std::size_t from = 0; from < able.size(); from += kAtOnce) {
      const auto first = able.begin() + static_cast<std::ptrdiff_t>(from);
      const Candidates some(first, able.begin() + static_cast<std::ptrdiff_t>(std::min(from + kAtOnce, able.size())));
      Confirm confirm(question_, trials_, answer_);
      Candidates order = confirmed_order(confirm, some);
      if (!order.empty()) return order;
    }
    return {};
  }

  Candidates confirmed_order(Confirm& confirm, const Candidates& some) {
    Candidates order = confirm.order_of(some);
    for (const std::size_t i : some) screening_.learn(i);
    if (!order.empty()) settle_what_lasts(confirm, order);
    return order;
  }

  // Members of one price in falling order of capacity, and how many are indistinguishable from the first.
  struct ByCapacity {
    Candidates order;
    std::size_t alike = 0;
    std::map<std::size_t, Capacity> looks;
  };

  ByCapacity by_capacity(const Candidates& members) {
    ByCapacity out{.order = members, .alike = 0, .looks = capacities_by_short_runs(members)};
    std::stable_sort(out.order.begin(), out.order.end(), [&](std::size_t a, std::size_t b) {
      return out.looks.at(a).load.mean > out.looks.at(b).load.mean;
    });
    const double best = out.looks.at(out.order.front()).load.mean;
    std::map<std::size_t, Capacity> close;
    for (const auto& [i, capacity] : out.looks) {
      if (capacity.load.mean >= (1 - 2 * kCoarse) * best && capacity.at_passing) close.emplace(i, capacity);
    }
    const Candidates alike = narrow_largest(question_, trials_, close, false);
    for (auto& [i, capacity] : close) out.looks[i] = std::move(capacity);
    const auto is_alike = [&](std::size_t i) { return std::find(alike.begin(), alike.end(), i) != alike.end(); };
    std::stable_partition(out.order.begin(), out.order.end(), is_alike);
    std::copy(alike.begin(), alike.end(), out.order.begin());
    out.alike = alike.size();
    return out;
  }

  // Returns the first member that long runs confirm, followed by those that short runs cannot distinguish from it.
  Candidates first_that_lasts(const ByCapacity& members) {
    note_bounds(members);
    Candidates lasting, open;
    for (std::size_t n = 0; n < members.order.size(); ++n) {
      const std::size_t i = members.order[n];
      if (lasting.empty() || (lasting.size() < kMostRivals && may_carry_more(members.looks.at(i), lasting))) {
        if (is_confirmed(i, members.looks)) lasting.push_back(i);
      } else if (n < members.alike) {
        open.push_back(i);
      }
    }
    if (lasting.size() > 1) {
      Confirm confirm(question_, trials_, answer_, 2 * Confirm::kFirstRuns);
      lasting = confirm.order_of(lasting);
      settle_what_lasts(confirm, lasting);
    }
    for (const std::size_t i : lasting.empty() ? Candidates() : open) {
      lasting.push_back(i);
      answer_.entries[i].ties = true;
    }
    return lasting;
  }

  // Confirms a member at the study's load and its capacity. Returns whether it keeps the SLO.
  bool is_confirmed(std::size_t member, const std::map<std::size_t, Capacity>& looks) {
    Confirm confirm(question_, trials_, answer_, 2 * Confirm::kFirstRuns);  // a long run decides
    Candidates order = confirm.order_of({member});
    screening_.learn(member);
    if (order.empty()) return false;
    if (looks.at(member).at_passing) {
      std::map<std::size_t, Capacity> one{*looks.find(member)};
      looks_.insert(*one.begin());
      answer_.entries[member].capacity = std::move(confirm_largest(question_, trials_, one, false).at(member));
    }
    settle_what_lasts(confirm, order);
    return !order.empty();
  }

  // Returns whether short runs of a member show clearly more than long runs of any of these.
  [[nodiscard]] bool may_carry_more(const Capacity& look, const Candidates& confirmed) const {
    return std::all_of(confirmed.begin(), confirmed.end(), [&](std::size_t i) {
      const std::optional<Capacity>& known = answer_.entries[i].capacity;
      return known && known->confirmed && !known->is_open() && kDisproved * look.load.mean > known->load.mean;
    });
  }

  // Loads that failed in short runs become upper bounds of the capacity.
  void note_bounds(const ByCapacity& members) {
    constexpr double kByChance = 1.05;
    for (const auto& [i, look] : members.looks) {
      std::optional<double>& most = answer_.entries[i].capacity_at_most;
      if (look.failing) most = std::min(most.value_or(kByChance * *look.failing), kByChance * *look.failing);
    }
  }

  [[nodiscard]] bool capacity_counts() const {
    return !std::holds_alternative<load::Script>(question_.spec.workload.load) && ends_somewhere(question_.spec);
  }

  // Finds capacities by short runs. Gives up members that are far from the best.
  std::map<std::size_t, Capacity> capacities_by_short_runs(const Candidates& members) {
    const CapacityPlan coarse{.confirms = false,
                              .replications = 1,
                              .stride = 1.25,
                              .tolerance = kCoarse,
                              .worth_following = 1 - kCoarse,
                              .alike = 1 + kCoarse,
                              .part = 0};
    const std::vector<CapacityStart> starts(members.size(), {load::load_value(question_.spec.workload.load), 0});
    const std::vector<Capacity> found = find_capacities(trials_, members, starts, coarse);
    std::map<std::size_t, Capacity> carried;
    for (std::size_t i = 0; i < members.size(); ++i) carried[members[i]] = found[i];
    return carried;
  }

  // Drops leaders that miss the SLO in a long run, since their shorter runs were lucky. Ties then refer to the first
  // leader that remains.
  void settle_what_lasts(Confirm& confirm, Candidates& order) {
    confirm.settle_ties(order);
    while (!order.empty() && !lasts(order.front())) {
      dropped_.insert(order.front());
      for (const std::size_t i : order) answer_.entries[i].ties = false;
      order.erase(order.begin());
      if (!order.empty()) confirm.settle_ties(order);
    }
  }

  // Returns whether a long run keeps the SLO at the study's load. A load that ends by itself needs no such run.
  bool lasts(std::size_t candidate) {
    if (!capacity_counts() || !with_requests(question_.spec, 1)) return true;
    Entry& entry = answer_.entries[candidate];
    const double load = load::load_value(question_.spec.workload.load);
    // A confirmed capacity above the study's load proves as much as a run at that load.
    if (entry.capacity && entry.capacity->confirmed && entry.capacity->load.mean >= load) return true;
    sched::PointMetrics longer = long_run(trials_, candidate, *entry.metrics);
    const sched::PointMetrics* const run = &longer;
    SloVerdict standing = standing_of(question_.spec, std::span(&run, 1), question_.search.confidence);
    entry.capacity.reset();
    if (standing.meets) {
      held_.emplace(candidate, std::move(longer));
      return true;
    }
    entry.standing = std::move(standing);
    entry.metrics = std::move(longer);
    return false;
  }

  // Runs the cheapest candidate of each other kind of hardware, and fleets slightly more expensive than the winner.
  // Readers compare the winner with these, and they may win in a scenario that differs by 10 %.
  void find_others() {
    const auto level = objective_level();
    const Candidate& winner = question_.candidates[*answer_.winner];
    std::map<std::string, Candidates> types;
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) types[label_of(question_.candidates[i])].push_back(i);
    types.erase(label_of(winner));
    for (const auto& [label, members] : types) first_level(all_simulable(members), level, false);
    screening_.screen(next_fleets(level));
    rank(question_, answer_, leaders_);
  }

  [[nodiscard]] Candidates all_simulable(const Candidates& members) const {
    Candidates out;
    std::copy_if(members.begin(), members.end(), std::back_inserter(out), [&](std::size_t i) {
      const Stage stage = answer_.entries[i].stage;
      return stage != Stage::excluded && stage != Stage::bounded;
    });
    return out;
  }

  // Returns the next more expensive numbers of replicas and degrees, with the winner's own batch limits.
  [[nodiscard]] Candidates next_fleets(const Screening::Level& level) const {
    const std::size_t winner = *answer_.winner;
    Candidates dearer = all_that([&](std::size_t i) {
      return answer_.entries[i].stage == Stage::waiting && level(i) > level(winner) && same_limits(i, winner);
    });
    std::stable_sort(dearer.begin(), dearer.end(), [&](std::size_t a, std::size_t b) { return level(a) < level(b); });
    if (dearer.size() > kNextFleets) dearer.resize(kNextFleets);
    return dearer;
  }

  [[nodiscard]] bool same_limits(std::size_t a, std::size_t b) const {
    const PointSpec &x = question_.candidates[a].spec, &y = question_.candidates[b].spec;
    const bool same_prefill = !x.prefill || !y.prefill || same_limits(x.prefill->policy, y.prefill->policy);
    return same_limits(x.policy, y.policy) && same_prefill;
  }

  static bool same_limits(const sched::PolicyConfig& p, const sched::PolicyConfig& q) {
    return p.policy == q.policy && p.max_running == q.max_running && p.step_token_budget == q.step_token_budget &&
           p.prefill_token_budget == q.prefill_token_budget && p.mem_fraction == q.mem_fraction;
  }

  // Finds, on each instance type, the fewest GPUs that surely keep the SLO.
  void find_fewest() {
    std::map<std::string, Candidates> types;
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) types[label_of(question_.candidates[i])].push_back(i);
    std::vector<bool> ties;  // ties with the winner; the search below would overwrite them
    for (const Entry& entry : answer_.entries) ties.push_back(entry.ties);
    const auto gpus = [this](std::size_t i) { return static_cast<double>(question_.candidates[i].gpus); };
    for (const auto& [hardware, members] : types) {
      const Candidates order = first_level(all_simulable(members), gpus, true);
      if (!order.empty()) answer_.fewest_gpus.emplace(hardware, order.front());
    }
    for (std::size_t i = 0; i < ties.size(); ++i) answer_.entries[i].ties = ties[i];
    rank(question_, answer_, leaders_);
  }

  void say_why_left_out() {
    if (!answer_.winner || !is_known(question_)) return;
    const auto level = objective_level();
    const double best = level(*answer_.winner);
    for (std::size_t i = 0; i < answer_.entries.size(); ++i) {
      Entry& entry = answer_.entries[i];
      if (entry.stage != Stage::waiting) continue;
      entry.objective = objective_of(question_, question_.candidates[i], {});
      const std::string gap = objective_gap(question_, entry, answer_.entries[*answer_.winner]);
      leave_out(i, level(i) > best ? "not simulated: more expensive than the certain winner: " + gap
                                   : "not simulated: not better than the winner");
    }
  }

  void leave_out(std::size_t candidate, std::string reason) {
    answer_.entries[candidate].stage = Stage::outranked;
    answer_.entries[candidate].reason = std::move(reason);
  }

  // ---- objectives that runs must measure ----------------------------------------------------------------------

  // Confirms all candidates near the best so far, in rounds until one remains. Then the candidates that the winner
  // beats only by a short run get a longer run as well.
  Candidates confirm_by_measure() {
    Candidates order = first_order_near_best(all_that([&](std::size_t i) { return screening_.is_hopeful(i); }));
    const auto rivals = [&](std::size_t i) {
      return screening_.is_doubtful(i) && (order.empty() || may_beat(i, order.front()));
    };
    Candidates more = screening_.worth_confirming(all_that(rivals));
    if (more.empty()) return order;
    for (const std::size_t i : order) answer_.entries[i].ties = false;
    more.insert(more.end(), order.begin(), order.end());
    return first_order_near_best(std::move(more));
  }

  // Decides by a short run, whose objective may be as inaccurate as its checks.
  [[nodiscard]] bool may_beat(std::size_t i, std::size_t leader) const {
    const Entry& entry = answer_.entries[i];
    if (entry.metrics->requests_completed == 0) return true;  // nothing was measured, so nothing is known
    const double mine = entry.objective.mean, best = answer_.entries[leader].objective.mean;
    return is_minimised(question_.search.objective) ? mine <= kMuchWorse * best : kMuchWorse * mine >= best;
  }

  Candidates first_order_near_best(Candidates left) {
    while (!left.empty()) {
      sort_near_best(left);
      const Candidates contenders(left.begin(),
                                  left.begin() + static_cast<std::ptrdiff_t>(std::min(kAtOnce, left.size())));
      left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(contenders.size()));
      Confirm confirm(question_, trials_, answer_);
      Candidates order = confirm.order_of(contenders);
      if (order.empty()) continue;
      confirm.settle_ties(order);
      return order;
    }
    return {};
  }

  // Sorts by rank, ignoring what one run cannot show: throughput goals, and small differences from the best.
  void sort_near_best(Candidates& candidates) const {
    const auto key = [this](std::size_t i) { return may_meet(i); };
    const auto by_objective = [&](std::size_t a, std::size_t b) {
      if (key(a) != key(b)) return key(a);
      const double x = answer_.entries[a].objective.mean, y = answer_.entries[b].objective.mean;
      return key(a) && x != y ? (x < y) == is_minimised(question_.search.objective)
                              : goes_before(question_, answer_, a, b);
    };
    std::sort(candidates.begin(), candidates.end(), by_objective);
    const double tolerance = question_.search.objective == Objective::throughput ? 0.02 : 0,
                 best = answer_.entries[candidates.front()].objective.mean;
    const auto end = std::stable_partition(candidates.begin(), candidates.end(), [&](std::size_t i) {
      return may_meet(i) && std::abs(answer_.entries[i].objective.mean - best) <= tolerance * std::abs(best);
    });
    std::sort(candidates.begin(), end,
              [&](std::size_t a, std::size_t b) { return breaks_tie(question_, answer_, a, b); });
  }

  // Returns whether it may meet the SLO; a short run cannot judge throughput goals.
  [[nodiscard]] bool may_meet(std::size_t i) const {
    const Entry& entry = answer_.entries[i];
    if (entry.standing.meets || entry.stage == Stage::confirmed || !can_be_longer(question_.spec))
      return entry.standing.meets;
    return std::all_of(entry.standing.checks.begin(), entry.standing.checks.end(),
                       [](const Check& c) { return c.at_least || c.ratio() <= 1; });
  }

  void examine() {
    const std::size_t winner = *answer_.winner;
    Entry& entry = answer_.entries[winner];
    if (std::holds_alternative<load::Script>(question_.spec.workload.load)) return;
    const double load = load::load_value(question_.spec.workload.load);
    if (!entry.capacity && ends_somewhere(question_.spec)) {
      CapacityStart start{.load = load};
      if (entry.metrics) start = start_from(question_.spec, load, load, *entry.metrics);
      if (!finds_load(question_.search.objective)) start.asked_for = load;
      if (const auto held = held_.find(winner); held != held_.end()) start.kept = &held->second;
      const auto look = looks_.find(winner);
      entry.capacity = capacity_of(trials_, winner, start, look != looks_.end() ? &look->second : nullptr);
    }
    if (entry.capacity) answer_.curve = load_curve(question_, trials_, winner, *entry.capacity);
    if (!finds_load(question_.search.objective)) answer_.sensitivities = sensitivities(question_, trials_, answer_);
    if (question_.candidates[winner].spec.prefill) answer_.pools = compare_with_one_pool(question_, trials_, winner);
  }

  const Question& question_;
  Trials& trials_;
  Answer answer_;
  Screening screening_;
  Candidates leaders_;                                   // in their final order
  std::set<std::size_t> dropped_;                        // a long run missed the SLO that short runs kept
  std::map<std::size_t, sched::PointMetrics> held_;      // long runs that kept the SLO
  std::map<std::size_t, Capacity> looks_;                // first looks at the leaders' capacities
  std::vector<std::pair<double, std::size_t>> bounded_;  // factor beyond the bound, and the candidate
};

}  // namespace

Answer find_best(const Question& question, Trials& trials, const SearchOptions& options) {
  if (finds_load(question.search.objective) && std::holds_alternative<load::Script>(question.spec.workload.load)) {
    throw InputError(
        question.spec.places.workload,
        "this objective searches for the largest load, so the load must have a size to vary; a script has none");
  }
  if (finds_load(question.search.objective) && !ends_somewhere(question.spec)) {
    throw InputError(question.spec.places.workload,
                     "this objective searches for the largest load, so it needs a limit in slo: without one, a closed "
                     "loop or burst of any size is carried, only more slowly");
  }
  return Search(question, trials).run(options);
}

}  // namespace plimsoll::study::plan
