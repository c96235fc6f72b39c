// SPDX-License-Identifier: Apache-2.0
#include "cli/verb_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/measured_points.h"
#include "cli/run_commands.h"
#include "cli/stated_study.h"
#include "configs/yaml_document.h"
#include "exec/cpu/probes.h"
#include "study/output/html_page.h"
#include "study/output/points_page.h"
#include "study/output/write_file.h"
#include "validation/live_validation.h"

namespace plimsoll::cli {
namespace {

constexpr double kMaxFitPart = 0.9;
constexpr double kQuietSeconds = 1;  // reading, and again multiplying

double fit_part(const Parsed& parsed) {
  if (parsed.values.count("fit-part") == 0) return 0;
  const double part = parsed.values["fit-part"].as<double>();
  if (!(part >= 0 && part <= kMaxFitPart))
    throw InputError(fmt::format("--fit-part: found {}, allowed: 0 to {}", part, kMaxFitPart));
  return part;
}

// Returns the same study on this machine with a slower device.
study::Study slower_study(const Parsed& parsed, exec::DeviceKind device, const study::Study& study, double factor) {
  const auto machine = study.point(0).hardware.this_machine;
  const auto catalogue = std::make_shared<configs::Catalogue>();
  catalogue->set_machine(device == exec::DeviceKind::cuda ? "cuda" : "cpu", validation::slowed(*machine, factor));
  study::Overrides overrides = parsed.common.set;
  if (parsed.common.seed) overrides.emplace_back("seed", fmt::format("{}", *parsed.common.seed));
  return study::Study(parsed.values["live"].as<std::string>(), overrides, catalogue);
}

void check_hardware(const study::Study& study, exec::DeviceKind device) {
  const char* const engine = MeasuredPoints::engine_name(device);
  for (std::size_t i = 0; i < study.point_count(); ++i) {
    const study::PointSpec spec = study.point(i);
    if (!spec.hardware.this_machine || spec.engine->id != engine)
      throw InputError(spec.places.study,
                       fmt::format("validate --live measures this machine's {}: state hardware: this-machine and "
                                   "engine: {}",
                                   device == exec::DeviceKind::cuda ? "GPU" : "CPU", engine));
  }
}

exec::SteadyRates calibrated_rates(const study::Study& study, Console& console) {
  const auto machine = study.point(0).hardware.this_machine;
  if (!machine->shares.front().accelerator->calibrated)
    console.warn(fmt::format("this machine is not calibrated ({}); calibrate it while nothing else runs",
                             machine->shares.front().accelerator->fit_source));
  return {machine->read_bandwidth, machine->multiply_add};
}

}  // namespace

void add_live_options(po::options_description& options) {
  auto add = options.add_options();
  add("live", po::value<std::string>()->value_name("STUDY"),
      "measure the points of a study on this machine and predict them; probes of the CPU between points check that "
      "the machine is quiet");
  add("device", po::value<std::string>()->value_name("cpu|cuda"),
      "with --live: device that runs the forward passes (default: the engine's, else cpu)");
  add("fit-part", po::value<double>()->value_name("F"),
      "with --live: fit the device's speed to this part of the points and exclude it from the errors (default: 0)");
}

int validate_live_runs(const Parsed& parsed, Console& console) {
  if (parsed.common.format == Format::json) throw InputError("--format: validate --live prints table or csv");
  if (!parsed.operand.empty()) throw InputError("--live replaces the table to validate: state one of them");
  const std::optional<double> max_error = max_error_option(parsed);
  Parsed named = parsed;
  named.operand = parsed.values["live"].as<std::string>();
  named.pools = true;
  MeasureSettings measured;
  measured.device = device_option(named, named.operand);
  const study::Study study = load_study(named, console);
  check_hardware(study, measured.device);
  MeasuredPoints points(study, measured, console);
  points.check();
  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  exec::SteadyProbe probe(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));

  validation::LiveSettings settings;
  settings.fit_part = fit_part(parsed);
  settings.control = &control;
  settings.quiet.control = &control;
  settings.quiet.reference = calibrated_rates(study, console);
  settings.quiet.probe = [&] { return probe.rates(kQuietSeconds); };
  settings.measure = [&](const study::PointResult& point, const load::Scenario& scenario,
                         const sim::RunOptions& options) {
    sim::RunResult run = points.run(point, scenario, options);
    if (!points.failure().empty()) throw DeviceError(points.failure());
    return run;
  };
  settings.transfer = [&](const load::Scenario& scenario) { return points.measured_transfer(scenario); };
  settings.progress = [&](double done) { console.progress(done, study.point_count()); };
  settings.with_device_time = [&](double factor) { return slower_study(named, measured.device, study, factor); };
  const validation::LiveValidation result = validation::validate_live(study, settings);
  if (result.cancelled) return kInterrupted;

  const std::string csv = validation::live_csv(result);
  if (!parsed.common.out.empty()) {
    study::make_folder(parsed.common.out);
    study::write_file(parsed.common.out + "/live.csv", csv);
    study::HtmlPage page("Measured on this machine and predicted: " + study.title());
    page.preformatted(validation::live_text(result))
        .heading("What the predictions rest on")
        .list(study::assumptions_of(study.point(0), study.notes()));
    study::write_file(parsed.common.out + "/report.html", page.text());
    console.note("written to " + parsed.common.out + ": report.html (open it in a browser), live.csv");
  }
  console.print(parsed.common.format == Format::csv ? csv : validation::live_text(result));
  if (!max_error) return kDone;
  const auto exceeds = [&](const validation::LiveMetric& metric) {
    const validation::ErrorSummary errors = validation::live_errors(result, metric);
    return errors.count == 0 || 100 * errors.median > *max_error;
  };
  // Transfers of KV are shown, but not judged: live ones take longer than predicted (docs/validation.md).
  const std::vector<validation::LiveMetric>& metrics = validation::live_metrics();
  return std::any_of(metrics.begin(), metrics.end(), exceeds) ? kAnswerIsNo : kDone;
}

}  // namespace plimsoll::cli
