// SPDX-License-Identifier: GPL-3.0-or-later
// The planner's `search` block as the form of the Plan dock shows it: lists of values and a few numbers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll::gui {

/// What may vary, and what is best. Values are written as in the study.
struct PlanForm {
  std::string objective = "cost";
  std::map<std::string, std::vector<std::string>> lists;   // by key: "instances", "tp", "replicas", "max_running" …
  std::string max_usd_per_hour, max_gpus;                  // empty: no limit
  std::vector<std::pair<std::string, std::string>> other;  // keys that the form does not show, kept as they are
  [[nodiscard]] const std::vector<std::string>& list(const std::string& key) const;
  bool operator==(const PlanForm&) const = default;
};

/// Parses a `search` block. Throws InputError if it is not a map.
[[nodiscard]] PlanForm read_plan_form(const std::string& yaml);
/// Returns the block; keys without values are left out.
[[nodiscard]] std::string plan_form_yaml(const PlanForm& form);

}  // namespace plimsoll::gui
