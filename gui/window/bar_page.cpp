// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/bar_page.h"

#include <QCheckBox>
#include <QHeaderView>
#include <QLabel>
#include <QPainter>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

#include "gui/core/slo_answer.h"
#include "gui/core/text.h"
#include "gui/plot/axis_scale.h"
#include "model/memory_plan.h"
#include "study/run/resolve.h"

namespace plimsoll::gui {

BarChart::BarChart(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setMinimumHeight(160);
}

void BarChart::show_bars(std::vector<Part> parts, std::vector<Bar> bars, const QString& unit,
                         std::optional<Limit> limit) {
  parts_ = std::move(parts);
  bars_ = std::move(bars);
  unit_ = unit;
  limit_ = std::move(limit);
  update();
}

TableData BarChart::table() const {
  TableData table{{tr("bar")}, {}};
  for (const Part& part : parts_) table.headers << QStringLiteral("%1 (%2)").arg(part.name, unit_);
  table.headers << tr("note");
  for (const Bar& bar : bars_) {
    QStringList row{bar.label};
    for (const double value : bar.values) row << qs(study::number_text(value));
    table.rows.push_back(row << bar.note);
  }
  return table;
}

// Starts a new line when the next entry would not fit, and moves `top` below the last line.
void BarChart::paint_legend(QPainter& painter, double& top) const {
  const QFontMetricsF metrics(font());
  double x = 10;
  for (const Part& part : parts_) {
    const double needed = 20 + metrics.horizontalAdvance(part.name) + 18;
    if (x + needed > width() && x > 10) {
      x = 10;
      top += metrics.height() + 4;
    }
    painter.fillRect(QRectF(x, top + 3, 13, metrics.height() - 5), theme_->colour(part.colour));
    painter.setPen(theme_->text);
    painter.drawText(QPointF(x + 18, top + metrics.ascent()), part.name);
    x += needed;
  }
  top += metrics.height() + 12;
}

void BarChart::paint_bar(QPainter& painter, const Bar& bar, const QRectF& box, double most) const {
  const QFontMetricsF metrics(font());
  double x = box.left();
  for (std::size_t i = 0; i < bar.values.size() && i < parts_.size(); ++i) {
    const double width = std::max(0.0, bar.values[i]) / most * box.width();
    const QColor colour = theme_->colour(parts_[i].colour);
    const QRectF part(x, box.top(), width, box.height());
    painter.fillRect(part, colour);
    // A part too narrow for its number stays blank; the table of the view has the number.
    const QString text = reader_text(bar.values[i], 3);
    if (width > metrics.horizontalAdvance(text) + 8 && box.height() > metrics.height()) {
      painter.setPen(text_on(colour));
      painter.drawText(part, Qt::AlignCenter, text);
    }
    x += width;
  }
  painter.setPen(theme_->soft_text);
  painter.drawText(QPointF(x + 8, box.center().y() + metrics.ascent() / 2 - 1), bar.note);
}

void BarChart::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.fillRect(rect(), theme_->background);
  if (bars_.empty()) return;
  const QFontMetricsF metrics(font());
  // The scale covers the limit too, so that its line is visible when all bars are below it.
  double top = 10, label = 0, most = limit_ ? limit_->value : 0, note = 0;
  paint_legend(painter, top);
  for (const Bar& bar : bars_) {
    label = std::max(label, metrics.horizontalAdvance(bar.label));
    note = std::max(note, metrics.horizontalAdvance(bar.note));
    double sum = 0;
    for (const double value : bar.values) sum += std::max(0.0, value);
    most = std::max(most, sum);
  }
  if (!(most > 0)) most = 1;
  const double left = label + 20, right = width() - std::min(note, width() * 0.4) - 20,
               bottom = height() - 2 * metrics.height() - 14;  // the scale and the limit's name
  const double row = std::min((bottom - top) / static_cast<double>(bars_.size()), 72.0);
  for (std::size_t i = 0; i < bars_.size(); ++i) {
    const double y = top + row * static_cast<double>(i);
    painter.setPen(theme_->text);
    painter.drawText(QRectF(8, y, label + 4, row), Qt::AlignRight | Qt::AlignVCenter, bars_[i].label);
    paint_bar(painter, bars_[i], QRectF(left, y + row * 0.1, right - left, row * 0.8), most);
  }
  const double end = top + row * static_cast<double>(bars_.size());
  paint_scale(painter, QRectF(left, top, right - left, end - top), most);
  if (limit_) {
    const double x = left + limit_->value / most * (right - left);
    painter.setPen(QPen(theme_->bad, 1.6, Qt::DashLine));
    painter.drawLine(QPointF(x, top - 4), QPointF(x, end + 4));
    painter.setPen(theme_->bad);
    painter.drawText(QPointF(std::max(left, x - metrics.horizontalAdvance(limit_->text)),
                             end + metrics.height() + metrics.ascent() + 8),
                     limit_->text);
  }
}

