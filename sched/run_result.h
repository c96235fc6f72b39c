// SPDX-License-Identifier: Apache-2.0
// The results of a run besides its metrics, the same for simulated and live runs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
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
  std::uint64_t session = 0;          // of a load whose requests are turns; 0: none
  std::optional<Stages> stages = {};  // with two pools, if a decode replica ended it
};

/// A step for the timeline. `steps` > 1 means a leap.
struct StepRow {
  std::int32_t replica = 0;
  Nanos start = 0, end = 0;
  std::int64_t steps = 1, prefill_tokens = 0, decode_rows = 0, prefill_rows = 0;
  Blk kv_blocks = 0;
  std::int64_t queued = 0;
};

/// The number of replicas in each state, and of instances that are paid for, from `time` on. For a fleet with replicas
/// that come and go.
struct FleetRow {
  Nanos time = 0;
  std::int32_t starting = 0, serving = 0, draining = 0, failed = 0, instances = 0;
};

/// Makes the row of the step that the replica has decided and that has just begun; the caller sets the times.
[[nodiscard]] inline StepRow step_row(const Replica& replica, std::int32_t index) {
  StepRow row;
  row.replica = index;
  for (const Forward& forward : replica.decision().forwards()) {
    row.decode_rows += replica.decode_load(forward).rows;
    for (const Segment& segment : forward.prefill) row.prefill_tokens += segment.new_tokens;
    row.prefill_rows += static_cast<std::int64_t>(forward.prefill.size());
  }
  row.kv_blocks = replica.kv().in_use();
  row.queued = replica.policy().queued();
  return row;
}

/// What to keep besides the metrics, and how to stop the run. Callbacks run on the calling thread.
struct RunOptions {
  bool keep_requests = false, keep_log = false, keep_steps = false;
  std::size_t point = 0;  // index in the sweep, written to a live run's events
  std::stop_token stop;
  std::function<void(double fraction)> progress;  // called from time to time; may be empty
};

struct RunResult {
  PointMetrics metrics;
  std::vector<RequestRow> requests;  // with keep_requests: in order of id, only of the first replication
  std::vector<std::string> logs;     // with keep_log: one decision log per replica, only of the first replication
  std::vector<FleetRow>
      fleet;  // replicas that come and go: one row per change, the last one at the end; only of the first replication
  std::vector<StepRow> steps;  // with keep_steps: only of the first replication
  std::int64_t steps_run = 0;  // steps of all replicas, with every step of a leap counted
  std::set<std::string>
      beyond_measured;   // simulated runs: why they lie outside the measured kernels (model/forward_cost.h)
  std::string events;    // live runs, with keep_log: events.jsonl of the first replication
  bool stopped = false;  // cut short by `stop` or a failure: the metrics are invalid and the rest is partial
  std::string failure;   // text of the DeviceError that ended the run; empty if none
};

}  // namespace plimsoll::sched
