// SPDX-License-Identifier: Apache-2.0
// Fits the few numbers of an engine's profile that neither data sheets nor kernel tables give: host time, overlap,
// unmeasured links. It simulates every measured serving run and compares. A fit always starts from scratch: first, the
// priors replace the fitted keys of the files.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "calibration/fit_solver.h"
#include "calibration/serving_files.h"
#include "configs/catalogue.h"
#include "study/run/run_control.h"
#include "validation/compare.h"
#include "validation/measured_points.h"

namespace plimsoll::calibration {

/// A number, and the key of the catalogue file that holds it.
struct ServingNumber {
  FitNumber number;                    // in units of `unit`
  std::string file;                    // "engines/tgi-1.1"
  std::string path;                    // "host.op"; for an interconnect "ranks 4": the bandwidth of large all-reduces
  std::string unit;                    // "us", "GB/s"; may be empty
  std::vector<std::string> also = {};  // further keys of the file that take the same value
};

/// The numbers to fit for an engine's profile, the data, and the method.
struct ServingModel {
  std::string engine;  // "tgi-1.1"
  std::vector<ServingNumber> numbers;
  /// Another version of the product. Its runs show the error of a fit for a version that it did not see; empty: none.
  std::string other_version;
  /// Keys of the profile that are not fitted but copied from `other_version`, which was measured without a front end.
  std::vector<std::string> taken;
  /// A number with a stepwise effect (how many sequences fit), for which a list of values is tried. The first value
  /// used is `number.prior`.
  ServingNumber scanned;
  std::vector<double> scan;  // values to try; empty for no scan
  std::map<std::string, double>
      scales;                       // by metric: the log error that counts as one; metrics not listed are not fitted
  std::vector<std::string> tables;  // tables to fit; other tables are only predicted
  std::string accelerator_note,
      link_note;  // remarks on values in the accelerator's and the link's file that are not fitted
};

/// Returns the existing models, one per engine.
[[nodiscard]] const std::vector<ServingModel>& serving_models();
/// Returns an engine's model. Throws InputError if there is none.
[[nodiscard]] const ServingModel& serving_model(const std::string& engine);
/// Reads the tables of a model's data. Throws InputError if they are missing.
[[nodiscard]] std::vector<validation::MeasuredTable> serving_tables(const ServingModel& model);
[[nodiscard]] bool holds_table(const std::vector<validation::MeasuredTable>& tables, const std::string& name);
/// Returns the given tables, followed by the tables of the fit that are missing among them. With these, the given ones
/// can be predicted by fits that leave runs out, whatever their names are.
[[nodiscard]] std::vector<validation::MeasuredTable> with_fitted_tables(
    const std::vector<validation::MeasuredTable>& given, const ServingModel& model);

/// Returns true if a row was measured with this engine.
[[nodiscard]] bool has_engine(const std::vector<validation::MeasuredTable>& tables, const std::string& engine);

/// The values of the numbers in order, followed by that of the scanned number if there is one.
using ServingValues = std::vector<double>;

/// A fit: the values, and every figure predicted with them.
struct ServingFit {
  ServingValues values;
  double loss = 0;
  int simulations = 0;
  std::vector<validation::Comparison> comparisons;  // figures of all tables, in order
  std::vector<bool> fitted;                         // for each comparison: whether it was used in the fit
  std::vector<bool> in_fitted_table;                // for each comparison: whether its row belongs to a fitted table
  /// Rows whose users' sequences do not all fit the KV pool at once.
  std::set<const validation::MeasuredPoint*> beyond_pool;
  model::TimeUncertainty uncertainty;  // set by leave_one_out(), from the left-out runs
};

/// Returns the 5 and 95 % quantiles of measured over predicted times. Prefill comes from first tokens (from the others
/// if there are none), decode from all other figures. A throughput counts as its inverse.
[[nodiscard]] model::TimeUncertainty uncertainty_of(const std::vector<const validation::Comparison*>& left_out);
/// Logarithms by which the ends of bands move outwards (negative: inwards).
struct Widening {
  double decode = 0, prefill = 0;
};
[[nodiscard]] model::TimeUncertainty widened(const model::TimeUncertainty& uncertainty, const Widening& by);
/// Returns `u` with every end at least half as far from 1 as that of `whole`, in logarithms. The bands of runs with
/// less prefill than the fitted ones depend on the decode factors alone, which must not collapse.
[[nodiscard]] model::TimeUncertainty at_least_half(const model::TimeUncertainty& whole,
                                                   const model::TimeUncertainty& u);
/// A figure with its band, and the factors from which the band was computed.
struct BandMiss {
  const validation::Comparison* figure = nullptr;
  model::TimeUncertainty factors;
};
/// Returns the widening that makes 90 % of the bands hold: first tokens determine `prefill`, other figures `decode`.
[[nodiscard]] Widening widening_of(const std::vector<BandMiss>& misses);
/// Returns the fraction of measured figures that are inside their band; figures without a band do not count.
[[nodiscard]] double coverage_of(const std::vector<validation::Comparison>& comparisons);

/// Returns the figures that measure a fit's error: those of fitted tables, but first tokens only if they did not wait
/// for memory. The pointers are valid as long as the fit.
[[nodiscard]] std::vector<const validation::Comparison*> fitted_errors(const ServingFit& fit);

struct ServingSettings {
  int jobs = 0;                                      // 0 for one per core
  study::RunControl* control = nullptr;              // may be null
  std::function<void(const std::string&)> progress;  // may be empty
};

/// Thrown when a fit is cancelled through its RunControl.
struct ServingCancelled {};

/// The runs to fit, and the ways to fit them. Every fit may throw ServingCancelled.
class ServingProblem {
 public:
  /// The tables must outlive the problem. Rows of other engines are ignored. Throws InputError for rows that cannot be
  /// simulated.
  ServingProblem(const ServingModel& model, const std::vector<validation::MeasuredTable>& tables,
                 std::shared_ptr<const configs::Catalogue> catalogue, const ServingSettings& settings);
  ~ServingProblem();

