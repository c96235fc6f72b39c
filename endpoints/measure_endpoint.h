// SPDX-License-Identifier: Apache-2.0
// Measures a point on a server: the scenario that the simulator would run, with the same clients.
#pragma once

#include <string>

#include "endpoints/endpoint_run.h"
#include "sched/run_result.h"

namespace plimsoll::endpoints {

struct EndpointPoint {
  sched::RunResult run;  // after a failure `stopped` is set: metrics are not valid
  std::string failure;   // text of the DeviceError; empty: none
  EndpointFigures figures;
};

/// Why the server cannot run the scenario, such as lengths beyond its limit; empty: it can.
[[nodiscard]] std::string misfit(const ServerFacts& facts, std::int64_t longest);

/// Runs a point in real time, until its last request has ended or options.stop is requested. Throws InputError for a
/// load that cannot be measured.
[[nodiscard]] EndpointPoint measure_point(const load::Scenario& scenario, Server& server, const Prompts& prompts,
                                          const sched::RunOptions& options);

/// What the server said of itself in /metrics, a row a second.
[[nodiscard]] std::string states_csv(const EndpointFigures& figures);

/// More than one answer in a hundred ended before the length that was asked for.
[[nodiscard]] bool are_short(const EndpointFigures& figures);

/// How the tokens of the answers were counted; several ways with the number of answers of each.
[[nodiscard]] std::string counts_text(const EndpointFigures& figures);

/// What the figures of a point warn of: short_answers, client_limited and their like, each with its reason.
[[nodiscard]] std::vector<std::string> warnings(const EndpointPoint& point);

}  // namespace plimsoll::endpoints
