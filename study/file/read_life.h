// SPDX-License-Identifier: Apache-2.0
// Replicas that come and go: deployment.autoscaling and deployment.failures of a study (docs/study-file.md).
#pragma once

#include "configs/yaml_document.h"
#include "load/fleet_life.h"
#include "sched/autoscaler.h"

namespace plimsoll::study {

[[nodiscard]] sched::AutoscalingConfig read_autoscaling(const configs::Node& node);
[[nodiscard]] load::FailureConfig read_failures(const configs::Node& node);

}  // namespace plimsoll::study
