// SPDX-License-Identifier: Apache-2.0
// The scenario of a simulated point is that of any point.
#pragma once

#include "traces/scenario.h"

namespace plimsoll::sim {

using traces::ClientLimits;
using traces::kLongestRun;
using traces::kMostAttempts;
using traces::Scenario;

}  // namespace plimsoll::sim
