// SPDX-License-Identifier: Apache-2.0
// First runs of candidates, as few as tell which may win.
//
// Of deployments that differ in their number of replicas alone, one that misses the SLO by far says so of all with
// fewer: each of their replicas has more of the same load. So a search needs neither those that are cheaper than one
// that misses, nor those that are dearer than one that surely keeps the SLO.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "study/plan/answer.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

class Screening {
 public:
  /// What a candidate costs by an objective that is known without a run; it never falls with more replicas.
  using Level = std::function<double(std::size_t)>;

  /// All three outlive this.
  Screening(const Question& question, Trials& trials, Answer& answer);

  /// One run of each that waits. A candidate is left out if a sibling with more replicas cannot keep the SLO.
  void screen(const std::vector<std::size_t>& candidates);
  /// Runs of those members that tell the level on which the SLO is first kept: by halves among the replicas of one
  /// family on each kind of hardware, then of every family the most able member that is cheaper than the cheapest that
  /// keeps it.
  void scout(const std::vector<std::size_t>& members, const Level& level);
  /// Those worth a confirming run, or confirmed already, after a longer run of the doubtful ones.
  [[nodiscard]] std::vector<std::size_t> worth_confirming(const std::vector<std::size_t>& members);
  /// After confirming runs: whether fewer replicas are out of the question, too.
  void learn(std::size_t candidate);

  /// By its runs so far it may keep the SLO.
  [[nodiscard]] bool is_hopeful(std::size_t candidate) const;
  /// It misses by a short run, and a longer one may say better of it.
  [[nodiscard]] bool is_doubtful(std::size_t candidate) const;
  /// Fills the entries of a search that was cancelled with the first runs that were made.
  void take_what_is_known();

 private:
  struct Ladder {  // members of one family, by replicas
    std::vector<std::size_t> rungs;
    std::size_t low = 0, high = 0;  // those below `low` miss, `high` keeps the SLO or is beyond the last
    bool is_fresh = true;
  };
  [[nodiscard]] bool is_too_small(std::size_t candidate) const;
  [[nodiscard]] bool was_run(std::size_t candidate) const;
  [[nodiscard]] std::vector<Ladder> ladders_of(const std::vector<std::size_t>& members) const;
  void probe(std::vector<Ladder>& ladders, const std::function<std::size_t(Ladder&)>& next);
  void fill(std::size_t candidate, const Trial& trial);

  const Question& question_;
  Trials& trials_;
  Answer& answer_;
  std::map<std::size_t, std::int32_t> too_few_;  // replicas, by family
};

}  // namespace plimsoll::study::plan
