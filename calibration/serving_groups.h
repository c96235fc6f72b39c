// SPDX-License-Identifier: Apache-2.0
// How far predictions are off beyond what was fitted: fits of an engine that leave out a whole model, accelerator, TP
// degree, prompt length or number of users at a time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "calibration/serving_fit.h"

namespace plimsoll::calibration {

/// The kinds of groups that runs have.
[[nodiscard]] const std::vector<model::Beyond>& group_kinds();

/// Errors of groups left out, by kind. A kind of which an engine's own runs have a single group (one model, one
/// accelerator) takes what lies between the errors of the other engines whose runs have several; its source names them.
/// `fit`: one of `problem`.
[[nodiscard]] std::map<model::Beyond, Provenance::Group> group_errors(
    const ServingModel& model, const ServingProblem& problem, const ServingFit& fit,
    const std::shared_ptr<const configs::Catalogue>& catalogue, const ServingSettings& settings);

}  // namespace plimsoll::calibration
