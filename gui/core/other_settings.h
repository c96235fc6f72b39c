// SPDX-License-Identifier: GPL-3.0-or-later
// Settings of a study for which the form has no field. The form lists them, because they affect every figure.
#pragma once

#include <string>
#include <vector>

#include "gui/core/scenario.h"

namespace plimsoll::gui {

/// A setting with its path: "scheduler.max_input", "deployment.pools.prefill.scheduler.step_token_budget", "limits".
struct OtherSetting {
  std::string path, value;  // the value as YAML
};
/// Returns them in the order of the study. Titles, sweeps, the SLO and the planner's search are not among them: the
/// window shows these elsewhere.
[[nodiscard]] std::vector<OtherSetting> other_settings(const Scenario& scenario);
/// Removes the setting; its default applies.
void remove_setting(Scenario& scenario, const std::string& path);

}  // namespace plimsoll::gui
