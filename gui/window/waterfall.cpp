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
  pools_ = has_stages(requests_);
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
  QStringList lines{
      tr("request %1, replica %2, sent at %3").arg(row.id).arg(row.replica).arg(time(seconds(row.arrival))),
      tr("%1 input tokens, %2 output tokens").arg(row.input).arg(row.generated)};
  if (row.stages)
    lines << (row.stages->local() ? tr("its decode replica computed the prompt")
                                  : tr("prefill replica %1").arg(row.stages->prefill_replica));
  for (const StageSpan& stage : stage_spans(row))
    lines << QStringLiteral("%1 %2").arg(stage_words(stage.stage), span(stage.from, stage.to));
  if (row.stages && row.stages->transferred > 0) lines << tr("KV of %1 tokens sent").arg(row.stages->transferred);
  if (row.first_token >= 0)
    lines << tr("TTFT %1, latency %2").arg(span(row.arrival, row.first_token), span(row.arrival, row.end));
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
    for (const StageSpan& stage : stage_spans(row)) {
      if (seconds(stage.to) < low_ || seconds(stage.from) > high_) continue;
      const double from = pixel(seconds(stage.from));
      painter.fillRect(QRectF(from, y, std::max(0.7, pixel(seconds(stage.to)) - from), thickness),
                       colour_of(stage.stage));
    }
  }
}

// The stages of pools have the same colours as in the view "Where time goes".
QColor Waterfall::colour_of(RequestStage stage) const {
  switch (stage) {
    case RequestStage::client_wait: return theme_->frame;
    case RequestStage::to_first_token:
    case RequestStage::prefill: return theme_->colour(1);
    case RequestStage::queue_prefill: return theme_->colour(3);
    case RequestStage::transfer: return theme_->colour(4);
    case RequestStage::queue_decode: return theme_->colour(7);
    case RequestStage::decode: break;
  }
  return theme_->colour(0);
}

void Waterfall::paint_legend(QPainter& painter) {
  double x = area().left();
  const auto stages = pools_
                          ? std::vector{RequestStage::client_wait, RequestStage::queue_prefill, RequestStage::prefill,
                                        RequestStage::transfer,    RequestStage::queue_decode,  RequestStage::decode}
                          : std::vector{RequestStage::client_wait, RequestStage::to_first_token, RequestStage::decode};
  for (const RequestStage stage : stages) {
    painter.fillRect(QRectF(x, 6, 12, fontMetrics().height() - 5), colour_of(stage));
    painter.setPen(theme_->text);
    painter.drawText(QPointF(x + 17, 3 + fontMetrics().ascent()), stage_words(stage));
    x += 17 + fontMetrics().horizontalAdvance(stage_words(stage)) + 18;
  }
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
