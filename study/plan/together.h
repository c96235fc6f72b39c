// SPDX-License-Identifier: Apache-2.0
// Several models on the same instances: for each, as few GPUs as keep its SLO, with the replicas packed onto whole
// instances. Replicas do not share GPUs, so one model's load does not affect another's; they only share the cost.
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
  std::string impossible;                            // why it cannot host all; empty: it can
  std::vector<std::size_t> candidates;               // candidate of each finding
  std::vector<std::vector<std::int32_t>> instances;  // number of replicas of each finding on each instance
  std::optional<double> usd_per_hour;
};

/// Returns all instance types of the searches, cheapest first, then those that cannot host all models. The answers must
/// have `fewest_gpus` (SearchOptions::fewest_on_each).
[[nodiscard]] std::vector<SharedHost> share_instances(std::span<const QuestionAnswer> findings);
/// Text for the terminal, with the cost of the models on separate instances.
[[nodiscard]] std::string shared_text(std::span<const QuestionAnswer> findings, std::span<const SharedHost> hosts);
/// together.csv: one row per instance type.
[[nodiscard]] std::string shared_csv(std::span<const QuestionAnswer> findings, std::span<const SharedHost> hosts);

}  // namespace plimsoll::study::plan
