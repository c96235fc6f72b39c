// SPDX-License-Identifier: GPL-3.0-or-later
// Mouse and keyboard input of a plot: hover, select, pin, drag a limit, zoom (rubber band, wheel), pan, keyboard
// cursor.
#include <QAccessible>
#include <QEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "gui/plot/charts_plot.h"

namespace plimsoll::gui {
namespace {

constexpr double kReach = 14;  // pixels
constexpr double kClick = 4;   // pixels; a press that moves less than this is a click

double distance(const QPointF& a, const QPointF& b) { return std::hypot(a.x() - b.x(), a.y() - b.y()); }

}  // namespace

bool ChartsPlot::eventFilter(QObject* watched, QEvent* event) {
  if (watched == view_->viewport()) {
    switch (event->type()) {
      case QEvent::MouseButtonPress: return press(static_cast<QMouseEvent*>(event));
      case QEvent::MouseMove: return move(static_cast<QMouseEvent*>(event));
      case QEvent::MouseButtonRelease: return release(static_cast<QMouseEvent*>(event));
      case QEvent::MouseButtonDblClick: reset_zoom(); return true;
      case QEvent::Wheel: return wheel(static_cast<QWheelEvent*>(event));
      case QEvent::Leave: set_cursor({}); return false;
      default: break;
    }
  } else if (watched == view_ && event->type() == QEvent::KeyPress) {
    return key(static_cast<QKeyEvent*>(event));
  }
  return PlotView::eventFilter(watched, event);
}

std::optional<ChartsPlot::Hit> ChartsPlot::hit(const QPointF& at) const {
  std::optional<Hit> best;
  double nearest = kReach;
  const PlotFrame f = frame();
  for (std::size_t s = 0; s < content_.series.size(); ++s) {
    // Only points with markers can be chosen.
    if (!content_.series[s].markers) continue;
    for (std::size_t p = 0; p < content_.series[s].points.size(); ++p) {
      const auto pixel = f.pixel(content_.series[s].points[p].x, content_.series[s].points[p].y);
      if (!pixel || distance(*pixel, at) >= nearest) continue;
      nearest = distance(*pixel, at);
      best = Hit{s, p};
    }
  }
  return best;
}

const PlotLine* ChartsPlot::line_at(const QPointF& at) const {
  const PlotFrame f = frame();
  for (const PlotLine& line : content_.lines) {
    if (!line.draggable || !f.area.contains(at)) continue;
    const bool across = line.orientation == Qt::Horizontal;
    const auto place = (across ? y_ : x_).place(line.value);
    if (!place) continue;
    const QPointF pixel = across ? f.pixel_of_place(x_.low(), *place) : f.pixel_of_place(*place, y_.low());
    if (std::abs(across ? pixel.y() - at.y() : pixel.x() - at.x()) < 6) return &line;
  }
  return nullptr;
}

void ChartsPlot::set_cursor(std::optional<Hit> where) {
  const auto same = [](const std::optional<Hit>& a, const std::optional<Hit>& b) {
    return a.has_value() == b.has_value() && (!a || (a->series == b->series && a->point == b->point));
  };
  if (same(cursor_, where)) return;
  cursor_ = where;
  over_->update();
  const QString tip = cursor_ ? content_.series[cursor_->series].points[cursor_->point].tip : QString();
  // Screen readers read the description again only after this event.
  view_->setAccessibleDescription(tip);
  QAccessibleEvent changed(view_, QAccessible::DescriptionChanged);
  QAccessible::updateAccessibility(&changed);
  Q_EMIT hovered(tip);
}

// ←/→ move along a series, ↑/↓ to the next series with points.
void ChartsPlot::move_cursor(int points, int series) {
  std::vector<std::size_t> shown;
  for (std::size_t s = 0; s < content_.series.size(); ++s) {
    if (content_.series[s].markers && !content_.series[s].points.empty()) shown.push_back(s);
  }
  if (shown.empty()) return;
  if (!cursor_) {
    set_cursor(Hit{shown.front(), 0});
    return;
  }
  const auto here = std::find(shown.begin(), shown.end(), cursor_->series);
  const auto place = here == shown.end() ? 0 : here - shown.begin();
  const auto count = static_cast<std::ptrdiff_t>(shown.size());
  const std::size_t s = shown[static_cast<std::size_t>(((place - series) % count + count) % count)];
  const auto last = static_cast<std::ptrdiff_t>(content_.series[s].points.size()) - 1;
  const auto p = std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(cursor_->point) + points, 0, last);
  set_cursor(Hit{s, static_cast<std::size_t>(p)});
}

