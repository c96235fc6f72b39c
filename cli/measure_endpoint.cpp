// SPDX-License-Identifier: Apache-2.0
// plimsoll measure STUDY --endpoint URL, and validate STUDY --endpoint URL: measures the points of a study on a live
// server, and compares them with predictions.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <iostream>
#include <iterator>

#include "cli/commands.h"
#include "cli/endpoint_points.h"
#include "cli/run_commands.h"
#include "cli/stated_study.h"
#include "cli/verb_parts.h"
#include "study/output/html_page.h"
#include "study/output/outputs.h"
#include "study/output/points_page.h"
#include "study/output/run_files.h"
#include "study/output/table_view.h"
#include "study/output/write_file.h"
#include "study/run/simulate_point.h"

namespace plimsoll::cli {
namespace {

constexpr double kMostRequests = 100'000, kMostSeconds = 3600, kMillion = 1e6;

struct Amount {
  double requests = 0, input = 0, output = 0;
  double seconds = 0;   // at least: as the study states, or the schedule of an open loop
  bool bounded = true;  // false: the duration depends on the server
};

double mean_tokens(const load::LengthMarginal& lengths) { return load::length_mean(lengths); }

Amount amount_of(const study::PointSpec& spec) {
  Amount amount;
  const load::WorkloadSpec& workload = spec.workload;
  amount.requests = static_cast<double>(workload.requests);
  // Only the duration of an open loop is known before the run.
  const std::optional<double> rate = load::stationary_rate(workload.load);
  amount.bounded = rate.has_value();
  if (rate) amount.seconds = workload.requests > 0 ? amount.requests / *rate : workload.duration.count();
  if (workload.duration.count() > 0) amount.seconds = std::max(amount.seconds, workload.duration.count());
  if (amount.requests == 0 && rate) amount.requests = *rate * workload.duration.count();
  if (const auto* lengths = std::get_if<load::IndependentLengths>(&workload.lengths)) {
    amount.input = amount.requests * mean_tokens(lengths->input);
    amount.output = amount.requests * mean_tokens(lengths->output);
  } else if (const auto& trace = std::get<load::TracePairs>(workload.lengths).trace; trace) {
    double input = 0, output = 0;
    for (const traces::TraceRecord& record : trace->records) {
      input += record.input_tokens;
      output += record.output_tokens;
    }
    const auto rows = static_cast<double>(std::max<std::size_t>(1, trace->records.size()));
    if (amount.requests == 0) amount.requests = rows;
    amount.input = amount.requests * input / rows;
    amount.output = amount.requests * output / rows;
  }
  const auto runs = static_cast<double>(spec.replications);
  return {amount.requests * runs, amount.input * runs, amount.output * runs, amount.seconds * runs, amount.bounded};
}

Amount amount_of(const study::Study& study) {
  Amount sum;
  for (std::size_t i = 0; i < study.point_count(); ++i) {
    const Amount point = amount_of(study.point(i));
    sum.requests += point.requests;
    sum.input += point.input;
    sum.output += point.output;
    sum.seconds += point.seconds;
    sum.bounded = sum.bounded && point.bounded;
  }
  return sum;
}

std::pair<double, double> price_option(const Parsed& parsed) {
  const std::string text = text_option(parsed, "price");
  const std::size_t comma = text.find(',');
  try {
    std::size_t first = 0, second = 0;
    const double in = std::stod(text, &first), out = std::stod(text.substr(comma + 1), &second);
    if (comma != std::string::npos && first == comma && second == text.size() - comma - 1 && in >= 0 && out >= 0)
      return {in, out};
  } catch (const std::logic_error&) {}
  throw InputError(
      fmt::format("--price: found '{}', expected USD per million tokens of input and output: 0.5,1.5", text));
}

std::string amount_text(const Amount& amount, const Parsed& parsed) {
  std::string text = fmt::format("{:.0f} requests, {:.0f} input tokens, {:.0f} output tokens\n", amount.requests,
                                 amount.input, amount.output);
  text += amount.seconds > 0 ? fmt::format("duration: at least {:.0f} s{}\n", amount.seconds,
                                           amount.bounded ? "" : "; closed loops last as long as the server takes")
                             : std::string("duration: as long as the server takes\n");
  if (parsed.values.count("price") == 0) return text;
  const auto [in, out] = price_option(parsed);
  return text + fmt::format("cost: {:.2f} USD\n", (amount.input * in + amount.output * out) / kMillion);
}

// Returns whether the run may start: the user must agree to a large one.
bool may_start(const Amount& amount, const Parsed& parsed, Console& console) {
  if (amount.requests <= kMostRequests && amount.seconds <= kMostSeconds) return true;
  if (parsed.values["yes"].as<bool>()) return true;
  const std::string what =
      fmt::format("the run sends {:.0f} requests{}", amount.requests,
                  amount.seconds > 0 ? fmt::format(" and lasts at least {:.0f} s", amount.seconds) : std::string());
  if (isatty(STDIN_FILENO) == 0) throw InputError("--endpoint: " + what + "; state --yes to run it");
  console.note(what + "; start it? [y/N]");
  std::string answer;
  return std::getline(std::cin, answer) && (answer == "y" || answer == "yes");
}

study::OutputChoice files_of(const Parsed& parsed) {
  const auto is_set = [&](const char* name) { return parsed.values[name].as<bool>(); };
  for (const char* const local : {"device", "threads"})
    if (parsed.values.count(local) != 0) throw InputError(fmt::format("--{} is for runs on this machine", local));
  for (const char* const local : {"as-is", "decisions", "trace-ops"})
    if (is_set(local)) throw InputError(fmt::format("--{} is for runs on this machine", local));
  if (parsed.common.out.empty() && (is_set("requests") || is_set("timeline")))
    throw InputError("--requests and --timeline write files: state a folder with --out DIR");
  return {.folder = parsed.common.out,
          .requests = is_set("requests"),
          .decisions = false,
          .timeline = false,
          .resumable = false,
          .stepwise = false};
}

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Handles --dry-run, and asks whether a large run may start. Returns an exit code, or nullopt to continue.
std::optional<int> before_run(const study::Study& study, const Parsed& parsed, Console& console) {
  const Amount amount = amount_of(study);
  if (parsed.values["dry-run"].as<bool>()) {
    console.print(amount_text(amount, parsed));
    return kDone;
  }
  if (!may_start(amount, parsed, console)) return kInterrupted;
  return {};
}

// --adopt: returns the study with the server's KV pool, written beside the results. nullopt without --adopt.
std::optional<study::Study> adopt(const Parsed& parsed, const EndpointPoints& points, Console& console) {
  if (!parsed.values["adopt"].as<bool>()) return {};
  if (parsed.common.out.empty()) throw InputError("--adopt writes a study: state a folder with --out DIR");
  Parsed changed = parsed;
  for (const auto& key : points.adopted()) changed.common.set.push_back(key);
  if (points.adopted().empty()) console.warn("--adopt: the server does not state its KV pool");
  study::Study study = load_study(changed, console);
  study::make_folder(parsed.common.out);
  study::write_file(parsed.common.out + "/adopted.yaml", study.resolved_yaml());
  console.note("the study with the server's KV pool is written to " + parsed.common.out + "/adopted.yaml");
  return study;
}

// Predicts all points as they were measured. If answers ended early, the prediction draws a point's output lengths from
// the measured ones. A client that gives up closes its connection, so that the server cancels the request.
std::vector<study::PointResult> predict(const study::Study& study, const Parsed& parsed, const EndpointPoints& points,
                                        Console& console) {
  std::vector<study::PointResult> predicted = study::run_study(study, {.jobs = parsed.common.jobs}).points;
  bool any_cancels = false;
  for (study::PointResult& point : predicted) {
    const std::shared_ptr<const traces::Trace> came = points.short_lengths(point.index);
    study::PointSpec spec = study.point(point.index);
    const bool shorter = came && std::holds_alternative<load::IndependentLengths>(spec.workload.lengths);
    const bool cancels = spec.limits.timeout.count() > 0 && !spec.limits.cancel_on_timeout;
    if (!shorter && !cancels) continue;
    spec.limits.cancel_on_timeout = true;
    if (shorter) {
      spec.workload.lengths = load::TracePairs{came};
      if (auto* const closed = std::get_if<load::ClosedLoop>(&spec.workload.load)) closed->drift = 0;
    }
    study::PointResult again = study::simulate_point(std::move(spec)).result;
    again.index = point.index;
    again.swept = point.swept;
    point = std::move(again);
    if (shorter)
      console.note(fmt::format("point {}: predicted with output lengths drawn from the measured answers", point.index));
    any_cancels = any_cancels || cancels;
  }
  if (any_cancels)
    console.note("a client that gives up closes its connection: predicted as with limits.cancel_on_timeout: true");
  return predicted;
}

// A figure to compare: its name, its value, and the factor to the unit in which it is shown.
struct Figure {
  const char* name;
  std::optional<double> (*of)(const sched::PointMetrics&);
  double unit;
};
const std::array<Figure, 3> kFigures{
    {{"output tokens/s", [](const sched::PointMetrics& m) { return std::optional(m.output_tokens_per_s); }, 1},
     {"TTFT ms", [](const sched::PointMetrics& m) { return m.ttft.mean; }, 1e3},
     {"TPOT ms", [](const sched::PointMetrics& m) { return m.tpot.mean; }, 1e3}}};

struct Compared {
  std::string table, csv;
  std::array<std::vector<double>, kFigures.size()> errors;  // absolute, relative
};

// The two values of a figure in the unit in which it is shown, and their relative error.
struct ComparedFigure {
  std::optional<double> predicted, measured, error;

