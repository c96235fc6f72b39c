// SPDX-License-Identifier: Apache-2.0
// Fits the few numbers of an engine's profile that no data sheet and no kernel table tells (host time, overlap, links
// that nobody measured) to measured serving runs, by simulating every run as it was measured. Refits from scratch: the
// fitted keys of the files are overwritten by their priors before anything is looked at.
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

/// A number and the key of a catalogue file that holds it.
struct ServingNumber {
  FitNumber number;  // in units of `unit`
  std::string file;  // "engines/tgi-1.1"
  std::string path;  // "host.op"; of an interconnect: "ranks 4", the bandwidth of large all-reduces
  std::string unit;  // "us", "GB/s"; may be empty
};

/// What an engine's profile is fitted on, and how.
struct ServingModel {
  std::string engine;  // "tgi-1.1"
  std::string data;    // "jumpstart", "h100"
  std::vector<ServingNumber> numbers;
  /// A number that decides by steps (how many sequences fit), tried value by value; its `number.prior` is the start.
  ServingNumber scanned;
  std::vector<double> scan;  // empty: nothing is scanned
  std::map<std::string, double>
      scales;  // by metric: the log error that counts as one; metrics that are not here are not fitted
  std::vector<std::string> tables;          // that are fitted; the others are only predicted
  std::string accelerator_note, link_note;  // what in the accelerator's and the link's file is not fitted
};

/// The models that are known, by engine.
[[nodiscard]] const std::vector<ServingModel>& serving_models();
/// Throws InputError for an engine without one.
[[nodiscard]] const ServingModel& serving_model(const std::string& engine);
/// The tables of a model's data. Throws InputError when they are not there.
[[nodiscard]] std::vector<validation::MeasuredTable> serving_tables(const ServingModel& model);
[[nodiscard]] bool holds_table(const std::vector<validation::MeasuredTable>& tables, const std::string& name);
/// The given tables, behind them those that the profile is fitted on and that are not among them: by these the given
/// ones can be predicted, whatever they are called.
[[nodiscard]] std::vector<validation::MeasuredTable> with_fitted_tables(
    const std::vector<validation::MeasuredTable>& given, const ServingModel& model);

/// A row was measured with this engine.
[[nodiscard]] bool has_engine(const std::vector<validation::MeasuredTable>& tables, const std::string& engine);

/// Values of the numbers in their order, the scanned one last (if there is one).
using ServingValues = std::vector<double>;

/// One fit: the values, and every figure predicted with them.
struct ServingFit {
  ServingValues values;
  double loss = 0;
  int simulations = 0;
  std::vector<validation::Comparison> comparisons;  // all tables, in their order
  std::vector<bool> fitted;                         // of each comparison: it was looked at
  std::vector<bool> in_fitted_table;                // of each comparison: its row is one of those that fits look at
  std::set<const validation::MeasuredPoint*>
      beyond_pool;                     // rows whose users' sequences do not all fit the KV pool at once
  model::TimeUncertainty uncertainty;  // of leave_one_out(): from what was left out
};

/// Measured over predicted times, 5 and 95 % quantiles: of first tokens for prefill (where there are none, as decode),
/// of everything else for decode. Throughput counts as its inverse.
[[nodiscard]] model::TimeUncertainty uncertainty_of(const std::vector<const validation::Comparison*>& left_out);
/// Logarithms by which the ends of bands move outwards (inwards where negative).
struct Widening {
  double decode = 0, prefill = 0;
};
[[nodiscard]] model::TimeUncertainty widened(const model::TimeUncertainty& uncertainty, const Widening& by);
/// `u`, but no end nearer to 1 than half of that of `whole`, in logarithms: runs with less prefill than those that were
/// fitted have bands from the decode factors alone.
[[nodiscard]] model::TimeUncertainty at_least_half(const model::TimeUncertainty& whole,
                                                   const model::TimeUncertainty& u);
/// A figure with its band, and the factors that the band was propagated from.
struct BandMiss {
  const validation::Comparison* figure = nullptr;
  model::TimeUncertainty factors;
};
/// The widening with which 90 % of the figures are held, first tokens by `prefill`, all others by `decode`.
[[nodiscard]] Widening widening_of(const std::vector<BandMiss>& misses);
/// The share of measured figures inside their bands, of those that have one.
[[nodiscard]] double coverage_of(const std::vector<validation::Comparison>& comparisons);

/// What of a fit's figures tells how far it is off: those of fitted tables, first tokens only where they did not wait
/// for memory. They live as long as the fit.
[[nodiscard]] std::vector<const validation::Comparison*> fitted_errors(const ServingFit& fit);

struct ServingSettings {
  int jobs = 0;                                      // 0: one per core
  study::RunControl* control = nullptr;              // may be null
  std::function<void(const std::string&)> progress;  // may be empty
};

/// A fit was cancelled through its RunControl.
struct ServingCancelled {};

/// Its fits throw ServingCancelled.
class ServingProblem {
 public:
  /// The tables must outlive it. Rows of other engines are left out. Throws InputError for rows that cannot be
  /// simulated.
  ServingProblem(const ServingModel& model, const std::vector<validation::MeasuredTable>& tables,
                 std::shared_ptr<const configs::Catalogue> catalogue, const ServingSettings& settings);
  ~ServingProblem();

  /// Fits all rows of the fitted tables.
  [[nodiscard]] ServingFit fit() const;
  /// As fit() but every configuration (model, hardware, engine, type, TP, input and output length, in all tables and
  /// instance counts at once) is predicted by a fit that did not see it, with a band from the errors on the others that
  /// were left out. `start`: a fit of everything, for speed.
  [[nodiscard]] ServingFit leave_one_out(const ServingFit& start) const;
  /// As leave_one_out(), but a whole group of that kind at a time: every run of one model, accelerator, TP degree,
  /// prompt length or number of users. What is in none of the groups that were fitted is predicted by the fit of
  /// everything. nullopt: the runs are of one group, or the kind names none.
  [[nodiscard]] std::optional<ServingFit> leave_group_out(const ServingFit& start, model::Beyond kind) const;
  /// The catalogue's files with a fit's values and, after leave_one_out(), its uncertainty. By path below the
  /// catalogue's root.
  [[nodiscard]] std::map<std::string, std::string> files(const ServingFit& fit, const Provenance& provenance) const;
  /// What the fitted runs are, as `calibrated_for` of a profile says it: YAML.
  [[nodiscard]] std::string fitted_ranges() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A configuration's name, as in leave_one_out().
[[nodiscard]] std::string configuration_of(const validation::MeasuredPoint& point);

}  // namespace plimsoll::calibration
