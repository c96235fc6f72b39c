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
#include "study/file/cell.h"
#include "validation/error_summary.h"

namespace plimsoll::calibration {
namespace {

using validation::Comparison;
using validation::MeasuredPoint;

constexpr double kMicrosecond = 1e-6, kMillisecond = 1e-3;

// The range in which a fit to few runs searches: the user's processor may be three times as slow as that of the
// profile.
constexpr double kHostSpread = 1, kScaleSpread = 0.3;

// A host time of the profile, in seconds, as a number to fit.
ServingNumber host_number(const OwnEngine& engine, const std::string& key, const char* unit, double value) {
  const double prior = value / (std::string_view(unit) == "ms" ? kMillisecond : kMicrosecond);
  constexpr double kFarthest = 1000;
  ServingNumber n;
  n.number = {"host." + key, prior, kHostSpread, prior / kFarthest, prior * kFarthest};
  n.file = "engines/" + engine.name;
  n.path = "host." + key;
  n.unit = unit;
  return n;
}

ServingNumber scale_number(const OwnEngine& engine, const std::string& key, double value) {
  constexpr double kLow = 0.2, kHigh = 3;
  ServingNumber n;
  n.number = {"kernels." + key, value, kScaleSpread, kLow, kHigh};
  n.file = "engines/" + engine.name;
  n.path = "kernels." + key;
  return n;
}

template <class Value>
std::size_t different(const OwnRuns& runs, const Value& value) {
  std::set<std::decay_t<decltype(value(runs.fitted().front()))>> values;
  for (const MeasuredPoint& p : runs.fitted()) values.insert(value(p));
  return values.size();
}

// Behind a front end, a request's way is that of the front end; the engine's own server then has no effect.
void add_front_end(const OwnEngine& engine, const model::EngineProfile& like, const OwnRuns& runs,
                   std::vector<ServingNumber>& numbers) {
  for (std::size_t i = 0; i < model::kFrontEndNames.size(); ++i) {
    const std::string name(model::kFrontEndNames[i]);
    const auto is_behind = [&](const MeasuredPoint& p) {
      return i == 0 ? p.front_end.empty() || p.front_end == name : p.front_end == name;
    };
    if (std::none_of(runs.fitted().begin(), runs.fitted().end(), is_behind)) continue;
    const double time = like.arrival_time(static_cast<model::FrontEnd>(i)).delay.count();
    ServingNumber n = host_number(engine, "front_end", "ms", std::max(time, kMillisecond));
    if (i > 0) n.path = n.number.name = "front_ends." + name + ".front_end";
    numbers.push_back(n);
  }
}

// Only the terms of host time that the profile has: an engine without a time per op does not get one.
void add_host_numbers(const OwnEngine& engine, const model::EngineProfile& like, const OwnRuns& runs,
                      std::vector<ServingNumber>& numbers) {
  // A time that the profile lacks starts at a value that hardly matters.
  const auto add = [&](const char* key, const char* unit, Seconds value, double least) {
    numbers.push_back(host_number(engine, key, unit, std::max(value.count(), least)));
  };
  add("step", "ms", like.host_step, 0.1 * kMillisecond);
  if (different(runs, [](const MeasuredPoint& p) { return p.load_value; }) > 1)
    add("sequence", "us", like.host_sequence, 2 * kMicrosecond);
  if (different(runs, [](const MeasuredPoint& p) { return p.input_tokens; }) > 1)
    add("token", "us", like.host_token, 0.05 * kMicrosecond);
  const auto has_ttft = [](const MeasuredPoint& p) { return p.ttft_mean_s.has_value(); };
  if (std::any_of(runs.fitted().begin(), runs.fitted().end(), has_ttft)) {
    add("prefill", "ms", like.host_prefill, 0.05 * kMillisecond);
    add_front_end(engine, like, runs, numbers);
    add("intake", "ms", like.intake, 0.05 * kMillisecond);
  }
  if (like.host_op.count() > 0) add("op", "us", like.host_op, 0);
  if (like.host_layer.count() > 0) add("layer", "us", like.host_layer, 0);
  if (different(runs, [](const MeasuredPoint& p) { return p.tp; }) > 1 && like.host_rank_growth > 0) {
    ServingNumber growth = host_number(engine, "rank_growth", "us", kMicrosecond);
    growth.unit.clear();
    growth.number.prior = like.host_rank_growth;
    growth.number.low = growth.number.high = 0;
    numbers.push_back(growth);
  }
}

std::vector<ServingNumber> numbers_of(const OwnEngine& engine, const model::EngineProfile& like, const OwnRuns& runs,
                                      const std::optional<OwnHardware>& hardware) {
  std::vector<ServingNumber> numbers;
  add_host_numbers(engine, like, runs, numbers);
  if (hardware) {
    numbers.insert(numbers.end(), hardware->numbers.begin(), hardware->numbers.end());
  } else {
    numbers.push_back(scale_number(engine, "compute_scale", like.compute_scale));
    numbers.push_back(scale_number(engine, "memory_scale", like.memory_scale));
  }
  return numbers;
}

// What the server states of itself.
void set_scheduler(const OwnEngine& engine, configs::Document& document) {
  const Where where{"fitted " + engine.name, 0, 0};
  if (engine.block_tokens) document.set("scheduler.block_size", std::to_string(*engine.block_tokens), where);
  if (engine.max_running) document.set("scheduler.max_running", std::to_string(*engine.max_running), where);
}

// The profile as it is simulated while its values are fitted.
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

// Returns the figures of one metric. TTFT of runs that exceed the KV pool is not fitted.
std::vector<const Comparison*> figures_of(const ServingFit& fit, const std::string& metric, bool fitted) {
  std::vector<const Comparison*> group;
  for (std::size_t i = 0; i < fit.comparisons.size(); ++i) {
    const Comparison& c = fit.comparisons[i];
    const bool counts = metric != "ttft_mean_s" || !fit.beyond_pool.contains(c.point);
    if (c.metric == metric && fit.fitted[i] == fitted && counts) group.push_back(&c);
  }
  return group;
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

// A wrong profile, or runs that are not measurements, must not pass as a fit. The held-out runs detect a fit to noise.
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

// Says how many runs the profile or the model cannot serve, such as a TP degree that does not divide the heads.
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

// If no values explain the TTFT of a run, its queue differed from the simulated one: the server has another pool or
// other limits than the profile. The batch then differed too, and with it the other figures. If more than a quarter of
// the runs are like this, they are not exceptions and are judged with the others.
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
                  "explains, so the queue and the batch cannot have been as simulated",
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

void warn_of_limits(OwnFit& fit) {
  constexpr double kAt = 1.001;
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i) {
    const FitNumber& n = fit.model.numbers[i].number;
    const double value = fit.fit.values[i];
    if ((n.low > 0 && value < n.low * kAt) || (n.high > 0 && value * kAt > n.high))
      fit.warnings.push_back(
          fmt::format("{} is at the limit of what is plausible: {:.4g} {}", n.name, value, fit.model.numbers[i].unit));
  }
}

// The policy of the profile and the slots that it states.
sched::PolicyConfig policy_of(const model::EngineProfile& like, const configs::Document& draft) {
  sched::PolicyConfig config;
  config.policy = sched::policy_from_name(like.scheduler_policy).value_or(config.policy);
  const std::optional<configs::Node> scheduler = draft.root().find("scheduler");
  const std::optional<configs::Node> slots = scheduler ? scheduler->find("max_running") : std::nullopt;
  if (slots) config.max_running = slots->as_integer(1, sched::kForever);
  return config;
}

// A server has as many slots as it was started with; the profile's number is a guess.
void warn_of_slots(OwnFit& fit, const OwnEngine& engine, const sched::PolicyConfig& config, const OwnRuns& runs) {
  if (engine.max_running || !sched::traits_of(config).numbered_slots) return;
  const std::int64_t slots = sched::resolve_limits(config).max_running;
  const auto has_more = [&](const MeasuredPoint& p) {
    return p.max_running == 0 && p.load_kind == "closed_loop" && p.load_value > static_cast<double>(slots * p.replicas);
  };
  const auto more = std::count_if(runs.fitted().begin(), runs.fitted().end(), has_more);
  if (more > 0)
    fit.warnings.push_back(fmt::format(
        "{} fitted run{} more users than the {} slots of {}: a column max_running states how many the server had", more,
        more == 1 ? " has" : "s have", slots, engine.like));
}

// Whether requests that arrive together reach the scheduler one by one, and whether they drift apart, decides which of
// them share a step. A small change of a number cannot turn one into the other, so both are tried.
std::vector<OwnForm> forms_of(const model::EngineProfile& like) {
  const bool drifts = like.closed_loop_drift.cv(1, model::FrontEnd::none) > 0;
  std::vector<OwnForm> forms = {{.intake = like.intake.count() > 0, .drift = drifts}};
  if (!forms[0].intake) forms.push_back({.intake = true, .drift = forms[0].drift});
  if (forms[0].drift) {
    for (std::size_t i = 0, all = forms.size(); i < all; ++i) forms.push_back({forms[i].intake, false});
  }
  return forms;
}

// Keeps the form of the profile unless another one fits the runs clearly better.
template <class Loss>
OwnForm best_form(const std::vector<OwnForm>& forms, const Loss& loss_of) {
  constexpr double kClearly = 0.9;
  OwnForm best = forms.front();
  double least = loss_of(best);
  for (std::size_t i = 1; i < forms.size(); ++i) {
    const double loss = loss_of(forms[i]);
    if (loss >= kClearly * least) continue;
    least = loss;
    best = forms[i];
  }
  return best;
}

// Start values for the host times of an unknown machine, as fractions of its shortest step. They may be far from the
// profile's, where small changes would not lead.
void slow_down(ServingNumber& n, const OwnRuns& runs) {
  constexpr double kStep = 0.1, kSequence = 0.02;
  double least = 0;
  for (const MeasuredPoint& p : runs.fitted())
    if (p.tpot_mean_s && (least == 0 || *p.tpot_mean_s < least)) least = *p.tpot_mean_s;
  const double part = n.path == "host.step" ? kStep : n.path == "host.sequence" ? kSequence : 0;
  if (part == 0) return;
  constexpr double kLongest = 100;  // s: a profile with a longer time is not read
  const double unit = n.unit == "ms" ? kMillisecond : kMicrosecond;
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

void take_over(OwnRuns& runs, const OwnEngine& engine, const std::optional<OwnHardware>& hardware) {
  for (validation::MeasuredTable& table : runs.tables)
    for (MeasuredPoint& p : table.points) {
      if (!p.engine.empty() && configs::canonical_name(p.engine) != engine.like) p.source = p.engine;
      p.engine = engine.name;
      if (hardware) p.hardware = hardware->label_of(p);
    }
}

}  // namespace

void check_own_name(const std::string& name, const configs::Catalogue& catalogue) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  constexpr std::size_t kLongest = 60;
  const std::string id = configs::canonical_name(name);
  if (id.empty() || id.size() > kLongest || id != name || !std::all_of(id.begin(), id.end(), is_plain) ||
      id.front() == '.' || id.find("..") != std::string::npos)
    throw InputError(
        fmt::format("--engine: found '{}', expected a name of lower-case letters, digits, hyphens and "
                    "points for your profile, as in my-vllm",
                    name.substr(0, kLongest)));
  if (catalogue.ships("engines", name))
    throw InputError(
        fmt::format("--engine: '{}' is an engine of the catalogue; give your profile another name, and "
                    "state this one with --like",
                    name));
}

std::string shipped_engine(const configs::Catalogue& catalogue, const std::string& name) {
  const Where where{"--like", 0, 0};
  (void)catalogue.engine(name, where);
  if (!catalogue.ships("engines", name))
    throw InputError(where, fmt::format("'{}' is a profile of your own; state the engine of the catalogue that it is "
                                        "like (plimsoll list engines)",
                                        name));
  return catalogue.identifier("engines", name).value_or(name);
}

OwnFit fit_own(const OwnEngine& engine, OwnRuns& runs, const std::shared_ptr<configs::Catalogue>& catalogue,
               const ServingSettings& settings) {
  check_own_name(engine.name, *catalogue);
  (void)shipped_engine(*catalogue, engine.like);
  const std::optional<OwnHardware> hardware = own_hardware(engine, runs, catalogue);
  const configs::Document draft = draft_of(engine, *catalogue, hardware.has_value());
  const model::EngineProfile like = *configs::read_engine(draft.root(), engine.name).profile;
  if (hardware) catalogue->add_entry("accelerators", engine.name, hardware->draft);
  take_over(runs, engine, hardware);
  OwnFit out;
  out.accelerator = hardware ? engine.name : std::string();
  out.model.engine = engine.name;
  for (const Tolerance& tolerance : kTolerances) out.model.scales[tolerance.metric] = tolerance.scale;
  out.model.tables = {runs.tables[0].name};
  const std::vector<ServingNumber> numbers = numbers_of(engine, like, runs, hardware);
  const auto set_form = [&](const OwnForm& form) {
    out.model.numbers = numbers_in(form, numbers, runs);
    catalogue->add_entry("engines", engine.name, draft_in(form, draft, engine.name));
  };
  const auto loss_of = [&](const OwnForm& tried) {
    set_form(tried);
    return ServingProblem(out.model, runs.tables, catalogue, settings).fit().loss;
  };
  out.form = best_form(forms_of(like), loss_of);
  if (hardware && !hardware->is_known)
    out.form = best_form({out.form, {.intake = out.form.intake, .drift = out.form.drift, .serial = true}}, loss_of);
  set_form(out.form);
  out.fit = ServingProblem(out.model, runs.tables, catalogue, settings).fit();
  if (leave_out_queued(out, runs)) out.fit = ServingProblem(out.model, runs.tables, catalogue, settings).fit();
  judge(out, engine);
  trust_precise_runs(out);
  out.fit = ServingProblem(out.model, runs.tables, catalogue, settings).fit();
  judge_unseen(out, engine);
  warn_of_missing(out);
  warn_of_outliers(out);
  warn_of_limits(out);
  warn_of_slots(out, engine, policy_of(like, draft), runs);
  // The bands come from fits without each quarter of the runs in turn.
  ServingModel all = out.model;
  all.tables.push_back(runs.tables[1].name);
  const ServingProblem every(all, runs.tables, catalogue, settings);
  ServingFit start = out.fit;
  start.in_fitted_table.assign(start.comparisons.size(), true);
  std::map<const MeasuredPoint*, std::size_t> folds;
  for (std::size_t table = 0; table < runs.tables.size(); ++table)
    for (std::size_t i = 0; i < runs.folds[table].size(); ++i)
      folds[&runs.tables[table].points[i]] = runs.folds[table][i];
  out.left_out = every.leave_out_by(
      start, [&](const MeasuredPoint& p) { return fmt::format("{}", folds.at(&p)); }, "quarters");
  const std::size_t count = folds.size();
  out.left_out.uncertainty = for_few_runs(out.left_out.uncertainty, count);
  const std::string provenance = provenance_of(engine, out, runs.fitted().size());
  out.files["engines/" + engine.name + ".yaml"] = engine_text(engine, out, provenance, every.fitted_ranges());
  if (hardware) {
    out.files["accelerators/" + engine.name + ".yaml"] = accelerator_text(hardware->draft, out, provenance);
    out.warnings.insert(out.warnings.end(), hardware->warnings.begin(), hardware->warnings.end());
  }
  return out;
}

std::string own_report(const OwnFit& fit) {
  std::string text = "fitted values (start):\n";
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i) {
    const ServingNumber& n = fit.model.numbers[i];
    text += fmt::format("  {:<44} {:>9.4g} {:<8} ({:.4g})\n", n.file + " " + n.path, fit.fit.values[i], n.unit,
                        n.number.prior);
  }
  text += fmt::format("\n{:<20} {:>22} {:>22}\n{:<20} {:>22} {:>22}\n", "absolute errors", "in the fit", "never fitted",
                      "", "median    90 %   of", "median    90 %   of");
  for (const auto& [metric, scale] : fit.model.scales) {
    std::string cells;
    for (const bool fitted : {true, false}) {
      const validation::ErrorSummary s = validation::summarise(figures_of(fit.fit, metric, fitted));
      cells += s.count == 0 ? fmt::format(" {:>22}", "-")
                            : fmt::format(" {:>8.1f} % {:>5.1f} % {:>4}", 100 * s.median, 100 * s.p90, s.count);
    }
    if (cells.find('%') != std::string::npos) text += fmt::format("{:<20}{}\n", metric, cells);
  }
  return text + fmt::format(
                    "90 % bands hold {:.0f} % of the figures, each predicted by a fit without its quarter of the "
                    "runs\n",
                    100 * coverage_of(fit.left_out.comparisons));
}

