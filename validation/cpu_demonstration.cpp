// SPDX-License-Identifier: Apache-2.0
#include "validation/cpu_demonstration.h"

#include <fmt/format.h>

#include "configs/this_machine.h"
#include "study/outputs.h"
#include "study/svg_chart.h"
#include "study/write_file.h"
#include "validation/compare.h"
#include "validation/machine_calibration.h"
#include "validation/report.h"

namespace plimsoll::validation {

namespace {

// What was measured, in the form that predictions are compared with.
MeasuredTable measured_table(const std::vector<study::PointResult>& points, const study::Study& study) {
  MeasuredTable table;
  table.name = "this machine";
  for (const study::PointResult& p : points) {
    if (!p.metrics) continue;
    const study::PointSpec spec = study.point(p.index);
    MeasuredPoint m;
    m.model = p.labels.model;
    m.hardware = p.labels.hardware;
    m.engine = p.labels.engine;
    m.dtype = p.labels.dtype;
    m.policy = p.labels.policy;
    m.load_kind = p.labels.load_kind;
    m.load_value = p.labels.load_value;
    m.tp = p.labels.tp;
    m.replicas = p.labels.replicas;
    m.source = "measured";
    m.requests = p.metrics->requests_completed;
    m.input_tokens = static_cast<std::int64_t>(p.metrics->input_tokens_mean);
    m.output_tokens = static_cast<std::int64_t>(p.metrics->output_tokens_mean);
    m.output_tokens_per_s = p.metrics->output_tokens_per_s;
    m.latency_per_token_p90_s = p.metrics->latency_per_token.p90;
    table.points.push_back(std::move(m));
  }
  return table;
}

study::Chart curves(const std::string& title, const std::vector<study::PointResult>& simulated,
                    const std::vector<study::PointResult>& measured, const ErrorSummary& error) {
  study::Chart chart;
  chart.title = title;
  chart.subtitle = "line simulated, hollow markers measured";
  chart.x = {"output tokens/s", study::Scale::log};
  chart.y = {"p90 latency, ms per output token", study::Scale::log};
  const auto series = [](const char* name, const std::vector<study::PointResult>& points, study::SeriesStyle style) {
    study::ChartSeries s{name, {}, style, 0};
    for (const study::PointResult& p : points)
      if (p.metrics && p.metrics->latency_per_token.p90)
        s.points.push_back({p.metrics->output_tokens_per_s, 1e3 * *p.metrics->latency_per_token.p90, fmt::format("{:g} users", p.labels.load_value)});
    return s;
  };
  chart.series.push_back(series("simulated", simulated, study::SeriesStyle::curve));
  chart.series.push_back(series("measured", measured, study::SeriesStyle::points));
  chart.note = fmt::format("Mean absolute error {:.0f} % over {} figures.", 100 * error.mean, error.count);
  return chart;
}

}  // namespace

configs::ThisMachine quick_calibration(const std::string& configs_root, double seconds, study::RunControl* control) {
  MachineSettings settings;
  settings.ranks = {1};
  settings.seconds = seconds;
  settings.control = control;
  MachineCalibration result = calibrate_cpu(configs::Catalogue(configs_root), settings);
  result.command = "plimsoll demo";
  return configs::read_this_machine(configs::Document::from_text(machine_yaml(result), "quick calibration"));
}

std::string demonstrate_cpu(const study::Study& study, const CpuDemonstrationSettings& settings) {
  study::Outputs outputs(study, {.folder = settings.folder, .requests = false, .decisions = false, .timeline = false,
                                 .resumable = false, .stepwise = false});
  study::RunSettings run;
  run.control = settings.control;
  const study::StudyResult simulated = study::run_study(study, run);
  run.run = settings.measure;
  run.jobs = 1;                        // points in real time come one after another
  study::StudyResult measured = study::run_study(study, run);
  if (simulated.cancelled || measured.cancelled) return {};
  for (study::PointResult& point : measured.points) settings.label(point);
  study::write_file(settings.folder + "/simulated.csv", study::points_csv(study.swept_keys(), simulated.points));
  outputs.finish(measured);

  const MeasuredTable table = measured_table(measured.points, study);
  const std::vector<Comparison> comparisons = match(table, simulated.points);
  std::vector<const Comparison*> all;
  for (const Comparison& c : comparisons) all.push_back(&c);
  const ErrorSummary error = summarise(all);
  study::write_file(settings.folder + "/comparison.csv", comparison_csv(comparisons));
  study::write_file(settings.folder + "/curves.svg", study::svg_chart(curves(study.title(), simulated.points, measured.points, error)));
  return comparison_text(comparisons) +
         fmt::format("\nThe same scheduler simulated and measured on this machine: mean absolute error {:.0f} %. Written to {}:\n"
                     "points.csv (measured), simulated.csv, comparison.csv, study.yaml and the picture curves.svg.\n",
                     100 * error.mean, settings.folder);
}

}  // namespace plimsoll::validation
