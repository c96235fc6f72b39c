// SPDX-License-Identifier: GPL-3.0-or-later
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QStandardItemModel>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "gui/core/text.h"
#include "gui/window/bar_page.h"

namespace plimsoll::gui {
namespace {

QColor mixed(const QColor& a, const QColor& b, double t) {
  const auto part = [t](float x, float y) { return static_cast<float>(x + (y - x) * t); };
  return QColor::fromRgbF(part(a.redF(), b.redF()), part(a.greenF(), b.greenF()), part(a.blueF(), b.blueF()));
}

}  // namespace

class HeatPage::Grid final : public QWidget {
 public:
  using QWidget::QWidget;
  HeatMap map;
  const Metric* metric = nullptr;
  const Theme* theme = &light_theme();
  // The SLO line: cells beyond it are marked.
  const Metric* limited = nullptr;
  double limit = 0;
  QString message;

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.fillRect(rect(), theme->background);
    painter.setPen(theme->text);
    if (map.cells.empty()) {
      painter.drawText(rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, message);
      return;
    }
    const QFontMetricsF metrics(font());
    const double left = metrics.horizontalAdvance(QStringLiteral("TP 8  ")) + 10, top = 2 * metrics.height() + 16;
    const double w = (width() - left - 10) / static_cast<double>(map.batch.size()), h = std::min((height() - top - 10) / static_cast<double>(map.tp.size()), 120.0);
    painter.drawText(QPointF(left, metrics.ascent() + 4), HeatPage::tr("batch limit"));
    for (std::size_t b = 0; b < map.batch.size(); ++b) {
      painter.drawText(QRectF(left + w * static_cast<double>(b), metrics.height() + 8, w, metrics.height()), Qt::AlignCenter, QString::number(map.batch[b]));
    }
    const auto [low, high] = range();
    for (std::size_t t = 0; t < map.tp.size(); ++t) {
      const double y = top + h * static_cast<double>(t);
      painter.setPen(theme->text);
      painter.drawText(QRectF(4, y, left - 10, h), Qt::AlignVCenter | Qt::AlignRight, QStringLiteral("TP %1").arg(map.tp[t]));
      for (std::size_t b = 0; b < map.batch.size(); ++b) {
        paint_cell(painter, map.cells[t * map.batch.size() + b], QRectF(left + w * static_cast<double>(b), y, w, h).adjusted(1, 1, -1, -1), low, high);
      }
    }
  }

 private:
  std::pair<double, double> range() const {
    double low = 1e300, high = -1e300;
    for (const HeatMap::Cell& cell : map.cells) {
      const auto value = cell.row ? value_of(*cell.row, *metric) : std::nullopt;
      if (!value) continue;
      low = std::min(low, *value);
      high = std::max(high, *value);
    }
    return {low, high};
  }
  void paint_cell(QPainter& painter, const HeatMap::Cell& cell, const QRectF& box, double low, double high) const {
    const auto value = cell.row ? value_of(*cell.row, *metric) : std::nullopt;
    if (!value) {
      painter.fillRect(box, QBrush(theme->frame, Qt::BDiagPattern));
      painter.setPen(theme->soft_text);
      painter.drawText(box, Qt::AlignCenter | Qt::TextWordWrap, cell.reason.isEmpty() ? HeatPage::tr("✗ never within the SLO") : HeatPage::tr("✗ cannot exist"));
      return;
    }
    double share = high > low ? (*value - low) / (high - low) : 1;
    if (low > 0 && high > 4 * low) share = std::log(*value / low) / std::log(high / low);
    const double good = metric->better_low ? 1 - share : share;
    const QColor fill = mixed(theme->background, theme->colour(0), 0.08 + 0.85 * good);
    painter.fillRect(box, fill);
    painter.setPen(contrast(fill, Qt::white) > contrast(fill, Qt::black) ? Qt::white : Qt::black);
    const auto held = limit > 0 ? value_of(*cell.row, *limited) : std::nullopt;
    painter.drawText(box, Qt::AlignCenter, reader_text(*value, 4) + (held && *held > limit ? QStringLiteral(" ✗") : QString()));
  }
};

