// SPDX-License-Identifier: Apache-2.0
// How many replicas there should be: target tracking as SageMaker does it (Amazon SageMaker developer guide, "Automatic
// scaling of Amazon SageMaker AI models", and the alarms that its policies create). A state machine without a clock:
// the caller supplies a data point at the end of each period.
#pragma once

#include <cstdint>

#include "sched/types.h"

namespace plimsoll::sched {

enum class ScalingMetric : std::uint8_t {
  invocations,  // requests per minute and replica in service (InvocationsPerInstance)
  concurrency   // requests in a replica, running and queued (ConcurrentRequestsPerModel)
};

struct AutoscalingConfig {
  std::int32_t min = 1, max = 1;  // replicas
  ScalingMetric metric = ScalingMetric::invocations;
  double target = 0;                // value of the metric per replica
  Nanos period = 60'000'000'000;    // between data points; 10 s for concurrency
  std::int32_t out_points = 3;      // scale out after this many consecutive points above the target
  Nanos in_time = 900'000'000'000;  // scale in after points below in_share * target for this long
  double in_share = 0.9;
  Nanos out_cooldown = 300'000'000'000, in_cooldown = 300'000'000'000;
  Nanos start_up = 0;  // time until a new replica serves: provisioning, image, loading, warm-up
};

/// Decides the number of replicas from the data points of one fleet. Target tracking as AWS documents it: an alarm
/// above and one below the target, with cooldowns.
class Autoscaler {
 public:
  Autoscaler(const AutoscalingConfig& config, std::int32_t initial);

  /// Reports the end of a period. `load` is its requests per minute, or the mean number of requests in the fleet;
  /// `in_service` is the number of replicas that served it. Returns the number of replicas wanted from now on,
  /// including those that are starting.
  std::int32_t on_point(Nanos now, double load, std::int32_t in_service);
  /// Returns the number of replicas wanted, starting ones included.
  [[nodiscard]] std::int32_t wanted() const { return wanted_; }

 private:
  AutoscalingConfig config_;
  std::int32_t wanted_ = 1;
  std::int64_t above_ = 0, below_ = 0, in_points_ = 15;
  Nanos last_out_ = -1, last_in_ = -1;  // -1: never
};

}  // namespace plimsoll::sched
