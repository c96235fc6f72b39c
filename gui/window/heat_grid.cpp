// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/heat_grid.h"

#include <QAccessible>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <algorithm>
#include <cmath>

#include "gui/core/slo_answer.h"
#include "gui/core/text.h"

namespace plimsoll::gui {
HeatGrid::HeatGrid(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Map of tensor-parallel degree by batch limit; arrow keys walk along the cells"));
  setMinimumHeight(160);
}

void HeatGrid::show_map(HeatMap map, const QString& message) {
  map_ = std::move(map);
  message_ = message;
  // An empty map is still being computed: keep the cursor for its result.
  if (cursor_ && !map_.cells.empty() && *cursor_ >= map_.cells.size()) cursor_.reset();
  update();
}

void HeatGrid::show_metric(const Metric& metric, const DrawnLimit& drawn) {
  metric_ = &metric;
  drawn_ = drawn;
  update();
}

void HeatGrid::show_own(std::int64_t tp, std::int64_t batch) {
  own_ = {tp, batch};
  update();
}

std::optional<std::size_t> HeatGrid::own() const {
  for (std::size_t cell = 0; cell < map_.cells.size(); ++cell) {
    if (std::pair(map_.tp[cell / map_.batch.size()], map_.batch[cell % map_.batch.size()]) == own_) return cell;
  }
  return {};
}

std::optional<std::size_t> HeatGrid::best() const {
  std::optional<std::size_t> found;
  for (std::size_t cell = 0; cell < map_.cells.size() && metric_ != nullptr; ++cell) {
    const auto number = value(cell);
    if (!number || !mark_of(cell).isEmpty()) continue;
    if (!found || (metric_->better_low ? *number < *value(*found) : *number > *value(*found))) found = cell;
  }
  return found;
}

void HeatGrid::set_theme(const Theme& theme) {
  theme_ = &theme;
  update();
}

std::optional<double> HeatGrid::value(std::size_t cell) const {
  const HeatMap::Cell& shown = map_.cells[cell];
  if (!shown.row || metric_ == nullptr) return {};
  const auto simulated = value_of(*shown.row, *metric_);
  if (!shown.answer) return simulated;
  // The answer may lie between two simulated loads; the other metrics are those of the load before it.
  const std::string_view id = metric_->id;
  if (id == "load_value") return shown.answer->labels.load_value;
  if (id == "usd_per_million_output_tokens") return shown.answer->usd_per_million;
  const Metric* total = on_basis(*metric_, Basis::total);
  if (total == nullptr || std::string_view(total->id) != "output_tokens_per_s" || !simulated) return simulated;
  return *simulated * shown.answer->tokens_per_s / shown.row->result.metrics->output_tokens_per_s;
}

// Returns the mark for a value that violates the SLO line.
QString HeatGrid::mark_of(std::size_t cell) const {
  const auto& row = map_.cells[cell].row;
  return row && !keeps_limits(*row, drawn_) ? QStringLiteral(" ✗") : QString();
}

QString HeatGrid::cell_text(std::size_t cell) const {
  const QString where =
      tr("TP %1, batch limit %2").arg(map_.tp[cell / map_.batch.size()]).arg(map_.batch[cell % map_.batch.size()]);
  if (const auto number = value(cell)) {
    const QString beyond = mark_of(cell).isEmpty() ? QString() : tr(", not within the SLO");
    return tr("%1: %2 %3%4").arg(where, reader_text(*number, 4), qs(metric_->unit), beyond);
  }
  const QString& reason = map_.cells[cell].reason;
  return tr("%1: %2").arg(where, reason.isEmpty() ? tr("never within the SLO") : reason);
}

// Cells are stored row by row: a row per tensor-parallel degree, a column per batch limit.
QRectF HeatGrid::cell_box(std::size_t cell) const {
  const QFontMetricsF metrics(font());
  const double left = metrics.horizontalAdvance(QStringLiteral("TP 8  ")) + 10, top = 2 * metrics.height() + 16;
  const double w = (width() - left - 10) / static_cast<double>(map_.batch.size());
  const double h = std::min((height() - top - 10) / static_cast<double>(map_.tp.size()), 220.0);
  return {left + w * static_cast<double>(cell % map_.batch.size()),
          top + h * static_cast<double>(cell / map_.batch.size()), w, h};
}

std::optional<std::size_t> HeatGrid::cell_at(const QPointF& place) const {
  for (std::size_t cell = 0; cell < map_.cells.size(); ++cell) {
    if (cell_box(cell).contains(place)) return cell;
  }
  return {};
}

// Returns the least and the greatest value of all cells; the first exceeds the second if no cell has a value.
std::pair<double, double> HeatGrid::range() const {
  double low = 1e300, high = -1e300;
  for (std::size_t cell = 0; cell < map_.cells.size(); ++cell) {
    const auto number = value(cell);
    if (!number) continue;
    low = std::min(low, *number);
    high = std::max(high, *number);
  }
  return {low, high};
}

void HeatGrid::move_cursor(std::size_t cell) {
  cursor_ = cell;
  update();
  const QString text = cell_text(cell);
  setAccessibleDescription(text);
  // The grid is one widget, so screen readers must be told that the cell under the cursor changed.
  QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
  QAccessible::updateAccessibility(&changed);
  Q_EMIT said(tr("%1 · Return: make it the scenario's").arg(text));
}

void HeatGrid::choose() {
  if (!cursor_ || *cursor_ >= map_.cells.size()) return;
  Q_EMIT chosen(static_cast<int>(map_.tp[*cursor_ / map_.batch.size()]),
                static_cast<int>(map_.batch[*cursor_ % map_.batch.size()]));
}

void HeatGrid::keyPressEvent(QKeyEvent* event) {
  if (map_.cells.empty() || (event->modifiers() & (Qt::ControlModifier | Qt::AltModifier)) != 0)
    return QWidget::keyPressEvent(event);
  const std::size_t columns = map_.batch.size(), at = cursor_.value_or(0), column = at % columns;
  const bool first = !cursor_;  // the first key only shows the cursor
  switch (event->key()) {
    case Qt::Key_Left: return move_cursor(first || column == 0 ? at : at - 1);
    case Qt::Key_Right: return move_cursor(first || column + 1 == columns ? at : at + 1);
    case Qt::Key_Up: return move_cursor(first || at < columns ? at : at - columns);
    case Qt::Key_Down: return move_cursor(first || at + columns >= map_.cells.size() ? at : at + columns);
    case Qt::Key_Home: return move_cursor(at - column);
    case Qt::Key_End: return move_cursor(at - column + columns - 1);
    case Qt::Key_Return:
    case Qt::Key_Enter: return first ? move_cursor(at) : choose();
    default: QWidget::keyPressEvent(event);
  }
}

void HeatGrid::mousePressEvent(QMouseEvent* event) {
  if (const auto cell = cell_at(event->position())) move_cursor(*cell);
}

void HeatGrid::mouseDoubleClickEvent(QMouseEvent* event) {
  if (cell_at(event->position())) choose();
}

void HeatGrid::focusInEvent(QFocusEvent* event) {
  QWidget::focusInEvent(event);
  if (cursor_ && *cursor_ < map_.cells.size()) move_cursor(*cursor_);
}

void HeatGrid::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.fillRect(rect(), theme_->background);
  painter.setPen(theme_->text);
  if (map_.cells.empty() || metric_ == nullptr) {
    painter.drawText(rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, message_);
    return;
  }
  paint_heads(painter);
  const auto [low, high] = range();
  const auto better = best();
  for (std::size_t cell = 0; cell < map_.cells.size(); ++cell) paint_cell(painter, cell, {low, high, cell == better});
  if (const auto mine = own()) {
    painter.setBrush(Qt::NoBrush);
    painter.setPen(QPen(theme_->text, 1.6, Qt::DashLine));
    painter.drawRect(cell_box(*mine).adjusted(5, 5, -5, -5));
  }
  if (!cursor_ || *cursor_ >= map_.cells.size()) return;
  // Draw two rings, one of which is visible on any fill.
  const QRectF box = cell_box(*cursor_).adjusted(2, 2, -2, -2);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(theme_->background, 5));
  painter.drawRect(box);
  painter.setPen(QPen(theme_->text, hasFocus() ? 2.5 : 1));
  painter.drawRect(box);
}

