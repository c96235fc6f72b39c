// SPDX-License-Identifier: Apache-2.0
// Finds which of many deployments carries most, or most for its price. Short runs choose, long runs confirm.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "load/load_kind.h"
#include "study/plan/capacity.h"
#include "study/plan/ranking.h"
#include "study/plan/trial.h"

namespace plimsoll::study::plan {
namespace {

constexpr double kSurelyMore = 1.02;  // times the best: a candidate that fails there is not surely better
constexpr int kMostRounds = 6;

// Finds the capacities of the candidates that may carry most. A candidate that fails just below another one's load is
// left out. A more expensive candidate that carries no more than another is a tie.
class Largest {
 public:
  Largest(const Question& question, Trials& trials, std::map<std::size_t, Capacity>& first, bool for_its_rent)
      : question_(question), trials_(trials), first_(first), for_its_rent_(for_its_rent) {}

  // Returns the candidates that one confirming run each, at a few loads, cannot distinguish from the best. They are in
  // order, best first, without those in `known`. Stores the results of the runs in first_.
  std::vector<std::size_t> narrowed(const std::map<std::size_t, Capacity>& known = {}) {
    std::vector<std::size_t> order;
    for (const auto& [candidate, capacity] : first_)
      if (known.count(candidate) == 0) order.push_back(candidate);
    sort_by_worth(order);
    if (order.size() < 2 || first_[order.front()].is_open()) return order;
    const CapacityPlan plan{.confirms = true,
                            .stride = confirming_brackets().stride,
                            .tolerance = kTellsApart,
                            .worth_following = kSurelyLess,
                            .alike = kSurelyMore,
                            .for_its_rent = for_its_rent_,
                            .part = 0};
    const std::vector<Capacity> found = find_capacities(trials_, order, starts_of(order), plan);
    for (std::size_t i = 0; i < order.size(); ++i) take(first_[order[i]], found[i]);
    sort_by_worth(order);
    std::erase_if(order, [&](std::size_t c) { return worth(c) <= kSurelyLess * worth(order.front()); });
    return order;
  }

  // Among ties the cheapest wins that is confirmed to carry as much for its share as any other. If long runs disprove a
  // candidate's load, the candidates that it had ruled out are tried again.
  std::map<std::size_t, Capacity> confirmed() {
    std::map<std::size_t, Capacity> out;
    std::vector<std::size_t> alike;
    for (int round = 0; round < kMostRounds && may_lead(out); ++round) {
      for (const std::size_t c : confirm_cheapest(narrowed(out), out))
        if (std::find(alike.begin(), alike.end(), c) == alike.end()) alike.push_back(c);
    }
    const std::optional<std::size_t> leader = cheapest_of_most(alike, out);
    if (!leader) return out;
    for (const std::size_t c : alike) {
      const auto at = out.find(c);
      if (at == out.end()) {  // the cheaper ones carry less than a confirmed one of the same price
        if (rent(c) >= rent(*leader)) out[c] = tied(c, *leader, out.at(*leader));
      } else if (proven(c, at->second) == 0) {
        first_[c] = std::move(at->second);
        out.erase(at);
      }
    }
    return out;
  }

 private:
  [[nodiscard]] double share(std::size_t c) const { return for_its_rent_ ? question_.candidates[c].rent : 1; }
  [[nodiscard]] double worth(std::size_t c) const { return first_.at(c).load.mean / share(c); }

  [[nodiscard]] double proven(std::size_t c, const Capacity& capacity) const {
    return capacity.confirmed ? capacity.load.mean / share(c) : 0;
  }

  [[nodiscard]] double rent(std::size_t c) const { return question_.candidates[c].rent; }

  // Returns whether any unconfirmed candidate may carry clearly more for its share than all confirmed ones.
  [[nodiscard]] bool may_lead(const std::map<std::size_t, Capacity>& out) const {
    double best = 0;
    for (const auto& [candidate, capacity] : out) best = std::max(best, proven(candidate, capacity));
    return std::any_of(first_.begin(), first_.end(), [&](const auto& other) {
      return out.count(other.first) == 0 && (out.empty() || kDisproved * worth(other.first) > best);
    });
  }

  // Returns whether a confirmed candidate carries clearly less for its share than another, or is disproved.
  [[nodiscard]] bool is_less(std::size_t c, const std::map<std::size_t, Capacity>& out) const {
    const double mine = proven(c, out.at(c));
    return mine == 0 || std::any_of(out.begin(), out.end(), [&](const auto& other) {
             return mine < kSurelyLess * proven(other.first, other.second);
           });
  }

