// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/point_page.h"

#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/core/text.h"
#include "gui/window/waterfall.h"

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
    if (row.generated > 1) tpot.push_back(seconds(row.end - row.first_token) * 1e3 / static_cast<double>(row.generated - 1));
  }
  const std::size_t n = latency.size();
  const auto add = [&](const QString& name, std::size_t colour, std::vector<double> values) {
    if (!hidden.contains(name)) content.series.push_back(cdf(name, colour, std::move(values)));
    else content.series.push_back(cdf(name, colour, {}));
  };
  add(tr("TPOT"), 2, std::move(tpot));
  add(tr("TTFT"), 1, std::move(ttft));
  add(tr("latency"), 0, std::move(latency));
  return {std::move(content), tr("%1 at load %2: %3 completed requests. Choose another point in the curves.").arg(details->name, reader_text(details->load, 4)).arg(n)};
}

TimelinePage::TimelinePage(Workbench& bench, QWidget* parent) : View(bench, parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->setSpacing(4);
  caption_ = new QLabel(this);
  caption_->setWordWrap(true);
  waterfall_ = new Waterfall(this);
  column->addWidget(caption_);
  column->addWidget(waterfall_, 3);
  batch_ = make_strip(tr("Batch over time"));
  kv_ = make_strip(tr("KV blocks over time"));
  queue_ = make_strip(tr("Queue over time"));
  for (PlotView* strip : {batch_, kv_, queue_}) column->addWidget(strip, 1);
  connect(&bench, &Workbench::details_changed, this, &TimelinePage::refresh);
  connect(waterfall_, &Waterfall::range_changed, this, [this](double low, double high) {
    for (PlotView* strip : {batch_, kv_, queue_}) strip->follow_x(std::pair(low, high));
  });
}

PlotView* TimelinePage::make_strip(const QString& name) {
  PlotView* strip = make_plot_view(this).release();
  strip->setAccessibleName(name);
  return strip;
}

PlotContent TimelinePage::strip(const PointDetails& details, const QString& title, const std::function<double(const sim::StepRow&)>& value) const {
  PlotContent content;
  content.x = {QString(), false, true};
  content.y = {title, false, true};
  std::int32_t replicas = 0;
  for (const sim::StepRow& step : details.steps) replicas = std::max(replicas, step.replica + 1);
  for (std::int32_t r = 0; r < replicas; ++r) {
    PlotSeries series;
    series.name = tr("replica %1").arg(r);
    series.colour = static_cast<std::size_t>(r);
    series.line = LineLook::steps;
    series.markers = false;
    for (const sim::StepRow& step : details.steps) {
      if (step.replica == r) series.points.push_back({seconds(step.start), value(step), PointLook::filled, {}, 0, 0});
    }
    content.series.push_back(std::move(series));
  }
  return content;
}

void TimelinePage::refresh() {
  const PointDetails* details = isVisible() ? bench_.details() : nullptr;
  if (details == nullptr) {
    caption_->setText(bench_.details_failure().isEmpty() ? tr("Simulating the point…") : bench_.details_failure());
    return;
  }
  caption_->setText(tr("%1 at load %2: %3 requests in %4 steps. Wheel zooms, A and D move, W and S zoom, 0 shows all.")
                        .arg(details->name, reader_text(details->load, 4)).arg(details->requests.size()).arg(details->steps.size()));
  waterfall_->show_requests(details->requests);
  batch_->set_content(strip(*details, tr("batch"), [](const sim::StepRow& s) { return static_cast<double>(s.decode_rows + s.prefill_rows); }));
  kv_->set_content(strip(*details, tr("KV blocks"), [](const sim::StepRow& s) { return static_cast<double>(s.kv_blocks); }));
  PlotContent queue = strip(*details, tr("queue"), [](const sim::StepRow& s) { return static_cast<double>(s.queued); });
  queue.x.title = tr("time (s)");
  queue_->set_content(std::move(queue));
  const auto range = waterfall_->range();
  for (PlotView* one : {batch_, kv_, queue_}) one->follow_x(range);
}

void TimelinePage::set_theme(const Theme& theme) {
  waterfall_->set_theme(theme);
  for (PlotView* strip : {batch_, kv_, queue_}) strip->set_theme(theme);
}

void TimelinePage::reset_zoom() { waterfall_->show_all(); }

TableData TimelinePage::table() const {
  TableData table{{tr("request"), tr("replica"), tr("arrival (s)"), tr("dispatched (s)"), tr("first token (s)"), tr("end (s)"), tr("input tokens"), tr("generated tokens")}, {}};
  for (const sim::RequestRow& row : waterfall_->requests()) {
    const auto time = [](Nanos t) { return t < 0 ? QString() : qs(study::number_text(seconds(t))); };
    table.rows.push_back({QString::number(row.id), QString::number(row.replica), time(row.arrival), time(row.dispatched), time(row.first_token), time(row.end),
                          QString::number(row.input), QString::number(row.generated)});
  }
  return table;
}

}  // namespace plimsoll::gui
