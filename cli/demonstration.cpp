// SPDX-License-Identifier: Apache-2.0
#include "cli/demonstration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "study/output/chart.h"
#include "study/output/outputs.h"
#include "study/output/write_file.h"
#include "study/run/run_study.h"
#include "validation/compare.h"
#include "validation/report.h"

namespace plimsoll::cli {

namespace {

constexpr const char* kModel = "llama-2-7b";

// Returns the rows of the study's model from the published table by TP degree.
validation::MeasuredTable published_rows() {
  validation::MeasuredTable table = validation::read_measured(validation::published_folder() + "/jumpstart-by-tp.csv");
  std::erase_if(table.points, [](const validation::MeasuredPoint& p) { return p.model != kModel; });
  return table;
}

study::Chart curves(const std::vector<study::PointResult>& points, const validation::MeasuredTable& published,
                    const validation::ErrorSummary& latency) {
  study::Chart chart;
  chart.title = "Llama 2 7B on ml.p4d.24xlarge, by tensor-parallel degree";
  chart.subtitle =
      "256 + 256 tokens, closed loop of 1 to 512 users, one replica; lines simulated, hollow markers published";
  chart.x = {"output tokens/s", study::Scale::log};
  chart.y = {"p90 latency, ms per output token", study::Scale::log};
  std::vector<std::int32_t> degrees;
  for (const study::PointResult& p : points)
    if (std::find(degrees.begin(), degrees.end(), p.labels.tp) == degrees.end()) degrees.push_back(p.labels.tp);
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    study::ChartSeries simulated{fmt::format("TP {}", degrees[i]), {}, study::SeriesStyle::curve, i};
    for (const study::PointResult& p : points)
      if (p.labels.tp == degrees[i] && p.metrics && p.metrics->latency_per_token.p90)
        simulated.points.push_back({p.metrics->output_tokens_per_s, 1e3 * *p.metrics->latency_per_token.p90,
                                    fmt::format("{:g} users", p.labels.load_value)});
    study::ChartSeries measured{fmt::format("TP {}, published", degrees[i]), {}, study::SeriesStyle::points, i};
    for (const validation::MeasuredPoint& p : published.points)
      if (p.tp == degrees[i] && p.output_tokens_per_s && p.latency_per_token_p90_s)
        measured.points.push_back(
            {*p.output_tokens_per_s, 1e3 * *p.latency_per_token_p90_s, fmt::format("{:g} users", p.load_value)});
    chart.series.push_back(std::move(simulated));
    chart.series.push_back(std::move(measured));
  }
  chart.note = fmt::format(
      "Published: AWS JumpStart post, January 2024. Mean absolute error of the latency {:.0f} % over {} cells.",
      100 * latency.mean, latency.count);
  return chart;
}

}  // namespace

std::string demonstrate(std::shared_ptr<const configs::Catalogue> catalogue, const DemonstrationSettings& settings) {
  const std::string file = catalogue->root() + "/studies/jumpstart-7b-p4d.yaml";
  const study::Study study(file, {}, std::move(catalogue));
  study::OutputChoice choice;
  choice.folder = settings.folder;
  study::Outputs outputs(study, choice);
  study::RunSettings run;
  run.bands = true;
  run.jobs = settings.jobs;
  run.control = settings.control;
  const auto begin = std::chrono::steady_clock::now();
  const study::StudyResult result = study::run_study(study, run);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outputs.finish(result);

  const validation::MeasuredTable published = published_rows();
  const std::vector<validation::Comparison> comparisons = validation::match(published, result.points);
  std::vector<const validation::Comparison*> latencies;
  for (const validation::Comparison& c : comparisons)
    if (c.metric == "latency_per_token_p90_s") latencies.push_back(&c);
  study::write_file(settings.folder + "/comparison.csv", validation::comparison_csv(comparisons));
  study::write_file(settings.folder + "/curves.svg",
                    study::svg_chart(curves(result.points, published, validation::summarise(latencies))));
  return validation::comparison_text(comparisons) +
         fmt::format(
             "\n{} points simulated in {:.2f} s. Written to {}: points.csv, comparison.csv, study.yaml and the picture "
             "curves.svg.\nNext: plimsoll simulate STUDY, plimsoll memory STUDY, plimsoll validate, plimsoll list "
             "models; "
             "each has --help.\n",
             result.points.size(), seconds, settings.folder);
}

}  // namespace plimsoll::cli
