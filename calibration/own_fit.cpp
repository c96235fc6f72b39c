// SPDX-License-Identifier: Apache-2.0
#include "calibration/own_fit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "calibration/own_hardware.h"
#include "calibration/serving_files.h"
#include "model/error.h"
#include "sched/policy_config.h"
#include "validation/error_summary.h"

namespace plimsoll::calibration {
namespace {

using validation::Comparison;
using validation::MeasuredPoint;

// Sets what the server reports about itself.
void set_scheduler(const OwnEngine& engine, configs::Document& document) {
  const Where where{"fitted " + engine.name, 0, 0};
  if (engine.block_tokens) document.set("scheduler.block_size", std::to_string(*engine.block_tokens), where);
  if (engine.max_running) document.set("scheduler.max_running", std::to_string(*engine.max_running), where);
}

// Returns the profile to simulate while its values are fitted.
configs::Document draft_of(const OwnEngine& engine, const configs::Catalogue& catalogue, bool has_hardware) {
  configs::Document draft = catalogue.document("engines", engine.like);
  const Where where{"fitted " + engine.name, 0, 0};
  for (const char* const key : {"like", "aliases", "calibrated_for"})
    if (draft.root().has(key)) draft.remove(key);
  if (!draft.root().has("calibrated_on")) draft.set("calibrated_on", "\"being fitted\"", where);
  if (!draft.root().has("calibrated")) draft.set("calibrated", "true", where);
  set_scheduler(engine, draft);
  // These keys scale measured kernels, which fitted hardware does not have.
  if (has_hardware)
    for (const char* const key : {"kernels.compute_scale", "kernels.memory_scale"}) draft.set(key, "1", where);
  return draft;
}

std::string errors_text(const OwnFit& fit, bool fitted) {
  std::string text;
  for (const auto& [metric, scale] : fit.model.scales) {
    const validation::ErrorSummary s = validation::summarise(figures_of(fit.fit, metric, fitted));
    if (s.count > 0) text += fmt::format("{}{} median {:.1f} %", text.empty() ? "" : ", ", metric, 100 * s.median);
  }
  return text;
}

std::string provenance_of(const OwnEngine& engine, const OwnFit& fit, std::size_t runs) {
  const auto figures = std::count(fit.fit.fitted.begin(), fit.fit.fitted.end(), true);
  return fmt::format(
      "fitted {} by '{}': {} numbers to {} figures of {} runs{}; {}; absolute errors in the fit: {}; of "
      "runs that no fit saw: {}",
      engine.date, engine.command, fit.model.numbers.size(), figures, runs,
      engine.server.empty() ? "" : " of " + engine.server, engine.data, errors_text(fit, true),
      errors_text(fit, false));
}

// The value that turns drift off if the profile named by `like` has it.
constexpr const char* kNoDrift = "{output_cv: 0, source: \"the fitted runs are described better without\"}";

constexpr const char* kHead = "# Written by plimsoll calibrate: a profile of your own. The same command replaces it.\n";

std::string engine_text(const OwnEngine& engine, const OwnFit& fit, const std::string& provenance,
                        const std::string& ranges) {
  const Where where{"fitted " + engine.name, 0, 0};
  const std::string file = "engines/" + engine.name;
  configs::Document out = configs::Document::from_text(
      fmt::format("name: {}\nlike: {}\n", quoted_yaml(engine.name), engine.like), where.file);
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i)
    if (const ServingNumber& n = fit.model.numbers[i]; n.file == file)
      out.set(n.path, value_text(n, fit.fit.values[i]), where);
  if (!fit.accelerator.empty())
    for (const char* const key : {"kernels.compute_scale", "kernels.memory_scale"}) out.set(key, "1", where);
  set_scheduler(engine, out);
  if (!fit.form.drift) out.set("closed_loop_drift", kNoDrift, where);
  if (fit.form.serial) out.set("host.overlap", "none", where);
  out.set("calibrated", "true", where);
  out.set("calibrated_on", quoted_yaml(provenance), where);
  out.set("calibrated_for", ranges, where);
  out.set("uncertainty", fmt::format("{{{}}}", factors_text(fit.left_out.uncertainty)), where);
  out.set("source", quoted_yaml("your own runs: " + engine.data), where);
  return kHead + out.dump();
}

std::string accelerator_text(const configs::Document& draft, const OwnFit& fit, const std::string& provenance) {
  const Where where{"fitted " + fit.accelerator, 0, 0};
  configs::Document out = draft;
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i) {
    const ServingNumber& n = fit.model.numbers[i];
    if (n.file != "accelerators/" + fit.accelerator) continue;
    out.set(n.path, value_text(n, fit.fit.values[i]), where);
    for (const std::string& path : n.also) out.set(path, value_text(n, fit.fit.values[i]), where);
  }
  out.set("efficiency.source",
          quoted_yaml("effective peak and bandwidth are fitted, other efficiencies are generic; " + provenance), where);
  return kHead + out.dump();
}

