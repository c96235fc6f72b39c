// SPDX-License-Identifier: Apache-2.0
#include "calibration/serving_fit.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <thread>

#include "calibration/serving_files.h"
#include "model/error.h"
#include "sched/statistics.h"
#include "study/file/study.h"
#include "study/run/resolve.h"
#include "study/run/simulate_point.h"

namespace plimsoll::calibration {
namespace {

constexpr std::size_t kNoFold = static_cast<std::size_t>(-1);
constexpr double kMissing = 1;  // log error of a figure for a point that cannot run in the model

struct Cell {
  const validation::MeasuredTable* table = nullptr;
  const validation::MeasuredPoint* row = nullptr;
  bool fitted = false;  // it belongs to a fitted table
  bool fits = true;     // the sequences of all users fit the KV pool, so first tokens do not wait for memory
  study::PointSpec spec;
};

using Indices = std::vector<std::size_t>;

// The values and bands that predict the cells of one fold; fitted without that fold.
struct Fold {
  ServingValues values;
  model::TimeUncertainty uncertainty;
};
using Folds = std::map<std::size_t, Fold>;  // kNoFold: cells that belong to no fold

// The fold of every cell.
using Folding = std::vector<std::size_t>;

}  // namespace

std::string configuration_of(const validation::MeasuredPoint& p) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}", p.model, p.hardware, p.engine, p.dtype, p.tp, p.input_tokens,
                     p.output_tokens);
}

bool has_engine(const std::vector<validation::MeasuredTable>& tables, const std::string& engine) {
  for (const validation::MeasuredTable& table : tables)
    for (const validation::MeasuredPoint& row : table.points)
      if (configs::canonical_name(row.engine) == engine) return true;
  return false;
}

struct ServingProblem::State {
  State(const ServingModel& m, std::shared_ptr<const configs::Catalogue> c, const ServingSettings& s)
      : model(m), catalogue(std::move(c)), settings(s), files(model, *catalogue) {
    for (const ServingNumber& n : model.numbers) numbers.push_back(n.number);
  }

  void add(const validation::MeasuredTable& table);
  [[nodiscard]] ServingValues priors() const;
  [[nodiscard]] study::PointResult simulate(const Cell& cell, const ServingParts& parts) const;
  [[nodiscard]] std::vector<validation::Comparison> predict(const ServingValues& values) const;
  enum class Bands : std::uint8_t { none, propagated };
  void predict_folds(const Folding& folding, const Folds& folds, Bands bands,
                     std::vector<validation::Comparison>& comparisons) const;
  void band_folds(const Folding& folding, Folds folds, ServingFit& out) const;
  [[nodiscard]] ServingFit leave_out(const ServingFit& start, const Folding& folding, const std::string& what) const;
  /// Puts cells with the same name into one fold. A name that occurs in no fitted table gives kNoFold.
  template <class Name>
  [[nodiscard]] Folding folding_by(const Name& name) const;
  [[nodiscard]] std::string group_of(const Cell& cell, model::Beyond kind) const;
  /// Simulates the cells `which` with each set of values; returns [values][index into `which`].
  [[nodiscard]] std::vector<std::vector<study::PointResult>> run(const std::vector<ServingValues>& values,
                                                                 const Indices& which) const;
  void note_what_fits();
  [[nodiscard]] std::vector<double> residuals(const Indices& which,
                                              const std::vector<study::PointResult>& points) const;
  [[nodiscard]] Residuals residuals_of(const Indices& which, double scanned) const;
  [[nodiscard]] ServingValues solve(const Indices& which, ServingValues start, int iterations, double& loss) const;
  [[nodiscard]] double best_scanned(const Indices& which, const ServingValues& values) const;
  [[nodiscard]] Indices fitted_cells() const;
  /// Calls one(0) … one(count - 1) on as many threads as the settings allow. Throws ServingCancelled between two calls.
  template <class Work>
  void in_parallel(std::size_t count, const Work& one) const {
    const int jobs =
        settings.jobs > 0 ? settings.jobs : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    tbb::task_arena arena(jobs);
    arena.execute([&] {
      tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
        check_in();
        one(i);
      });
    });
  }
  void check_in() const {
    if (settings.control == nullptr) return;
    settings.control->check_in();
    if (settings.control->cancelled()) throw ServingCancelled{};
  }
  void progress(const std::string& text) const {
    check_in();
    if (settings.progress) settings.progress(text);
  }

  const ServingModel& model;
  std::shared_ptr<const configs::Catalogue> catalogue;
  ServingSettings settings;
  ServingFiles files;
  std::vector<FitNumber> numbers;
  std::vector<Cell> cells;
  mutable std::atomic<int> simulations{0};
};