std::string own_fit_members(const OwnFit& fit) {
  const auto number = [](double value) { return study::json_text(study::number_cell(value)); };
  std::string values, errors, figures;
  for (std::size_t i = 0; i < fit.model.numbers.size(); ++i) {
    const ServingNumber& n = fit.model.numbers[i];
    values += fmt::format("{}{{\"name\":{},\"value\":{},\"unit\":{},\"start\":{}}}", values.empty() ? "" : ",",
                          study::json_quoted(n.file + " " + n.path), number(fit.fit.values[i]),
                          study::json_quoted(n.unit), number(n.number.prior));
  }
  for (const auto& [metric, scale] : fit.model.scales) {
    for (const bool fitted : {true, false}) {
      const validation::ErrorSummary s = validation::summarise(figures_of(fit.fit, metric, fitted));
      if (s.count == 0) continue;
      errors += fmt::format("{}{{\"metric\":{},\"fitted\":{},\"median\":{},\"p90\":{},\"count\":{}}}",
                            errors.empty() ? "" : ",", study::json_quoted(metric), fitted, number(s.median),
                            number(s.p90), s.count);
    }
  }
  for (std::size_t i = 0; i < fit.fit.comparisons.size(); ++i) {
    const Comparison& c = fit.fit.comparisons[i];
    if (!c.predicted) continue;
    figures +=
        fmt::format("{}{{\"metric\":{},\"fitted\":{},\"measured\":{},\"predicted\":{},\"run\":{}}}",
                    figures.empty() ? "" : ",", study::json_quoted(c.metric), fit.fit.fitted[i] ? "true" : "false",
                    number(c.measured), number(*c.predicted), study::json_quoted(run_name(*c.point)));
  }
  return fmt::format("\"accelerator\":{},\"values\":[{}],\"errors\":[{}],\"coverage\":{},\"figures\":[{}],\"text\":{}",
                     study::json_quoted(fit.accelerator), values, errors, number(coverage_of(fit.left_out.comparisons)),
                     figures, study::json_quoted(own_report(fit)));
}

