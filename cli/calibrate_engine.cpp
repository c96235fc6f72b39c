// SPDX-License-Identifier: Apache-2.0
#include "cli/verb_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "calibration/serving_fit.h"
#include "cli/commands.h"
#include "cli/run_commands.h"
#include "study/output/write_file.h"
#include "validation/report.h"

namespace plimsoll::cli {
namespace {

using calibration::ServingFit;
using validation::Comparison;

// Returns "latency 9.1 %, throughput 8.7 %": the mean absolute errors over the rows that `keep` selects.
template <class Keep>
std::string errors_text(const ServingFit& fit, const calibration::ServingModel& model, Keep&& keep) {
  std::string text;
  for (const auto& [metric, scale] : model.scales) {
    std::vector<const Comparison*> group;
    for (const Comparison& c : fit.comparisons)
      if (c.metric == metric && keep(c)) group.push_back(&c);
    const validation::ErrorSummary s = validation::summarise(group);
    if (s.count == 0) continue;
    text += fmt::format("{}{} mean {:.1f} % median {:.1f} %", text.empty() ? "" : ", ", metric, 100 * s.mean,
                        100 * s.median);
  }
  return text;
}

std::string values_text(const calibration::ServingModel& model, const ServingFit& fit) {
  std::string text = "fitted values (prior):\n";
  std::vector<calibration::ServingNumber> numbers = model.numbers;
  if (!model.scan.empty()) numbers.push_back(model.scanned);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    text += fmt::format("  {:<44} {:>9.4g} {:<5} ({:g})\n", numbers[i].file + " " + numbers[i].path, fit.values[i],
                        numbers[i].unit, numbers[i].number.prior);
  return text;
}

bool is_fitted_table(const calibration::ServingModel& model, const std::string& table) {
  return std::find(model.tables.begin(), model.tables.end(), table) != model.tables.end();
}

void write_files(const std::map<std::string, std::string>& files, const std::string& folder, Console& console) {
  for (const auto& [path, text] : files) {
    const std::string file = folder + "/" + path;
    study::make_folder(std::filesystem::path(file).parent_path().string());
    study::write_file(file, text);
    console.print(fmt::format("written to {}\n", file));
  }
}

}  // namespace

void add_engine_options(po::options_description& options) {
  options.add_options()(
      "engine", po::value<std::string>()->value_name("NAME"),
      "fit this engine's profile to the measured serving runs that ship with the program; with --from or "
      "--endpoint: to runs of your own, under a new name")(
      "halves", po::bool_switch(),
      "with --engine: leave out half of the configurations at a time instead of one (minutes instead of hours); the "
      "file's errors of left-out groups stay as they are");
}

int calibrate_engine(const Parsed& parsed, Console& console, const std::string& date) {
  if (fits_own_engine(parsed)) return calibrate_own(parsed, console, date);
  const calibration::ServingModel& model = calibration::serving_model(parsed.values["engine"].as<std::string>());
  const std::vector<validation::MeasuredTable> tables = calibration::serving_tables(model);
  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  calibration::ServingSettings settings{.jobs = parsed.common.jobs,
                                        .control = &control,
                                        .progress = [&](const std::string& text) { console.note(text); }};
  const auto catalogue = std::make_shared<const configs::Catalogue>();
  const calibration::ServingProblem problem(model, tables, catalogue, settings);
  const bool halves = parsed.values["halves"].as<bool>();
  try {
    const ServingFit in = problem.fit();
    const ServingFit out = halves ? problem.leave_half_out(in) : problem.leave_one_out(in);
    const auto fitted = [&](const Comparison& c) { return is_fitted_table(model, c.table); };
    const calibration::Provenance provenance{
        .what = fmt::format(
            "fitted {} by 'plimsoll calibrate --engine {}{}': {} numbers to {} figures of {}{}", date, model.engine,
            halves ? " --halves" : "", in.values.size(),
            std::count_if(out.comparisons.begin(), out.comparisons.end(), fitted), fmt::join(model.tables, " and "),
            model.taken.empty()
                ? std::string()
                : fmt::format("; {} are those of {}", fmt::join(model.taken, ", "), model.other_version)),
        .errors =
            fmt::format("absolute errors in the fit: {}; leaving {} out at a time: {}", errors_text(in, model, fitted),
                        halves ? "half of the configurations" : "one configuration", errors_text(out, model, fitted)),
        .ranges = problem.fitted_ranges(),
        .groups = halves ? std::map<model::Beyond, calibration::Provenance::Group>()
                         : calibration::group_errors(problem, in, catalogue, settings)};
    console.print(
        values_text(model, in) + "\npredicted by fits that did not see the configuration:\n" +
        validation::summary_text(out.comparisons) +
        fmt::format("\nthe same where all users' sequences fit the KV pool at once: {}\n",
                    errors_text(out, model,
                                [&](const Comparison& c) { return fitted(c) && !out.beyond_pool.contains(c.point); })) +
        fmt::format("{} simulations; in the fit: {}\n", out.simulations, errors_text(in, model, fitted)));
    write_files(problem.files(out, provenance),
                parsed.common.out.empty() ? configs::Catalogue::default_root() : parsed.common.out, console);
  } catch (const calibration::ServingCancelled&) {
    console.warn("interrupted: nothing is written");
    return kInterrupted;
  }
  return kDone;
}

}  // namespace plimsoll::cli
