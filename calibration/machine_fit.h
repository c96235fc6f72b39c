// SPDX-License-Identifier: Apache-2.0
// Fits the accelerator of one share of a machine to its samples, and computes the error on held-out forwards.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "calibration/machine_calibration.h"
#include "calibration/op_samples.h"

namespace plimsoll::calibration {

/// The measured ops of one share, for all its models.
struct ShareSamples {
  std::vector<OpSample> ops;
  std::vector<AllReduceSample> all_reduces;
  std::vector<std::pair<exec::EngineConfig, std::vector<ForwardSample>>> forwards;  // held out of the fit
  std::vector<std::pair<exec::EngineConfig, std::vector<ForwardSample>>>
      whole;  // GPUs only: forwards as graphs, for the gaps
};

/// Fits the accelerator and the all-reduces of `share`. Requires the share's probes; on a GPU the limits come from its
/// ops.
void fit_share(ShareCalibration& share, ShareSamples& samples, const std::string& what);
/// Predicts the held-out forwards and records the errors in `share`.
void check_held_out(ShareCalibration& share, const ShareSamples& samples);

}  // namespace plimsoll::calibration
