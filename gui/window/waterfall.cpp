// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/waterfall.h"

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

double seconds(Nanos nanos) { return static_cast<double>(nanos) * 1e-9; }

}  // namespace

Waterfall::Waterfall(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setMinimumHeight(110);
  setAccessibleName(tr("Requests over time: waiting, prefill, decode"));
}

void Waterfall::show_requests(const std::vector<sim::RequestRow>& requests) {
  const bool same =
      requests.size() == requests_.size() && (requests.empty() || requests.back().end == requests_.back().end);
  // If the same run is shown again, keep the user's zoom.
  if (same) return;
  requests_ = requests;
  selected_.reset();
  std::stable_sort(requests_.begin(), requests_.end(),
                   [](const auto& a, const auto& b) { return a.arrival < b.arrival; });
  end_ = 1e-9;
  for (const sim::RequestRow& row : requests_) end_ = std::max(end_, seconds(row.end));
  show_all();
}

std::optional<std::size_t> Waterfall::request_at(const QPointF& place) const {
  const QRectF box = area();
  if (requests_.empty() || !box.contains(place)) return {};
  const double height = box.height() / static_cast<double>(requests_.size());
  return std::min(requests_.size() - 1, static_cast<std::size_t>((place.y() - box.top()) / height));
}

QString Waterfall::words(std::size_t request) const {
  const sim::RequestRow& row = requests_.at(request);
  const auto time = [](double value) {
    return value < 1 ? tr("%1 ms").arg(reader_text(value * 1e3, 3)) : tr("%1 s").arg(reader_text(value, 4));
  };
  const auto span = [&](Nanos from, Nanos to) { return from >= 0 && to >= from ? time(seconds(to - from)) : tr("–"); };
  const Nanos started = row.dispatched >= 0 ? row.dispatched : row.end;
  QStringList lines{
      tr("request %1, replica %2, sent at %3").arg(row.id).arg(row.replica).arg(time(seconds(row.arrival))),
      tr("%1 input tokens, %2 output tokens").arg(row.input).arg(row.generated)};
  if (started > row.arrival) lines << tr("client wait %1").arg(span(row.arrival, started));
  if (row.first_token >= 0)
    lines << tr("queue + prefill %1, TTFT %2").arg(span(started, row.first_token), span(row.arrival, row.first_token))
          << tr("decode %1, latency %2").arg(span(row.first_token, row.end), span(row.arrival, row.end));
  else
    lines << tr("no token; ended after %1").arg(span(row.arrival, row.end));
  return lines.join(QChar(u'\n'));
}

void Waterfall::select(std::optional<std::size_t> request) {
  if (request && *request >= requests_.size()) request.reset();
  if (request == selected_) return;
  selected_ = request;
  setAccessibleDescription(selected_ ? words(*selected_) : QString());
  update();
  Q_EMIT selection_changed();
}

bool Waterfall::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const auto request = request_at(help->pos());
  if (request)
    QToolTip::showText(help->globalPos(), words(*request), this);
  else
    QToolTip::hideText();
  return true;
}

// A second click on the same request selects none.
void Waterfall::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return QWidget::mousePressEvent(event);
  const auto request = request_at(event->position());
  select(request == selected_ ? std::nullopt : request);
}

void Waterfall::set_theme(const Theme& theme) {
  theme_ = &theme;
  update();
}

void Waterfall::show_all() { set_range(0, end_); }

void Waterfall::set_range(double low, double high) {
  low_ = std::max(0.0, low);
  high_ = std::min(std::max(high, low_ + 1e-6), end_ * 1.0);
  // A range must not be empty: positions are divided by its width.
  if (!(high_ > low_)) high_ = low_ + 1e-6;
  update();
  Q_EMIT range_changed(low_, high_);
}

// Keeps the time under the pointer in its place.
void Waterfall::zoom(double factor, double around) {
  set_range(around - (around - low_) * factor, around + (high_ - around) * factor);
}

// The strips below have their axis on the left. Leave the same margin here, so that equal times are aligned.
QRectF Waterfall::area() const {
  const double unit = fontMetrics().horizontalAdvance(QStringLiteral("00"));
  const double left =
      std::ceil(fontMetrics().horizontalAdvance(QStringLiteral("000")) / unit) * unit + fontMetrics().height() + 18;
  return QRectF(rect()).adjusted(left, fontMetrics().height() + 8, -16, -4);
}

