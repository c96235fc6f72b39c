// SPDX-License-Identifier: GPL-3.0-or-later
// Finds the loads that are worth simulating: from a small one up to saturation, or to the first that misses a limit.
#pragma once

#include <vector>

#include "gui/core/scenario.h"
#include "gui/core/slo_answer.h"
#include "study/run/run_control.h"

namespace plimsoll::gui {

/// Doubles the load of each curve of the scenario until throughput stops growing, the run is unstable, requests fail,
/// or a limit of the study or the drawn one is missed. Runs that are too short to tell are made longer. Returns the
/// loads up to the largest end that was found: powers of two for clients; for rates, fractions of the highest rate that
/// is carried and, with a limit, one rate beyond. Empty if no load can be simulated, or if the kind of load has no
/// value. Throws InputError for an invalid scenario. Stops early if `control` is cancelled.
[[nodiscard]] std::vector<double> find_loads(const Scenario& scenario,
                                             const std::shared_ptr<const configs::Catalogue>& catalogue,
                                             const DrawnLimit& drawn, study::RunControl& control);

}  // namespace plimsoll::gui
