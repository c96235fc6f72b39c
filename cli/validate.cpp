// SPDX-License-Identifier: Apache-2.0
// plimsoll validate [jumpstart | FILE]: compares predictions with measurements.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include "calibration/kernel_compare.h"
#include "calibration/serving_fit.h"
#include "cli/commands.h"
#include "cli/endpoint_points.h"
#include "cli/options.h"
#include "cli/run_commands.h"
#include "cli/verb_parts.h"
#include "study/file/study.h"
#include "study/output/html_page.h"
#include "study/output/write_file.h"
#include "validation/compare.h"
#include "validation/report.h"

namespace plimsoll::cli {
namespace {

Usage validate_usage() {
  Usage usage{
      .verb = "validate",
      .positional = "jumpstart | FILE.csv[.gz]... | STUDY",
      .summary =
          "Simulates the points of the published JumpStart tables, or of CSVs of measured points (docs/metrics.md),\n"
          "and prints prediction, measurement and error. Several files may be given. A table of measured kernels\n"
          "(docs/kernel-tables.md) is predicted kernel by kernel; nothing is fitted to it. With --endpoint the points\n"
          "of a study are measured on a server and predicted (docs/endpoints.md).",
      .example =
          "  plimsoll validate jumpstart\n  plimsoll validate docs/samples/my-measurements.csv --max-error 15\n"
          "  plimsoll validate docs/samples/more-kernels.csv --format csv\n",
      .positional_required = false,
      .options = po::options_description("Verdict"),
      .without = {"stepwise"},
      .many = true};
  add_live_options(usage.options);
  add_endpoint_options(usage.options);
  usage.options.add_options()(
      "max-error", po::value<double>(),
      "exit with 4 if the mean (--live: median) absolute error of a figure exceeds this many per cent")(
      "model", po::value<std::string>()->value_name("NAME"),
      "model of the rows that state none; rows of another model are left out")(
      "hardware", po::value<std::string>()->value_name("NAME"),
      "the same for the hardware: an instance, or \"ACCELERATOR x COUNT\"")(
      "engine", po::value<std::string>()->value_name("NAME"), "the same for the engine")(
      "study", po::value<std::string>()->value_name("STUDY"),
      "the study that was run to write FILE; adds what rows lack, such as traces, scripts and settings")(
      "leave-one-out",
      "predict every configuration by a fit of its engine that did not see it (jumpstart: half a minute)")(
      "leave-group-out", po::value<std::string>()->value_name("KIND"),
      "the same, leaving out a whole model, accelerator, tp, length, batch or version at a time; prints the coverage "
      "of "
      "the bands")("leave-half-out", "the same, leaving out every other configuration at a time (two halves)")(
      "calibration", po::value<std::string>()->value_name("DIR"),
      "use the accelerators and links that calibrate --from wrote, not the catalogue's");
  return usage;
}

constexpr const char* kLeaveOut[] = {"leave-one-out", "leave-half-out", "leave-group-out"};
constexpr const char* kLabels[] = {"model", "hardware", "engine"};

bool is_given(const Parsed& parsed, const char* option) { return parsed.values.count(option) > 0; }

// Returns the option that leaves runs out of the fits, without its dashes; empty if there is none. Throws
// InputError if two are given.
std::string leaving_option(const Parsed& parsed) {
  std::string found;
  for (const char* const option : kLeaveOut) {
    if (!is_given(parsed, option)) continue;
    if (!found.empty()) throw InputError(fmt::format("--{} and --{} exclude each other", found, option));
    found = option;
  }
  return found;
}

// Throws for options that fit a table of serving runs, in a comparison of another kind.
void refuse_options_of_runs(const Parsed& parsed, std::string_view comparison, bool takes_calibration) {
  std::vector<const char*> options(std::begin(kLeaveOut), std::end(kLeaveOut));
  options.insert(options.end(), std::begin(kLabels), std::end(kLabels));
  options.push_back("study");
  if (!takes_calibration) options.push_back("calibration");
  for (const char* const option : options)
    if (is_given(parsed, option))
      throw InputError(fmt::format("--{} has no effect on {}: leave it out", option, comparison));
}

// Every figure is judged by itself, because a good mean over all figures would hide a bad one.
bool exceeds(const std::vector<validation::Comparison>& comparisons, double limit) {
  std::vector<std::string> metrics;
  for (const validation::Comparison& c : comparisons)
    if (std::find(metrics.begin(), metrics.end(), c.metric) == metrics.end()) metrics.push_back(c.metric);
  for (const std::string& metric : metrics) {
    std::vector<const validation::Comparison*> group;
    for (const validation::Comparison& c : comparisons)
      if (c.metric == metric) group.push_back(&c);
    const validation::ErrorSummary summary = validation::summarise(group);
    if (summary.count == 0 || 100 * summary.mean > limit) return true;
  }
  return false;
}

using Tables = std::vector<validation::MeasuredTable>;

// Fits select tables by name, so a user's table must not be mistaken for a published one of the same name.
validation::MeasuredTable read_table(const std::string& file) {
  validation::MeasuredTable table = validation::read_measured(file);
  const auto& models = calibration::serving_models();
  const bool like_a_fitted_one = std::any_of(models.begin(), models.end(), [&](const calibration::ServingModel& model) {
    return std::find(model.tables.begin(), model.tables.end(), table.name) != model.tables.end();
  });
  if (validation::is_published(file)) return table;
  if (like_a_fitted_one) table.name = "own " + table.name;
  // A row with an unknown model must not prevent the comparison of the other rows.
  for (validation::MeasuredPoint& point : table.points) point.imported = true;
  return table;
}

// Files of the same name are distinguished by their paths.
Tables read_tables(const std::vector<std::string>& files) {
  Tables tables;
  for (const std::string& file : files) {
    validation::MeasuredTable table = read_table(file);
    if (calibration::holds_table(tables, table.name)) table.name = file;
    tables.push_back(std::move(table));
  }
  return tables;
}

// Only tables of measured points can be compared together.
void check_operands(const Parsed& parsed) {
  if (parsed.operands.size() < 2) return;
  const auto fail = [](const std::string& operand, std::string_view why) {
    throw InputError(fmt::format("unexpected argument '{}': {}", operand, why));
  };
  if (is_given(parsed, "live") || names_endpoint(parsed)) fail(parsed.operands[1], "one study is measured at a time");
  if (is_given(parsed, "study")) fail(parsed.operands[1], "--study applies to a single points.csv");
  for (const std::string& operand : parsed.operands) {
    if (operand == "jumpstart") fail(operand, "the JumpStart tables are compared by themselves");
    if (calibration::is_kernel_table(operand)) fail(operand, "a table of kernels is compared by itself");
  }
}

bool leaves_out(const Parsed& parsed) { return !leaving_option(parsed).empty(); }

void check_study_option(const Parsed& parsed, bool jumpstart) {
  if (!is_given(parsed, "study")) return;
  if (jumpstart || leaves_out(parsed))
    throw InputError("--study: applies only to the points.csv of a run, and excludes the --leave-... options");
  for (const char* const option : kLabels)
    if (is_given(parsed, option)) throw InputError(fmt::format("--{}: --study states it already", option));
}

// Reads the kind of group from --leave-group-out; nullopt: single configurations are left out.
std::optional<model::Beyond> group_option(const Parsed& parsed) {
  if (!is_given(parsed, "leave-group-out")) return {};
  const std::string name = parsed.values["leave-group-out"].as<std::string>();
  std::vector<std::string_view> names;
  for (const model::Beyond kind : calibration::group_kinds()) {
    names.push_back(model::kBeyondNames.at(static_cast<std::size_t>(kind)));
    if (name == names.back()) return kind;
  }
  throw InputError(fmt::format("--leave-group-out: found '{}', allowed: {}", name, fmt::join(names, ", ")));
}

// Returns the coverage by figure: "tpot_mean_s 91 % of 35, ttft_mean_s 88 % of 35".
std::string coverage_text(const std::vector<validation::Comparison>& comparisons) {
  std::map<std::string, std::vector<validation::Comparison>> by_metric;
  for (const validation::Comparison& c : comparisons)
    if (c.is_in_band()) by_metric[c.metric].push_back(c);
  std::vector<std::string> parts;
  for (const auto& [metric, group] : by_metric)
    parts.push_back(fmt::format("{} {:.0f} % of {}", metric, 100 * calibration::coverage_of(group), group.size()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Counts rows that are left out by reason. Reports each reason once, and throws if no row remains.
class LeftOut {
 public:
  void add(const Where& where, const std::string& reason) {
    Count& count = counts_[reason];
    if (count.rows++ == 0) count.first = where;
    ++rows_;
  }
  void tell(Console& console, std::size_t all) const {
    if (rows_ == 0) return;
    if (rows_ == all)
      throw InputError(counts_.begin()->second.first,
                       fmt::format("{}; no row can be compared", counts_.begin()->first));
    for (const auto& [reason, count] : counts_)
      console.warn(fmt::format("{} row{} left out: {} (first: {}:{})", count.rows, count.rows == 1 ? " is" : "s are",
                               reason, count.first.file, count.first.line));
    console.note(fmt::format("{} of {} rows are compared", all - rows_, all));
  }

 private:
  struct Count {
    Where first;
    std::size_t rows = 0;
  };
  std::map<std::string, Count> counts_;
  std::size_t rows_ = 0;
};

// Fills in the labels that rows do not state, and removes rows that state other labels.
void keep_rows_of(validation::MeasuredTable& table, const Parsed& parsed, LeftOut& left_out) {
  const std::pair<const char*, std::string validation::MeasuredPoint::*> names[] = {
      {"model", &validation::MeasuredPoint::model},
      {"hardware", &validation::MeasuredPoint::hardware},
      {"engine", &validation::MeasuredPoint::engine}};
  for (const auto& [option, member] : names) {
    const std::string stated = text_option(parsed, option);
    if (stated.empty()) continue;
    std::erase_if(table.points, [&, option = option, member = member](validation::MeasuredPoint& row) {
      if ((row.*member).empty()) {
        row.*member = stated;
        row.unusable = validation::problem_of(row);
      }
      if (configs::canonical_name(row.*member) == configs::canonical_name(stated)) return false;
      left_out.add(row.where, fmt::format("{} is '{}'", option, row.*member));
      return true;
    });
  }
}

// At the end, warns of rows without any prediction. If no row has one, names the option that would help.
void warn_of_rows_without_prediction(const std::vector<validation::Comparison>& comparisons, Console& console) {
  // A row has several figures; it counts as predicted if one of them is.
  std::map<const validation::MeasuredPoint*, bool> predicted;
  for (const validation::Comparison& c : comparisons) {
    bool& known = predicted[c.point];
    known = known || c.predicted.has_value();
  }
  const auto without = std::count_if(predicted.begin(), predicted.end(), [](const auto& row) { return !row.second; });
  if (without == 0) return;
  const auto first =
      std::find_if(comparisons.begin(), comparisons.end(), [&](const auto& c) { return !predicted.at(c.point); });
  if (static_cast<std::size_t>(without) < predicted.size()) {
    console.warn(
        fmt::format("{} of {} rows cannot be predicted; the first: {}", without, predicted.size(), first->reason));
    return;
  }
  std::map<std::string, std::size_t> figures;
  for (const validation::Comparison& c : comparisons) {
    std::string hint;
    for (const char* const option : kLabels)
      if (c.reason.starts_with(option) && c.reason.ends_with("not stated"))
        hint = fmt::format("; --{} NAME states it", option);
    if (c.reason.ends_with("but not which")) hint = "; --study FILE names the study that was run";
    ++figures[c.reason + hint];
  }
  for (const auto& [why, count] : figures)
    console.warn(figures.size() == 1 ? "no row can be predicted: " + why
                                     : fmt::format("no row can be predicted: {} ({} figures)", why, count));
}

// One call of `validate`. `kept` owns the tables to which the results of refitted engines point.
struct Job {
  const Parsed& parsed;
  std::shared_ptr<const configs::Catalogue> catalogue;
  study::RunControl& control;
  Console& console;
  std::deque<Tables> kept = {};
};

// Predicts the given rows of every fitted engine, each by a fit without its configuration or group.
std::vector<validation::Comparison> leave_out(const Tables& given, Job& job) {
  Console& console = job.console;
  const std::optional<model::Beyond> kind = group_option(job.parsed);
  const std::string option = leaving_option(job.parsed);
  const bool halves = option == "leave-half-out";
  const calibration::ServingSettings settings{.jobs = job.parsed.common.jobs,
                                              .control = &job.control,
                                              .progress = [&](const std::string& text) { console.note(text); }};
  std::vector<validation::Comparison> all;
  for (const calibration::ServingModel& model : calibration::serving_models()) {
    // Engines without a row in the given tables are not fitted: each fit takes half a minute.
    if (!calibration::has_engine(given, model.engine)) continue;
    const calibration::ServingProblem problem(
        model, job.kept.emplace_back(calibration::with_fitted_tables(given, model)), job.catalogue, settings);
    const calibration::ServingFit all_rows = problem.fit();
    std::optional<calibration::ServingFit> left_out = halves ? problem.leave_half_out(all_rows)
                                                      : kind ? problem.leave_group_out(all_rows, *kind)
                                                             : problem.leave_one_out(all_rows);
    if (!left_out && kind == model::Beyond::version)
      left_out = calibration::by_other_version(model, job.kept.back(), job.catalogue, settings);
    if (!left_out) {
      console.note(fmt::format("{}: all fitted runs are of one group: none can be left out", model.engine));
      continue;
    }
    calibration::ServingFit& fit = *left_out;
    std::erase_if(fit.comparisons,
                  [&](const validation::Comparison& c) { return !calibration::holds_table(given, c.table); });
    if (const std::string coverage = coverage_text(fit.comparisons); !coverage.empty())
      console.note(fmt::format("{}: 90 % bands hold {:.0f} % of the left-out figures: {}", model.engine,
                               100 * calibration::coverage_of(fit.comparisons), coverage));
    std::move(fit.comparisons.begin(), fit.comparisons.end(), std::back_inserter(all));
  }
  if (all.empty())
    throw InputError(fmt::format("--{}: no row of an engine {}", option,
                                 kind ? "whose runs are of several groups of that kind" : "that can be fitted"));
  return all;
}

std::vector<validation::Comparison> compare_rows(const Tables& tables, Job& job) {
  const validation::CompareSettings settings{
      .jobs = job.parsed.common.jobs, .control = &job.control, .set = job.parsed.common.set};
  if (leaves_out(job.parsed)) return leave_out(tables, job);
  const std::string file = text_option(job.parsed, "study");
  if (file.empty()) return validation::compare(tables, job.catalogue, settings);
  const study::Study study(file, job.parsed.common.set, job.catalogue);
  return validation::compare_with_study(tables.front(), study, settings);
}

void print_comparisons(const std::vector<validation::Comparison>& comparisons, const Job& job) {
  switch (job.parsed.common.format) {
    case Format::table: job.console.print(validation::comparison_text(comparisons)); break;
    case Format::csv: job.console.print(validation::comparison_csv(comparisons)); break;
    case Format::json: job.console.print(validation::comparison_json(comparisons)); break;
  }
}

// Writes comparisons.csv and a page with pictures to the folder of --out. `data` names what was compared.
void write_report(const std::vector<validation::Comparison>& comparisons, const Job& job, const std::string& data,
                  const Arguments& arguments) {
  const std::string& folder = job.parsed.common.out;
  study::make_folder(folder);
  study::write_file(folder + "/comparisons.csv", validation::comparison_csv(comparisons));
  const std::vector<std::string> notes = {
      fmt::format("plimsoll validate {}", fmt::join(arguments, " ")),
      leaves_out(job.parsed)
          ? "Every row is predicted by a fit of its engine that did not see its configuration or group."
          : "Predicted with the profiles of the catalogue; their files state the runs that they were fitted to."};
  study::write_file(folder + "/report.html",
                    validation::comparison_html("Predicted and measured: " + data, notes, comparisons));
  job.console.note(fmt::format("written to {}: report.html (open it in a browser), comparisons.csv", folder));
}

std::shared_ptr<configs::Catalogue> open_catalogue(const Parsed& parsed) {
  auto catalogue = std::make_shared<configs::Catalogue>();
  if (parsed.values.count("calibration") > 0)
    catalogue->set_calibration(parsed.values["calibration"].as<std::string>());
  return catalogue;
}

// A table of kernels is predicted, never fitted. With --out, every row is written to rows.csv.
int validate_kernels(const Parsed& parsed, Console& console, std::optional<double> max_error) {
  const calibration::KernelReport report =
      calibration::compare_kernels({calibration::read_kernel_rows(parsed.operand)}, *open_catalogue(parsed));
  switch (parsed.common.format) {
    case Format::table: console.print(calibration::kernel_report_text(report)); break;
    case Format::csv: console.print(calibration::kernel_report_csv(report)); break;
    case Format::json: console.print(calibration::kernel_report_json(report)); break;
  }
  if (parsed.common.format != Format::table) {
    for (const auto& [what, count] : report.not_predicted)
      console.warn(fmt::format("not predicted: {} ({} rows)", what, count));
  }
  if (!parsed.common.out.empty()) {
    study::make_folder(parsed.common.out);
    study::write_file(parsed.common.out + "/rows.csv", calibration::kernel_rows_csv(report));
    study::HtmlPage page("Kernels predicted and measured: " + parsed.operand);
    study::write_file(parsed.common.out + "/report.html",
                      page.preformatted(calibration::kernel_report_text(report)).text());
    console.note("written to " + parsed.common.out + ": report.html (open it in a browser), rows.csv");
  }
  const std::vector<calibration::KernelSummary> groups = calibration::summarise(report);
  if (!max_error) return kDone;
  const bool exceeded =
      std::any_of(groups.begin(), groups.end(), [&](const auto& g) { return 100 * g.errors.mean > *max_error; });
  return exceeded || groups.empty() ? kAnswerIsNo : kDone;
}

}  // namespace

int run_validate(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(validate_usage(), arguments, console);
  if (!parsed) return kDone;
  check_operands(*parsed);
  if (is_given(*parsed, "live")) {
    refuse_options_of_runs(*parsed, "--live, which measures a study on this machine", false);
    return validate_live_runs(*parsed, console);
  }
  if (names_endpoint(*parsed)) {
    refuse_options_of_runs(*parsed, "--endpoint, which measures a study on a server", false);
    return validate_endpoint(*parsed, console);
  }
  if (parsed->common.seed) console.note("--seed has no effect without --live");
  const std::optional<double> max_error = max_error_option(*parsed);
  const bool jumpstart = parsed->operand.empty() || parsed->operand == "jumpstart";
  if (!jumpstart && calibration::is_kernel_table(parsed->operand)) {
    refuse_options_of_runs(*parsed, "a table of kernels", true);
    return validate_kernels(*parsed, console, max_error);
  }
  check_study_option(*parsed, jumpstart);
  Tables tables = jumpstart ? validation::jumpstart_tables() : read_tables(parsed->operands);
  std::size_t rows = 0;
  LeftOut left_out;
  for (validation::MeasuredTable& table : tables) {
    if (jumpstart) break;
    rows += table.points.size();
    keep_rows_of(table, *parsed, left_out);
  }

  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  Job job{*parsed, open_catalogue(*parsed), control, console};
  std::vector<validation::Comparison> comparisons;
  try {
    comparisons = compare_rows(tables, job);
  } catch (const calibration::ServingCancelled&) {
    console.warn("interrupted: nothing is compared");
    return kInterrupted;
  }
  left_out.tell(console, rows);
  if (comparisons.empty() && !control.cancelled())
    console.warn("nothing was compared: no row has a figure that can be predicted");
  print_comparisons(comparisons, job);
  warn_of_rows_without_prediction(comparisons, console);
  if (!parsed->common.out.empty()) {
    const std::string data = jumpstart ? "jumpstart" : fmt::format("{}", fmt::join(parsed->operands, ", "));
    write_report(comparisons, job, data, arguments);
  }
  if (control.cancelled()) return kInterrupted;
  return max_error && exceeds(comparisons, *max_error) ? kAnswerIsNo : kDone;
}

}  // namespace plimsoll::cli