// Round values below the bars, and the unit after the last of them.
void BarChart::paint_scale(QPainter& painter, const QRectF& box, double most) const {
  const QFontMetricsF metrics(font());
  AxisScale scale;
  scale.set_range(0, most);
  const double widest = metrics.horizontalAdvance(QStringLiteral("00 000")) + 18;
  double last = box.left();
  painter.setPen(theme_->soft_text);
  for (const AxisTick& tick : scale.ticks(std::max(2, static_cast<int>(box.width() / widest)))) {
    const double x = box.left() + tick.place / most * box.width(), width = metrics.horizontalAdvance(tick.label);
    painter.drawLine(QPointF(x, box.bottom()), QPointF(x, box.bottom() + 4));
    painter.drawText(QPointF(x - width / 2, box.bottom() + 5 + metrics.ascent()), tick.label);
    last = x + width / 2;
  }
  painter.drawText(QPointF(last + 6, box.bottom() + 5 + metrics.ascent()), unit_);
}

BarPage::BarPage(Workbench& bench, QWidget* parent) : View(bench, parent) {
  caption_ = new QLabel(this);
  caption_->setWordWrap(true);
  caption_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  chart_ = new BarChart(this);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->addWidget(caption_);
  column->addWidget(chart_, 1);
}

void BarPage::set_theme(const Theme& theme) { chart_->set_theme(theme); }

PictureParts BarPage::picture() const { return {{chart_}, {caption_->text()}}; }

namespace {

/// The memory of the deployments of one scenario.
struct MemoryBars {
  std::vector<BarChart::Bar> bars;
  std::vector<double> budgets;  // usable memory, GB
};

void add_memory_bar(study::PointSpec spec, const QString& name, MemoryBars& out) {
  constexpr double kGb = 1e9;
  if (!spec.shape || !spec.hardware.accelerator) return;
  if (spec.deployment.tp_is_max) spec.deployment.tp = spec.hardware.count;
  if (!model::tp_problem(*spec.shape, spec.deployment.tp).empty()) return;
  const model::MemoryPlan plan = study::point_memory(spec);
  out.budgets.push_back(plan.budget.value / kGb);
  const double longest = static_cast<double>(study::longest_sequence(spec));
  const QString note = plan.fits() ? MemoryPage::tr("%1 KV tokens: %2 sequences of %3")
                                         .arg(reader_text(static_cast<double>(plan.kv_tokens), 4))
                                         .arg(reader_text(std::floor(static_cast<double>(plan.kv_tokens) / longest), 4))
                                         .arg(reader_text(longest, 6))
                                   : MemoryPage::tr("✗ %1 GB are missing").arg(reader_text(-plan.kv.value / kGb, 3));
  out.bars.push_back({name,
                      {plan.weights.value / kGb, plan.activation.value / kGb, plan.overhead.value / kGb,
                       std::max(0.0, plan.kv.value / kGb)},
                      note});
}

void add_memory(const Workbench& bench, std::size_t scenario, MemoryBars& out) {
  const study::Study study = make_study(bench.session().state().scenarios[scenario], bench.catalogue());
  for (const DrawnCurve& drawn : bench.drawn()) {
    const Curve& curve = *drawn.curve;
    if (drawn.scenario != scenario || curve.points.empty() || curve.points.front().index >= study.point_count())
      continue;
    study::PointSpec spec = study.point(curve.points.front().index);
    const auto prefill = std::exchange(spec.prefill, nullptr);
    if (prefill) add_memory_bar(*prefill, MemoryPage::tr("%1, prefill").arg(drawn.name), out);
    add_memory_bar(std::move(spec), prefill ? MemoryPage::tr("%1, decode").arg(drawn.name) : drawn.name, out);
  }
}

}  // namespace