  // Confirms these candidates, cheapest first, until one carries as much for its share as any confirmed one. Returns
  // them together with the larger rival that was confirmed too.
  std::vector<std::size_t> confirm_cheapest(std::vector<std::size_t> these, std::map<std::size_t, Capacity>& out) {
    const auto by_rent = [this](std::size_t a, std::size_t b) { return rent(a) < rent(b); };
    std::stable_sort(these.begin(), these.end(), by_rent);
    if (const auto rival = larger_rival(these)) {
      if (out.count(*rival) == 0) out[*rival] = confirm(*rival);
      if (std::find(these.begin(), these.end(), *rival) == these.end()) these.push_back(*rival);
      std::stable_sort(these.begin(), these.end(), by_rent);
    }
    std::optional<std::size_t> lesser;
    for (const std::size_t c : these) {
      if (lesser && rent(c) == rent(*lesser)) continue;  // that one carried most for this price
      if (out.count(c) == 0) out[c] = confirm(c);
      if (!is_less(c, out)) break;
      if (proven(c, out.at(c)) > 0) lesser = c;
    }
    return these;
  }

  // Returns the cheapest confirmed candidate that carries as much for its share as any; at equal prices, the one that
  // carries most.
  [[nodiscard]] std::optional<std::size_t> cheapest_of_most(const std::vector<std::size_t>& alike,
                                                            const std::map<std::size_t, Capacity>& out) const {
    std::optional<std::size_t> best;
    for (const std::size_t c : alike) {
      if (out.count(c) == 0 || is_less(c, out)) continue;
      const bool is_better = !best || rent(c) < rent(*best) ||
                             (rent(c) == rent(*best) && proven(c, out.at(c)) > proven(*best, out.at(*best)));
      if (is_better) best = c;
    }
    return best;
  }

  // A part of a large fleet may carry less for its share than the whole fleet; small fleets run as a whole and do not
  // show this. If the cheapest candidate ran as a whole, returns the largest fleet of these families if it ran in part.
  [[nodiscard]] std::optional<std::size_t> larger_rival(const std::vector<std::size_t>& by_rent) const {
    const auto spec = [this](std::size_t c) -> const PointSpec& { return question_.candidates[c].spec; };
    if (by_rent.empty() || sampled_replicas(spec(by_rent.front()), 0) > 0) return {};
    const auto family = [this](std::size_t c) { return question_.candidates[c].family; };
    std::size_t largest = by_rent.front();
    for (const auto& [candidate, capacity] : first_) {
      const bool is_kin = std::any_of(by_rent.begin(), by_rent.end(),
                                      [&, c = candidate](std::size_t other) { return family(other) == family(c); });
      if (is_kin && spec(candidate).deployment.replicas > spec(largest).deployment.replicas) largest = candidate;
    }
    return sampled_replicas(spec(largest), 0) > 0 ? std::optional(largest) : std::nullopt;
  }

  void sort_by_worth(std::vector<std::size_t>& order) const {
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) { return worth(a) > worth(b); });
  }

  // All start at the load of the first one, so candidates that behave identically share their runs.
  [[nodiscard]] std::vector<CapacityStart> starts_of(const std::vector<std::size_t>& order) const {
    std::vector<CapacityStart> starts(order.size(), confirming_start(question_, first_.at(order.front())));
    for (std::size_t i = 0; i < order.size(); ++i) starts[i].load *= share(order[i]) / share(order.front());
    return starts;
  }

  static void take(Capacity& mine, const Capacity& found) {
    if (found.passing > 0) {
      mine = found;
    } else if (found.failing) {
      mine.failing = std::min(mine.failing.value_or(*found.failing), *found.failing);
      mine.load.mean = std::min(mine.load.mean, *found.failing);
    }
  }

  [[nodiscard]] Capacity confirm(std::size_t c) {
    if (!first_[c].is_open())
      return find_capacities(trials_, {c}, {confirming_start(question_, first_[c])}, confirming_brackets()).front();
    Capacity open = first_[c];  // nothing limits the load
    open.confirmed = true;
    return open;
  }

  // Returns the capacity of a tie, derived from the leader's and from single runs at about the same load; it is not
  // confirmed.
  [[nodiscard]] Capacity tied(std::size_t c, std::size_t leader, const Capacity& best) const {
    Capacity out = first_.at(c);
    const double load = best.load.mean / share(leader) * share(c);
    out.load = best.load;
    out.load.mean =
        load::is_whole(load::kind_of(question_.spec.workload.load).quantity) ? std::max(1.0, std::floor(load)) : load;
    out.load.half_width = std::max(out.load.half_width, (1 - kSurelyLess) * out.load.mean);
    return out;
  }

  const Question& question_;
  Trials& trials_;
  std::map<std::size_t, Capacity>& first_;
  bool for_its_rent_;
};

}  // namespace

std::vector<std::size_t> narrow_largest(const Question& question, Trials& trials,
                                        std::map<std::size_t, Capacity>& first, bool for_its_rent) {
  return Largest(question, trials, first, for_its_rent).narrowed();
}

std::map<std::size_t, Capacity> confirm_largest(const Question& question, Trials& trials,
                                                std::map<std::size_t, Capacity>& first, bool for_its_rent) {
  return Largest(question, trials, first, for_its_rent).confirmed();
}

}  // namespace plimsoll::study::plan
