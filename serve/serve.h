// SPDX-License-Identifier: Apache-2.0
// A deployment as a server (docs/serve.md): the scenario's replicas and router behind an HTTP endpoint, in real time.
// The replicas are simulated, or real engines that the caller brings.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "load/scenario.h"
#include "net/http_server.h"
#include "serve/real_time_run.h"
#include "serve/service.h"

namespace plimsoll::serve {

/// Makes the replicas of real engines. The arguments outlive what it returns.
using MakeRun = std::function<std::unique_ptr<ServedRun>(const load::Scenario& scenario,
                                                         const sched::RunOptions& options, const RunParts& parts)>;

struct ServeSettings {
  ServiceSettings service;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  // 0 for any free one
  double speed = 1;           // the model's time runs this many times faster
  Seconds drain{5};           // from a signal until open requests are cut
  net::HttpLimits limits = {};
  bool watches_signals = true;
  std::stop_token stop = {};  // a stop request acts as a signal does
  /// Called with the base URL once requests are accepted.
  std::function<void(const std::string& url)> on_listening = {};
  /// Files of the run, not written if empty. decision_files has one per replica.
  std::string events_file = {};
  std::vector<std::string> decision_files = {};
  std::size_t point = 0;  // number of the point in the study, for the events
  /// Makes real engines; requires service.vocabulary and speed 1. Not set: the deployment is simulated.
  MakeRun make_run = {};
};

struct ServeSummary {
  std::int64_t completed = 0, refused = 0, left = 0, output_tokens = 0, cut = 0;
  double seconds = 0;  // real time
  std::int64_t steps = 0, late_steps = 0;
  double late_p50 = 0, late_p99 = 0;  // in seconds of real time
  bool is_late = false;               // Lateness::is_flagged
};

/// Serves until a signal or stop, on the calling thread. Throws DeviceError if it cannot listen or write its files, or
/// if a device of a real engine fails.
[[nodiscard]] ServeSummary serve(const load::Scenario& scenario, const ServeSettings& settings);

}  // namespace plimsoll::serve
