// SPDX-License-Identifier: Apache-2.0
// `plimsoll calibrate`: measures the executor's own kernels on this machine, fits the cost model to them, and writes
// the file that `hardware: this-machine` reads (configs/this_machine.h). A part of what is measured is held out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "calibration/op_fit.h"
#include "configs/catalogue.h"
#include "exec/cpu/probes.h"
#include "exec/engine.h"
#include "model/accelerator.h"
#include "model/engine_profile.h"
#include "study/run/run_control.h"
#include "validation/error_summary.h"

namespace plimsoll::calibration {

struct MachineSettings {
  std::vector<std::string> models = {"demo-llama-40m"};  // whose shapes are measured
  exec::DeviceKind device = exec::DeviceKind::cpu;
  std::vector<model::DType> dtypes = {model::DType::bf16};
  std::vector<std::int32_t> ranks = {1, 2};
  double seconds = 60;      // for all of it, roughly
  double most_seconds = 0;  // then TimeIsUp, as on a machine that is busy; 0: however long it takes
  std::string samples;      // file that keeps what was measured for a run that is interrupted; empty: none
  study::RunControl* control = nullptr;
  /// `recalled`: the part of `fraction` that an interrupted run had measured.
  std::function<void(const std::string& what, double fraction, double recalled)> progress = {};
};

/// The fit of one class of op.
struct ClassFit {
  std::string name;  // of the class, or of the pointwise kind
  OpFit fit;
};

/// What one of `ranks` ranks does when all of them work.
struct ShareCalibration {
  std::int32_t ranks = 1;
  model::DType dtype = model::DType::bf16;
  double read_bandwidth = 0, multiply_add = 0;  // best of all ranks together, bytes/s and flop/s
  model::Accelerator accelerator;
  model::Interconnect interconnect;
  std::vector<ClassFit> fits;
  /// (rows of a step, how many times longer it takes in live runs than the sum of its ops); empty on a GPU.
  std::vector<std::pair<double, double>> live_rows;
  validation::ErrorSummary held_out;  // of whole forwards that were in no fit
};

struct MachineCalibration {
  std::string description, device = "cpu", date, command;
  std::vector<std::string> models;
  std::int32_t cores = 1;
  std::vector<ShareCalibration> shares;
  exec::SteadyRates rates;  // means over the calibration's probes; zeros on a GPU
  double rates_spread = 0;  // 80 % of the probes differ by at most this part from them
  model::EngineProfile engine;
  double seconds = 0;  // it took
};

/// Measures and fits. Throws InputError for a model that cannot be run; DeviceError; a cancelled run throws Cancelled,
/// one that takes too long TimeIsUp.
[[nodiscard]] MachineCalibration calibrate_machine(const configs::Catalogue& catalogue,
                                                   const MachineSettings& settings);
struct Cancelled {};
struct TimeIsUp {
  double seconds = 0, fraction = 0;  // of the run, and what of the measurements is done
};
/// Why a calibration is not worth keeping: forwards that were held out are predicted nowhere near. Empty: it is.
[[nodiscard]] std::string calibration_problem(const MachineCalibration& calibration);

/// The machine file's text.
[[nodiscard]] std::string machine_yaml(const MachineCalibration& calibration);
/// What to print: probes, fits, held-out errors.
[[nodiscard]] std::string machine_report(const MachineCalibration& calibration);

/// Segments of an all-reduce curve from (bytes, seconds): the best split into a small and a large part, each latency
/// plus bytes over bandwidth, least squares on relative errors.
struct AllReduceSample {
  double bytes = 0, seconds = 0;
};
[[nodiscard]] std::vector<model::AllReduceSegment> fit_all_reduce(std::vector<AllReduceSample> samples);

}  // namespace plimsoll::calibration