// A few left-out runs do not determine the tails, so their quantiles are moved outwards.
model::TimeUncertainty for_few_runs(const model::TimeUncertainty& u, std::size_t runs) {
  const double power = 1 + 3 / static_cast<double>(std::max<std::size_t>(1, runs));
  return {.decode_low = std::pow(u.decode_low, power),
          .decode_high = std::pow(u.decode_high, power),
          .prefill_low = std::pow(u.prefill_low, power),
          .prefill_high = std::pow(u.prefill_high, power)};
}

struct Tolerance {
  const char* metric;
  double scale;             // the log error that counts as one in the fit
  double doubtful, absurd;  // medians of absolute errors in the fit
};
constexpr Tolerance kTolerances[] = {{"ttft_mean_s", 0.15, 0.2, 0.6},
                                     {"tpot_mean_s", 0.05, 0.1, 0.35},
                                     {"output_tokens_per_s", 0.05, 0.1, 0.35},
                                     {"latency_mean_s", 0.08, 0.1, 0.35}};

// Refuses a fit with a wrong profile, or to runs that are no measurements. The held-out runs detect a fit to noise.
void judge_unseen(OwnFit& fit, const OwnEngine& engine) {
  constexpr double kFewer = 1.5;  // they are fewer than the fitted runs, so chance makes their median larger
  for (const Tolerance& tolerance : kTolerances) {
    const validation::ErrorSummary s = validation::summarise(figures_of(fit.fit, tolerance.metric, false));
    if (s.count > 0 && s.median > kFewer * tolerance.doubtful && s.median <= tolerance.absurd)
      fit.warnings.push_back(
          fmt::format("the runs are noisy, or not like {}: the median error of {} is {:.0f} % on held-out runs",
                      engine.like, tolerance.metric, 100 * s.median));
    if (s.count > 0 && s.median > tolerance.absurd)
      throw InputError(
          fmt::format("nothing is written: the runs are too noisy, or not like {}: the median error of {} is "
                      "{:.0f} % on held-out runs",
                      engine.like, tolerance.metric, 100 * s.median));
  }
}

// Warns how many runs the profile or the model cannot serve, for example because the TP degree does not divide the
// heads.
void warn_of_missing(OwnFit& fit) {
  std::set<const MeasuredPoint*> all, simulated;
  for (const Comparison& c : fit.fit.comparisons) {
    all.insert(c.point);
    if (c.predicted) simulated.insert(c.point);
  }
  const auto missing = std::find_if(fit.fit.comparisons.begin(), fit.fit.comparisons.end(),
                                    [&](const Comparison& c) { return !simulated.contains(c.point); });
  if (missing != fit.fit.comparisons.end())
    fit.warnings.push_back(fmt::format("{} of {} runs cannot be simulated, so they are not fitted; {}:{}: {}",
                                       all.size() - simulated.size(), all.size(), missing->point->where.file,
                                       missing->point->where.line, missing->reason));
}

