// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/plot_page.h"

#include <algorithm>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

double seconds(Nanos nanos) { return static_cast<double>(nanos) * 1e-9; }

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

}  // namespace

CdfPage::CdfPage(Workbench& bench, QWidget* parent) : PlotPage(bench, parent) {
  connect(&bench, &Workbench::details_changed, this, &CdfPage::refresh);
}

PlotPage::Page CdfPage::build(const std::set<QString>& hidden) const {
  PlotContent content;
  content.x = {tr("time (ms)"), true, true};
  content.y = {tr("requests within that time (%)"), false, true};
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
    if (!hidden.contains(name))
      content.series.push_back(cdf(name, colour, std::move(values)));
    else
      // A hidden series stays without points, so that its legend entry can show it again.
      content.series.push_back(cdf(name, colour, {}));
  };
  add(tr("TPOT"), 2, std::move(tpot));
  add(tr("TTFT"), 1, std::move(ttft));
  add(tr("latency"), 0, std::move(latency));
  return {std::move(content), tr("%1 at load %2: %3 completed requests. Choose another point in the curves.")
                                  .arg(details->name, reader_text(details->load, 4))
                                  .arg(n)};
}

}  // namespace plimsoll::gui