// Computed here and not in a lane, because a deployment's memory plan takes only microseconds.
void MemoryPage::refresh() {
  chart_->setAccessibleName(tr("Memory of a GPU by deployment"));
  MemoryBars all;
  QStringList problems;
  const std::vector<Scenario>& scenarios = bench_.session().state().scenarios;
  for (std::size_t s = 0; s < scenarios.size(); ++s) {
    try {
      if (scenarios[s].shown) add_memory(bench_, s, all);
    } catch (const std::exception& error) {
      problems << (scenarios.size() > 1 ? QStringLiteral("%1: %2").arg(scenarios[s].name, qs(error.what()))
                                        : qs(error.what()));
    }
  }
  // A single line is right only if all bars have the same budget.
  std::optional<BarChart::Limit> budget;
  const bool equal = std::all_of(all.budgets.begin(), all.budgets.end(), [&](double b) { return b == all.budgets[0]; });
  if (!all.budgets.empty() && equal) budget = {all.budgets[0], tr("usable")};
  caption_->setText(problems.isEmpty() ? tr("One GPU's memory by deployment, GB: what is left after weights, "
                                            "activations and overhead holds the KV cache.")
                                       : problems.join(QChar(u'\n')));
  chart_->show_bars({{tr("weights"), 0}, {tr("activations"), 1}, {tr("overhead"), 4}, {tr("KV cache"), 2}},
                    std::move(all.bars), tr("GB"), budget);
}

namespace {

struct TimeParts {
  std::vector<BarChart::Part> parts;
  std::vector<double> (*values)(const sched::PointMetrics&);
};

// With pools, a request's time is divided by stage (docs/pools.md); with one pool, by cause.
TimeParts parts_of(bool pools) {
  if (pools)
    return {
        {{TimePage::tr("queue, prefill"), 3},
         {TimePage::tr("prefill"), 1},
         {TimePage::tr("KV transfer"), 4},
         {TimePage::tr("queue, decode"), 7},
         {TimePage::tr("decode"), 0}},
        [](const sched::PointMetrics& m) {
          const sched::PoolMetrics& p = *m.pools;
          return std::vector{p.time_queue_prefill, p.time_prefill, p.time_transfer, p.time_queue_decode, p.time_decode};
        }};
  return {{{TimePage::tr("reading weights"), 0},
           {TimePage::tr("reading KV"), 5},
           {TimePage::tr("compute"), 2},
           {TimePage::tr("all-reduce"), 1},
           {TimePage::tr("host"), 4},
           {TimePage::tr("queue"), 3},
           {TimePage::tr("preempted"), 6},
           {TimePage::tr("other"), 7}},
          [](const sched::PointMetrics& m) {
            return std::vector{m.time_weights_s, m.time_kv_s,    m.time_compute_s, m.time_allreduce_s,
                               m.time_host_s,    m.time_queue_s, m.time_preempt_s, m.time_other_s};
          }};
}

}  // namespace