void ServingProblem::State::add(const validation::MeasuredTable& table) {
  const bool fitted = std::find(model.tables.begin(), model.tables.end(), table.name) != model.tables.end();
  for (const validation::MeasuredPoint& row : table.points) {
    if (configs::canonical_name(row.engine) != model.engine) continue;
    Cell cell;
    cell.table = &table;
    cell.row = &row;
    cell.fitted = fitted;
    try {
      cell.spec =
          study::Study(configs::Document::from_text(validation::study_text({&row}), "study"), "study", {}, catalogue)
              .point(0);
    } catch (const InputError& error) {
      // The study text is generated, so report an error in it at the row of the table.
      throw InputError(row.where, error.where().file == "study" ? error.text() : error.what());
    }
    cells.push_back(std::move(cell));
  }
}

ServingValues ServingProblem::State::priors() const {
  ServingValues values;
  for (const FitNumber& n : numbers) values.push_back(n.prior);
  if (!model.scan.empty()) values.push_back(model.scanned.number.prior);
  return values;
}

study::PointResult ServingProblem::State::simulate(const Cell& cell, const ServingParts& parts) const {
  study::PointSpec spec = cell.spec;
  parts.replace_in(spec);
  // A cell that cannot run stays without metrics; residuals() counts its figures as kMissing.
  study::FinishedPoint finished = study::simulate_point(std::move(spec), {.bands = parts.bands});
  ++simulations;
  return std::move(finished.result);
}

std::vector<std::vector<study::PointResult>> ServingProblem::State::run(const std::vector<ServingValues>& values,
                                                                        const Indices& which) const {
  std::vector<ServingParts> parts;
  for (const ServingValues& v : values) parts.push_back(files.parts(v));
  std::vector<std::vector<study::PointResult>> results(values.size(), std::vector<study::PointResult>(which.size()));
  in_parallel(values.size() * which.size(), [&](std::size_t i) {
    results[i / which.size()][i % which.size()] = simulate(cells[which[i % which.size()]], parts[i / which.size()]);
  });
  return results;
}

// Priors suffice: only the scanned number changes memory, and its value does not matter if first tokens are fitted.
void ServingProblem::State::note_what_fits() {
  const ServingParts parts = files.parts(priors());
  for (Cell& cell : cells) {
    study::PointSpec spec = cell.spec;
    parts.replace_in(spec);
    const study::ResolvedPoint resolved = study::resolve_spec(std::move(spec));
    if (!resolved.scenario) continue;
    const sched::KvConfig& kv = resolved.scenario->kv;
    const double tokens = cell.row->load_value * static_cast<double>(cell.row->input_tokens + cell.row->output_tokens);
    cell.fits = tokens <= static_cast<double>(kv.blocks) * static_cast<double>(kv.block_tokens);
  }
}

std::vector<double> ServingProblem::State::residuals(const Indices& which,
                                                     const std::vector<study::PointResult>& points) const {
  std::vector<double> out;
  for (std::size_t i = 0; i < which.size(); ++i) {
    const Cell& cell = cells[which[i]];
    std::vector<validation::Comparison> figures;
    validation::append_comparisons(*cell.table, *cell.row, points[i], figures);
    for (const validation::Comparison& c : figures) {
      const auto scale = model.scales.find(c.metric);
      // If the users' sequences exceed the pool, first tokens measure the queue for memory, not the speed of prefill.
      if (scale == model.scales.end() || (c.metric == "ttft_mean_s" && !cell.fits)) continue;
      out.push_back((c.predicted ? std::log(*c.predicted / c.measured) : kMissing) / scale->second);
    }
  }
  return out;
}

