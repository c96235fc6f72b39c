// SPDX-License-Identifier: Apache-2.0
// Additional measurements of a point with pools for prefill and decode (docs/pools.md): the parts of its requests'
// latency, and how busy the pools are.
#pragma once

#include <cstdint>
#include <optional>

#include "sched/log_histogram.h"
#include "sched/replica.h"

namespace plimsoll::sched {

/// Figures of the two pools; means are over completed requests.
struct PoolMetrics {
  std::optional<double> transfer_mean, transfer_p99;  // seconds; blank if nothing was transferred
  std::int64_t staging_blocks_peak = 0;               // most blocks of a decode replica that waited for their KV
  double local_prefill_share = 0;  // fraction of the completed requests whose prompt the decode replica computed
  // The parts of the latency, seconds: before the prefill, in it, in the part of the transfer that no computation
  // hides, before the first step on the decode replica, and from there to the end.
  double time_queue_prefill = 0, time_prefill = 0, time_transfer = 0, time_queue_decode = 0, time_decode = 0;
  double prefill_busy = 0, decode_busy = 0;  // mean number of replicas that ran a step
  std::optional<double> prefill_instance_s;  // the part of PointMetrics::instance_s
  bool operator==(const PoolMetrics&) const = default;
};

/// The parts of one request's latency, seconds; they sum to it.
struct StageTimes {
  double queue_prefill = 0, prefill = 0, transfer = 0, queue_decode = 0, decode = 0;
};
/// `sent`, `first_token` and `end` are those of the client.
[[nodiscard]] StageTimes stage_times(const Stages& stages, Nanos sent, Nanos first_token, Nanos end);

/// Adds up what the requests and replicas of a point with two pools report.
class PoolSums {
 public:
  void add(const Stages& stages, const StageTimes& times);
  /// Adds a replica of the prefill or decode pool, busy for that many seconds.
  void add_replica(Role role, double busy_s, Blk staged_peak);
  /// Returns the figures of runs that lasted `seconds` together.
  [[nodiscard]] PoolMetrics metrics(double seconds) const;

 private:
  std::int64_t requests_ = 0, local_ = 0;
  StageTimes sums_;
  LogHistogram transfers_;
  double prefill_busy_s_ = 0, decode_busy_s_ = 0;
  Blk staged_peak_ = 0;
};

}  // namespace plimsoll::sched
