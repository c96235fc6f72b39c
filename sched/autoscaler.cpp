// SPDX-License-Identifier: Apache-2.0
#include "sched/autoscaler.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::sched {

Autoscaler::Autoscaler(const AutoscalingConfig& config, std::int32_t initial)
    : config_(config),
      wanted_(std::clamp(initial, config.min, config.max)),
      in_points_(std::max<Nanos>(1, (config.in_time + config.period - 1) / config.period)) {}

// SageMaker publishes the metrics, the alarms (3 of 3 points above the target; 15 of 15 minutes below 0.9 of it, as
// users observed) and the cooldowns. Two rules are not published: desired = ceil(load / target), and new capacity is
// not removed during the scale-out cooldown.
std::int32_t Autoscaler::on_point(Nanos now, double load, std::int32_t in_service) {
  const double value = load / std::max(1, in_service);
  above_ = value > config_.target ? above_ + 1 : 0;
  below_ = value < config_.in_share * config_.target ? below_ + 1 : 0;
  // The factor absorbs rounding: a load that is a whole multiple of the target needs no further replica.
  const double replicas = std::ceil(load / config_.target * (1 - 1e-12));
  const auto desired = static_cast<std::int32_t>(std::clamp<double>(replicas, config_.min, config_.max));
  const auto cooled = [now](Nanos last, Nanos cooldown) { return last < 0 || now - last >= cooldown; };
  if (above_ >= config_.out_points && desired > wanted_) {
    // wanted_ already includes replicas that are starting, so only a larger demand gets here, even during the cooldown.
    wanted_ = desired;
    last_out_ = now;
    last_in_ = -1;  // a scale-out ends the scale-in cooldown
  } else if (below_ >= in_points_ && desired < wanted_ && cooled(last_out_, config_.out_cooldown) &&
             cooled(last_in_, config_.in_cooldown)) {
    wanted_ = desired;
    last_in_ = now;
  }
  return wanted_;
}

}  // namespace plimsoll::sched