void HeatGrid::paint_heads(QPainter& painter) const {
  const QFontMetricsF metrics(font());
  const QRectF first = cell_box(0);
  painter.drawText(QPointF(first.left(), metrics.ascent() + 4), tr("batch limit"));
  for (std::size_t b = 0; b < map_.batch.size(); ++b) {
    const QRectF box = cell_box(b);
    painter.drawText(QRectF(box.left(), metrics.height() + 8, box.width(), metrics.height()), Qt::AlignCenter,
                     QString::number(map_.batch[b]));
  }
  for (std::size_t t = 0; t < map_.tp.size(); ++t) {
    const QRectF box = cell_box(t * map_.batch.size());
    painter.drawText(QRectF(4, box.top(), first.left() - 10, box.height()), Qt::AlignVCenter | Qt::AlignRight,
                     tr("TP %1").arg(map_.tp[t]));
  }
}

void HeatGrid::paint_cell(QPainter& painter, std::size_t cell, const CellLook& look) const {
  const auto& [low, high, best] = look;
  const QRectF box = cell_box(cell).adjusted(1, 1, -1, -1);
  const auto number = value(cell);
  if (!number) {
    painter.fillRect(box, QBrush(theme_->frame, Qt::BDiagPattern));
    painter.setPen(theme_->soft_text);
    painter.drawText(box, Qt::AlignCenter | Qt::TextWordWrap,
                     map_.cells[cell].reason.isEmpty() ? tr("✗ never within the SLO") : tr("✗ impossible"));
    return;
  }
  // The better the value, the stronger the colour, also for metrics where low is better.
  double share = high > low ? (*number - low) / (high - low) : 1;
  // Use a logarithmic scale for a wide range, because most cells would look alike otherwise.
  if (low > 0 && high > 4 * low) share = std::log(*number / low) / std::log(high / low);
  const double good = metric_->better_low ? 1 - share : share;
  const QColor fill = mixed(theme_->colour(0), theme_->background, 0.08 + 0.85 * good);
  painter.fillRect(box, fill);
  painter.setPen(text_on(fill));
  painter.drawText(box, Qt::AlignCenter,
                   (best ? QStringLiteral("★ ") : QString()) + reader_text(*number, 4) + mark_of(cell));
}

}  // namespace plimsoll::gui
