// SPDX-License-Identifier: Apache-2.0
// plimsoll simulate STUDY: simulates the points of a study.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/ranks.h"
#include "cli/run_commands.h"
#include "cli/stated_study.h"
#include "cli/verb_parts.h"
#include "sim/simulate.h"
#include "study/output/outputs.h"
#include "study/output/run_files.h"
#include "study/output/write_file.h"
#include "study/run/bands.h"
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
  add("requests", po::bool_switch(), "requests.csv: one row a request; --requests N: how many are simulated");
  add("decisions", po::bool_switch(), "decisions.txt: what the scheduler did in each step");
  add("timeline", po::bool_switch(), "timeline.json: a Chrome trace, opens in Perfetto");
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
  if (choice.folder.empty() && (choice.requests || choice.decisions || choice.timeline)) {
    throw InputError("--requests, --decisions and --timeline write files: state a folder with --out DIR");
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

// Points go to any free rank. Only metrics are sent back, so runs that write files stay on this rank.
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
  if (!outputs.written_text().empty()) console.note(outputs.written_text());
  return result.cancelled ? kInterrupted : kDone;
}

}  // namespace plimsoll::cli
