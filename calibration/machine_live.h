// SPDX-License-Identifier: Apache-2.0
// What a calibration's ops, taken one by one, do not show: in service threads have slept, caches hold the last step's
// data, and the scheduler works beside the model. A few short live runs tell how much longer a step takes, by its rows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calibration/machine_calibration.h"
#include "calibration/op_samples.h"

namespace plimsoll::calibration {

/// A closed loop of `users`; the steps that make up its time have about `rows` rows.
struct LiveLoad {
  std::int32_t users, input, output;
  double rows;
};
[[nodiscard]] const std::vector<LiveLoad>& live_loads();

/// Seconds that each load takes on the engine: the median of three runs, or of one where that is long or the grid
/// coarse.
[[nodiscard]] std::vector<double> measure_live(exec::Engine& engine, const configs::Catalogue& catalogue,
                                               const std::string& model, const BenchmarkSettings& settings);

/// The same by simulation.
[[nodiscard]] std::vector<double> simulate_live(const ShareCalibration& share, const std::string& model,
                                                const model::EngineProfile& engine,
                                                const configs::Catalogue& catalogue);

/// Multiplies the share's residual tables by a factor that is piecewise linear in the logarithm of the rows, such that
/// the simulated loads take as long as the measured ones (the mean over the models). Needs the host's times.
void settle_live(ShareCalibration& share,
                 const std::vector<std::pair<std::string, std::vector<double>>>& seconds_of_models,
                 const model::EngineProfile& engine, const configs::Catalogue& catalogue);

/// Adds log factors at log2(rows) knots (ascending) to every table of the accelerator; flat beyond the knots.
void add_by_rows(model::Accelerator& accelerator, const std::vector<double>& log2_rows,
                 const std::vector<double>& log_factor);

}  // namespace plimsoll::calibration