double Waterfall::pixel(double second) const {
  const QRectF box = area();
  // Clamp to just outside the area, where the painter clips.
  return box.left() + std::clamp((second - low_) / (high_ - low_), -0.01, 1.01) * box.width();
}

void Waterfall::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.fillRect(rect(), theme_->background);
  paint_legend(painter);
  painter.setClipRect(area());
  paint_bars(painter);
  if (selected_) {
    const double height = area().height() / static_cast<double>(requests_.size());
    const double y = area().top() + height * (static_cast<double>(*selected_) + 0.5);
    painter.setPen(QPen(theme_->text, 1));
    painter.setBrush(Qt::NoBrush);
    const double half = std::max(2.0, height / 2);
    painter.drawRect(QRectF(area().left(), y - half, area().width(), 2 * half));
  }
  painter.setClipping(false);
  painter.setPen(theme_->frame);
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(area());
}

void Waterfall::paint_bars(QPainter& painter) {
  const QRectF box = area();
  const double height = box.height() / std::max<double>(1, static_cast<double>(requests_.size()));
  const double thickness = std::max(1.0, height > 3 ? height - 1 : height);
  double painted = -1e9;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const double y = box.top() + height * static_cast<double>(i);
    // Draw at most one row per pixel.
    if (y - painted < 1 && height < 1) continue;
    painted = y;
    const sim::RequestRow& row = requests_[i];
    const auto bar = [&](Nanos from, Nanos to, const QColor& colour) {
      if (from < 0 || to < from || seconds(to) < low_ || seconds(from) > high_) return;
      painter.fillRect(
          QRectF(pixel(seconds(from)), y, std::max(0.7, pixel(seconds(to)) - pixel(seconds(from))), thickness), colour);
    };
    // A request that never reached a server waits until its end.
    const Nanos started = row.dispatched >= 0 ? row.dispatched : row.end;
    // The bars overlap: the wait before the server covers the start of the time to the first token.
    bar(row.arrival, row.first_token >= 0 ? row.first_token : row.end, theme_->colour(1));
    bar(row.arrival, started, theme_->frame);
    if (row.first_token >= 0) bar(row.first_token, row.end, theme_->colour(0));
  }
}

void Waterfall::paint_legend(QPainter& painter) {
  double x = area().left();
  const auto entry = [&](const QColor& colour, const QString& text) {
    painter.fillRect(QRectF(x, 6, 12, fontMetrics().height() - 5), colour);
    painter.setPen(theme_->text);
    painter.drawText(QPointF(x + 17, 3 + fontMetrics().ascent()), text);
    x += 17 + fontMetrics().horizontalAdvance(text) + 18;
  };
  entry(theme_->frame, tr("client wait"));
  entry(theme_->colour(1), tr("queue + prefill"));
  entry(theme_->colour(0), tr("decode"));
}

void Waterfall::wheelEvent(QWheelEvent* event) {
  const QRectF box = area();
  const double at = low_ + (event->position().x() - box.left()) / box.width() * (high_ - low_);
  zoom(std::pow(1.0015, -event->angleDelta().y()), at);
  event->accept();
}

void Waterfall::keyPressEvent(QKeyEvent* event) {
  const double span = high_ - low_, middle = (low_ + high_) / 2;
  switch (event->key()) {
    case Qt::Key_A:
    case Qt::Key_Left: {
      // At the edge the range stops and keeps its width.
      const double step = std::min(low_, 0.2 * span);
      set_range(low_ - step, high_ - step);
      return;
    }
    case Qt::Key_D:
    case Qt::Key_Right: {
      const double step = std::min(end_ - high_, 0.2 * span);
      set_range(low_ + step, high_ + step);
      return;
    }
    case Qt::Key_W: zoom(0.7, middle); return;
    case Qt::Key_S: zoom(1 / 0.7, middle); return;
    case Qt::Key_0:
    case Qt::Key_Home: show_all(); return;
    default: QWidget::keyPressEvent(event);
  }
}

}  // namespace plimsoll::gui