// The solver requests many sets of values at once to compute differences; all their simulations run in parallel.
Residuals ServingProblem::State::residuals_of(const Indices& which, double scanned) const {
  return [this, which, scanned](const std::vector<std::vector<double>>& candidates) {
    std::vector<ServingValues> values = candidates;
    if (!model.scan.empty())
      for (ServingValues& v : values) v.push_back(scanned);
    const auto points = run(values, which);
    std::vector<std::vector<double>> out;
    for (const auto& p : points) out.push_back(residuals(which, p));
    return out;
  };
}

ServingValues ServingProblem::State::solve(const Indices& which, ServingValues start, int iterations,
                                           double& loss) const {
  // The scanned number has a stepwise effect (how many sequences fit), which differences cannot follow. The solver
  // keeps it fixed; best_scanned() chooses it.
  const bool scans = !model.scan.empty();
  const double scanned = scans ? start.back() : 0;
  if (scans) start.pop_back();
  FitOptions options;
  options.iterations = iterations;
  FitResult result = fit_numbers(numbers, start, residuals_of(which, scanned), options);
  loss = result.loss;
  if (scans) result.values.push_back(scanned);
  return std::move(result.values);
}

// Returns the middle one of the values whose loss is within 2 % of the least: the data determine only a range.
double ServingProblem::State::best_scanned(const Indices& which, const ServingValues& values) const {
  std::vector<ServingValues> candidates;
  for (const double value : model.scan) {
    candidates.push_back(values);
    candidates.back().back() = value;
  }
  const auto points = run(candidates, which);
  // The scanned number has no prior, so leave its value out of the loss.
  const std::vector<double> others(values.begin(), values.end() - 1);
  std::vector<double> losses;
  for (const auto& p : points) losses.push_back(fit_loss(numbers, others, residuals(which, p)));
  const double least = *std::min_element(losses.begin(), losses.end());
  constexpr double kAboutEqual = 1.02;
  Indices good;
  for (std::size_t i = 0; i < losses.size(); ++i)
    if (losses[i] <= kAboutEqual * least) good.push_back(i);
  return model.scan[good[good.size() / 2]];
}

Indices ServingProblem::State::fitted_cells() const {
  Indices which;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells[i].fitted) which.push_back(i);
  return which;
}

template <class Name>
// Folds are numbered in the order of the tables, so that a fit is the same on every machine.
Folding ServingProblem::State::folding_by(const Name& name) const {
  std::vector<std::string> names;
  for (const Cell& cell : cells)
    if (cell.fitted && std::find(names.begin(), names.end(), name(cell)) == names.end()) names.push_back(name(cell));
  Folding folding;
  for (const Cell& cell : cells) {
    const auto found = std::find(names.begin(), names.end(), name(cell));
    folding.push_back(found == names.end() ? kNoFold : static_cast<std::size_t>(found - names.begin()));
  }
  return folding;
}

// Returns the name of a cell's group; empty if the kind does not group runs.
std::string ServingProblem::State::group_of(const Cell& cell, model::Beyond kind) const {
  switch (kind) {
    case model::Beyond::model: return configs::canonical_name(cell.row->model);
    case model::Beyond::accelerator: return cell.spec.hardware.accelerator->id;
    case model::Beyond::tp: return fmt::format("{}", cell.row->tp);
    case model::Beyond::length: return fmt::format("{}", cell.row->input_tokens);
    case model::Beyond::batch: return fmt::format("{}", cell.row->load_value / cell.row->replicas);
    case model::Beyond::version: return version_of(cell.row->source);
    case model::Beyond::type:
    case model::Beyond::pipeline: return {};
  }
  return {};
}

ServingProblem::ServingProblem(const ServingModel& model, const std::vector<validation::MeasuredTable>& tables,
                               std::shared_ptr<const configs::Catalogue> catalogue, const ServingSettings& settings)
    : state_(std::make_unique<State>(model, std::move(catalogue), settings)) {
  for (const validation::MeasuredTable& table : tables) state_->add(table);
  if (state_->fitted_cells().empty()) throw InputError("no row of the tables was measured with engine " + model.engine);
  state_->note_what_fits();
}
ServingProblem::~ServingProblem() = default;

const ServingModel& ServingProblem::model() const { return state_->model; }

