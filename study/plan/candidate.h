// SPDX-License-Identifier: Apache-2.0
// The deployments of a search: every combination of the `search` block's values, inserted into the study's file. So
// each candidate obeys the rules of a study file. Impossible ones are kept with the reason.
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
  /// "ml.g5.2xlarge x 16: tp 1, 16 replicas, max_running 32"; with pools (spec.prefill) "p5.48xlarge x 2: prefill 2 x
  /// tp 2 + decode 3 x tp 4".
  std::string name;
  std::vector<Setting> settings;  // the settings to apply to the study's file
  PointSpec spec;
  PointResult point;       // labels, instances and price; no metrics
  std::int64_t gpus = 0;   // GPUs that its replicas use at most at once; its instances may have more
  std::size_t family = 0;  // equal for candidates that differ only in their numbers of replicas and instances
  /// Equal for candidates that differ only in the largest batch and have the same KV pool. Their runs are identical as
  /// long as every replica has fewer requests than `most_running`.
  std::size_t twins = 0;
  std::int64_t most_running = 0;
  double rent = 0;          // cost per hour: USD, or the GPUs in use if no price is needed or known
  double prefill_rent = 0;  // the prefill pool's part of it
  std::string excluded;     // why it is excluded before any simulation; empty: it is not
};

/// A search for one point of a study.
struct Question {
  const Study* study = nullptr;
  std::size_t index = 0;  // index of the point
  SearchSpec search;
  PointSpec spec;                     // the study's own point; its workload and SLO apply to all candidates
  std::vector<Candidate> candidates;  // in the order of the axes, the last one varying fastest
  std::size_t feasible = 0;           // number of candidates that are not excluded
  bool is_priced = true;  // false: costs are counted in GPUs, since all are of one kind or no price is required
  std::vector<std::string> notes;  // notes on the prices
};

/// Throws InputError for a search with more than a million combinations or with a value that a study must not have.
/// Also if a required price is missing (max_usd_per_hour, or costs of several instance types). TP degrees that neither
/// the search nor the study states are all powers of two within an instance; numbers of replicas are 1, 2, 3, 4, 6, 8,
/// 12 … 128.
[[nodiscard]] Question make_question(const Study& study, std::size_t index);

/// Returns the instance type; with pools on two types "A + B".
[[nodiscard]] const std::string& label_of(const Candidate& candidate);
/// Returns the unit that a search counts in: "GPUs", or "replicas" for pools that state rates instead of hardware.
[[nodiscard]] std::string_view counted(const Question& question);
/// Returns the GPUs of all its instances, used or not.
[[nodiscard]] std::int64_t paid_gpus(const Candidate& candidate);

/// Compares names as a reader would: runs of digits count as numbers.
[[nodiscard]] bool name_before(std::string_view a, std::string_view b);

}  // namespace plimsoll::study::plan
