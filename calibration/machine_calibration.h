// SPDX-License-Identifier: Apache-2.0
// `plimsoll calibrate`: measures the executor's own kernels on this machine, fits the cost model to them, and writes
// the file that `hardware: this-machine` reads (configs/this_machine.h). Part of the measurements is held out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibration/op_fit.h"
#include "configs/catalogue.h"
#include "exec/cpu/probes.h"
#include "exec/cpu/tuner.h"
#include "exec/engine.h"
#include "model/accelerator.h"
#include "model/engine_profile.h"
#include "study/run/run_control.h"
#include "validation/error_summary.h"

namespace plimsoll::calibration {

struct MachineSettings {
  std::vector<std::string> models = {"demo-llama-40m"};  // models whose shapes are measured
  exec::DeviceKind device = exec::DeviceKind::cpu;
  std::vector<model::DType> dtypes = {model::DType::bf16};
  std::vector<std::int32_t> ranks = {1, 2};
  bool tunes = true;        // on a CPU: chooses how products run, and measures everything with that
  double seconds = 60;      // approximate total duration
  double most_seconds = 0;  // a run that takes longer, as on a busy machine, throws TimeIsUp; 0 for no limit
  std::string samples;      // file that keeps the measurements of an interrupted run; empty if none
  study::RunControl* control = nullptr;
  /// `recalled` is the part of `fraction` that was recalled from an interrupted run.
  std::function<void(const std::string& what, double fraction, double recalled)> progress = {};
};

/// The fit of one class of ops.
struct ClassFit {
  std::string name;  // the class of ops, or the kind of pointwise op
  OpFit fit;
};

/// The results for one of `ranks` ranks while all of them are working.
struct ShareCalibration {
  std::int32_t ranks = 1;
  model::DType dtype = model::DType::bf16;
  double read_bandwidth = 0, multiply_add = 0;  // bytes/s and flop/s of all ranks together, best values
  model::Accelerator accelerator;
  model::Interconnect interconnect;
  std::vector<ClassFit> fits;
  /// Pairs: the rows of a step, and the ratio of its live duration to the sum of its ops. Empty on a GPU.
  std::vector<std::pair<double, double>> live_rows;
  validation::ErrorSummary held_out;  // of whole forwards that were not in the fit
};

struct MachineCalibration {
  std::string description, device = "cpu", date, command;
  std::vector<std::string> models;
  std::int32_t cores = 1;
  std::vector<ShareCalibration> shares;
  exec::SteadyRates rates;                    // means over the calibration's probes; zero on a GPU
  std::optional<exec::TunedMachine> kernels;  // how products run; none on a GPU
  double rates_spread = 0;                    // 80 % of the probes are within this fraction of the mean
  model::EngineProfile engine;
  double seconds = 0;  // duration of the calibration
};

/// Measures and fits. Throws InputError for a model that cannot run, DeviceError, Cancelled for a cancelled run, and
/// TimeIsUp for one that takes too long.
[[nodiscard]] MachineCalibration calibrate_machine(const configs::Catalogue& catalogue,
                                                   const MachineSettings& settings);
struct Cancelled {};
struct TimeIsUp {
  double seconds = 0, fraction = 0;  // elapsed time; fraction of the measurements that is done
};
/// Returns the reason why a calibration must not be kept, or an empty string: predictions of held-out forwards are far
/// off.
[[nodiscard]] std::string calibration_problem(const MachineCalibration& calibration);

/// Returns the text of the machine file.
[[nodiscard]] std::string machine_yaml(const MachineCalibration& calibration);
/// Returns the report to print: probes, fits, held-out errors.
[[nodiscard]] std::string machine_report(const MachineCalibration& calibration);

/// Fits an all-reduce curve to (bytes, seconds): splits the samples into small and large messages. Each part is latency
/// plus bytes over bandwidth, by least squares on relative errors, and the best split is kept.
struct AllReduceSample {
  double bytes = 0, seconds = 0;
};
[[nodiscard]] std::vector<model::AllReduceSegment> fit_all_reduce(std::vector<AllReduceSample> samples);

}  // namespace plimsoll::calibration