void TimePage::refresh() {
  chart_->setAccessibleName(tr("Where the latency goes, by load"));
  const CurveModel& curves = bench_.curves();
  std::vector<BarChart::Bar> bars;
  // Shows the selected point's curve, or the last one if no point is selected.
  const std::size_t shown = bench_.selection() && bench_.selection()->curve < curves.curves().size()
                                ? bench_.selection()->curve
                                : curves.curves().size() - 1;
  TimeParts look = parts_of(false);
  if (!curves.curves().empty()) {
    const std::vector<LanePoint>& points = curves.curves()[shown].points;
    const bool pools = std::any_of(points.begin(), points.end(), [](const LanePoint& p) {
      return p.row.result.metrics && p.row.result.metrics->pools;
    });
    look = parts_of(pools);
    for (const LanePoint& point : points) {
      const auto& m = point.row.result.metrics;
      if (!m || point.stage == PointStage::estimate || !m->latency.mean || (pools && !m->pools)) continue;
      bars.push_back(
          {load_text(point.row.result.labels), look.values(*m), tr("%1 s").arg(reader_text(*m->latency.mean, 3))});
    }
    const QString name = bench_.curve_name(bench_.session().state().current, curves.curves()[shown]);
    caption_->setText(pools ? tr("%1: mean seconds of a request by stage, for each load.").arg(name)
                            : tr("%1: mean seconds of a request by cause, for each load.").arg(name));
  }
  chart_->show_bars(std::move(look.parts), std::move(bars), tr("seconds"));
}

TablePage::TablePage(Workbench& bench, QWidget* parent) : View(bench, parent) {
  view_ = new QTableView(this);
  view_->setAccessibleName(tr("Every simulated point with all its columns"));
  auto* sorted = new QSortFilterProxyModel(view_);
  sorted->setSourceModel(&bench.curves());
  sorted->setSortRole(Qt::UserRole);
  view_->setModel(sorted);
  view_->setSortingEnabled(true);
  // Column -1 keeps the model's order until a header is clicked.
  sorted->sort(-1);
  view_->horizontalHeader()->setSortIndicator(-1, Qt::AscendingOrder);
  view_->setAlternatingRowColors(true);
  view_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
  view_->horizontalHeader()->setDefaultSectionSize(
      fontMetrics().horizontalAdvance(QStringLiteral("output_tokens_per_s  ")));
  view_->setTabKeyNavigation(false);
  all_ = new QCheckBox(tr("All co&lumns, also those that are equal for every point"), this);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->addWidget(all_);
  column->addWidget(view_);
  connect(all_, &QCheckBox::toggled, this, &TablePage::refresh);
}

namespace {

// The columns of pools come last; points.csv has them only if a point has pools.
int column_count(const CurveModel& model) {
  const bool pools = std::any_of(model.curves().begin(), model.curves().end(), [](const Curve& curve) {
    return std::any_of(curve.points.begin(), curve.points.end(),
                       [](const LanePoint& point) { return !point.row.result.pools.empty(); });
  });
  const auto first = column_index("pool");
  return pools || !first ? model.columnCount() : model.columnCount() - static_cast<int>(row_columns().size() - *first);
}

}  // namespace

// Hides columns that are equal for all points, unless all columns are requested.
void TablePage::refresh() {
  const CurveModel& model = bench_.curves();
  if (!isVisible() || !model.is_complete()) return;
  const int columns = column_count(model);
  for (int c = 0; c < model.columnCount(); ++c) {
    if (c >= columns) {
      view_->setColumnHidden(c, true);
      continue;
    }
    bool differs = all_->isChecked() || model.rowCount() < 2;
    const QVariant first = model.data(model.index(0, c), Qt::UserRole);
    for (int r = 1; r < model.rowCount() && !differs; ++r)
      differs = model.data(model.index(r, c), Qt::UserRole) != first;
    view_->setColumnHidden(c, !differs);
  }
}

PictureParts TablePage::picture() const { return {{view_}, {}}; }

TableData TablePage::table() const {
  const CurveModel& model = bench_.curves();
  TableData table;
  const int columns = column_count(model);
  for (int c = 0; c < columns; ++c) table.headers << model.headerData(c, Qt::Horizontal).toString();
  for (int r = 0; r < model.rowCount(); ++r) {
    QStringList row;
    for (int c = 0; c < columns; ++c) row << model.data(model.index(r, c), Qt::UserRole).toString();
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace plimsoll::gui
