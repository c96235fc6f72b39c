// SPDX-License-Identifier: Apache-2.0
// The scheduler's settings of a study, under our names or a product's.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sched/policy_config.h"
#include "study/file/section.h"

namespace plimsoll::study {

/// The contents of `scheduler:`.
struct SchedulerSettings {
  sched::PolicyConfig config;
  std::optional<double> free_memory_fraction;
  struct Degree {
    std::int32_t value = 1;  // -1: "max"
    Where where;
  };
  std::optional<Degree> tp, pp;  // product files state them among the scheduler's settings
  std::string problem;           // limits that the product refuses at start-up; empty: none
  std::vector<std::string> notes;
};

/// Reads the study's map (may be null) over the engine profile's, in order: the study's keys win. `default_policy`
/// applies if none is named. If the study chooses a policy other than the engine's, only the engine's memory
/// settings remain: a batch limit of one policy means nothing to another. Limits of the profile that contradict the
/// study's own (max_input against max_total …) give way.
[[nodiscard]] SchedulerSettings read_scheduler(const configs::Node* study, std::span<const configs::Node> engine,
                                               std::string_view default_policy);

}  // namespace plimsoll::study
