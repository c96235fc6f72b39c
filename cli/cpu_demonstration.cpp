// SPDX-License-Identifier: Apache-2.0
#include "cli/demonstration.h"

#include <fmt/format.h>

#include "calibration/machine_calibration.h"
#include "configs/this_machine.h"
#include "study/output/chart.h"
#include "study/output/outputs.h"
#include "study/output/write_file.h"
#include "validation/live_validation.h"

namespace plimsoll::cli {

namespace {

study::ChartSeries series_of(const char* name, const std::vector<study::PointResult>& points,
                             study::SeriesStyle style) {
  study::ChartSeries series{name, {}, style, 0};
  for (const study::PointResult& p : points)
    if (p.metrics && p.metrics->latency_per_token.p90)
      series.points.push_back({p.metrics->output_tokens_per_s, 1e3 * *p.metrics->latency_per_token.p90,
                               fmt::format("{:g} users", p.labels.load_value)});
  return series;
}

study::Chart curves(const std::string& title, const std::vector<study::PointResult>& simulated,
                    const std::vector<study::PointResult>& measured, const std::string& error) {
  study::Chart chart;
  chart.title = title;
  chart.subtitle = "line simulated, hollow markers measured";
  chart.x = {"output tokens/s", study::Scale::log};
  chart.y = {"p90 latency, ms per output token", study::Scale::log};
  chart.series.push_back(series_of("simulated", simulated, study::SeriesStyle::curve));
  chart.series.push_back(series_of("measured", measured, study::SeriesStyle::points));
  chart.note = error;
  return chart;
}

std::string error_line(const validation::LiveValidation& validation) {
  const validation::ErrorSummary tokens = validation::live_errors(validation, validation::live_metrics()[0]),
                                 times = validation::live_errors(validation, validation::live_metrics()[1]);
  if (tokens.count == 0) return "no point was measured on a quiet machine: other programs are running";
  return fmt::format("median error {:.1f} % in output tokens/s and {:.1f} % in TPOT, {} points of {}",
                     100 * tokens.median, 100 * times.median, tokens.count, validation.points.size());
}

}  // namespace

configs::ThisMachine quick_calibration(const std::string& configs_root, double seconds, study::RunControl* control) {
  calibration::MachineSettings settings;
  settings.ranks = {1};
  settings.seconds = seconds;
  settings.tunes = false;  // the points that follow run as on a machine without calibration
  settings.control = control;
  calibration::MachineCalibration result = calibration::calibrate_machine(configs::Catalogue(configs_root), settings);
  result.command = "plimsoll demo";
  return configs::read_this_machine(
      configs::Document::from_text(calibration::machine_yaml(result), "quick calibration"));
}

std::string demonstrate_cpu(const study::Study& study, const CpuDemonstrationSettings& settings) {
  study::Outputs outputs(study, {.folder = settings.folder,
                                 .requests = false,
                                 .decisions = false,
                                 .timeline = false,
                                 .resumable = false,
                                 .stepwise = false});
  validation::LiveSettings live;
  live.measure = settings.measure;
  live.control = settings.control;
  live.quiet = {.reference = settings.reference,
                .tolerance = validation::kQuietTolerance,
                .most_attempts = 2,
                .patience = settings.patience,
                .probe = settings.probe,
                .control = settings.control};
  const validation::LiveValidation validation = validation::validate_live(study, live);
  if (validation.cancelled) return {};

  study::StudyResult measured;
  std::vector<study::PointResult> simulated;
  for (const validation::LivePoint& point : validation.points) {
    simulated.push_back(point.simulated);
    measured.points.push_back(point.measured);
    settings.label(measured.points.back());
  }
  const std::string error = error_line(validation);
  study::write_file(settings.folder + "/simulated.csv", study::points_csv(study.swept_keys(), simulated));
  outputs.finish(measured);
  study::write_file(settings.folder + "/comparison.csv", validation::live_csv(validation));
  study::write_file(settings.folder + "/curves.svg",
                    study::svg_chart(curves(study.title(), simulated, measured.points, error)));
  const study::PointLabels& l = measured.points.front().labels;
  return fmt::format("this machine: {} {}, {}, TP {}, simulated beside measured\n", l.model, l.dtype, l.engine, l.tp) +
         validation::live_text(validation) +
         fmt::format(
             "\nThe same scheduler simulated and measured on this machine: {}.\nWritten to {}:\n"
             "points.csv (measured), simulated.csv, comparison.csv, study.yaml and the picture curves.svg.\n",
             error, settings.folder);
}

}  // namespace plimsoll::cli