  ComparedFigure(const Figure& figure, const study::PointResult& p, const study::PointResult& m)
      : predicted(p.metrics ? figure.of(*p.metrics) : std::nullopt),
        measured(m.metrics ? figure.of(*m.metrics) : std::nullopt) {
    if (predicted && measured && *measured > 0) error = *predicted / *measured - 1;
    for (std::optional<double>* const value : {&predicted, &measured})
      if (*value) **value *= figure.unit;
  }
  [[nodiscard]] std::array<std::string, 3> cells() const {
    const auto shown = [](const std::optional<double>& value) {
      return value ? study::reader_number(*value) : std::string("-");
    };
    return {shown(predicted), shown(measured), error ? fmt::format("{:+.1f} %", 100 * *error) : ""};
  }
  [[nodiscard]] std::string csv() const {
    std::string text;
    for (const std::optional<double>& value : {predicted, measured, error})
      text += ',' + study::csv_text(study::number_cell(value));
    return text;
  }
};

Compared compare(const study::Study& study, const std::vector<study::PointResult>& predicted,
                 const std::vector<study::PointResult>& measured) {
  Compared out;
  study::TextTable table{.header = {{"point"}}, .rows = {}, .left = 1};
  out.csv = "point";
  for (const std::string& key : study.swept_keys()) {
    table.header[0].push_back(key.substr(key.rfind('.') + 1));
    out.csv += ',' + key;
  }
  for (const Figure& figure : kFigures) {
    for (const std::string& column : {std::string(figure.name), std::string("measured"), std::string("error")})
      table.header[0].push_back(column);
    out.csv += fmt::format(",predicted {0},measured {0},error {0}", figure.name);
  }
  out.csv += '\n';
  for (const study::PointResult& m : measured) {
    const auto p = std::find_if(predicted.begin(), predicted.end(), [&](const auto& q) { return q.index == m.index; });
    if (p == predicted.end()) continue;
    std::vector<std::string> cells{fmt::format("{}", m.index + 1)};
    out.csv += cells.front();
    for (const study::Cell& value : m.swept) {
      cells.push_back(study::plain_text(value));
      out.csv += ',' + study::csv_text(value);
    }
    for (std::size_t i = 0; i < kFigures.size(); ++i) {
      const ComparedFigure figure(kFigures[i], *p, m);
      out.csv += figure.csv();
      for (std::string& cell : figure.cells()) cells.push_back(std::move(cell));
      if (figure.error) out.errors[i].push_back(std::abs(*figure.error));
    }
    out.csv += '\n';
    table.rows.push_back(std::move(cells));
  }
  out.table = study::text_table(table);
  for (std::size_t i = 0; i < kFigures.size(); ++i)
    if (!out.errors[i].empty())
      out.table += fmt::format("{}: median absolute error {:.1f} %\n", kFigures[i].name,
                               100 * sched::quantile(out.errors[i], 0.5));
  return out;
}

void write_comparison(const study::Study& study, const std::string& folder, const Compared& compared,
                      const std::vector<study::PointResult>& points) {
  study::write_file(folder + "/comparison.csv", compared.csv);
  study::HtmlPage page("Measured on a server and predicted: " + study.title());
  page.preformatted(compared.table);
  for (const study::Chart& chart : study::points_charts(study.title(), study.swept_keys(), points)) page.picture(chart);
  page.heading("What the predictions rest on").list(study::assumptions_of(study.point(0), study.notes()));
  study::write_file(folder + "/comparison.html", page.text());
}

}  // namespace

study::StudyResult measure_points(const study::Study& study, study::OutputChoice files, EndpointPoints& points,
                                  Console& console) {
  files.resumable = true;
  files.measured_on = points.identity();
  study::Outputs outputs(study, files);
  const std::string figures = files.folder + "/endpoint.csv";
  if (!files.folder.empty()) points.keep_rows(text_of(figures));
  const std::vector<std::string> columns = study::point_columns(study.swept_keys());
  study::RunControl control;
  const RunCommands commands(control, console.is_jsonl());
  study::RunSettings settings = measuring_settings(files, control);
  settings.run = [&](const study::PointResult& point, const load::Scenario& scenario, const sim::RunOptions& options) {
    if (!points.may_begin(point.index)) {
      sim::RunResult none;
      none.stopped = true;
      return none;
    }
    sim::RunResult run = points.run(point, scenario, options);
    if (!points.failure().empty()) control.cancel();
    if (!files.folder.empty() && !points.states_csv().empty())
      study::write_file(files.folder + '/' + study::point_file_name("server", ".csv", study.point_count(), point.index),
                        points.states_csv());
    if (run.stopped) outputs.add_unfinished({.result = point, .run = run});
    return run;
  };
  settings.on_point = [&](study::FinishedPoint& point) {
    points.label(point.result);
    if (!point.recalled) outputs.add(point);
    if (!files.folder.empty()) study::write_file(figures, points.figures_csv());  // before the store is complete
    console.point(columns, point.result);
  };
  if (!files.folder.empty()) settings.recall = [&](study::PointResult& point) { return outputs.recall(point); };
  settings.on_progress = [&](double done) {
    console.progress(done, study.point_count(), static_cast<double>(outputs.recalled()));
  };
  study::StudyResult result = study::run_study(study, settings);
  outputs.finish(result);
  note_recalled(study, outputs, files.folder, console);
  if (!points.failure().empty() && result.points.empty()) throw DeviceError(points.failure());
  if (!outputs.written_text().empty()) console.note(outputs.written_text() + ", endpoint.csv");
  return result;
}

int measure_endpoint(const Parsed& parsed, Console& console) {
  const study::OutputChoice files = files_of(parsed);
  const study::Study study = load_study(parsed, console);
  if (const auto exit = before_run(study, parsed, console)) return *exit;
  EndpointPoints points(study, parsed, console);
  (void)adopt(parsed, points, console);
  const study::StudyResult result = measure_points(study, files, points, console);
  report_points(study, result, parsed.common.format, console);
  if (!points.failure().empty()) throw DeviceError(points.failure());
  return result.cancelled ? kInterrupted : kDone;
}

int validate_endpoint(const Parsed& parsed, Console& console) {
  if (parsed.operand.empty()) throw InputError("--endpoint: state the study to measure: validate STUDY --endpoint URL");
  if (parsed.common.format == Format::json) throw InputError("--format: validate --endpoint prints table or csv");
  const std::optional<double> max_error = max_error_option(parsed);
  const study::Study study = load_study(parsed, console);
  if (const auto exit = before_run(study, parsed, console)) return *exit;
  EndpointPoints points(study, parsed, console);
  const std::optional<study::Study> adopted = adopt(parsed, points, console);
  const study::StudyResult measured = measure_points(study,
                                                     {.folder = parsed.common.out,
                                                      .requests = false,
                                                      .decisions = false,
                                                      .timeline = false,
                                                      .resumable = false,
                                                      .stepwise = false},
                                                     points, console);
  const std::vector<study::PointResult> predicted = predict(adopted ? *adopted : study, parsed, points, console);
  Compared compared = compare(study, predicted, measured.points);
  std::vector<study::PointResult> all = predicted;
  all.insert(all.end(), measured.points.begin(), measured.points.end());
  if (!parsed.common.out.empty()) {
    write_comparison(study, parsed.common.out, compared, all);
    console.note("predicted beside measured in " + parsed.common.out + ": comparison.html, comparison.csv");
  }
  console.print(parsed.common.format == Format::csv ? compared.csv : compared.table);
  if (parsed.common.format == Format::table)
    print_curve(study::points_charts(study.title(), study.swept_keys(), all), console);
  if (!points.failure().empty()) throw DeviceError(points.failure());
  if (measured.cancelled) return kInterrupted;
  if (!max_error) return kDone;
  const bool exceeds = std::any_of(compared.errors.begin(), compared.errors.end(), [&](std::vector<double>& errors) {
    return errors.empty() || 100 * sched::quantile(errors, 0.5) > *max_error;
  });
  return exceeds ? kAnswerIsNo : kDone;
}

}  // namespace plimsoll::cli
