// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/timeline_page.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QSignalBlocker>
#include <QStandardItemModel>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/core/request_stages.h"
#include "gui/core/text.h"
#include "gui/window/waterfall.h"

namespace plimsoll::gui {
namespace {

double batch_of(const sim::StepRow& step) { return static_cast<double>(step.decode_rows + step.prefill_rows); }
double kv_of(const sim::StepRow& step) { return static_cast<double>(step.kv_blocks); }
double queue_of(const sim::StepRow& step) { return static_cast<double>(step.queued); }

std::int32_t replicas_of(const std::vector<sim::StepRow>& steps) {
  std::int32_t replicas = 0;
  for (const sim::StepRow& step : steps) replicas = std::max(replicas, step.replica + 1);
  return replicas;
}

}  // namespace

TimelinePage::TimelinePage(Workbench& bench, QWidget* parent) : View(bench, parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->setSpacing(4);
  caption_ = new QLabel(this);
  caption_->setWordWrap(true);
  side_ = new QComboBox(this);
  side_->setAccessibleName(tr("Simulated, measured, or the difference"));
  side_->addItems({tr("simulated"), tr("measured"), tr("measured – simulated")});
  waterfall_ = new Waterfall(this);
  requests_ = make_strip(tr("Measured minus simulated latency of every request"));
  requests_->hide();
  auto* head = new QHBoxLayout();
  head->addWidget(caption_, 1);
  head->addWidget(side_, 0, Qt::AlignTop);
  column->addLayout(head);
  column->addWidget(waterfall_, 3);
  column->addWidget(requests_, 3);
  batch_ = make_strip(tr("Batch over time"));
  kv_ = make_strip(tr("KV blocks over time"));
  transfers_ = make_strip(tr("KV transfers over time"));
  transfers_->hide();
  queue_ = make_strip(tr("Queue over time"));
  for (PlotView* strip : {batch_, kv_, transfers_, queue_}) column->addWidget(strip, 1);
  connect(&bench, &Workbench::details_changed, this, &TimelinePage::refresh);
  connect(side_, &QComboBox::currentIndexChanged, this, &TimelinePage::refresh);
  connect(waterfall_, &Waterfall::selection_changed, this, [this] {
    if (waterfall_->selected())
      Q_EMIT message(waterfall_->words(*waterfall_->selected()).replace(QChar(u'\n'), QStringLiteral(" · ")));
    refresh();
  });
  // The strips below show the waterfall's range of time.
  connect(waterfall_, &Waterfall::range_changed, this, [this](double low, double high) {
    for (PlotView* strip : {batch_, kv_, transfers_, queue_}) strip->follow_x(std::pair(low, high));
  });
}

// With pools the replicas of the decode pool come first.
PlotSeries TimelinePage::stepped(std::int32_t replica, const std::vector<TimedValue>& values) const {
  PlotSeries series;
  series.name = decode_replicas_ == 0        ? tr("replica %1").arg(replica)
                : replica < decode_replicas_ ? tr("decode %1").arg(replica)
                                             : tr("prefill %1").arg(replica - decode_replicas_);
  series.colour = static_cast<std::size_t>(replica);
  series.line = LineLook::steps;
  series.markers = false;
  for (const TimedValue& v : values) series.points.push_back({v.at_s, v.value, PointLook::filled, {}, 0, 0});
  return series;
}

PlotView* TimelinePage::make_strip(const QString& name) {
  PlotView* strip = make_plot_view(this).release();
  strip->set_name(name);
  return strip;
}

void TimelinePage::show_side(Shown side) { side_->setCurrentIndex(static_cast<int>(side)); }

// Disables the choices that need measurements if there are none.
void TimelinePage::refresh_choice(const PointDetails& details) {
  auto* items = qobject_cast<QStandardItemModel*>(side_->model());
  for (int i = 1; i < side_->count(); ++i) items->item(i)->setEnabled(details.measured.has_value());
  side_->setToolTip(
      details.measured
          ? tr("Measured files: %1").arg(details.measured_from)
          : tr("Measure this scenario (Ctrl+M), or add the points.csv of a run with --requests and --timeline") +
                (details.measured_from.isEmpty() ? QString() : QStringLiteral("\n") + details.measured_from));
  // The point shown before had measurements, this one has none.
  if (!details.measured && side_->currentIndex() != 0) {
    // Block the signal: refresh() is already running and would call itself.
    const QSignalBlocker quiet(side_);
    side_->setCurrentIndex(0);
  }
}

void TimelinePage::refresh() {
  // Asking for details starts a simulation, so a hidden page does not ask.
  const PointDetails* details = isVisible() ? bench_.details() : nullptr;
  if (details == nullptr) {
    caption_->setText(bench_.details_failure().isEmpty() ? tr("Simulating the point…") : bench_.details_failure());
    return;
  }
  refresh_choice(*details);
  decode_replicas_ = details->decode_replicas;
  const auto side = static_cast<Shown>(side_->currentIndex());
  waterfall_->setVisible(side != Shown::difference);
  if (side == Shown::difference) transfers_->hide();
  requests_->setVisible(side == Shown::difference);
  if (side == Shown::difference) {
    show_difference(*details);
    return;
  }
  const bool measured = side == Shown::measured;
  const auto& requests = measured ? details->measured->requests : details->requests;
  const auto& steps = measured ? details->measured->steps : details->steps;
  std::int64_t step_count = 0;  // a row may represent a run of equal steps
  for (const sim::StepRow& row : steps) step_count += row.steps;
  caption_->setText(tr("%1 at load %2, %3: %4 requests in %5 steps. Click a request to follow it below. Wheel zooms, A "
                       "and D move, W and S zoom, 0 shows all.")
                        .arg(details->name, reader_text(details->load, 4), measured ? tr("measured") : tr("simulated"))
                        .arg(requests.size())
                        .arg(reader_text(static_cast<double>(step_count), 6)));
  show_run(requests, steps);
}

PlotContent TimelinePage::strip(const QString& title, const StepValue& value,
                                const std::vector<sim::StepRow>& steps) const {
  PlotContent content;
  content.x = {QString(), false, true};
  content.y = {title, false, true};
  for (std::int32_t r = 0; r < replicas_of(steps); ++r)
    content.series.push_back(stepped(r, step_values(steps, r, value)));
  // The selected request from its arrival to its end.
  if (const auto selected = waterfall_->selected()) {
    const sim::RequestRow& row = waterfall_->requests()[*selected];
    for (const Nanos at : {row.arrival, row.end})
      content.lines.push_back({1, Qt::Vertical, seconds(at), QString(), false, false});
  }
  if (steps.empty()) content.message = tr("The run left no timeline.json (--timeline)");
  return content;
}

void TimelinePage::show_run(const std::vector<sim::RequestRow>& requests, const std::vector<sim::StepRow>& steps) {
  waterfall_->show_requests(requests);
  batch_->set_content(strip(tr("batch"), batch_of, steps));
  kv_->set_content(strip(tr("KV blocks"), kv_of, steps));
  PlotContent queue = strip(tr("queue"), queue_of, steps);
  queue.x.title = tr("time (s)");
  queue_->set_content(std::move(queue));
  const auto range = waterfall_->range();
  transfers_->setVisible(has_stages(requests));
  if (has_stages(requests)) transfers_->set_content(transfers_strip(requests));
  for (PlotView* one : {batch_, kv_, transfers_, queue_}) one->follow_x(range);
}

PlotContent TimelinePage::transfers_strip(const std::vector<sim::RequestRow>& requests) const {
  PlotContent content;
  content.x = {QString(), false, true};
  content.y = {tr("transfers"), false, true};
  PlotSeries series = stepped(0, transfers_under_way(requests));
  series.name = tr("KV transfers");
  series.colour = 4;
  content.series.push_back(std::move(series));
  return content;
}

PlotContent TimelinePage::difference_strip(const QString& title, const StepValue& value,
                                           const PointDetails& details) const {
  PlotContent content;
  content.x = {QString(), false, true};
  content.y = {title, false, true};
  // A replica may have steps in only one of the two runs.
  const std::int32_t replicas = std::max(replicas_of(details.steps), replicas_of(details.measured->steps));
  for (std::int32_t r = 0; r < replicas; ++r) {
    content.series.push_back(stepped(
        r, step_difference(step_values(details.measured->steps, r, value), step_values(details.steps, r, value))));
  }
  if (details.measured->steps.empty()) {
    content.series.clear();
    content.message = tr("The run left no timeline.json (--timeline)");
  }
  return content;
}

void TimelinePage::show_difference(const PointDetails& details) {
  PlotContent content;
  content.x = {tr("arrival (s)"), false, true};
  content.y = {tr("latency difference (ms)"), false, true};
  PlotSeries series;
  series.name = tr("request");
  series.line = LineLook::none;
  double sum = 0, simulated = 0;
  const std::vector<RequestDifference> all = request_differences(details);
  for (const RequestDifference& d : all) {
    sum += d.latency_s;
    simulated += d.simulated_s;
    series.points.push_back(
        {d.arrival_s, d.latency_s * 1e3, PointLook::filled,
         tr("simulated %1 ms\nmeasured %2 ms")
             .arg(reader_text(d.simulated_s * 1e3, 4), reader_text((d.simulated_s + d.latency_s) * 1e3, 4)),
         0, 0});
  }
  content.series.push_back(std::move(series));
  requests_->set_content(std::move(content));
  caption_->setText(
      simulated > 0
          ? tr("%1 at load %2: measured latencies are %3 % of the simulated ones, over %4 requests that completed in "
               "both.")
                .arg(details.name, reader_text(details.load, 4))
                .arg(100 * (1 + sum / simulated), 0, 'f', 1)
                .arg(all.size())
          : tr("%1 at load %2: no request completed in both.").arg(details.name, reader_text(details.load, 4)));
  batch_->set_content(difference_strip(tr("batch"), batch_of, details));
  kv_->set_content(difference_strip(tr("KV blocks"), kv_of, details));
  PlotContent queue = difference_strip(tr("queue"), queue_of, details);
  queue.x.title = tr("time (s)");
  queue_->set_content(std::move(queue));
  // Without the waterfall each strip shows its own range.
  for (PlotView* one : {batch_, kv_, queue_}) one->follow_x({});
}

void TimelinePage::set_theme(const Theme& theme) {
  waterfall_->set_theme(theme);
  for (PlotView* strip : {requests_, batch_, kv_, transfers_, queue_}) strip->set_theme(theme);
}

void TimelinePage::reset_zoom() { waterfall_->show_all(); }

TableData TimelinePage::difference_table() const { return table_of(requests_->content()); }

PictureParts TimelinePage::picture() const {
  PictureParts parts{{}, {caption_->text()}};
  for (QWidget* const chart : std::initializer_list<QWidget*>{waterfall_, requests_, batch_, kv_, transfers_, queue_}) {
    if (!chart->isHidden()) parts.charts.push_back(chart);
  }
  return parts;
}

TableData TimelinePage::table() const {
  if (static_cast<Shown>(side_->currentIndex()) == Shown::difference) return difference_table();
  TableData table{{tr("request"), tr("replica"), tr("arrival (s)"), tr("dispatched (s)"), tr("first token (s)"),
                   tr("end (s)"), tr("input tokens"), tr("generated tokens")},
                  {}};
  const bool pools = has_stages(waterfall_->requests());
  if (pools)
    table.headers << tr("prefill replica") << tr("prefill from (s)") << tr("prefill until (s)")
                  << tr("transfer from (s)") << tr("transfer until (s)") << tr("decode from (s)");
  for (const sim::RequestRow& row : waterfall_->requests()) {
    const auto time = [](Nanos t) { return t < 0 ? QString() : qs(study::number_text(seconds(t))); };
    QStringList cells{QString::number(row.id),    QString::number(row.replica),  time(row.arrival),
                      time(row.dispatched),       time(row.first_token),         time(row.end),
                      QString::number(row.input), QString::number(row.generated)};
    if (pools) {
      const sched::Stages s = row.stages.value_or(sched::Stages{});
      cells << (s.local() ? QString() : QString::number(s.prefill_replica)) << time(s.prefill_start)
            << time(s.prefill_end) << time(s.transfer_start) << time(s.transfer_end) << time(s.decode_start);
    }
    table.rows.push_back(cells);
  }
  return table;
}

}  // namespace plimsoll::gui
