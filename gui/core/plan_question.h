// SPDX-License-Identifier: GPL-3.0-or-later
// The planner's question about a scenario: an SLO and a search, derived from the window if the study states none.
#pragma once

#include <QString>
#include <string>

#include "gui/core/session.h"

namespace plimsoll::gui {

struct PlanQuestion {
  std::string slo, search;  // YAML in the study's syntax
  QString words;            // the question as text for the user
};
/// Builds the question. A list in the form ("1, 2, 4") is a range to search. A single value is only the user's current
/// position and does not restrict the search. Throws InputError if no SLO can be derived.
[[nodiscard]] PlanQuestion plan_question(const Scenario& scenario, const ViewState& view);

/// Returns the search that is derived from the scenario if it states none, in the study's syntax. Without an objective,
/// it is the usual one: the largest load if the load is swept, else the least cost.
[[nodiscard]] std::string derived_search(const Scenario& scenario, const std::string& objective = {});

/// Returns the study to plan: the scenario with the SLO and the search of the question, without its sweep. If the
/// search does not look for the load, a swept one becomes its largest value, which a deployment must carry.
[[nodiscard]] Scenario plan_scenario(const Scenario& scenario, const ViewState& view);

/// Returns a key that is equal for scenarios that ask the same question, whichever of the searched deployments they
/// currently show.
[[nodiscard]] std::string question_key(const Scenario& scenario, const ViewState& view);

/// Makes the curves show the SLO: its limit becomes the limit line. Keeps the current metric if the SLO limits it, else
/// shows the first limited metric that can be shown. Changes nothing if there is none.
void show_slo(const sched::Slo& slo, ViewState& view);

}  // namespace plimsoll::gui
