// SPDX-License-Identifier: Apache-2.0
// Several models on the same instances: the replicas of each, as few GPUs as keep its SLO, packed onto whole instances.
// Replicas hold GPUs of their own, so that one model's load does not touch another's; what they share is the bill.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "study/plan/view.h"

namespace plimsoll::study::plan {

/// One instance type that hosts all models.
struct SharedHost {
  std::string hardware;
  std::string impossible;                            // why not; empty: it does
  std::vector<std::size_t> candidates;               // of each finding
  std::vector<std::vector<std::int32_t>> instances;  // replicas of each finding on each instance
  std::optional<double> usd_per_hour;
};

/// Every instance type of the searches, cheapest first, then those that cannot. The findings' answers must have
/// `fewest_gpus` (SearchOptions::fewest_on_each).
[[nodiscard]] std::vector<SharedHost> share_instances(std::span<const QuestionAnswer> findings);
/// For the terminal, beside what the models cost apart.
[[nodiscard]] std::string shared_text(std::span<const QuestionAnswer> findings, std::span<const SharedHost> hosts);
/// together.csv: one row an instance type.
[[nodiscard]] std::string shared_csv(std::span<const QuestionAnswer> findings, std::span<const SharedHost> hosts);

}  // namespace plimsoll::study::plan
