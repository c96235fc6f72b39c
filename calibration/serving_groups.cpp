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

// Computes the errors of the other engines. Each engine is fitted once.
class OtherEngines {
 public:
  OtherEngines(const ServingModel& model, std::shared_ptr<const configs::Catalogue> catalogue,
               const ServingSettings& settings)
      : own_(model), catalogue_(std::move(catalogue)), settings_(settings) {}

  // Returns the geometric mean of the other engines' factors: factors are ratios of times.
  [[nodiscard]] Provenance::Group errors(model::Beyond kind) {
    if (others_.empty()) add_all();
    model::TimeUncertainty sum{0, 0, 0, 0};  // sums of logarithms
    std::vector<std::string> names;
    for (Fitted& one : others_) {
      if (!one.problem->has_groups(kind)) continue;
      if (!one.fit) one.fit = one.problem->fit();
      const std::optional<ServingFit> fit = one.problem->leave_group_out(*one.fit, kind);
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
    std::optional<ServingFit> fit;  // made when it is needed
  };

  // Needed only if a kind has a single group. Each engine is fitted on demand, because a fit takes minutes.
  void add_all() {
    for (const ServingModel& model : serving_models()) {
      if (model.engine == own_.engine) continue;
      tables_.push_back(std::make_unique<std::vector<validation::MeasuredTable>>(serving_tables(model)));
      auto problem = std::make_unique<ServingProblem>(model, *tables_.back(), catalogue_, settings_);
      others_.push_back({model.engine, std::move(problem), {}});
    }
  }

  const ServingModel& own_;
  std::shared_ptr<const configs::Catalogue> catalogue_;
  const ServingSettings& settings_;
  std::vector<std::unique_ptr<std::vector<validation::MeasuredTable>>> tables_;  // the problems refer to these
  std::vector<Fitted> others_;
};

}  // namespace

const std::vector<model::Beyond>& group_kinds() {
  static const std::vector<model::Beyond> kKinds = {model::Beyond::model, model::Beyond::accelerator,
                                                    model::Beyond::tp,    model::Beyond::length,
                                                    model::Beyond::batch, model::Beyond::version};
  return kKinds;
}

std::optional<ServingFit> by_other_version(const ServingModel& model,
                                           const std::vector<validation::MeasuredTable>& tables,
                                           const std::shared_ptr<const configs::Catalogue>& catalogue,
                                           const ServingSettings& settings) {
  if (model.other_version.empty()) return {};
  const ServingModel& other = serving_model(model.other_version);
  std::vector<validation::MeasuredTable> all = serving_tables(other);
  // The rows, renamed to a table that is not fitted, as if the other version had run them.
  std::map<std::string, std::pair<std::string, std::vector<const validation::MeasuredPoint*>>> rows_of;
  for (const validation::MeasuredTable& table : tables) {
    validation::MeasuredTable& copy =
        all.emplace_back(validation::MeasuredTable{"of " + model.engine + ": " + table.name, {}});
    for (const validation::MeasuredPoint& row : table.points) {
      if (configs::canonical_name(row.engine) != model.engine) continue;
      copy.points.push_back(row);
      copy.points.back().engine = other.engine;
      rows_of[copy.name].second.push_back(&row);
    }
    rows_of[copy.name].first = table.name;
  }
  const ServingProblem problem(other, all, catalogue, settings);
  ServingFit fit = problem.fit();
  std::erase_if(fit.comparisons, [&](const validation::Comparison& c) { return !rows_of.contains(c.table); });
  for (validation::Comparison& c : fit.comparisons) {
    const auto& [name, rows] = rows_of.at(c.table);
    const auto table = std::find_if(all.begin(), all.end(), [&](const auto& t) { return t.name == c.table; });
    c.point = rows.at(static_cast<std::size_t>(c.point - table->points.data()));
    c.table = name;
  }
  fit.fitted.assign(fit.comparisons.size(), false);
  fit.in_fitted_table.assign(fit.comparisons.size(), true);
  return fit;
}

std::map<model::Beyond, Provenance::Group> group_errors(const ServingProblem& problem, const ServingFit& fit,
                                                        const std::shared_ptr<const configs::Catalogue>& catalogue,
                                                        const ServingSettings& settings) {
  const ServingModel& model = problem.model();
  OtherEngines others(model, catalogue, settings);
  std::map<model::Beyond, Provenance::Group> groups;
  for (const model::Beyond kind : group_kinds()) {
    const std::optional<ServingFit> own = problem.leave_group_out(fit, kind);
    if (!own && kind == model::Beyond::version) {
      if (const auto by_other = by_other_version(model, serving_tables(model), catalogue, settings))
        groups[kind] = {uncertainty_of(fitted_errors(*by_other)),
                        fmt::format("its runs predicted by the fit of {}", model.other_version)};
    } else if (!own) {
      groups[kind] = others.errors(kind);
    } else {
      groups[kind] = {own->uncertainty,
                      fmt::format("leaving out one group by {} at a time; {}", kind_name(kind), coverage_text(*own))};
    }
  }
  return groups;
}

}  // namespace plimsoll::calibration
