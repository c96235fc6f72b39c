// SPDX-License-Identifier: Apache-2.0
// plimsoll measure STUDY: measures the points of a study on the real executor.

#include "cli/commands.h"
#include "cli/endpoint_points.h"
#include "cli/measured_points.h"
#include "cli/options.h"
#include "cli/rank_group.h"
#include "cli/run_commands.h"
#include "cli/stated_study.h"
#include "cli/verb_parts.h"
#include "study/output/outputs.h"
#include "study/output/run_files.h"
#include "study/output/write_file.h"

namespace plimsoll::cli {
namespace {

constexpr std::int64_t kMaxThreads = 1024;

Usage measure_usage() {
  Usage usage{
      .verb = "measure",
      .positional = "STUDY",
      .summary =
          "Runs every point of a study in real time: on this machine with the simulator's own scheduler, clients\n"
          "and metrics (docs/measure.md), or with --endpoint on any server (docs/endpoints.md). Points run one\n"
          "after another. mpirun -n N spreads the tensor-parallel ranks of every replica over N processes, on one\n"
          "host or several; N divides tp. The prefill replicas of a study with pools run in a process of their own.",
      .example =
          "  plimsoll measure configs/studies/cpu-demo.yaml --out out/measured\n"
          "  plimsoll measure study.yaml --endpoint http://127.0.0.1:8000 --out out/measured\n",
      .positional_required = true,
      .options = po::options_description("What runs it, and files of each point, in --out"),
      .pools = true};
  auto add = usage.options.add_options();
  add("device", po::value<std::string>()->value_name("cpu|cuda"),
      "device that runs the forward passes (default: the engine's, else cpu)");
  add("as-is", po::bool_switch(), "measure on this machine although the study names other hardware");
  add("threads", po::value<std::string>()->value_name("N"),
      "CPU threads of all replicas together (default: one per core); under mpirun: of each process");
  add("requests", po::bool_switch(), "requests.csv: one row per request");
  add("decisions", po::bool_switch(),
      "decisions.txt: what the scheduler did in each step; events.jsonl: the events that caused it");
  add("timeline", po::bool_switch(), "timeline.json: a Chrome trace, opens in Perfetto");
  add_endpoint_options(usage.options);
  add("trace-ops", po::bool_switch(), "ops.csv: every op with its measured and its predicted time; slows the run down");
  return usage;
}

struct Request {
  MeasureSettings settings;
  study::OutputChoice files;
};

Request read_request(const Parsed& parsed) {
  Request request;
  const auto is_set = [&](const char* name) { return parsed.values[name].as<bool>(); };
  request.settings.as_is = is_set("as-is");
  request.settings.trace_ops = is_set("trace-ops");
  request.settings.threads = static_cast<int>(whole_option(parsed, "threads", {1, kMaxThreads}, parsed.common.jobs));
  request.files = {.folder = parsed.common.out,
                   .requests = is_set("requests"),
                   .decisions = is_set("decisions"),
                   .timeline = is_set("timeline"),
                   .resumable = false,
                   .stepwise = false};
  if (parsed.common.out.empty() &&
      (is_set("requests") || is_set("decisions") || is_set("timeline") || is_set("trace-ops")))
    throw InputError("--requests, --decisions, --timeline and --trace-ops write files: state a folder with --out DIR");
  if (parsed.common.stepwise) throw InputError("--stepwise is for simulations: a measured run takes every step");
  return request;
}

}  // namespace

int run_measure(const Arguments& arguments, Console& console) {
  // Except for the first, the processes of a group only run forwards: they read no study and print nothing.
  const auto group = RankGroup::join();
  if (group && !group->leads()) {
    group->follow();
    return kDone;
  }
  auto parsed = parse_arguments(measure_usage(), arguments, console);
  if (!parsed) return kDone;
  if (names_endpoint(*parsed)) {
    parsed->pools = false;  // refuses studies with pools: they describe the inside of a server
    return measure_endpoint(*parsed, console);
  }
  Request request = read_request(*parsed);
  request.settings.device = device_option(*parsed, parsed->operand);
  request.settings.processes = group ? group->processes() : 1;
  const study::Study study = load_study(*parsed, console);
  MeasuredPoints points(study, request.settings, console);
  points.check();
  if (group) points.lead(group->open(points.most_replicas()));
  study::Outputs outputs(study, request.files);
  const auto pools = study.point(0).prefill ? study::PoolColumns::yes : study::PoolColumns::no;
  const std::vector<std::string> columns = study::point_columns(study.swept_keys(), pools);

  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  study::RunSettings settings = measuring_settings(request.files, control);
  settings.keep_decisions = request.files.decisions;
  settings.keep_steps = request.files.timeline;
  settings.run = [&](const study::PointResult& point, const load::Scenario& scenario, const sim::RunOptions& options) {
    if (scenario.life)
      throw InputError(study.point(point.index).places.study,
                       "measure supports only fixed fleets: no deployment.autoscaling, no deployment.failures");
    sim::RunResult run = points.run(point, scenario, options);
    // A failed device would fail again. The points measured so far are kept, and reported first.
    if (!points.failure().empty()) control.cancel();
    if (!points.ops().empty())
      study::write_file(
          request.files.folder + '/' + study::point_file_name("ops", ".csv", study.point_count(), point.index),
          points.ops());
    if (run.stopped) outputs.add_unfinished({.result = point, .run = run});
    return run;
  };
  settings.on_point = [&](study::FinishedPoint& point) {
    points.label(point.result);
    outputs.add(point);
    console.point(columns, point.result);
  };
  settings.on_progress = [&](double done) { console.progress(done, study.point_count()); };
  const study::StudyResult result = study::run_study(study, settings);

  outputs.finish(result);
  if (!points.failure().empty() && result.points.empty()) throw DeviceError(points.failure());
  report_points(study, result, parsed->common.format, console);
  if (!outputs.written_text().empty()) console.note(outputs.written_text());
  if (!points.failure().empty()) throw DeviceError(points.failure());
  return result.cancelled ? kInterrupted : kDone;
}

}  // namespace plimsoll::cli
