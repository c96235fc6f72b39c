// SPDX-License-Identifier: Apache-2.0
// The values that a fit of a user's engine determines: those of the profile and, for hardware that the catalogue lacks,
// an accelerator's effective peak and bandwidth.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibration/own_fit.h"

namespace plimsoll::calibration {

struct OwnHardware {
  configs::Document draft;             // its file while values are fitted; `calibrated` is set
  std::vector<ServingNumber> numbers;  // its figures to fit
  std::vector<std::string> warnings;
  std::string name;       // its identifier, that of the engine
  bool is_known = false;  // the catalogue has an accelerator for it
  /// The hardware of a run as rows name it: "NAME x 2".
  [[nodiscard]] std::string label_of(const validation::MeasuredPoint& point) const;
  std::vector<std::pair<std::string, int>> counts;  // accelerators of one machine, by the rows' names
};

/// Returns nothing if the catalogue has the hardware of all runs and `engine.fit_hardware` is not set. Priors of peak
/// and bandwidth come from the runs. Throws InputError for runs on several kinds of accelerators, and for a name that
/// the catalogue has. Adds entries of the engine's name to `catalogue`, for simulations of the runs.
[[nodiscard]] std::optional<OwnHardware> own_hardware(const OwnEngine& engine, const OwnRuns& runs,
                                                      const std::shared_ptr<configs::Catalogue>& catalogue);

/// Returns the numbers that the runs can determine, with the values of the profile `like` and of `hardware` as priors.
/// The fits of the shipped profiles determine the same numbers (serving_models.cpp). Defined in own_numbers.cpp.
[[nodiscard]] std::vector<ServingNumber> own_numbers(const OwnEngine& engine, const model::EngineProfile& like,
                                                     const OwnRuns& runs, const std::optional<OwnHardware>& hardware);

}  // namespace plimsoll::calibration