// Errors of the model are smaller than the factor between two units, so a larger deviation means a wrong unit. A TTFT
// may deviate more, since a queue can grow without limit; if only a few do, leave_out_queued() handles them.
void refuse_other_units(const OwnFit& fit) {
  constexpr double kFar = 100;
  std::set<const MeasuredPoint*> late, runs;
  const Comparison* worst = nullptr;
  for (std::size_t i = 0; i < fit.fit.comparisons.size(); ++i) {
    const Comparison& c = fit.fit.comparisons[i];
    const std::optional<double> error = c.relative_error();
    if (!error) continue;
    runs.insert(c.point);
    if (1 + *error < kFar && kFar * (1 + *error) > 1) continue;
    if (c.metric == "ttft_mean_s") late.insert(c.point);
    if (worst == nullptr || worst->metric == "ttft_mean_s") worst = &c;
  }
  if (worst == nullptr || (worst->metric == "ttft_mean_s" && 4 * late.size() <= runs.size())) return;
  throw InputError(worst->point->where,
                   fmt::format("{} is {:.4g}, but the fit to all runs predicts {:.4g}: a factor of over {:g} suggests "
                               "another unit; nothing is written",
                               worst->metric, worst->measured, *worst->predicted, kFar));
}

void judge(OwnFit& fit, const OwnEngine& engine) {
  for (const Tolerance& tolerance : kTolerances) {
    const std::vector<const Comparison*> group = figures_of(fit.fit, tolerance.metric, true);
    if (group.empty()) continue;
    const validation::ErrorSummary s = validation::summarise(group);
    const bool mostly_missing = s.missing > s.count;
    if (mostly_missing || s.median > tolerance.absurd)
      throw InputError(fmt::format(
          "nothing is written: a profile like {} cannot be fitted to these runs; {}", engine.like,
          mostly_missing
              ? fmt::format("{} of {} runs cannot even be simulated: {}", s.missing, s.missing + s.count,
                            group.front()->reason)
              : fmt::format("the median error of {} is {:.0f} % in the fit", tolerance.metric, 100 * s.median)));
    if (s.median > tolerance.doubtful)
      fit.warnings.push_back(
          fmt::format("the runs are noisy, or not like {}: the median error of {} is {:.0f} % in "
                      "the fit",
                      engine.like, tolerance.metric, 100 * s.median));
  }
}

// Leaves out runs whose TTFT no values explain. Their queue differed from the simulated one, because the server's pool
// or limits differ from the profile's. The batch then differed too, and with it the other figures. If more than a
// quarter of the runs are like this, they are no exceptions and are judged with the others.
bool leave_out_queued(OwnFit& fit, OwnRuns& runs) {
  constexpr double kApart = 3;
  std::set<const MeasuredPoint*> queued;
  for (std::size_t i = 0; i < fit.fit.comparisons.size(); ++i) {
    const Comparison& c = fit.fit.comparisons[i];
    const std::optional<double> error = c.relative_error();
    if (c.metric != "ttft_mean_s" || !fit.fit.in_fitted_table[i] || !error) continue;
    if (1 + *error > kApart || kApart * (1 + *error) < 1) queued.insert(c.point);
  }
  std::vector<MeasuredPoint>& points = runs.tables[0].points;
  if (queued.empty() || 4 * queued.size() > points.size()) return false;
  std::vector<MeasuredPoint> kept;
  std::vector<std::size_t> folds;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (queued.contains(&points[i])) continue;
    kept.push_back(points[i]);
    folds.push_back(runs.folds[0][i]);
  }
  fit.warnings.push_back(
      fmt::format("{} run{} left out of the fit: the measured TTFT is over {:g} times longer or shorter than any fit "
                  "can explain, so the queue or the batch differed from the simulated one",
                  queued.size(), queued.size() == 1 ? " is" : "s are", kApart));
  points = std::move(kept);
  runs.folds[0] = std::move(folds);
  return true;
}

// If the first fit describes the runs well, they are precise, so they get more weight against the priors than noisy
// runs.
void trust_precise_runs(OwnFit& fit) {
  constexpr double kNoise = 1.5, kMost = 0.1;  // of the median error; of the first scale
  for (auto& [metric, scale] : fit.model.scales) {
    const validation::ErrorSummary s = validation::summarise(figures_of(fit.fit, metric, true));
    if (s.count > 0) scale = std::clamp(kNoise * s.median, kMost * scale, scale);
  }
}

