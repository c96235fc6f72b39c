// SPDX-License-Identifier: Apache-2.0
// What a run keeps besides its metrics, the same for simulated and for live runs.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "sched/metrics_collector.h"
#include "sched/replica.h"

namespace plimsoll::sched {

/// A row of requests.csv: one logical request.
struct RequestRow {
  std::uint64_t id = 0;
  std::string name;
  std::int32_t replica = -1;  // of the last attempt; -1: none
  Nanos arrival = 0, dispatched = -1, first_token = -1, end = 0;
  Tok input = 0, output = 0, generated = 0;
  Outcome outcome = Outcome::completed;
  std::uint16_t http = 0;
  const char* code = "";
  std::int32_t preemptions = 0, priority = 0;
};

/// A step, for the timeline. `steps` > 1: a leap.
struct StepRow {
  std::int32_t replica = 0;
  Nanos start = 0, end = 0;
  std::int64_t steps = 1, prefill_tokens = 0, decode_rows = 0, prefill_rows = 0;
  Blk kv_blocks = 0;
  std::int64_t queued = 0;
};

/// How many replicas of a fleet that comes and goes are in each state from `time` on, and how many instances are paid
/// for.
struct FleetRow {
  Nanos time = 0;
  std::int32_t starting = 0, serving = 0, draining = 0, failed = 0, instances = 0;
};

/// The decided step of a replica, which has just begun; times are the caller's.
[[nodiscard]] StepRow step_row(const Replica& replica, std::int32_t index);

/// What to keep besides the metrics, and how to stop. Callbacks run on the calling thread.
struct RunOptions {
  bool keep_requests = false, keep_log = false, keep_steps = false;
  std::size_t point = 0;  // place in the sweep, written to a live run's events
  std::stop_token stop;
  std::function<void(double fraction)> progress;  // now and then; may be empty
};

struct RunResult {
  PointMetrics metrics;
  std::vector<RequestRow> requests;  // with keep_requests: in order of id, of the first replication
  std::vector<std::string> logs;     // with keep_log: a decision log for each replica, of the first replication
  std::vector<FleetRow>
      fleet;  // replicas that come and go: a row a change, the last at the end; of the first replication
  std::vector<StepRow> steps;  // with keep_steps: of the first replication
  std::int64_t steps_run = 0;  // steps of all replicas, leaps counted in full
  std::set<std::string>
      beyond_measured;   // simulated runs: why they lie outside the measured kernels (model/forward_cost.h)
  std::string events;    // live runs, with keep_log: events.jsonl of the first replication
  bool stopped = false;  // cut short by `stop`: metrics are not valid
};

}  // namespace plimsoll::sched
