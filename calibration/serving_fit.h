// SPDX-License-Identifier: Apache-2.0
// Fits the few numbers of an engine's profile that no data sheet and no kernel table gives (host time, overlap,
// unmeasured links) to measured serving runs, by simulating every run as it was measured. It fits from scratch: the
// priors overwrite the fitted keys of the files before anything else.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
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
  /// Another version of the product, whose runs tell how far off a fit is for a version that it did not see; empty:
  /// none.
  std::string other_version;
  /// Keys of the profile that are not fitted but those of `other_version`, which was measured without a front end.
  std::vector<std::string> taken;
  /// A number with stepwise effect (how many sequences fit), for which a list of values is tried. Its `number.prior` is
  /// the start.
  ServingNumber scanned;
  std::vector<double> scan;  // values to try; empty: no scan
  std::map<std::string, double>
      scales;                       // by metric: the log error that counts as one; metrics not listed are not fitted
  std::vector<std::string> tables;  // tables to fit; all others are only predicted
  /// Input and output tokens of runs whose first tokens say nothing about the engine: their servers held them back.
  std::vector<std::pair<std::int64_t, std::int64_t>> held_back;
  /// First tokens of runs with more output tokens a second than this are not fitted: they wait for a front end that
  /// sends out every token, which is not modelled. 0: there are none.
  double backlog_from = 0;
  std::string accelerator_note,
      link_note;  // remarks on values in the accelerator's and the link's file that are not fitted
};

/// Returns the known models, by engine.
[[nodiscard]] const std::vector<ServingModel>& serving_models();
/// Returns an engine's model. Throws InputError if there is none.
[[nodiscard]] const ServingModel& serving_model(const std::string& engine);
/// Reads the tables of a model's data. Throws InputError if they are missing.
[[nodiscard]] std::vector<validation::MeasuredTable> serving_tables(const ServingModel& model);
[[nodiscard]] bool holds_table(const std::vector<validation::MeasuredTable>& tables, const std::string& name);
/// Returns the given tables, followed by those tables of the fit that are not among them. The latter allow predictions
/// for the given ones under any name.
[[nodiscard]] std::vector<validation::MeasuredTable> with_fitted_tables(
    const std::vector<validation::MeasuredTable>& given, const ServingModel& model);

/// Returns true if a row was measured with this engine.
[[nodiscard]] bool has_engine(const std::vector<validation::MeasuredTable>& tables, const std::string& engine);

/// Values of the numbers in order, followed by the scanned one if there is one.
using ServingValues = std::vector<double>;

/// A fit: the values, and every figure predicted with them.
struct ServingFit {
  ServingValues values;
  double loss = 0;
  int simulations = 0;
  std::vector<validation::Comparison> comparisons;  // of all tables, in order
  std::vector<bool> fitted;                         // for each comparison: it was part of the fit
  std::vector<bool> in_fitted_table;                // for each comparison: its row belongs to a table of the fit
  /// Rows whose users' sequences do not all fit the KV pool at once.
  std::set<const validation::MeasuredPoint*> beyond_pool;
  model::TimeUncertainty uncertainty;  // after leave_one_out(): from the left-out runs
};

/// Returns the 5 and 95 % quantiles of measured over predicted times: of first tokens for prefill (those of decode if
/// there are none), of everything else for decode. Throughput counts as its inverse.
[[nodiscard]] model::TimeUncertainty uncertainty_of(const std::vector<const validation::Comparison*>& left_out);
/// Logarithms by which the ends of bands move outwards (negative: inwards).
struct Widening {
  double decode = 0, prefill = 0;
};
[[nodiscard]] model::TimeUncertainty widened(const model::TimeUncertainty& uncertainty, const Widening& by);
/// Returns `u` with every end at least half as far from 1 as that of `whole`, in logarithms. Runs with less prefill
/// than the fitted ones have bands from the decode factors alone, which must not collapse.
[[nodiscard]] model::TimeUncertainty at_least_half(const model::TimeUncertainty& whole,
                                                   const model::TimeUncertainty& u);
/// A figure with its band, and the factors from which the band was propagated.
struct BandMiss {
  const validation::Comparison* figure = nullptr;
  model::TimeUncertainty factors;
};
/// Returns the widening that makes 90 % of the bands hold: first tokens determine `prefill`, all others `decode`.
[[nodiscard]] Widening widening_of(const std::vector<BandMiss>& misses);
/// Returns the fraction of measured figures inside their bands, among those that have one.
[[nodiscard]] double coverage_of(const std::vector<validation::Comparison>& comparisons);