HeatPage::HeatPage(Workbench& bench, QWidget* parent) : View(bench, parent) {
  caption_ = new QLabel(this);
  caption_->setWordWrap(true);
  metric_ = new QComboBox(this);
  metric_->setAccessibleName(tr("Metric of the map"));
  for (const Metric& metric : metrics()) metric_->addItem(axis_title(metric), qs(metric.id));
  metric_->setCurrentIndex(metric_->findData(QStringLiteral("output_tokens_per_s")));
  metric_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  metric_->setMinimumContentsLength(24);
  at_ = new QComboBox(this);
  at_->setAccessibleName(tr("At which load"));
  at_->addItems({tr("at one load"), tr("at the most within the SLO")});
  grid_ = new Grid(this);
  grid_->setFocusPolicy(Qt::StrongFocus);
  grid_->setAccessibleName(tr("Map of tensor-parallel degree by batch limit"));
  grid_->setMinimumHeight(160);
  auto* row = new QHBoxLayout();
  row->addWidget(metric_);
  row->addWidget(at_);
  row->addWidget(caption_, 1);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->addLayout(row);
  column->addWidget(grid_, 1);
  connect(metric_, &QComboBox::activated, this, &HeatPage::refresh);
  connect(at_, &QComboBox::activated, this, [this] {
    chosen_ = true;
    refresh();
  });
}

// Where there is an SLO line, what is carried within it is what is asked; unless the user chose otherwise.
bool HeatPage::is_within() {
  const double limit = bench_.session().state().view.limit;
  auto* items = qobject_cast<QStandardItemModel*>(at_->model());
  items->item(1)->setEnabled(limit > 0);
  if (!chosen_ || !(limit > 0)) at_->setCurrentIndex(limit > 0 ? 1 : 0);
  at_->setToolTip(limit > 0 ? QString() : tr("State an SLO in Curves to see what each carries within it"));
  return at_->currentIndex() == 1;
}

void HeatPage::prepare() {
  const ViewState& view = bench_.session().state().view;
  const LoadField load = load_field(bench_.session().scenario());
  const QStringList values = load.values.split(QChar(u','));
  double at = bench_.selection() ? bench_.selection()->load : values[values.size() / 2].trimmed().toDouble();
  if (!(at > 0)) at = values.back().trimmed().toDouble();
  SessionState alone;
  alone.scenarios = {bench_.session().scenario()};
  const bool within = is_within();
  const std::string key = session_text(alone) + (within ? view.y + std::to_string(view.limit) : std::to_string(at));
  if (key == key_) return;
  key_ = key;
  grid_->map = {};
  grid_->message = tr("Simulating the map…");
  bench_.tasks().start(tr("TP by batch"), [this, key, at, within, limit = view.limit, metric = find_metric(view.y), scenario = bench_.session().scenario(),
                                           catalogue = bench_.catalogue()](study::RunControl& control) {
    HeatMap map;
    QString failure;
    try {
      map = within ? simulate_heat_map_within(scenario, catalogue, *metric, limit, control) : simulate_heat_map(scenario, catalogue, at, control);
    } catch (const std::exception& error) {
      failure = qs(error.what());
    }
    return std::function<void()>([this, key, map, failure] {
      if (key != key_) return;
      grid_->map = map;
      grid_->message = failure;
      refresh();
    });
  });
}

void HeatPage::refresh() {
  if (isVisible()) prepare();
  const ViewState& view = bench_.session().state().view;
  grid_->metric = find_metric(utf8(metric_->currentData().toString()));
  grid_->limited = find_metric(view.y);
  grid_->limit = view.limit;
  if (!grid_->map.cells.empty()) {
    const QString slo = tr("%1 ≤ %2 %3").arg(qs(grid_->limited->label), reader_text(view.limit, 4), qs(grid_->limited->unit));
    if (!(grid_->map.load > 0)) caption_->setText(tr("of the scenario's loads, the one with the most tokens/s within %1").arg(slo));
    else caption_->setText(tr("%1. Select a point in the curves to change it%2").arg(reader_text(grid_->map.load, 4), view.limit > 0 ? tr("; ✗: not within %1").arg(slo) : QString()));
  }
  grid_->update();
}

void HeatPage::set_theme(const Theme& theme) {
  grid_->theme = &theme;
  grid_->update();
}

TableData HeatPage::table() const {
  TableData table{{tr("TP"), tr("batch limit"), metric_->currentText(), tr("why not")}, {}};
  for (std::size_t i = 0; i < grid_->map.cells.size(); ++i) {
    const HeatMap::Cell& cell = grid_->map.cells[i];
    const auto value = cell.row ? value_of(*cell.row, *grid_->metric) : std::nullopt;
    table.rows.push_back({QString::number(grid_->map.tp[i / grid_->map.batch.size()]), QString::number(grid_->map.batch[i % grid_->map.batch.size()]),
                          value ? qs(study::number_text(*value)) : QString(), cell.reason});
  }
  return table;
}

}  // namespace plimsoll::gui
