// SPDX-License-Identifier: Apache-2.0
// The steps of a machine calibration after its measurements (machine_calibration.h): fit the ops, measure the host, and
// correct both by live runs.
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
      whole;  // GPUs only: forwards as graphs, for the gaps
};

/// Fits the accelerator and the all-reduces of `share`. Requires the share's probes; on a GPU the limits come from its
/// ops.
void fit_share(ShareCalibration& share, ShareSamples& samples, const std::string& what);
/// Predicts the held-out forwards and records the errors in `share`.
void check_held_out(ShareCalibration& share, const ShareSamples& samples);

// ---- machine_host.cpp: the time of a step beyond the device's work -----------------------------------------------

/// The quantities that the host time of a run depends on (model/engine_profile.h), and that time.
struct HostSample {
  double steps = 0, rows = 0, tokens = 0, prompts = 0, seconds = 0;
};
/// Returns the seconds per step, per row, per input token and per prompt; none is negative.
[[nodiscard]] std::array<double, 4> fit_host(const std::vector<HostSample>& samples);
/// Runs the live loop with a device of fixed forward times at several numbers of sequences, and fits the remaining
/// time.
[[nodiscard]] model::EngineProfile measure_host(const configs::Catalogue& catalogue, const MachineSettings& settings);
/// Returns the bytes of memory that programs on this machine can still allocate.
[[nodiscard]] double host_memory_bytes();

// ---- machine_live.cpp: effects that ops measured one by one do not show ------------------------------------------
// In service, threads have slept, caches hold the data of the last step, and the scheduler runs beside the model. A few
// short live runs give the factor by which a step takes longer, by number of rows.

/// A closed loop of `users`. Most of its time is spent in steps of about `rows` rows.
struct LiveLoad {
  std::int32_t users, input, output;
  double rows;
};
[[nodiscard]] const std::vector<LiveLoad>& live_loads();

/// Returns the seconds of each load on the engine: the median of three runs, or of one if it is long or the grid is
/// coarse.
[[nodiscard]] std::vector<double> measure_live(exec::Engine& engine, const configs::Catalogue& catalogue,
                                               const std::string& model, const BenchmarkSettings& settings);

/// Returns the same times by simulation.
[[nodiscard]] std::vector<double> simulate_live(const ShareCalibration& share, const std::string& model,
                                                const model::EngineProfile& engine,
                                                const configs::Catalogue& catalogue);

/// Multiplies the residual tables of the share by a factor that is piecewise linear in the logarithm of the rows, so
/// that simulated loads take as long as measured ones (on average over the models). Requires the host times.
void settle_live(ShareCalibration& share,
                 const std::vector<std::pair<std::string, std::vector<double>>>& seconds_of_models,
                 const model::EngineProfile& engine, const configs::Catalogue& catalogue);

/// Adds log factors at the ascending knots log2(rows) to every table of the accelerator; constant beyond the knots.
void add_by_rows(model::Accelerator& accelerator, const std::vector<double>& log2_rows,
                 const std::vector<double>& log_factor);

}  // namespace plimsoll::calibration
