// SPDX-License-Identifier: Apache-2.0
#include "study/output/points_page.h"

#include <fmt/format.h>

#include "study/output/html_page.h"

namespace plimsoll::study {

std::vector<std::string> assumptions_of(const PointSpec& spec, const std::vector<std::string>& notes) {
  std::vector<std::string> lines;
  if (spec.shape)
    lines.push_back(fmt::format("Model {}: weights in {}, KV cache in {}.", spec.shape->id,
                                model::name(spec.weight_dtype), model::name(spec.kv_dtype)));
  const Hardware& hardware = spec.hardware;
  if (hardware.accelerator) {
    std::string line = fmt::format("Hardware {}: {} of {}", hardware.label, hardware.count, hardware.accelerator->id);
    if (hardware.interconnect) line += ", linked by " + hardware.interconnect->id;
    if (hardware.usd_per_hour)
      line += fmt::format("; {} USD/h ({})", reader_number(*hardware.usd_per_hour), hardware.price_note);
    lines.push_back(line + '.');
  }
  std::string engine = "Engine profile " + spec.engine->id;
  if (!spec.engine->calibrated_on.empty()) engine += ": " + spec.engine->calibrated_on;
  lines.push_back(engine + '.');
  for (const std::string& note : notes) lines.push_back(note + '.');
  return lines;
}

std::string points_html(const Study& study, const std::vector<PointResult>& points) {
  HtmlPage page(study.title());
  if (points.empty()) return page.paragraph("No point has finished.").text();
  const std::vector<std::string> keys = study.swept_keys();
  const PointsTable table = points_text_table(keys, points);
  page.paragraph(table.constants);
  for (const Chart& chart : points_charts(study.title(), keys, points)) page.picture(chart);
  page.heading("Figures").table(table.table).list(table.footnotes);
  page.heading("Assumptions").list(assumptions_of(study.point(0), study.notes()));
  page.paragraph(
      "points.csv beside this page has every column, with 90 % bands where the engine's profile states them; "
      "docs/metrics.md defines them.");
  return page.folded("The study", study.resolved_yaml()).text();
}

}  // namespace plimsoll::study