ServingFit ServingProblem::fit() const {
  const State& s = *state_;
  const Indices which = s.fitted_cells();
  ServingFit fit;
  constexpr int kIterations = 12, kAgain = 6;
  s.progress(
      fmt::format("fitting {} numbers to {} runs", s.numbers.size() + (s.model.scan.empty() ? 0 : 1), which.size()));
  // Fit from the priors, then scan the stepped number with these values, then fit the others again around the result.
  fit.values = s.solve(which, s.priors(), kIterations, fit.loss);
  if (!s.model.scan.empty()) {
    fit.values.back() = s.best_scanned(which, fit.values);
    fit.values = s.solve(which, fit.values, kAgain, fit.loss);
  }
  fit.comparisons = s.predict(fit.values);
  for (const validation::Comparison& c : fit.comparisons)
    fit.fitted.push_back(std::find(s.model.tables.begin(), s.model.tables.end(), c.table) != s.model.tables.end());
  fit.in_fitted_table = fit.fitted;
  for (const Cell& cell : s.cells)
    if (!cell.fits) fit.beyond_pool.insert(cell.row);
  fit.simulations = s.simulations;
  return fit;
}

std::vector<validation::Comparison> ServingProblem::State::predict(const ServingValues& values) const {
  Indices all(cells.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  const auto points = run({values}, all).front();
  std::vector<validation::Comparison> out;
  for (std::size_t i = 0; i < all.size(); ++i)
    validation::append_comparisons(*cells[i].table, *cells[i].row, points[i], out);
  return out;
}

// Simulates the cells of all folds together, so that no thread idles at the end of each fold.
void ServingProblem::State::predict_folds(const Folding& folding, const Folds& folds, Bands bands,
                                          std::vector<validation::Comparison>& comparisons) const {
  std::map<std::size_t, ServingParts> parts;
  for (const auto& [name, fold] : folds) {
    ServingParts one = files.parts(fold.values);
    auto engine = std::make_shared<model::EngineProfile>(*one.engine);
    engine->uncertainty = fold.uncertainty;
    engine->ranges.clear();  // do not widen bands by distance: the errors of a fold are already those of left-out runs
    one.engine = std::move(engine);
    one.bands = bands == Bands::propagated;
    parts.emplace(name, std::move(one));
  }
  Indices which;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (parts.contains(folding[i])) which.push_back(i);
  std::vector<study::PointResult> points(which.size());
  in_parallel(which.size(), [&](std::size_t i) { points[i] = simulate(cells[which[i]], parts.at(folding[which[i]])); });
  std::map<const validation::MeasuredPoint*, const study::PointResult*> point_of;
  for (std::size_t i = 0; i < which.size(); ++i) point_of[cells[which[i]].row] = &points[i];
  for (validation::Comparison& c : comparisons)
    if (const auto found = point_of.find(c.point); found != point_of.end())
      validation::set_prediction(*found->second, c);
}

ServingFit ServingProblem::State::leave_out(const ServingFit& start, const Folding& folding,
                                            const std::string& what) const {
  ServingFit out = start;
  Folds folds;
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells[i].fitted) folds[folding[i]].values = start.values;
  constexpr int kIterations = 6;
  std::size_t done = 0;
  for (auto& [name, fold] : folds) {
    progress(fmt::format("leaving out {} of {} {}", ++done, folds.size(), what));
    Indices which = fitted_cells();
    // Start from the fit of all runs, which saves iterations.
    std::erase_if(which, [&, left_out = name](std::size_t i) { return folding[i] == left_out; });
    double loss = 0;
    // The scanned value may not depend on the left-out runs either, so it is scanned again for each fold.
    if (!model.scan.empty()) fold.values.back() = best_scanned(which, fold.values);
    fold.values = solve(which, fold.values, kIterations, loss);
  }
  predict_folds(folding, folds, Bands::none, out.comparisons);
  progress(fmt::format("propagating bands of {} runs", cells.size()));
  band_folds(folding, std::move(folds), out);
  out.simulations = simulations;
  return out;
}

ServingFit ServingProblem::leave_one_out(const ServingFit& start) const {
  const auto name = [](const Cell& cell) { return configuration_of(*cell.row); };
  return state_->leave_out(start, state_->folding_by(name), "configurations");
}

ServingFit ServingProblem::leave_out_by(const ServingFit& start,
                                        const std::function<std::string(const validation::MeasuredPoint&)>& group,
                                        const std::string& what) const {
  return state_->leave_out(start, state_->folding_by([&](const Cell& cell) { return group(*cell.row); }), what);
}

