// SPDX-License-Identifier: Apache-2.0
// plimsoll calibrate: measures this machine's executor and fits the cost model to it.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "calibration/machine_calibration.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/run_commands.h"
#include "cli/this_machine.h"
#include "cli/verb_parts.h"
#include "configs/this_machine.h"
#include "study/output/write_file.h"

namespace plimsoll::cli {
namespace {

Usage calibrate_usage() {
  Usage usage{
      .verb = "calibrate",
      .positional = "",
      .summary =
          "Measures the executor's kernels on this machine, fits the cost model to them and stores the result for\n"
          "`hardware: this-machine`. Part of the measurements is held out; its error is printed.\n"
          "With --from: fits accelerators to tables of kernels measured elsewhere (docs/kernel-tables.md).\n"
          "With --engine: fits an engine's profile to measured serving runs; with --from or --endpoint, to runs of "
          "your\n"
          "own server (docs/calibrate.md).",
      .example =
          "  plimsoll calibrate --seconds 60\n  plimsoll simulate configs/studies/cpu-demo.yaml\n"
          "  plimsoll calibrate --from gemm.csv.gz attention.csv.gz --out calibration\n"
          "  plimsoll validate more-kernels.csv.gz --calibration calibration\n"
          "  plimsoll calibrate --engine tgi-1.1\n"
          "  plimsoll calibrate --engine my-vllm --like vllm-0.12 --from points.csv\n"
          "  plimsoll calibrate --engine my-vllm --endpoint http://127.0.0.1:8000 --hardware \"h100-sxm x 1\"\n",
      .positional_required = false,
      .options = po::options_description("What to measure"),
      .without = {"set", "format", "seed", "stepwise"}};
  auto add = usage.options.add_options();
  add("model", po::value<std::vector<std::string>>()->value_name("NAME"),
      "models whose shapes are measured; repeatable (default: demo-llama-40m); with --engine: the model of the "
      "runs (default: the one that the runs or the server state)");
  add("dtype", po::value<std::string>()->value_name("LIST"),
      "of weights and KV cache: bf16, fp32, on a CPU also int8, int4 (with a bf16 cache) (default: bf16,fp32); with "
      "--engine: the type of the runs' weights");
  add("ranks", po::value<std::string>()->value_name("LIST"),
      "TP ranks that share the machine (default: 1,2; a GPU: 1)");
  add("seconds", po::value<std::string>()->value_name("N"),
      "approximate time to spend (default: 120); at most twice this plus a minute; with --endpoint: the time after "
      "which no further run begins (default: 900)");
  add("device", po::value<std::string>()->value_name("cpu|cuda"), "what to measure (default: cpu)");
  add_engine_options(usage.options);
  add_own_options(usage.options);
  add_kernel_options(usage.options);
  return usage;
}

// Reads numbers of ranks, which must ascend from 1: the times of several ranks are fitted as ratios to those of one.
std::vector<std::int32_t> read_ranks(const std::string& text) {
  std::vector<std::int32_t> ranks;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool number = !part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == std::string::npos;
    const std::int32_t value = number ? std::stoi(part) : 0;
    if (value < 1 || (!ranks.empty() && value <= ranks.back()) || (ranks.empty() && value != 1))
      throw InputError(
          fmt::format("--ranks: found '{}', expected ascending numbers that begin with 1, as in 1,2,4", text));
    ranks.push_back(value);
    begin = end + 1;
  }
  return ranks;
}

// Reads types of weights that the device executes; each may be named once.
std::vector<model::DType> read_dtypes(const std::string& text, exec::DeviceKind device) {
  std::vector<model::DType> dtypes;
  std::set<std::string> allowed;
  for (int i = 0; i <= static_cast<int>(model::kLastDType); ++i) {
    const auto dtype = static_cast<model::DType>(i);
    if (exec::executes_weights(device, dtype)) allowed.insert(model::name(dtype));
  }
  std::istringstream list(text + ",");  // the last comma shows an empty end
  for (std::string part; std::getline(list, part, ',');) {
    const std::optional<model::DType> dtype = model::dtype_from_name(part);
    if (!allowed.contains(part) || std::find(dtypes.begin(), dtypes.end(), *dtype) != dtypes.end())
      throw InputError(
          fmt::format("--dtype: found '{}', allowed: a list of {}, each once", text, fmt::join(allowed, ", ")));
    dtypes.push_back(*dtype);
  }
  return dtypes;
}

calibration::MachineSettings read_settings(const Parsed& parsed) {
  calibration::MachineSettings settings;
  if (parsed.values.count("model") > 0) settings.models = parsed.values["model"].as<std::vector<std::string>>();
  const std::string device = text_option(parsed, "device", "cpu");
  if (device != "cpu" && device != "cuda")
    throw InputError(fmt::format("--device: found '{}', allowed: cpu, cuda", device));
  settings.device = device == "cuda" ? exec::DeviceKind::cuda : exec::DeviceKind::cpu;
  settings.dtypes = read_dtypes(text_option(parsed, "dtype", "bf16,fp32"), settings.device);
  settings.ranks = read_ranks(text_option(parsed, "ranks", device == "cuda" ? "1" : "1,2"));
  settings.seconds = static_cast<double>(whole_option(parsed, "seconds", {5, 36'000}, 120));
  constexpr double kTimes = 2,
                   kAlways = 60;  // minimum on a quiet machine, with a margin for noise
  settings.most_seconds = kTimes * settings.seconds + kAlways;
  return settings;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

}  // namespace

int run_calibrate(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(calibrate_usage(), arguments, console);
  if (!parsed) return kDone;
  if (parsed->values.count("engine") > 0) return calibrate_engine(*parsed, console, today());
  if (const std::string option = stated_own_option(*parsed); !option.empty())
    throw InputError(fmt::format("--{} is for a profile of your own: give it a name with --engine", option));
  if (parsed->values["halves"].as<bool>()) throw InputError("--halves is for the fit of an engine: state --engine");
  if (parsed->values.count("export") > 0) return export_kernels(*parsed, console);
  if (parsed->values.count("from") > 0) return calibrate_from(*parsed, console, today());
  for (const char* const option : {"hold-out", "source"})
    if (parsed->values.count(option) > 0)
      throw InputError(fmt::format("--{} applies to tables of measured kernels; state them with --from", option));
  calibration::MachineSettings settings = read_settings(*parsed);
  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  settings.control = &control;
  std::string last;
  settings.progress = [&](const std::string& what, double fraction, double recalled) {
    if (what != last) console.note(last = what);
    console.progress(100 * fraction, 100, 100 * recalled);
  };
  const std::string device = settings.device == exec::DeviceKind::cuda ? "cuda" : "cpu";
  if (device == "cuda") (void)gpu_description(configs::Catalogue());  // throws if something is missing
  const std::string file =
      parsed->common.out.empty() ? configs::machine_file(device) : parsed->common.out + "/this-machine.yaml";
  study::make_folder(std::filesystem::path(file).parent_path().string());
  // The samples lie beside the result, so that an interrupted calibration continues where it stopped.
  settings.samples = file + ".samples";
  const configs::Catalogue catalogue;
  try {
    calibration::MachineCalibration result = calibration::calibrate_machine(catalogue, settings);
    // A calibration on a busy machine would stay wrong for all later studies, so none is written.
    if (const std::string problem = calibration::calibration_problem(result); !problem.empty())
      throw DeviceError(fmt::format(
          "nothing is written: {}. Other programs seem to be using this machine; repeat when it is idle", problem));
    result.date = today();
    result.command =
        arguments.empty() ? "plimsoll calibrate" : fmt::format("plimsoll calibrate {}", fmt::join(arguments, " "));
    study::write_file(file, calibration::machine_yaml(result));
    console.print(calibration::machine_report(result) + fmt::format("\nwritten to {}\n", file));
  } catch (const calibration::Cancelled&) {
    console.warn(fmt::format("interrupted: the same command resumes from {}", settings.samples));
    return kInterrupted;
  } catch (const calibration::TimeIsUp& up) {
    throw DeviceError(fmt::format(
        "nothing is written: after {:.0f} s only {:.0f} % is measured; other programs seem to be using this machine. "
        "The same command resumes from {}; a larger --seconds allows more time",
        up.seconds, 100 * up.fraction, settings.samples));
  }
  return kDone;
}

}  // namespace plimsoll::cli