bool ChartsPlot::press(QMouseEvent* event) {
  drag_start_ = drag_end_ = event->position();
  drag_shown_ = shown();
  view_->setFocus();
  if (event->button() == Qt::MiddleButton) {
    drag_ = Drag::pan;
  } else if (event->button() == Qt::LeftButton) {
    // If a point and a limit are both in reach, the point is taken.
    const PlotLine* line = hit(event->position()) ? nullptr : line_at(event->position());
    drag_ = line ? Drag::line : Drag::zoom;
    if (line) dragged_line_ = line->id;
  }
  return true;
}

void ChartsPlot::drag_line(const QPointF& at, bool finished) {
  const QRectF area = chart_->plotArea();
  const QPointF value =
      value_at({std::clamp(at.x(), area.left(), area.right()), std::clamp(at.y(), area.top(), area.bottom())});
  for (PlotLine& line : content_.lines) {
    if (line.id != dragged_line_) continue;
    line.value = line.orientation == Qt::Horizontal ? value.y() : value.x();
    over_->update();
    Q_EMIT line_moved(line.id, line.value, finished);
    return;
  }
}

bool ChartsPlot::move(QMouseEvent* event) {
  const QPointF at = event->position();
  switch (drag_) {
    case Drag::none:
      set_cursor(hit(at));
      view_->viewport()->setCursor(
          line_at(at) ? (line_at(at)->orientation == Qt::Horizontal ? Qt::SizeVerCursor : Qt::SizeHorCursor)
                      : Qt::ArrowCursor);
      return true;
    case Drag::zoom:
      drag_end_ = at;
      over_->update();
      return true;
    case Drag::line: drag_line(at, false); return true;
    // Move relative to the range at the press, so that rounding errors do not accumulate.
    case Drag::pan: {
      const QRectF area = chart_->plotArea();
      const double dx = (drag_start_.x() - at.x()) / area.width() * drag_shown_.width();
      const double dy = (at.y() - drag_start_.y()) / area.height() * drag_shown_.height();
      zoom_ = drag_shown_.translated(dx, dy);
      fit();
      return true;
    }
  }
  return true;
}

bool ChartsPlot::release(QMouseEvent* event) {
  const Drag drag = std::exchange(drag_, Drag::none);
  const QPointF at = event->position();
  if (drag == Drag::line) drag_line(at, true);
  if (drag != Drag::zoom) return true;
  over_->update();
  // The pointer hardly moved: a click, not a zoom.
  if (distance(at, drag_start_) < kClick) {
    if (const auto found = hit(at)) Q_EMIT activated(found->series, found->point, event->modifiers());
    return true;
  }
  const QRectF area = chart_->plotArea();
  const QRectF box = QRectF(drag_start_, at).normalized().intersected(area);
  if (box.width() < 8 || box.height() < 8) return true;
  const double sx = (x_.high() - x_.low()) / area.width(), sy = (y_.high() - y_.low()) / area.height();
  zoom_to({x_.low() + (box.left() - area.left()) * sx, y_.low() + (area.bottom() - box.bottom()) * sy, box.width() * sx,
           box.height() * sy});
  return true;
}

bool ChartsPlot::wheel(QWheelEvent* event) {
  const QRectF area = chart_->plotArea();
  // Keep the value under the pointer in its place.
  const double factor = std::pow(1.0015, -event->angleDelta().y());
  const double fx = (event->position().x() - area.left()) / area.width(),
               fy = (area.bottom() - event->position().y()) / area.height();
  const QRectF now = shown();
  zoom_ = QRectF(now.left() + fx * now.width() * (1 - factor), now.top() + fy * now.height() * (1 - factor),
                 now.width() * factor, now.height() * factor);
  fit();
  return true;
}

bool ChartsPlot::key(QKeyEvent* event) {
  if ((event->modifiers() & (Qt::ControlModifier | Qt::AltModifier)) != 0) return false;
  switch (event->key()) {
    case Qt::Key_Left: move_cursor(-1, 0); return true;
    case Qt::Key_Right: move_cursor(1, 0); return true;
    case Qt::Key_Up: move_cursor(0, 1); return true;
    case Qt::Key_Down: move_cursor(0, -1); return true;
    case Qt::Key_0:
    case Qt::Key_Home: reset_zoom(); return true;
    case Qt::Key_Z: zoom_back(); return true;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (cursor_) Q_EMIT activated(cursor_->series, cursor_->point, event->modifiers());
      return cursor_.has_value();
    case Qt::Key_Space: event->ignore(); return true;  // for the window, which swaps A and B
    default: return false;
  }
}

}  // namespace plimsoll::gui