std::string engine_of_server(const configs::Catalogue& catalogue, const std::string& product,
                             const std::string& version) {
  // "0.16.1rc2" is compared as 0, 16, 1.
  const auto parts = [](const std::string& text) {
    std::vector<int> numbers;
    for (std::size_t at = 0; at < text.size() && numbers.size() < 3;) {
      if (text[at] < '0' || text[at] > '9') break;
      std::size_t end = at;
      while (end < text.size() && text[end] >= '0' && text[end] <= '9' && end - at < 6) ++end;
      numbers.push_back(std::stoi(text.substr(at, end - at)));
      if (end >= text.size() || text[end] != '.') break;
      at = end + 1;
    }
    return numbers;
  };
  std::string name = configs::canonical_name(product);
  if (name == "tensorrt-llm") name = "trtllm";
  const std::vector<int> wanted = parts(version);
  std::string best, oldest;
  std::vector<int> best_parts, oldest_parts;
  for (const configs::Listing& listing : catalogue.list("engines")) {
    if (!listing.name.starts_with(name + "-") || !catalogue.ships("engines", listing.name)) continue;
    const std::vector<int> found = parts(listing.name.substr(name.size() + 1));
    if (found.empty()) continue;
    if (oldest.empty() || found < oldest_parts) oldest = listing.name, oldest_parts = found;
    const bool newer = !wanted.empty() && found > wanted;
    if (!newer && (best.empty() || best_parts < found)) best = listing.name, best_parts = found;
  }
  if (!oldest.empty()) return best.empty() ? oldest : best;
  return catalogue.ships("engines", name) ? catalogue.identifier("engines", name).value_or("") : "";  // has no versions
}

}  // namespace plimsoll::calibration
