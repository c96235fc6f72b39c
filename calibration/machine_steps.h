// SPDX-License-Identifier: Apache-2.0
// The steps of a machine calibration that follow its measurements (machine_calibration.h): fit the ops, measure the
// host, and correct both with live runs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calibration/machine_calibration.h"
#include "calibration/op_samples.h"
#include "model/engine_profile.h"

namespace plimsoll::calibration {

// ---- machine_fit.cpp: from the samples of one share to its accelerator -------------------------------------------

/// The measured ops of one share, for all its models.
struct ShareSamples {
  std::vector<OpSample> ops;
  std::vector<AllReduceSample> all_reduces;
  std::vector<std::pair<exec::EngineConfig, std::vector<ForwardSample>>> forwards;  // held out of the fit
  std::vector<std::pair<exec::EngineConfig, std::vector<ForwardSample>>>
      whole;  // GPUs only: forwards run as graphs, to fit the gaps
};

/// Fits the accelerator and the all-reduces of `share`. Requires the probes of the share; on a GPU the limits are
/// derived from its ops instead.
void fit_share(ShareCalibration& share, ShareSamples& samples, const std::string& what);
/// Predicts the held-out forwards and records the errors in `share`.
void check_held_out(ShareCalibration& share, const ShareSamples& samples);

// ---- machine_host.cpp: the part of a step's time that is not the device's ----------------------------------------

/// The quantities that the host time of a run depends on (model/engine_profile.h), and that time.
struct HostSample {
  double steps = 0, rows = 0, tokens = 0, prompts = 0, seconds = 0;
};
/// Returns the seconds per step, per row, per input token and per prompt; none is negative.
[[nodiscard]] std::array<double, 4> fit_host(const std::vector<HostSample>& samples);
/// Runs the live loop with a device of fixed forward times for several numbers of sequences, and fits the remaining
/// time.
[[nodiscard]] model::EngineProfile measure_host(const configs::Catalogue& catalogue, const MachineSettings& settings);
/// Returns the bytes of memory that programs on this machine can still allocate.
[[nodiscard]] double host_memory_bytes();

// ---- machine_live.cpp: effects that are not visible in ops measured one by one -----------------------------------
// In service, threads have slept, caches hold the data of the last step, and the scheduler runs beside the model. A few
// short live runs show by which factor a step takes longer, depending on its number of rows.

/// A closed loop of `users`. Most of its time is spent in steps of about `rows` rows.
struct LiveLoad {
  std::int32_t users, input, output;
  double rows;
};
[[nodiscard]] const std::vector<LiveLoad>& live_loads();

/// Returns the seconds that each load takes on the engine: the median of three runs, or one run if it is long or the
/// grid is coarse.
[[nodiscard]] std::vector<double> measure_live(exec::Engine& engine, const configs::Catalogue& catalogue,
                                               const std::string& model, const BenchmarkSettings& settings);

/// Returns the corresponding times of a simulation.
[[nodiscard]] std::vector<double> simulate_live(const ShareCalibration& share, const std::string& model,
                                                const model::EngineProfile& engine,
                                                const configs::Catalogue& catalogue);

/// Multiplies the residual tables of the share by a factor that is piecewise linear in the logarithm of the rows. With
/// it, simulated loads take as long as measured ones, on average over the models. Requires the host times.
void settle_live(ShareCalibration& share,
                 const std::vector<std::pair<std::string, std::vector<double>>>& seconds_of_models,
                 const model::EngineProfile& engine, const configs::Catalogue& catalogue);

/// Adds log factors, given at ascending knots log2(rows), to every table of the accelerator; constant beyond.
void add_by_rows(model::Accelerator& accelerator, const std::vector<double>& log2_rows,
                 const std::vector<double>& log_factor);

}  // namespace plimsoll::calibration
