// SPDX-License-Identifier: Apache-2.0
// Measures a point on a server, with the scenario and the clients that a simulation of the point would have.
#pragma once

#include <string>

#include "endpoints/endpoint_run.h"
#include "sched/run_result.h"

namespace plimsoll::endpoints {

struct EndpointPoint {
  sched::RunResult run;
  EndpointFigures figures;
};

/// Returns why the server cannot run the scenario, such as lengths beyond its limit; empty if it can.
[[nodiscard]] std::string misfit(const ServerFacts& facts, std::int64_t longest);

/// Runs a point in real time until its last request has ended, options.stop is requested, or a DeviceError ends it
/// (RunResult::failure). Throws InputError for a load that cannot be measured.
[[nodiscard]] EndpointPoint measure_point(const load::Scenario& scenario, Server& server, const Prompts& prompts,
                                          const sched::RunOptions& options);

/// Returns what the server reported in /metrics as CSV, one row per second.
[[nodiscard]] std::string states_csv(const EndpointFigures& figures);

/// Returns whether more than 1 % of the answers ended before the requested length.
[[nodiscard]] bool are_short(const EndpointFigures& figures);

/// Returns how the tokens of the answers were counted; if in several ways, with the number of answers for each.
[[nodiscard]] std::string counts_text(const EndpointFigures& figures);

/// Returns the warnings about a point's figures, such as short_answers or client_limited, each with its reason.
[[nodiscard]] std::vector<std::string> warnings(const EndpointPoint& point);

}  // namespace plimsoll::endpoints