// The loss limits the influence of single wrong runs, so medians do not reveal them.
void warn_of_outliers(OwnFit& fit) {
  constexpr double kFar = 1.5;
  std::set<const MeasuredPoint*> runs, far;
  std::string worst;
  double most = kFar;
  for (std::size_t i = 0; i < fit.fit.comparisons.size(); ++i) {
    const Comparison& c = fit.fit.comparisons[i];
    const std::optional<double> error = c.relative_error();
    if (!fit.fit.fitted[i] || !error) continue;
    runs.insert(c.point);
    const double ratio = 1 + *error, apart = std::max(ratio, 1 / ratio);
    if (c.metric == "ttft_mean_s" || !(apart > kFar)) continue;
    far.insert(c.point);
    if (apart <= most) continue;
    most = apart;
    worst = fmt::format("{}:{}: {} is {:.4g}, predicted {:.4g}", c.point->where.file, c.point->where.line, c.metric,
                        c.measured, *c.predicted);
  }
  if (!far.empty())
    fit.warnings.push_back(
        fmt::format("{} of {} fitted runs lie{} far from the fit, because the other runs outweigh them; "
                    "the farthest: {}",
                    far.size(), runs.size(), far.size() == 1 ? "s" : "", worst));
}

// The user's host may be several times slower than the profile's. A host time far beyond that has another cause:
// another model or hardware than stated, a wrong unit, or other load on the server.
void warn_of_limits(OwnFit& fit, const std::string& like) {
  constexpr double kAt = 1.001, kFar = 100;
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i) {
    const FitNumber& n = fit.model.numbers[i].number;
    const double value = fit.fit.values[i];
    if ((n.low > 0 && value < n.low * kAt) || (n.high > 0 && value * kAt > n.high))
      fit.warnings.push_back(
          fmt::format("{} is at the limit of what is plausible: {:.4g} {}", n.name, value, fit.model.numbers[i].unit));
    else if (n.name.starts_with("host.") && value > kFar * n.prior)
      fit.warnings.push_back(
          fmt::format("{} is {:.0f} times its start value (like {}): are the model, the hardware and the "
                      "units of the runs right?",
                      n.name, value / n.prior, like));
  }
}

// Returns the policy of the profile with the slots that it states.
sched::PolicyConfig policy_of(const model::EngineProfile& like, const configs::Document& draft) {
  sched::PolicyConfig config;
  config.policy = sched::policy_from_name(like.scheduler_policy).value_or(config.policy);
  const std::optional<configs::Node> scheduler = draft.root().find("scheduler");
  const std::optional<configs::Node> slots = scheduler ? scheduler->find("max_running") : std::nullopt;
  if (slots) config.max_running = slots->as_integer(1, sched::kForever);
  return config;
}

// The number of slots is an option of the server; the profile's number is a guess.
void warn_of_slots(OwnFit& fit, const OwnEngine& engine, const sched::PolicyConfig& config, const OwnRuns& runs) {
  if (engine.max_running || !sched::traits_of(config).numbered_slots) return;
  const std::int64_t slots = sched::resolve_limits(config).max_running;
  const auto has_more = [&](const MeasuredPoint& p) {
    return p.max_running == 0 && p.load_kind == "closed_loop" && p.load_value > static_cast<double>(slots * p.replicas);
  };
  const auto more = std::count_if(runs.fitted().begin(), runs.fitted().end(), has_more);
  if (more > 0)
    fit.warnings.push_back(fmt::format(
        "{} fitted run{} more users than the {} slots of {}: state the server's own number in a column max_running",
        more, more == 1 ? " has" : "s have", slots, engine.like));
}

// Two properties decide which requests share a step: whether requests that arrive together reach the scheduler one by
// one, and whether they drift apart. No continuous change of a number switches them, so both values are tried.
OwnForm form_of(const model::EngineProfile& like) {
  const bool drifts = like.closed_loop_drift.cv(1, model::FrontEnd::none) > 0;
  return {.intake = like.intake.count() > 0, .drift = drifts};
}

