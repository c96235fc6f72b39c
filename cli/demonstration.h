// SPDX-License-Identifier: Apache-2.0
// The main job of `./plimsoll`: the JumpStart study simulated, beside the published figures.
#pragma once

#include <memory>
#include <string>

#include "configs/catalogue.h"
#include "study/run/run_control.h"

namespace plimsoll::cli {

struct DemonstrationSettings {
  std::string folder = "out/jumpstart-7b-p4d";
  int jobs = 0;
  study::RunControl* control = nullptr;
};

/// Simulates configs/studies/jumpstart-7b-p4d.yaml, writes points.csv, study.yaml, comparison.csv and curves.svg into
/// the folder, and returns the text to print. Throws InputError and DeviceError.
[[nodiscard]] std::string demonstrate(std::shared_ptr<const configs::Catalogue> catalogue,
                                      const DemonstrationSettings& settings);

}  // namespace plimsoll::cli