/// Returns the figures that tell a fit's error: those of fitted tables, but first tokens only if they did not wait for
/// memory.
/// The pointers are valid as long as the fit.
[[nodiscard]] std::vector<const validation::Comparison*> fitted_errors(const ServingFit& fit);

struct ServingSettings {
  int jobs = 0;                                      // 0: one per core
  study::RunControl* control = nullptr;              // may be null
  std::function<void(const std::string&)> progress;  // may be empty
};

/// Thrown when a fit was cancelled through its RunControl.
struct ServingCancelled {};

/// Its fits throw ServingCancelled.
class ServingProblem {
 public:
  /// The tables must outlive the problem. Rows of other engines are ignored. Throws InputError for rows that cannot be
  /// simulated.
  ServingProblem(const ServingModel& model, const std::vector<validation::MeasuredTable>& tables,
                 std::shared_ptr<const configs::Catalogue> catalogue, const ServingSettings& settings);
  ~ServingProblem();

  /// Fits all rows of the fitted tables.
  [[nodiscard]] ServingFit fit() const;
  /// As fit(), but predicts every configuration with a fit that excludes it. A configuration is a model, hardware,
  /// engine, type, TP degree and input and output length, in all tables and for all instance counts. Its band comes
  /// from the errors of the other left-out configurations. `start` is a fit of everything, for speed.
  [[nodiscard]] ServingFit leave_one_out(const ServingFit& start) const;
  /// As leave_one_out(), but leaves out together the runs that `group` gives one name. `what` names groups for
  /// progress.
  [[nodiscard]] ServingFit leave_out_by(const ServingFit& start,
                                        const std::function<std::string(const validation::MeasuredPoint&)>& group,
                                        const std::string& what) const;
  /// As leave_one_out(), but in two folds: every other configuration, in order of their names, is left out.
  [[nodiscard]] ServingFit leave_half_out(const ServingFit& start) const;
  /// As leave_one_out(), but excludes a whole group of that kind at a time: every run of one model, accelerator, TP
  /// degree, prompt length, number of users or version that its source names. Runs in none of the fitted groups are
  /// predicted by the fit of everything. Returns nullopt if all runs belong to one group, or if the kind does not group
  /// runs.
  [[nodiscard]] std::optional<ServingFit> leave_group_out(const ServingFit& start, model::Beyond kind) const;
  /// Whether the fitted runs are of several groups of that kind.
  [[nodiscard]] bool has_groups(model::Beyond kind) const;
  /// Returns the catalogue's files with a fit's values and, after leave_one_out(), its uncertainty, by path below the
  /// catalogue's root.
  [[nodiscard]] std::map<std::string, std::string> files(const ServingFit& fit, const Provenance& provenance) const;
  /// Returns the range of the fitted runs as YAML for the `calibrated_for` of a profile.
  [[nodiscard]] std::string fitted_ranges() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the name of a configuration, as used by leave_one_out().
[[nodiscard]] std::string configuration_of(const validation::MeasuredPoint& point);

// ---- errors beyond the fitted runs: fits without a whole model, accelerator, TP degree, prompt length or batch ------

/// Returns the kinds of groups.
[[nodiscard]] const std::vector<model::Beyond>& group_kinds();

/// Predicts the rows of the model's engine by the fit of its other version, which saw none of them. No bands. Nothing
/// if the model names no other version.
[[nodiscard]] std::optional<ServingFit> by_other_version(const ServingModel& model,
                                                         const std::vector<validation::MeasuredTable>& tables,
                                                         const std::shared_ptr<const configs::Catalogue>& catalogue,
                                                         const ServingSettings& settings);

/// Returns the errors of left-out groups by kind. If an engine's own runs have a single group of a kind (one model, one
/// accelerator), the errors come from the other engines whose runs have several; `source` names them. `fit` must be a
/// fit of `problem`.
[[nodiscard]] std::map<model::Beyond, Provenance::Group> group_errors(
    const ServingModel& model, const ServingProblem& problem, const ServingFit& fit,
    const std::shared_ptr<const configs::Catalogue>& catalogue, const ServingSettings& settings);

}  // namespace plimsoll::calibration