ServingFit ServingProblem::leave_half_out(const ServingFit& start) const {
  std::set<std::string> names;
  for (const Cell& cell : state_->cells)
    if (cell.fitted) names.insert(configuration_of(*cell.row));
  const auto half = [&](const Cell& cell) -> std::string {
    const auto found = names.find(configuration_of(*cell.row));
    if (found == names.end()) return {};
    return std::distance(names.begin(), found) % 2 == 0 ? "even" : "odd";
  };
  return state_->leave_out(start, state_->folding_by(half), "halves of the configurations");
}

bool ServingProblem::has_groups(model::Beyond kind) const {
  std::set<std::string> names;
  for (const Cell& cell : state_->cells)
    if (cell.fitted) names.insert(state_->group_of(cell, kind));
  return names.size() > 1;
}

std::optional<ServingFit> ServingProblem::leave_group_out(const ServingFit& start, model::Beyond kind) const {
  if (!has_groups(kind)) return {};  // nothing would remain to fit
  const State& s = *state_;
  const Folding folding = s.folding_by([&](const Cell& cell) { return s.group_of(cell, kind); });
  return s.leave_out(start, folding,
                     fmt::format("groups by {}", model::kBeyondNames.at(static_cast<std::size_t>(kind))));
}

// Computes the bands of every fold from the errors of the other folds. Cells in no fold get the errors of all folds.
void ServingProblem::State::band_folds(const Folding& folding, Folds folds, ServingFit& out) const {
  std::map<const validation::MeasuredPoint*, std::size_t> cell_of;
  for (std::size_t i = 0; i < cells.size(); ++i) cell_of[cells[i].row] = i;
  const auto errors_without = [&](std::size_t fold) {
    std::vector<const validation::Comparison*> errors;
    for (const validation::Comparison& c : out.comparisons) {
      const std::size_t i = cell_of.at(c.point);
      // Only fitted tables count: figures of other tables must not influence the bands by which they are judged.
      if (!cells[i].fitted || folding[i] == fold || (c.metric == "ttft_mean_s" && !cells[i].fits)) continue;
      errors.push_back(&c);
    }
    return uncertainty_of(errors);
  };
  for (auto& [name, fold] : folds) fold.uncertainty = errors_without(name);
  out.uncertainty = errors_without(kNoFold);
  folds[kNoFold] = {out.values, out.uncertainty};
  predict_folds(folding, folds, Bands::propagated, out.comparisons);
  // The runs of a group have similar errors, and a few groups are a small sample. Widen (or narrow) the bands until
  // those that were computed without a group contain 90 % of its figures.
  const Folds raw = folds;
  constexpr int kRounds = 3;  // a band's width is nearly linear in that of its factors, so few rounds suffice
  for (int round = 0; round < kRounds; ++round) {
    std::vector<BandMiss> misses;
    for (const validation::Comparison* c : fitted_errors(out))
      misses.push_back({c, folds.at(folding[cell_of.at(c->point)]).uncertainty});
    // Widen all folds by the same factors. If few figures determine an end of a band, at_least_half() keeps that end
    // from collapsing.
    const Widening by = widening_of(misses);
    for (auto& [name, fold] : folds)
      fold.uncertainty = at_least_half(raw.at(name).uncertainty, widened(fold.uncertainty, by));
    predict_folds(folding, folds, Bands::propagated, out.comparisons);
  }
  out.uncertainty = folds.at(kNoFold).uncertainty;
  for (std::size_t i = 0; i < out.comparisons.size(); ++i) out.fitted[i] = false;
}

std::string ServingProblem::fitted_ranges() const {
  std::vector<FittedRun> runs;
  for (const Cell& cell : state_->cells)
    if (cell.fitted) runs.push_back({cell.row, &cell.spec});
  return ranges_text(runs);
}

std::map<std::string, std::string> ServingProblem::files(const ServingFit& fit, const Provenance& provenance) const {
  return state_->files.texts(fit.values, fit.uncertainty, provenance);
}

