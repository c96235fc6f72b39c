// SPDX-License-Identifier: Apache-2.0
// plimsoll simulate STUDY: the points of a study by simulation.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/commands.h"
#include "cli/load_study.h"
#include "cli/options.h"
#include "cli/run_commands.h"
#include "study/outputs.h"
#include "study/run_study.h"
#include "study/table_view.h"

namespace plimsoll::cli {
namespace {

Usage simulate_usage() {
  Usage usage{.verb = "simulate",
              .positional = "STUDY",
              .summary = "Simulates every point of a study and prints its latency and throughput.",
              .example = "  plimsoll simulate configs/studies/jumpstart-7b-p4d.yaml --set deployment.tp=4 --out out/tp4\n",
              .positional_required = true,
              .options = po::options_description("Files of each point, in --out")};
  auto add = usage.options.add_options();
  add("requests", po::bool_switch(), "requests.csv: one row a request");
  add("decisions", po::bool_switch(), "decisions.txt: what the scheduler did in each step");
  add("timeline", po::bool_switch(), "timeline.json: a Chrome trace, opens in Perfetto");
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

using Reasons = std::vector<std::pair<std::string, int>>;

// Each reason once, with the number of points it holds for.
Reasons infeasible_reasons(const std::vector<study::PointResult>& points) {
  Reasons reasons;
  for (const study::PointResult& point : points) {
    if (point.metrics) continue;
    const auto found = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == point.infeasible; });
    if (found == reasons.end()) {
      reasons.emplace_back(point.infeasible, 1);
    } else {
      ++found->second;
    }
  }
  return reasons;
}

void report_infeasible(const std::vector<study::PointResult>& points, Console& console) {
  for (const auto& [reason, count] : infeasible_reasons(points)) {
    console.warn(fmt::format("{} of {} points cannot exist: {}", count, points.size(), reason));
  }
}

// Nothing to show: the first point's place stands for all, and a few of the reasons.
[[noreturn]] void refuse_all(const study::Study& study, const std::vector<study::PointResult>& points) {
  constexpr std::size_t kShown = 3;
  const Reasons reasons = infeasible_reasons(points);
  std::string text = "no point of the sweep can exist: ";
  for (std::size_t i = 0; i < std::min(reasons.size(), kShown); ++i) text += (i > 0 ? "; " : "") + reasons[i].first;
  if (reasons.size() > kShown) text += fmt::format("; and {} other reasons", reasons.size() - kShown);
  throw InputError(study::resolve_point(study, points.front().index).impossible->where, text);
}

// A warm-up that outlasts the run, a duration in which nobody comes.
void report_empty(const std::vector<study::PointResult>& points, Console& console) {
  const auto is_empty = [](const study::PointResult& point) {
    return point.metrics && point.metrics->requests_completed + point.metrics->requests_rejected + point.metrics->requests_timed_out == 0;
  };
  const auto count = std::count_if(points.begin(), points.end(), is_empty);
  if (count == 0) return;
  console.warn(fmt::format("{} of {} points measured no request: none was sent after the warm-up and within the duration",
                           count, points.size()));
}

void report_estimates(const std::vector<study::PointResult>& points, Console& console) {
  std::set<std::string> reasons;
  for (const study::PointResult& point : points) {
    if (point.metrics && !point.extrapolates.empty()) reasons.insert(point.extrapolates);
  }
  for (const std::string& reason : reasons) console.note("estimated: " + reason);
}

void print_points(const study::Study& study, const study::StudyResult& result, Format format, Console& console) {
  const std::vector<std::string> keys = study.swept_keys();
  switch (format) {
    case Format::table: console.print(study::points_table(study.title(), keys, result.points)); return;
    case Format::csv: console.print(study::points_csv(keys, result.points)); return;
    case Format::json: console.print(study::points_json(keys, result.points)); return;
  }
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

}  // namespace

int run_simulate(const Arguments& arguments, Console& console) {
  const auto parsed = parse_arguments(simulate_usage(), arguments);
  if (!parsed) return kDone;
  const study::OutputChoice choice = output_choice(*parsed);
  const study::Study study = load_study(*parsed, console);
  study::Outputs outputs(study, choice);
  const std::vector<std::string> columns = study::point_columns(study.swept_keys());

  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  study::RunSettings settings = run_settings(*parsed, choice);
  settings.control = &control;
  if (!choice.folder.empty()) settings.recall = [&](const study::PointResult& point) { return outputs.recall(point); };
  settings.on_point = [&](study::FinishedPoint& point) {
    if (!point.recalled) outputs.add(point);
    console.point(columns, point.result);
  };
  settings.on_progress = [&](double done) {
    outputs.tick();
    console.progress(done, study.point_count(), static_cast<double>(outputs.recalled()));
  };
  const study::StudyResult result = study::run_study(study, settings);

  outputs.finish(result);
  if (outputs.recalled() > 0) {
    console.note(fmt::format("{} of {} points stood in {}/results.sqlite", outputs.recalled(), study.point_count(), choice.folder));
  }
  print_points(study, result, parsed->common.format, console);
  const bool none = std::none_of(result.points.begin(), result.points.end(), [](const auto& p) { return p.metrics.has_value(); });
  if (none && !result.cancelled) refuse_all(study, result.points);
  report_infeasible(result.points, console);
  report_empty(result.points, console);
  if (parsed->common.format != Format::table) report_estimates(result.points, console);
  if (result.cancelled) {
    console.warn(fmt::format("interrupted: {} of {} points finished", result.points.size(), study.point_count()));
    return kInterrupted;
  }
  return kDone;
}

}  // namespace plimsoll::cli
