// SPDX-License-Identifier: Apache-2.0
// From the samples of one share of a machine to its accelerator, and the error on what was held out.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "calibration/machine_calibration.h"
#include "calibration/op_samples.h"

namespace plimsoll::calibration {

/// Measured ops of one share, of all its models.
struct ShareSamples {
  std::vector<OpSample> ops;
  std::vector<AllReduceSample> all_reduces;
  std::vector<std::pair<exec::EngineConfig, std::vector<ForwardSample>>> forwards;  // held out
  std::vector<std::pair<exec::EngineConfig, std::vector<ForwardSample>>> whole;     // GPUs: as graphs, for the gaps
};

/// Fits the accelerator and the all-reduces of `share`. The share's probes are set; a GPU's limits are those of its
/// ops.
void fit_share(ShareCalibration& share, ShareSamples& samples, const std::string& what);
/// Predicts the forwards that are in no fit.
void check_held_out(ShareCalibration& share, const ShareSamples& samples);

}  // namespace plimsoll::calibration