model::TimeUncertainty uncertainty_of(const std::vector<const validation::Comparison*>& left_out) {
  std::vector<double> decode, prefill;
  for (const validation::Comparison* c : left_out) {
    if (!c->predicted) continue;
    const double ratio = c->measured / *c->predicted;
    // Invert a rate, so that a low factor always means a short time.
    (c->metric == "ttft_mean_s" ? prefill : decode).push_back(c->metric == "output_tokens_per_s" ? 1 / ratio : ratio);
  }
  constexpr double kLow = 0.05, kHigh = 0.95;
  model::TimeUncertainty u;
  if (decode.empty()) return u;
  // A band must contain the prediction itself.
  u.decode_low = std::min(1.0, sched::quantile(decode, kLow));
  u.decode_high = std::max(1.0, sched::quantile(decode, kHigh));
  u.prefill_low = prefill.empty() ? u.decode_low : std::min(1.0, sched::quantile(prefill, kLow));
  u.prefill_high = prefill.empty() ? u.decode_high : std::max(1.0, sched::quantile(prefill, kHigh));
  return u;
}

model::TimeUncertainty widened(const model::TimeUncertainty& u, const Widening& by) {
  // The widened band must still contain the prediction itself.
  const auto low = [](double factor, double log) { return std::min(1.0, factor * std::exp(-log)); };
  const auto high = [](double factor, double log) { return std::max(1.0, factor * std::exp(log)); };
  return {.decode_low = low(u.decode_low, by.decode),
          .decode_high = high(u.decode_high, by.decode),
          .prefill_low = low(u.prefill_low, by.prefill),
          .prefill_high = high(u.prefill_high, by.prefill)};
}

model::TimeUncertainty at_least_half(const model::TimeUncertainty& whole, const model::TimeUncertainty& u) {
  return {.decode_low = std::min(u.decode_low, std::sqrt(whole.decode_low)),
          .decode_high = std::max(u.decode_high, std::sqrt(whole.decode_high)),
          .prefill_low = std::min(u.prefill_low, std::sqrt(whole.prefill_low)),
          .prefill_high = std::max(u.prefill_high, std::sqrt(whole.prefill_high))};
}

Widening widening_of(const std::vector<BandMiss>& misses) {
  std::vector<double> decode, prefill;
  for (const auto& [c, u] : misses) {
    if (!c->predicted || !c->low || !c->high) continue;
    const bool first_token = c->metric == "ttft_mean_s", above = c->measured > *c->predicted;
    // How far the figure lies outside its band, on the side on which it lies; negative inside.
    const double missing = above ? std::log(c->measured / *c->high) : std::log(*c->low / c->measured);
    // How strongly the band's end responds to the factor. For a rate, the upper end corresponds to short times.
    const bool slow_side = (c->metric == "output_tokens_per_s") != above;
    const double factor = std::abs(std::log(first_token ? (slow_side ? u.prefill_high : u.prefill_low)
                                                        : (slow_side ? u.decode_high : u.decode_low)));
    const double width = std::abs(std::log((above ? *c->high : *c->low) / *c->predicted));
    constexpr double kNarrow = 0.01, kMinRatio = 0.25, kMaxRatio = 4;
    const double answer = factor > kNarrow ? std::clamp(width / factor, kMinRatio, kMaxRatio) : 1;
    (first_token ? prefill : decode).push_back(missing / answer);
  }
  constexpr double kHeld = 0.9;
  Widening out;
  if (!decode.empty()) out.decode = sched::quantile(decode, kHeld);
  out.prefill = prefill.empty() ? out.decode : sched::quantile(prefill, kHeld);
  return out;
}

std::vector<const validation::Comparison*> fitted_errors(const ServingFit& fit) {
  std::vector<const validation::Comparison*> errors;
  for (std::size_t i = 0; i < fit.comparisons.size(); ++i) {
    const validation::Comparison& c = fit.comparisons[i];
    if (fit.in_fitted_table[i] && (c.metric != "ttft_mean_s" || !fit.beyond_pool.contains(c.point)))
      errors.push_back(&c);
  }
  return errors;
}

double coverage_of(const std::vector<validation::Comparison>& comparisons) {
  std::size_t inside = 0, all = 0;
  for (const validation::Comparison& c : comparisons) {
    const std::optional<bool> held = c.is_in_band();
    all += held ? 1 : 0;
    inside += held.value_or(false) ? 1 : 0;
  }
  return all == 0 ? 0 : static_cast<double>(inside) / static_cast<double>(all);
}

}  // namespace plimsoll::calibration
