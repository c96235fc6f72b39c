// SPDX-License-Identifier: Apache-2.0
// plimsoll demo: what `./plimsoll` runs without arguments.
#include <fmt/format.h>

#include "calibration/machine_calibration.h"
#include "cli/commands.h"
#include "cli/demonstration.h"
#include "cli/measured_points.h"
#include "cli/options.h"
#include "cli/run_commands.h"

namespace plimsoll::cli {
namespace {

// of the 30 s for the measured half
constexpr double kCalibrationSeconds = 6;
constexpr double kPatienceSeconds = 12;  // after this time every point is measured only once
constexpr double kProbeSeconds = 0.2;    // reading, and again multiplying, before and after every point

std::string simulate_published(const Parsed& parsed, const std::string& folder, study::RunControl& control) {
  DemonstrationSettings settings;
  if (!folder.empty()) settings.folder = folder + "/jumpstart-7b-p4d";
  settings.jobs = parsed.common.jobs;
  settings.control = &control;
  return demonstrate(std::make_shared<const configs::Catalogue>(), settings);
}

std::string measure_this_machine(const std::string& folder, study::RunControl& control, Console& console) {
  const auto catalogue = std::make_shared<configs::Catalogue>();
  catalogue->set_machine_probe([&, root = catalogue->root()](const std::string&) {
    console.note(
        fmt::format("calibrating this machine's CPU for {:.0f} s; `plimsoll calibrate` is more accurate and keeps "
                    "the result",
                    kCalibrationSeconds));
    return quick_calibration(root, kCalibrationSeconds, &control);
  });
  const study::Study study(catalogue->root() + "/studies/cpu-demo.yaml", {}, catalogue);
  MeasuredPoints points(study, {}, console);
  points.check();
  CpuDemonstrationSettings settings;
  if (!folder.empty()) settings.folder = folder + "/cpu-demo";
  settings.control = &control;
  settings.measure = [&](const study::PointResult& point, const load::Scenario& scenario,
                         const sim::RunOptions& options) {
    console.note(
        fmt::format("measuring {:g} user{}", point.labels.load_value, point.labels.load_value == 1 ? "" : "s"));
    sim::RunResult run = points.run(point, scenario, options);
    if (!points.failure().empty()) throw DeviceError(points.failure());
    return run;
  };
  const auto machine = study.point(0).hardware.this_machine;
  settings.reference = {machine->read_bandwidth, machine->multiply_add};
  exec::SteadyProbe probe(machine->cores);
  settings.probe = [&] { return probe.rates(kProbeSeconds); };
  settings.patience = kPatienceSeconds;
  settings.label = [&](study::PointResult& point) { points.label(point); };
  return demonstrate_cpu(study, settings);
}

}  // namespace

int run_demo(const Arguments& arguments, Console& console) {
  const Usage usage{
      .verb = "demo",
      .positional = "",
      .summary =
          "Simulates the JumpStart study (Llama 2 7B on ml.p4d.24xlarge by TP degree) and prints it beside the\n"
          "published figures; then runs a small model on this machine's CPU under the same scheduler and prints\n"
          "simulated beside measured. Files and pictures go to out/ (or --out).",
      .example = "  plimsoll demo\n",
      .positional_required = false,
      .options = po::options_description("Demonstration"),
      .without = {"set", "format", "seed", "stepwise"}};
  const auto parsed = parse_arguments(usage, arguments, console);
  if (!parsed) return kDone;
  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  console.print(simulate_published(*parsed, parsed->common.out, control));
  if (control.cancelled()) return kInterrupted;
  try {
    console.print("\n" + measure_this_machine(parsed->common.out, control, console));
  } catch (const calibration::Cancelled&) {
    return kInterrupted;
  }
  return control.cancelled() ? kInterrupted : kDone;
}

}  // namespace plimsoll::cli
