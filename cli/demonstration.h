// SPDX-License-Identifier: Apache-2.0
// What `./plimsoll` does by default: simulates the JumpStart study beside the published figures, then simulates and
// measures a small model on this machine's CPU under the same scheduler.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "configs/catalogue.h"
#include "exec/cpu/probes.h"
#include "study/file/study.h"
#include "study/run/run_control.h"
#include "study/run/run_study.h"

namespace plimsoll::cli {

struct DemonstrationSettings {
  std::string folder = "out/jumpstart-7b-p4d";
  int jobs = 0;
  study::RunControl* control = nullptr;
};

/// Simulates configs/studies/jumpstart-7b-p4d.yaml, writes points.csv, study.yaml, comparison.csv and curves.svg to the
/// folder, and returns the text to print. Throws InputError and DeviceError.
[[nodiscard]] std::string demonstrate(std::shared_ptr<const configs::Catalogue> catalogue,
                                      const DemonstrationSettings& settings);

// The second half: a small model on this machine's CPU, simulated and measured under the same scheduler.

struct CpuDemonstrationSettings {
  std::string folder = "out/cpu-demo";
  study::RunPoint measure;                         // runs a point on the executor
  std::function<void(study::PointResult&)> label;  // adds to a result what it was measured on
  exec::SteadyRates reference;                     // rates during calibration; zeros: those of the first probe
  std::function<exec::SteadyRates()> probe;        // called before and after every point
  double patience = 1e9;  // disturbed points are measured again for this many seconds from the first point on
  study::RunControl* control = nullptr;
};

/// A short form of `plimsoll calibrate`: about `seconds` long, one rank, not stored.
[[nodiscard]] configs::ThisMachine quick_calibration(const std::string& configs_root, double seconds,
                                                     study::RunControl* control);

/// Simulates configs/studies/cpu-demo.yaml, given as `study`, and measures it (a disturbed point twice). Writes the
/// points of both, comparison.csv and curves.svg to the folder, and returns the text to print; empty if it was
/// cancelled. Throws InputError and DeviceError.
[[nodiscard]] std::string demonstrate_cpu(const study::Study& study, const CpuDemonstrationSettings& settings);

}  // namespace plimsoll::cli
