// SPDX-License-Identifier: GPL-3.0-or-later
// What the planner is asked about a scenario: its SLO and its search, taken from the window where the study states
// none.
#pragma once

#include <QString>
#include <string>

#include "gui/core/session.h"

namespace plimsoll::gui {

struct PlanQuestion {
  std::string slo, search;  // YAML, as the study would state them
  QString words;            // the question for a reader
};
/// A list in the form ("1, 2, 4") is what may vary; a single value there is only where the user happens to stand.
/// Throws InputError where no SLO can be had.
[[nodiscard]] PlanQuestion plan_question(const Scenario& scenario, const ViewState& view);

/// The study that is planned: the scenario with that SLO and that search, and without its sweep.
[[nodiscard]] Scenario plan_scenario(const Scenario& scenario, const ViewState& view);

/// Equal for scenarios that ask the same, wherever among the deployments searched they stand.
[[nodiscard]] std::string question_key(const Scenario& scenario, const ViewState& view);

/// The curves show what the SLO limits, with the limit as their SLO line: the metric that is shown if it is among them,
/// else the first that can be shown. Nothing changes without one.
void show_slo(const sched::Slo& slo, ViewState& view);

}  // namespace plimsoll::gui
