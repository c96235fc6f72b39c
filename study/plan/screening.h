// SPDX-License-Identifier: Apache-2.0
// First runs of candidates: as few as are needed to find those that may win.
//
// Among deployments that differ only in their number of replicas, one that misses the SLO by far rules out all with
// fewer: each of their replicas gets more of the same load. So a search needs to run neither those cheaper than one
// that misses, nor those more expensive than one that surely keeps the SLO.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <vector>

#include "study/plan/answer.h"
#include "study/plan/pool_counts.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

class Screening {
 public:
  /// A candidate's cost, by an objective that is known without a run. It never falls with more replicas.
  using Level = std::function<double(std::size_t)>;

  /// All three must outlive this object.
  Screening(const Question& question, Trials& trials, Answer& answer);

  /// Runs each waiting candidate once. Leaves a candidate out if a sibling with more replicas cannot keep the SLO.
  void screen(const std::vector<std::size_t>& candidates);
  /// Runs the members needed to find the lowest level at which the SLO is kept. First it halves the replicas of one
  /// family on each kind of hardware. Then it tries, in every family, the largest member that is cheaper than the
  /// cheapest one that keeps the SLO.
  void scout(const std::vector<std::size_t>& members, const Level& level);
  /// Runs doubtful members longer. Returns those worth a confirming run or already confirmed.
  [[nodiscard]] std::vector<std::size_t> worth_confirming(const std::vector<std::size_t>& members);
  /// Call after confirming runs. Records whether fewer replicas are ruled out too.
  void learn(std::size_t candidate);

  /// Returns whether it may keep the SLO, judging by its runs so far.
  [[nodiscard]] bool is_hopeful(std::size_t candidate) const;
  /// Returns whether it misses in a short run but may do better in a longer one.
  [[nodiscard]] bool is_doubtful(std::size_t candidate) const;
  /// Fills the entries for which first runs exist, after a search was cancelled.
  void take_what_is_known();

 private:
  struct Ladder {  // members of one family with one number of prefill replicas, by number of (decode) replicas
    std::vector<std::size_t> rungs;
    std::size_t low = 0, high = 0;  // rungs below `low` miss the SLO; rung `high` keeps it or is past the end
    bool is_fresh = true;
  };
  /// Returns more replicas of the same kind that miss the SLO; null if none are known.
  [[nodiscard]] const PoolCounts* larger_that_misses(std::size_t candidate) const;
  [[nodiscard]] bool was_run(std::size_t candidate) const;
  [[nodiscard]] std::vector<Ladder> ladders_of(const std::vector<std::size_t>& members) const;
  [[nodiscard]] std::vector<Ladder> guides_of(const std::vector<Ladder>& ladders) const;
  [[nodiscard]] Ladder balanced(const std::vector<std::size_t>& members) const;
  [[nodiscard]] PoolCounts counts(std::size_t candidate) const {
    return counts_of(question_.candidates[candidate].spec);
  }
  void probe(std::vector<Ladder>& ladders, const std::function<std::size_t(Ladder&)>& next);
  void fill(std::size_t candidate, const Trial& trial);

  const Question& question_;
  Trials& trials_;
  Answer& answer_;
  std::map<std::size_t, std::vector<PoolCounts>> too_few_;  // by family: numbers of replicas that miss the SLO
};

}  // namespace plimsoll::study::plan
