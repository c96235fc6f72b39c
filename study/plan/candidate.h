// SPDX-License-Identifier: Apache-2.0
// The deployments that a search considers: every combination of the `search` block's values in the study's file, so
// that each obeys the rules of a file, with the reason of those that cannot exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "study/file/study.h"
#include "study/run/point_result.h"

namespace plimsoll::study::plan {

struct Candidate {
  std::string name;               // "ml.g5.2xlarge x 16: tp 1, 16 replicas, max_running 32"
  std::vector<Setting> settings;  // of the study's file
  PointSpec spec;
  PointResult point;       // labels, instances and price; no metrics
  std::int64_t gpus = 0;   // that its replicas use (at most at once), of those that its instances have
  std::size_t family = 0;  // the same for those that differ in their numbers of replicas and instances alone
  /// The same for those that differ in the number of sequences in a batch alone, and have the same KV pool: while fewer
  /// requests than `most_running` are in each replica, they decide alike.
  std::size_t twins = 0;
  std::int64_t most_running = 0;
  double rent = 0;       // what an hour of it costs: USD, or the GPUs in use where no price is needed or known
  std::string excluded;  // why it is out before any simulation; empty: it takes part
};

/// What is asked of one point of a study.
struct Question {
  const Study* study = nullptr;
  std::size_t index = 0;  // of the point
  SearchSpec search;
  PointSpec spec;                     // of the study itself: workload and SLO are those of all candidates
  std::vector<Candidate> candidates;  // in the order of the axes, the last one fastest
  std::size_t feasible = 0;           // of them
  bool is_priced = true;           // else costs are counted in GPUs: all are of one kind, or nothing asks for a price
  std::vector<std::string> notes;  // on the prices
};

/// Throws InputError for a search that has more than a million combinations, a value that no study may have, or no
/// price where one is needed (max_usd_per_hour, costs of several instance types). TP degrees that neither the search
/// nor the study states are all powers of two that an instance holds; numbers of replicas 1, 2, 3, 4, 6, 8, 12 … 128.
[[nodiscard]] Question make_question(const Study& study, std::size_t index);

/// GPUs of all its instances, whether replicas use them or not.
[[nodiscard]] std::int64_t paid_gpus(const Candidate& candidate);

/// Names in the order of a reader: runs of digits count as numbers.
[[nodiscard]] bool name_before(std::string_view a, std::string_view b);

}  // namespace plimsoll::study::plan
