// SPDX-License-Identifier: Apache-2.0
// Errors of predictions beyond the fitted runs. An engine is fitted without a whole model, accelerator, TP degree,
// prompt length or number of users at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calibration/serving_fit.h"

namespace plimsoll::calibration {

/// Returns the kinds of groups.
[[nodiscard]] const std::vector<model::Beyond>& group_kinds();

/// Returns the errors of left-out groups by kind. If an engine's own runs have a single group of a kind (one model, one
/// accelerator), the errors come from the other engines whose runs have several; `source` names them. `fit` must be a
/// fit of `problem`.
[[nodiscard]] std::map<model::Beyond, Provenance::Group> group_errors(
    const ServingModel& model, const ServingProblem& problem, const ServingFit& fit,
    const std::shared_ptr<const configs::Catalogue>& catalogue, const ServingSettings& settings);

}  // namespace plimsoll::calibration