std::vector<OwnForm> other_forms(const OwnForm& own) {
  std::vector<OwnForm> forms;
  if (!own.intake) forms.push_back({.intake = true, .drift = own.drift});
  if (own.drift) forms.push_back({.intake = own.intake});
  if (!own.intake && own.drift) forms.push_back({.intake = true});
  return forms;
}

// An unknown machine may wait for the host, and may have a kernel of its own for products of one row.
std::vector<OwnForm> machine_forms(const OwnForm& own) {
  std::vector<OwnForm> forms(3, own);
  forms[0].serial = forms[2].serial = true;
  forms[1].one_row = forms[2].one_row = true;
  return forms;
}

struct FittedForm {
  OwnForm form;
  ServingFit fit;
};

// Keeps the best form so far unless another one fits the runs clearly better.
template <class Fit>
void try_forms(FittedForm& best, const std::vector<OwnForm>& forms, const Fit& fit_in) {
  constexpr double kClearly = 0.9;
  for (const OwnForm& form : forms) {
    ServingFit fit = fit_in(form);
    if (fit.loss < kClearly * best.fit.loss) best = {form, std::move(fit)};
  }
}

// Sets start values for the host times of an unknown machine, as fractions of its shortest step. The right values may
// be too far from the profile's for a local search.
void slow_down(ServingNumber& n, const OwnRuns& runs) {
  constexpr double kStep = 0.1, kSequence = 0.02;
  double least = 0;
  for (const MeasuredPoint& p : runs.fitted())
    if (p.tpot_mean_s && (least == 0 || *p.tpot_mean_s < least)) least = *p.tpot_mean_s;
  const double part = n.path == "host.step" ? kStep : n.path == "host.sequence" ? kSequence : 0;
  if (part == 0) return;
  constexpr double kLongest = 100;  // s: the catalogue refuses a longer time
  const double unit = n.unit == "ms" ? 1e-3 : 1e-6;
  n.number.prior = std::max(n.number.prior, std::min(part * least, kLongest) / unit);
  n.number.high = std::min(std::max(n.number.high, 1000 * n.number.prior), kLongest / unit);
}

// Returns the numbers to fit in a form.
std::vector<ServingNumber> numbers_in(const OwnForm& form, const std::vector<ServingNumber>& all, const OwnRuns& runs) {
  std::vector<ServingNumber> numbers;
  for (const ServingNumber& n : all) {
    if (!form.intake && n.path == "host.intake") continue;
    numbers.push_back(n);
    if (form.serial) slow_down(numbers.back(), runs);
  }
  return numbers;
}

// Returns the profile in a form.
configs::Document draft_in(const OwnForm& form, configs::Document draft, const std::string& name) {
  const Where where{"fitted " + name, 0, 0};
  if (!form.drift) draft.set("closed_loop_drift", kNoDrift, where);
  if (form.serial) draft.set("host.overlap", "none", where);
  return draft;
}

constexpr const char* kProductReads = "efficiency.gemm.memory";

// Returns the accelerator in a form.
configs::Document accelerator_in(const OwnForm& form, const OwnHardware& hardware) {
  configs::Document draft = hardware.draft;
  if (form.one_row) {
    const std::string generic = draft.root().at("efficiency").at("gemm").at("memory").as_string();
    draft.set("efficiency.gemm.one_row_memory", generic, Where{"fitted " + hardware.name, 0, 0});
  }
  return draft;
}

void take_over(OwnRuns& runs, const OwnEngine& engine, const std::optional<OwnHardware>& hardware) {
  for (validation::MeasuredTable& table : runs.tables)
    for (MeasuredPoint& p : table.points) {
      if (!p.engine.empty() && configs::canonical_name(p.engine) != engine.like) p.source = p.engine;
      p.engine = engine.name;
      if (hardware) p.hardware = hardware->label_of(p);
    }
}

