// SPDX-License-Identifier: Apache-2.0
// Runs the best candidates longer and repeatedly until their order is certain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "study/plan/answer.h"
#include "study/plan/trials.h"

namespace plimsoll::study::plan {

class Confirm {
 public:
  /// `most_runs`: limit per candidate, if its intervals do not decide earlier.
  Confirm(const Question& question, Trials& trials, Answer& answer, std::size_t most_runs = kMaxRuns)
      : question_(question), trials_(trials), answer_(answer), most_runs_(most_runs) {}
  static constexpr std::size_t kFirstRuns = 3, kMaxRuns = 24;

  /// Returns the contenders that meet the SLO, best first by their means. First it repeats runs until intervals have
  /// decided on the SLO and on objectives that must be measured. Updates every contender's entry.
  std::vector<std::size_t> order_of(const std::vector<std::size_t>& contenders);
  /// Puts the contenders into their final order (ranking.h), by the intervals of their differences.
  void settle_ties(std::vector<std::size_t>& order);

 private:
  enum class Relation : unsigned char { before, after, equal, unknown };
  void add_runs(const std::vector<std::size_t>& candidates, std::size_t runs);
  void update(std::size_t candidate);
  [[nodiscard]] std::vector<std::size_t> meeting(const std::vector<std::size_t>& contenders) const;
  [[nodiscard]] std::vector<std::size_t> unsettled(const std::vector<std::size_t>& contenders) const;
  [[nodiscard]] bool could_lead(std::size_t candidate, std::size_t leader) const;
  [[nodiscard]] Relation by_objective(std::size_t a, std::size_t b) const;
  [[nodiscard]] Relation by_latency(std::size_t a, std::size_t b) const;
  [[nodiscard]] Relation compare(const std::vector<double>& a, const std::vector<double>& b, double indifference) const;
  [[nodiscard]] std::vector<double> values(std::size_t candidate, bool objective) const;
  [[nodiscard]] Trial trial(std::size_t candidate, std::size_t run) const;
  [[nodiscard]] std::int64_t requests_of(std::size_t candidate) const;
  [[nodiscard]] std::vector<const sched::PointMetrics*> runs_of(std::size_t candidate) const;

  const Question& question_;
  Trials& trials_;
  Answer& answer_;
  std::size_t most_runs_;
  double confidence_ = 0.95;            // level of one comparison, so that all hold together
  std::vector<std::size_t> runs_;       // number of runs per candidate
  std::vector<std::int64_t> requests_;  // requests in each run, per candidate
};

}  // namespace plimsoll::study::plan
