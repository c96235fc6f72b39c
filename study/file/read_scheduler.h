// SPDX-License-Identifier: Apache-2.0
// Reads the scheduler's settings of a study, under our names or a product's.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sched/policy_config.h"
#include "study/file/section.h"

namespace plimsoll::study {

/// The settings read from `scheduler:`.
struct SchedulerSettings {
  sched::PolicyConfig config;
  std::optional<double> free_memory_fraction;
  struct Degree {
    std::int32_t value = 1;  // -1: "max"
    Where where;
  };
  std::optional<Degree> tp, pp;  // product files state these among the scheduler's settings
  std::string problem;           // contradictory limits that the product refuses at start-up; empty: none
  std::vector<std::string> notes;
};

/// Merges the study's map (may be null) with the engine profile's maps, in order; the study's keys win.
/// `default_policy` applies if no map names a policy. If the study chooses another policy than the engine's, only the
/// engine's memory settings are kept: a batch limit of one policy means nothing to another. Limits of the profile that
/// contradict the study's own (such as max_input against max_total) are dropped.
[[nodiscard]] SchedulerSettings read_scheduler(const configs::Node* study, std::span<const configs::Node> engine,
                                               std::string_view default_policy);

}  // namespace plimsoll::study
