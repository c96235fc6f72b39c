// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/plot_page.h"

#include <algorithm>

#include "gui/core/slo_answer.h"
#include "gui/core/text.h"
#include "sched/metrics_collector.h"

namespace plimsoll::gui {
namespace {

bool completed(const sim::RequestRow& row) { return row.outcome == sched::Outcome::completed && row.first_token >= 0; }

PlotSeries cdf(const QString& name, std::size_t colour, std::vector<double> values) {
  PlotSeries series;
  series.name = name;
  series.colour = colour;
  series.line = LineLook::steps;
  series.markers = false;
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double share = 100 * static_cast<double>(i + 1) / static_cast<double>(values.size());
    series.points.push_back({values[i], share, PointLook::filled, {}, i, 0});
  }
  return series;
}

// Marks the percentiles that SLOs state, computed as those of the curves.
void mark_percentiles(std::vector<double> values, std::size_t colour, std::vector<PlotMark>& marks) {
  if (values.empty()) return;
  for (const int percent : {50, 90, 99}) {
    const double x = sched::quantile(values, percent / 100.0);
    marks.push_back(
        {x, static_cast<double>(percent), colour, CdfPage::tr("p%1 %2 ms").arg(percent).arg(reader_text(x, 4))});
  }
}

// Adds the limits on the distributions that are shown.
void add_limits(const Workbench& bench, PlotContent& content) {
  const auto& curves = bench.curves().curves();
  if (curves.empty() || curves.back().points.empty()) return;
  for (const PointLimit& limit :
       limits_of(curves.back().points.front().row, drawn_limit(bench.session().state().view))) {
    const std::string& column = limit.column;
    const bool shown = column.starts_with("ttft_") || column.starts_with("tpot_") ||
                       (column.starts_with("latency_") && !column.starts_with("latency_per_token"));
    if (shown) content.lines.push_back({0, Qt::Vertical, limit.limit * 1e3, limit_words(limit), false, false});
  }
}

}  // namespace

CdfPage::CdfPage(Workbench& bench, QWidget* parent) : PlotPage(bench, parent) {
  connect(&bench, &Workbench::details_changed, this, &CdfPage::refresh);
}

PlotPage::Page CdfPage::build(const std::set<QString>& hidden) const {
  PlotContent content;
  content.x = {tr("time (ms)"), true, true};
  content.y = {tr("requests within that time (%)"), false, true};
  content.y.most = 100;
  const PointDetails* details = isVisible() ? bench_.details() : nullptr;
  if (details == nullptr) {
    content.message = bench_.details_failure().isEmpty() ? tr("Simulating the point…") : bench_.details_failure();
    return {std::move(content), QString()};
  }
  std::vector<double> latency, ttft, tpot;
  for (const sim::RequestRow& row : details->requests) {
    if (!completed(row)) continue;
    latency.push_back(seconds(row.end - row.arrival) * 1e3);
    ttft.push_back(seconds(row.first_token - row.arrival) * 1e3);
    if (row.generated > 1)
      tpot.push_back(seconds(row.end - row.first_token) * 1e3 / static_cast<double>(row.generated - 1));
  }
  const std::size_t n = latency.size();
  const auto add = [&](const QString& name, std::size_t colour, std::vector<double> values) {
    // A hidden series stays without points, so that its legend entry can show it again.
    if (hidden.contains(name)) values.clear();
    mark_percentiles(values, colour, content.marks);
    content.series.push_back(cdf(name, colour, std::move(values)));
  };
  add(tr("TPOT"), 2, std::move(tpot));
  add(tr("TTFT"), 1, std::move(ttft));
  add(tr("latency"), 0, std::move(latency));
  add_limits(bench_, content);
  return {std::move(content), tr("%1 at load %2: %3 completed requests. Click a point in Curves to see another.")
                                  .arg(details->name, reader_text(details->load, 4))
                                  .arg(n)};
}

}  // namespace plimsoll::gui