  [[nodiscard]] const ServingModel& model() const;
  /// Fits all rows of the fitted tables.
  [[nodiscard]] ServingFit fit() const;
  /// As fit(), but predicts every configuration with a fit that excludes it. A configuration is a model, hardware,
  /// engine, type, TP degree and input and output length, in all tables and for all instance counts. Its band comes
  /// from the errors of the other configurations when these were left out. `start` is a fit of all runs, which saves
  /// time.
  [[nodiscard]] ServingFit leave_one_out(const ServingFit& start) const;
  /// Like leave_one_out(), but leaves out all runs together for which `group` returns the same name. `what` names the
  /// groups in progress messages.
  [[nodiscard]] ServingFit leave_out_by(const ServingFit& start,
                                        const std::function<std::string(const validation::MeasuredPoint&)>& group,
                                        const std::string& what) const;
  /// As leave_one_out(), but in two folds: every other configuration, in order of their names, is left out.
  [[nodiscard]] ServingFit leave_half_out(const ServingFit& start) const;
  /// As leave_one_out(), but excludes a whole group of that kind at a time: every run of one model, accelerator, TP
  /// degree, prompt length, number of users or version (named by the run's source). Runs in none of the fitted groups
  /// are predicted by the fit of everything. Returns nullopt if all runs belong to one group, or if the kind does not
  /// group runs.
  [[nodiscard]] std::optional<ServingFit> leave_group_out(const ServingFit& start, model::Beyond kind) const;
  /// Returns whether the fitted runs belong to several groups of that kind.
  [[nodiscard]] bool has_groups(model::Beyond kind) const;
  /// Returns the catalogue's files with a fit's values, keyed by path below the catalogue's root. After leave_one_out()
  /// they also have its uncertainty.
  [[nodiscard]] std::map<std::string, std::string> files(const ServingFit& fit, const Provenance& provenance) const;
  /// Returns the range of the fitted runs as YAML for the key `calibrated_for` of a profile.
  [[nodiscard]] std::string fitted_ranges() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the name of a configuration, as used by leave_one_out().
[[nodiscard]] std::string configuration_of(const validation::MeasuredPoint& point);

// ---- errors beyond the fitted runs: fits without a whole model, accelerator, TP degree, prompt length or batch ------

/// Returns the kinds of groups that can be left out.
[[nodiscard]] const std::vector<model::Beyond>& group_kinds();

/// Predicts the rows of the model's engine by the fit of its other version, which saw none of them; without bands.
/// Returns nullopt if the model names no other version.
[[nodiscard]] std::optional<ServingFit> by_other_version(const ServingModel& model,
                                                         const std::vector<validation::MeasuredTable>& tables,
                                                         const std::shared_ptr<const configs::Catalogue>& catalogue,
                                                         const ServingSettings& settings);

/// Returns the errors of left-out groups by kind. If an engine's own runs form only one group of a kind (one model, one
/// accelerator), the errors come from other engines whose runs form several; `source` names them. `fit` must be a fit
/// of `problem`.
[[nodiscard]] std::map<model::Beyond, Provenance::Group> group_errors(
    const ServingProblem& problem, const ServingFit& fit, const std::shared_ptr<const configs::Catalogue>& catalogue,
    const ServingSettings& settings);

}  // namespace plimsoll::calibration