// The bands come from fits of all runs but one quarter, for each quarter in turn.
void set_bands(OwnFit& out, const OwnRuns& runs, const ServingProblem& all) {
  ServingFit start = out.fit;
  start.in_fitted_table.assign(start.comparisons.size(), true);
  std::map<const MeasuredPoint*, std::size_t> folds;
  for (std::size_t table = 0; table < runs.tables.size(); ++table)
    for (std::size_t i = 0; i < runs.folds[table].size(); ++i)
      folds[&runs.tables[table].points[i]] = runs.folds[table][i];
  const auto quarter = [&](const MeasuredPoint& p) { return fmt::format("{}", folds.at(&p)); };
  out.left_out = all.leave_out_by(start, quarter, "quarters");
  out.left_out.uncertainty = for_few_runs(out.left_out.uncertainty, folds.size());
}

}  // namespace

OwnFit fit_own(const OwnEngine& engine, OwnRuns& runs, const std::shared_ptr<configs::Catalogue>& catalogue,
               const ServingSettings& settings) {
  check_own_name(engine.name, *catalogue);
  (void)shipped_engine(*catalogue, engine.like);
  const std::optional<OwnHardware> hardware = own_hardware(engine, runs, catalogue);
  const configs::Document draft = draft_of(engine, *catalogue, hardware.has_value());
  const model::EngineProfile like = *configs::read_engine(draft.root(), engine.name).profile;
  take_over(runs, engine, hardware);
  OwnFit out;
  out.accelerator = hardware ? engine.name : std::string();
  out.model.engine = engine.name;
  for (const Tolerance& tolerance : kTolerances) out.model.scales[tolerance.metric] = tolerance.scale;
  out.model.tables = {runs.tables[0].name};
  const std::vector<ServingNumber> numbers = own_numbers(engine, like, runs, hardware);
  const auto set_form = [&](const OwnForm& form) {
    out.model.numbers = numbers_in(form, numbers, runs);
    catalogue->add_entry("engines", engine.name, draft_in(form, draft, engine.name));
    if (!hardware) return;
    catalogue->add_entry("accelerators", engine.name, accelerator_in(form, *hardware));
    // With one kernel, runs tell only the product of its efficiency and the fitted bandwidth.
    if (!hardware->is_known && !form.one_row)
      std::erase_if(out.model.numbers, [](const ServingNumber& n) { return n.path == kProductReads; });
  };
  const auto fit_again = [&] { return ServingProblem(out.model, runs.tables, catalogue, settings).fit(); };
  const auto fit_in = [&](const OwnForm& form) {
    set_form(form);
    return fit_again();
  };
  FittedForm best{form_of(like), fit_in(form_of(like))};
  try_forms(best, other_forms(best.form), fit_in);
  if (hardware && !hardware->is_known) try_forms(best, machine_forms(best.form), fit_in);
  set_form(best.form);
  out.form = best.form;
  out.fit = std::move(best.fit);
  refuse_other_units(out);
  if (leave_out_queued(out, runs)) out.fit = fit_again();
  judge(out, engine);
  trust_precise_runs(out);
  out.fit = fit_again();
  judge_unseen(out, engine);
  warn_of_missing(out);
  warn_of_outliers(out);
  warn_of_limits(out, engine.like);
  warn_of_slots(out, engine, policy_of(like, draft), runs);
  ServingModel model = out.model;
  model.tables.push_back(runs.tables[1].name);
  const ServingProblem all(model, runs.tables, catalogue, settings);
  set_bands(out, runs, all);
  const std::string provenance = provenance_of(engine, out, runs.fitted().size());
  out.files["engines/" + engine.name + ".yaml"] = engine_text(engine, out, provenance, all.fitted_ranges());
  if (hardware) {
    out.files["accelerators/" + engine.name + ".yaml"] =
        accelerator_text(accelerator_in(out.form, *hardware), out, provenance);
    out.warnings.insert(out.warnings.end(), hardware->warnings.begin(), hardware->warnings.end());
  }
  return out;
}

}  // namespace plimsoll::calibration
