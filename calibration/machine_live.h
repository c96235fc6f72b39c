// SPDX-License-Identifier: Apache-2.0
// Corrects for effects that ops measured one by one do not show: in service, threads have slept, caches hold the data
// of the last step, and the scheduler runs beside the model. A few short live runs give the factor by which a step
// takes longer, by number of rows.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calibration/machine_calibration.h"
#include "calibration/op_samples.h"

namespace plimsoll::calibration {

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
