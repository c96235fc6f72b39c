// SPDX-License-Identifier: Apache-2.0
// Runs of a user's own server before they are fitted: what is left out, what is refused, and which quarter no fit sees.
#pragma once

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
/// than a quarter of the runs contradict themselves, or if equal runs have figures that differ by half.
[[nodiscard]] OwnRuns own_runs(std::vector<validation::MeasuredPoint> points);

/// Which runs of the given ones were measured on the engine that is to be fitted. Those of the catalogue's engine
/// `like` or of `name` if there are any; else all, if they name the same server or none. Throws InputError for runs of
/// several servers, with their names. Left-out runs are counted in `warnings`.
[[nodiscard]] std::vector<validation::MeasuredPoint> runs_of_engine(std::vector<validation::MeasuredPoint> points,
                                                                    const std::vector<std::string>& names,
                                                                    std::vector<std::string>& warnings);

/// A configuration's fold is its place in the order of all, modulo kFolds. Runs of kHeldOutFold are never fitted.
inline constexpr std::size_t kFolds = 4, kHeldOutFold = 2;

/// Returns the name of a run's configuration, load included, number of requests not. Equal names: the same run
/// repeated.
[[nodiscard]] std::string run_name(const validation::MeasuredPoint& point);

}  // namespace plimsoll::calibration
