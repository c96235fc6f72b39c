// SPDX-License-Identifier: Apache-2.0
// Prepares runs of a user's own server for a fit: leaves out unusable runs, rejects bad input, and holds out a quarter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "validation/measured_points.h"

namespace plimsoll::calibration {

/// Runs in an order that does not depend on that of the files. Every fourth configuration is held out.
struct OwnRuns {
  std::vector<validation::MeasuredTable> tables{{"runs", {}}, {"held out", {}}};
  std::vector<std::vector<std::size_t>> folds{{}, {}};  // of every run of both tables, below kFolds
  std::vector<std::string> warnings;                    // for the user, one line each
  [[nodiscard]] const std::vector<validation::MeasuredPoint>& fitted() const { return tables[0].points; }
  [[nodiscard]] const std::vector<validation::MeasuredPoint>& held_out() const { return tables[1].points; }
};

/// The fewest different configurations (model, hardware, lengths and load) that are fitted.
inline constexpr std::size_t kFewestRuns = 6;

/// Sorts and splits runs of one engine. Leaves out, with a warning, runs that cannot be simulated, have no figure that
/// is fitted, or have figures that contradict each other. Throws InputError if too few configurations remain, if more
/// than a quarter of the runs contradict themselves, or if figures of equal runs differ by more than half.
[[nodiscard]] OwnRuns own_runs(std::vector<validation::MeasuredPoint> points);

/// Returns the runs that were measured on the engine to be fitted: those of an engine in `names` if there are any, else
/// all runs. Throws InputError with the engines' names if the latter name several. Left-out runs are counted in
/// `warnings`.
[[nodiscard]] std::vector<validation::MeasuredPoint> runs_of_engine(std::vector<validation::MeasuredPoint> points,
                                                                    const std::vector<std::string>& names,
                                                                    std::vector<std::string>& warnings);

/// Returns the limit of requests that a server runs at once, if all runs state the same.
[[nodiscard]] std::optional<std::int64_t> common_max_running(const std::vector<validation::MeasuredPoint>& points);

/// A configuration's fold is its place in the order of all, modulo kFolds. Runs of kHeldOutFold are never fitted.
inline constexpr std::size_t kFolds = 4, kHeldOutFold = 2;

/// Returns the name of a run's configuration with its load but without its number of requests. Runs with equal names
/// are repetitions.
[[nodiscard]] std::string run_name(const validation::MeasuredPoint& point);

}  // namespace plimsoll::calibration
