// SPDX-License-Identifier: Apache-2.0
// plimsoll simulate STUDY: simulates the points of a study.
#include <fmt/format.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/ranks.h"
#include "cli/run_commands.h"
#include "cli/stated_study.h"
#include "cli/verb_parts.h"
#include "sim/simulate.h"
#include "study/deploy/deployment_manifests.h"
#include "study/output/outputs.h"
#include "study/output/run_files.h"
#include "study/output/write_file.h"
#include "study/run/bands.h"
#include "study/run/resolve.h"
#include "study/run/run_study.h"

namespace plimsoll::cli {
namespace {

Usage simulate_usage() {
  Usage usage{
      .verb = "simulate",
      .positional = "STUDY",
      .summary =
          "Simulates every point of a study and prints its latency and throughput. The study is a file or stated by\n"
          "options. --out DIR writes report.html (curves, results, assumptions) and points.csv.",
      .example =
          "  plimsoll simulate --model llama-3.1-8b --hardware h100 --rate 4,8,16 --input 1000 --output 300\n"
          "  plimsoll simulate configs/studies/jumpstart-7b-p4d.yaml --tp 4 --out out/tp4\n",
      .positional_required = false,
      .options = po::options_description("Files of each point, in --out"),
      .study_options = StudyOptions::points,
      .pools = true};
  auto add = usage.options.add_options();
  add("requests", po::bool_switch(), "requests.csv: one row per request; --requests N: how many are simulated");
  add("decisions", po::bool_switch(), "decisions.txt: what the scheduler did in each step");
  add("timeline", po::bool_switch(), "timeline.json: a Chrome trace, opens in Perfetto");
  add("deploy", po::bool_switch(), "deploy/: manifests for Compose, llm-d, Dynamo and the production stack");
  add_schema_option(usage.options);
  add("replay", po::value<std::string>()->value_name("FILE"),
      "decisions.txt of a measured run, from its events.jsonl; STUDY is then study.yaml beside it unless stated");
  return usage;
}

study::OutputChoice output_choice(const Parsed& parsed) {
  study::OutputChoice choice{.folder = parsed.common.out,
                             .requests = parsed.values["requests"].as<bool>(),
                             .decisions = parsed.values["decisions"].as<bool>(),
                             .timeline = parsed.values["timeline"].as<bool>(),
                             .resumable = true,
                             .stepwise = parsed.common.stepwise};
  const bool deploys = parsed.values["deploy"].as<bool>();
  if (!schema_folder(parsed).empty() && !deploys)
    throw InputError("--schemas checks the manifests of --deploy: add it");
  if (choice.folder.empty() && (choice.requests || choice.decisions || choice.timeline || deploys)) {
    throw InputError("--requests, --decisions, --timeline and --deploy write files: state a folder with --out DIR");
  }
  return choice;
}

study::RunSettings run_settings(const Parsed& parsed, const study::OutputChoice& choice) {
  study::RunSettings settings;
  settings.jobs = parsed.common.jobs;
  settings.stepwise = parsed.common.stepwise;
  settings.keep_requests = choice.requests;
  settings.keep_decisions = choice.decisions;
  settings.keep_steps = choice.timeline;
  return settings;
}

// The recorded events belong to one point of the study, which gives the policy and its settings.
int replay_run(Parsed parsed, Console& console) {
  const std::string file = parsed.values["replay"].as<std::string>();
  if (parsed.operand.empty()) parsed.operand = (std::filesystem::path(file).parent_path() / "study.yaml").string();
  const study::Study study = load_study(parsed, console);
  const std::size_t index = sim::replayed_point(file);
  if (index >= study.point_count()) {
    throw InputError(Where{file, 1, 0}, fmt::format("found a run of point {}, but {} has {} points", index,
                                                    study.file(), study.point_count()));
  }
  const study::ResolvedPoint point = study::resolve_point(study, index);
  point.require_possible();
  const std::vector<std::string> logs = sim::replay(file, *point.scenario);
  if (parsed.common.out.empty()) {
    for (const std::string& log : logs) console.print(log);
    return kDone;
  }
  study::make_folder(parsed.common.out);
  for (std::size_t r = 0; r < logs.size(); ++r) {
    study::write_file(parsed.common.out + '/' + study::decisions_file_name(study.point_count(), index, logs.size(), r),
                      logs[r]);
  }
  return kDone;
}

// Writes the manifests of every possible point. If there are several points, each has a folder of its own.
void write_deployments(const study::Study& study, const Parsed& parsed, Console& console) {
  const std::string schemas = schema_folder(parsed);
  for (std::size_t i = 0; i < study.point_count(); ++i) {
    const study::PointSpec spec = study.point(i);
    const study::ResolvedPoint point = study::resolve_spec(spec);
    if (point.impossible) continue;
    const std::string title =
        point.result.pools.empty()
            ? fmt::format("{} on {}: tp {}, {} replicas", point.result.labels.model, point.result.labels.hardware,
                          point.result.labels.tp, point.result.labels.replicas)
            : fmt::format("{} on {}: {}", point.result.labels.model, point.result.labels.hardware, point.result.pools);
    const auto root = configs::Document::from_text(study.point_file(i).yaml, study.file()).root();
    const auto files = study::deploy::manifest_files(spec, root, title, schemas);
    const bool one = study.point_count() == 1;
    study::deploy::write_manifests(files, one ? parsed.common.out : fmt::format("{}/point-{}", parsed.common.out, i));
    for (const std::string& note : study::deploy::manifest_notes(files))
      console.note(one ? note : fmt::format("point {}: {}", i, note));
  }
}

// Any free rank runs a point. Ranks send back only metrics, so runs that write files stay on this rank.
void spread(Ranks& ranks, Console& console, study::RunSettings& settings) {
  if (settings.keep_requests || settings.keep_decisions || settings.keep_steps) {
    console.warn("--requests, --decisions and --timeline need all points on rank 0: the other ranks stay idle");
    return;
  }
  settings.jobs = ranks.places();
  settings.run = [&ranks, &control = *settings.control](const study::PointResult& point, const load::Scenario& scenario,
                                                        const sim::RunOptions& options) {
    return read_point_answer(ranks.run(
        fmt::format("{}", point.index), control,
        [&] { return point_answer(study::simulate_with_bands(scenario, options)); }, is_point_answer));
  };
}

}  // namespace

int run_simulate(const Arguments& arguments, Console& console) {
  const auto ranks = Ranks::join();
  if (ranks && !ranks->leads()) {
    ranks->follow(simulate_usage(), arguments);
    return kDone;
  }
  const auto parsed = parse_arguments(simulate_usage(), arguments, console);
  if (!parsed) return kDone;
  if (parsed->values.count("replay") > 0) return replay_run(*parsed, console);
  const study::OutputChoice choice = output_choice(*parsed);
  const study::Study study = load_study(*parsed, console);
  study::Outputs outputs(study, choice);
  const auto pools = study.point(0).prefill ? study::PoolColumns::yes : study::PoolColumns::no;
  const std::vector<std::string> columns = study::point_columns(study.swept_keys(), pools);

  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  study::RunSettings settings = run_settings(*parsed, choice);
  settings.control = &control;
  settings.bands = true;
  if (!choice.folder.empty()) settings.recall = [&](study::PointResult& point) { return outputs.recall(point); };
  settings.on_point = [&](study::FinishedPoint& point) {
    if (!point.recalled) outputs.add(point);
    console.point(columns, point.result);
  };
  settings.on_progress = [&](double done) {
    outputs.tick();
    console.progress(done, study.point_count(), static_cast<double>(outputs.recalled()));
  };
  if (ranks) {
    ranks->open(study, *parsed);
    spread(*ranks, console, settings);
  }
  const study::StudyResult result = study::run_study(study, settings);
  if (ranks) ranks->close(console);

  outputs.finish(result);
  note_recalled(study, outputs, choice.folder, console);
  report_points(study, result, parsed->common.format, console);
  if (parsed->values["deploy"].as<bool>()) write_deployments(study, *parsed, console);
  if (!outputs.written_text().empty()) console.note(outputs.written_text());
  return result.cancelled ? kInterrupted : kDone;
}

}  // namespace plimsoll::cli
