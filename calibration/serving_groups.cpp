// SPDX-License-Identifier: Apache-2.0
#include "calibration/serving_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace plimsoll::calibration {
namespace {

std::string kind_name(model::Beyond kind) {
  return std::string(model::kBeyondNames.at(static_cast<std::size_t>(kind)));
}

std::string coverage_text(const ServingFit& fit) {
  return fmt::format("90 % bands made without the group hold {:.0f} % of its figures",
                     100 * coverage_of(fit.comparisons));
}

// The errors of the other engines. Each engine is fitted once.
class OtherEngines {
 public:
  OtherEngines(const ServingModel& model, std::shared_ptr<const configs::Catalogue> catalogue,
               const ServingSettings& settings)
      : own_(model), catalogue_(std::move(catalogue)), settings_(settings) {}

  // Returns the geometric mean of the other engines' factors, because factors of times are ratios.
  [[nodiscard]] Provenance::Group errors(model::Beyond kind) {
    if (fitted_.empty()) fit_all();
    model::TimeUncertainty sum{0, 0, 0, 0};  // of logarithms
    std::vector<std::string> names;
    for (const Fitted& one : fitted_) {
      const std::optional<ServingFit> fit = one.problem->leave_group_out(one.fit, kind);
      if (!fit) continue;
      sum.decode_low += std::log(fit->uncertainty.decode_low);
      sum.decode_high += std::log(fit->uncertainty.decode_high);
      sum.prefill_low += std::log(fit->uncertainty.prefill_low);
      sum.prefill_high += std::log(fit->uncertainty.prefill_high);
      names.push_back(one.engine);
    }
    const double n = std::max(1.0, static_cast<double>(names.size()));
    const model::TimeUncertainty between{std::exp(sum.decode_low / n), std::exp(sum.decode_high / n),
                                         std::exp(sum.prefill_low / n), std::exp(sum.prefill_high / n)};
    return {between,
            fmt::format("the runs are of one group by {}: between those of {}, leaving out one group at a time",
                        kind_name(kind), fmt::join(names, ", "))};
  }

 private:
  struct Fitted {
    std::string engine;
    std::unique_ptr<ServingProblem> problem;
    ServingFit fit;
  };

  // Only if a kind has a single group; fitting the others takes minutes.
  void fit_all() {
    for (const ServingModel& model : serving_models()) {
      if (model.engine == own_.engine) continue;
      tables_.push_back(std::make_unique<std::vector<validation::MeasuredTable>>(serving_tables(model)));
      auto problem = std::make_unique<ServingProblem>(model, *tables_.back(), catalogue_, settings_);
      ServingFit fit = problem->fit();
      fitted_.push_back({model.engine, std::move(problem), std::move(fit)});
    }
  }

  const ServingModel& own_;
  std::shared_ptr<const configs::Catalogue> catalogue_;
  const ServingSettings& settings_;
  std::vector<std::unique_ptr<std::vector<validation::MeasuredTable>>> tables_;  // the problems refer to them
  std::vector<Fitted> fitted_;
};

}  // namespace

const std::vector<model::Beyond>& group_kinds() {
  static const std::vector<model::Beyond> kKinds = {model::Beyond::model, model::Beyond::accelerator, model::Beyond::tp,
                                                    model::Beyond::length, model::Beyond::batch};
  return kKinds;
}

std::map<model::Beyond, Provenance::Group> group_errors(const ServingModel& model, const ServingProblem& problem,
                                                        const ServingFit& fit,
                                                        const std::shared_ptr<const configs::Catalogue>& catalogue,
                                                        const ServingSettings& settings) {
  OtherEngines others(model, catalogue, settings);
  std::map<model::Beyond, Provenance::Group> groups;
  for (const model::Beyond kind : group_kinds()) {
    const std::optional<ServingFit> own = problem.leave_group_out(fit, kind);
    if (!own) {
      groups[kind] = others.errors(kind);
      continue;
    }
    groups[kind] = {own->uncertainty,
                    fmt::format("leaving out one group by {} at a time; {}", kind_name(kind), coverage_text(*own))};
  }
  return groups;
}

}  // namespace plimsoll::calibration
