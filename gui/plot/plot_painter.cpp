// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/plot/plot_painter.h"

#include <QFontMetricsF>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "gui/plot/decimate.h"

namespace plimsoll::gui {
namespace {

constexpr double kGap = 6;

// Returns how many labels fit side by side.
int wanted_x(const PlotFrame& f) {
  const QFontMetricsF metrics(f.font);
  return std::max(2, static_cast<int>(f.area.width() / (metrics.horizontalAdvance(QStringLiteral("00 000")) + 18)));
}

int wanted_y(double height, const QFont& font) {
  return std::clamp(static_cast<int>(height / (QFontMetricsF(font).height() * 1.7)), 2, 10);
}

QPolygonF polygon(std::initializer_list<QPointF> points, const QPointF& at, double r) {
  QPolygonF out;
  for (const QPointF& p : points) out << at + p * r;
  return out;
}

void draw_shape(QPainter& painter, const QPointF& at, std::size_t shape, double r) {
  switch (shape % 6) {
    case 0: painter.drawEllipse(at, r, r); return;
    case 1: painter.drawRect(QRectF(at.x() - r * 0.88, at.y() - r * 0.88, r * 1.76, r * 1.76)); return;
    case 2: painter.drawPolygon(polygon({{0, -1.2}, {1.1, 0.8}, {-1.1, 0.8}}, at, r)); return;
    case 3: painter.drawPolygon(polygon({{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}}, at, r)); return;
    case 4: painter.drawPolygon(polygon({{0, 1.2}, {1.1, -0.8}, {-1.1, -0.8}}, at, r)); return;
    default:
      painter.drawPolygon(polygon({{0, -1.2}, {1.15, -0.35}, {0.7, 1}, {-0.7, 1}, {-1.15, -0.35}}, at, r));
      return;
  }
}

// The colour of lines without a label, half as strong. It is opaque: Qt blends each line of a transparent colour in
// threads of its own, for which a drag would wait while the simulation has the cores.
QColor faint_grid(const Theme& theme) {
  const QColor &a = theme.grid, &b = theme.background;
  return {(a.red() + b.red()) / 2, (a.green() + b.green()) / 2, (a.blue() + b.blue()) / 2};
}

void paint_grid(QPainter& painter, const PlotFrame& f) {
  for (const AxisTick& tick : f.x->ticks(wanted_x(f))) {
    const double x = f.pixel_of_place(tick.place, f.y->low()).x();
    painter.setPen(QPen(tick.label.isEmpty() ? faint_grid(*f.theme) : f.theme->grid, 1));
    painter.drawLine(QPointF(x, f.area.top()), QPointF(x, f.area.bottom()));
  }
  for (const AxisTick& tick : f.y->ticks(wanted_y(f.area.height(), f.font))) {
    const double y = f.pixel_of_place(f.x->low(), tick.place).y();
    painter.setPen(QPen(tick.label.isEmpty() ? faint_grid(*f.theme) : f.theme->grid, 1));
    painter.drawLine(QPointF(f.area.left(), y), QPointF(f.area.right(), y));
  }
  painter.setPen(QPen(f.theme->frame, 1));
  // Draw the zero line of charts with negative values, such as errors.
  if (!f.y->is_log() && f.y->low() < 0 && f.y->high() > 0) {
    const double zero = f.pixel_of_place(0, 0).y();
    painter.drawLine(QPointF(f.area.left(), zero), QPointF(f.area.right(), zero));
  }
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(f.area);
}

void paint_labels(QPainter& painter, const PlotFrame& f) {
  const QFontMetricsF metrics(f.font);
  painter.setFont(f.font);
  painter.setPen(f.theme->soft_text);
  double last_right = -1e9;
  for (const AxisTick& tick : f.x->ticks(wanted_x(f))) {
    if (tick.label.isEmpty() || !f.content->x.labels) continue;
    const double x = f.pixel_of_place(tick.place, 0).x(), width = metrics.horizontalAdvance(tick.label);
    // Skip labels that would overlap the one before or leave the picture.
    if (x - width / 2 < last_right + 4 || x + width / 2 > f.whole.right()) continue;
    painter.drawText(QPointF(x - width / 2, f.area.bottom() + kGap + metrics.ascent()), tick.label);
    last_right = x + width / 2;
  }
  for (const AxisTick& tick : f.y->ticks(wanted_y(f.area.height(), f.font))) {
    if (tick.label.isEmpty()) continue;
    const double y = f.pixel_of_place(0, tick.place).y();
    painter.drawText(
        QPointF(f.area.left() - kGap - metrics.horizontalAdvance(tick.label), y + metrics.ascent() / 2 - 1),
        tick.label);
  }
}

void paint_titles(QPainter& painter, const PlotFrame& f) {
  const QFontMetricsF metrics(f.font);
  painter.setFont(f.font);
  painter.setPen(f.theme->text);
  const QString x = metrics.elidedText(f.content->x.title, Qt::ElideRight, f.area.width());
  painter.drawText(
      QPointF(f.area.center().x() - metrics.horizontalAdvance(x) / 2, f.whole.bottom() - metrics.descent() - 2), x);
  // Shortens a title in the middle, because the unit at its end matters more. The title may be longer than a low plot
  // is high: there is room beside the labels of the other axis.
  const QString y = metrics.elidedText(f.content->y.title, Qt::ElideMiddle, f.whole.height());
  const double half = metrics.horizontalAdvance(y) / 2;
  const double middle =
      std::clamp(f.area.center().y(), f.whole.top() + half, std::max(f.whole.top() + half, f.whole.bottom() - half));
  painter.save();
  painter.translate(f.whole.left() + metrics.ascent() + 2, middle + half);
  painter.rotate(-90);
  painter.drawText(QPointF(0, 0), y);
  painter.restore();
}

// A cloud has up to millions of points, so it is drawn as an image of their density.
void paint_cloud(QPainter& painter, const PlotFrame& f) {
  if (f.content->cloud.empty()) return;
  const QRectF range(f.x->low(), f.y->low(), f.x->high() - f.x->low(), f.y->high() - f.y->low());
  painter.drawImage(f.area, density(f.content->cloud, range, f.area.size().toSize(), f.theme->colour(0)));
}

void paint_limit(QPainter& painter, const PlotFrame& f, const PlotLine& line) {
  const AxisScale& axis = line.orientation == Qt::Horizontal ? *f.y : *f.x;
  const auto place = axis.place(line.value);
  if (!place) return;
  const bool across = line.orientation == Qt::Horizontal;
  const QPointF at = across ? f.pixel_of_place(f.x->low(), *place) : f.pixel_of_place(*place, f.y->low());
  // Shade the excluded side even if the limit itself is outside the visible range.
  if (line.shaded) {
    QRectF beyond = f.area;
    if (across)
      beyond.setBottom(std::clamp(at.y(), f.area.top(), f.area.bottom()));
    else
      beyond.setLeft(std::clamp(at.x(), f.area.left(), f.area.right()));
    painter.fillRect(beyond, f.theme->shade);
  }
  if (across ? (at.y() < f.area.top() || at.y() > f.area.bottom())
             : (at.x() < f.area.left() || at.x() > f.area.right()))
    return;
  painter.setPen(QPen(f.theme->bad, 1.5, Qt::DashLine));
  if (across)
    painter.drawLine(QPointF(f.area.left(), at.y()), QPointF(f.area.right(), at.y()));
  else
    painter.drawLine(QPointF(at.x(), f.area.top()), QPointF(at.x(), f.area.bottom()));
  const QFontMetricsF metrics(f.font);
  const QString text = metrics.elidedText(line.label, Qt::ElideRight, f.area.width() - 12);
  const QPointF corner =
      across ? QPointF(f.area.left() + kGap, at.y() - 4) : QPointF(at.x() + 4, f.area.top() + metrics.height());
  QRectF box(corner.x() - 2, corner.y() - metrics.ascent(), metrics.horizontalAdvance(text) + 4, metrics.height());
  // A label above the plot moves below its line.
  if (box.top() < f.area.top()) box.translate(0, metrics.height() + 6);
  QColor ground = f.theme->background;
  ground.setAlphaF(0.85F);
  painter.fillRect(box, ground);
  painter.setFont(f.font);
  painter.setPen(f.theme->bad);
  painter.drawText(QPointF(box.left() + 2, box.top() + metrics.ascent()), text);
  if (!line.draggable) return;
  painter.setBrush(f.theme->bad);  // the handle for dragging
  painter.setPen(Qt::NoPen);
  if (across)
    painter.drawRoundedRect(QRectF(f.area.right() - 14, at.y() - 4, 12, 8), 3, 3);
  else
    painter.drawRoundedRect(QRectF(at.x() - 4, f.area.bottom() - 14, 8, 12), 3, 3);
}

void paint_series_marks(QPainter& painter, const PlotFrame& f, const PlotSeries& series) {
  QColor colour = f.theme->colour(series.colour);
  if (series.line == LineLook::faded) colour = f.theme->frame;
  for (const PlotPoint& point : series.points) {
    const auto at = f.pixel(point.x, point.y);
    if (!at || !f.area.adjusted(-2, -2, 2, 2).contains(*at)) continue;
    if (point.error > 0) {
      const auto low = f.pixel(point.x, point.y - point.error), high = f.pixel(point.x, point.y + point.error);
      painter.setPen(QPen(colour, 1.2));
      if (high) painter.drawLine(*at, *high);
      // On a log axis the lower end may have no position.
      if (low) painter.drawLine(*at, *low);
    }
    const double radius = series.line == LineLook::faded ? 2.2 : point.look == PointLook::small ? 2.4 : 4;
    draw_marker(painter, *at, {series.colour, radius, colour, point.look}, f.theme->background);
  }
}

void paint_mark(QPainter& painter, const PlotFrame& f, const PlotMark& mark) {
  const auto at = f.pixel(mark.x, mark.y);
  if (!at || !f.area.contains(*at)) return;
  const QFontMetricsF metrics(f.font);
  const bool limit = mark.look == MarkLook::limit, knee = mark.look == MarkLook::knee;
  const QColor colour = limit ? f.theme->bad : f.theme->colour(mark.colour);
  painter.setPen(QPen(colour, limit || knee ? 2.4 : 1.6));
  painter.setBrush(Qt::NoBrush);
  if (limit)
    painter.drawLine(*at - QPointF(0, 9), *at + QPointF(0, 9));
  else if (knee)
    painter.drawLine(*at + QPointF(0, 7), *at + QPointF(0, 16));
  else
    painter.drawPolygon(polygon({{0, -1.25}, {1.25, 0}, {0, 1.25}, {-1.25, 0}}, *at, 8));
  if (mark.label.isEmpty()) return;
  QRectF box(at->x() + 11, at->y() + 4, metrics.horizontalAdvance(mark.label) + 4, metrics.height());
  // Keep the word inside the plot.
  if (box.right() > f.area.right()) box.moveRight(at->x() - 11);
  if (box.bottom() > f.area.bottom()) box.moveBottom(at->y() - 6);
  QColor ground = f.theme->background;
  ground.setAlphaF(0.8F);
  painter.fillRect(box, ground);
  painter.setFont(f.font);
  painter.setPen(colour);
  painter.drawText(QPointF(box.left() + 2, box.top() + metrics.ascent()), mark.label);
}

struct EndLabel {
  QString text;
  QColor colour;
  QRectF box;
};

// Collects the labels beside the last visible points of their curves, left of the point where there is no room.
std::vector<EndLabel> end_labels(const PlotFrame& f) {
  constexpr double kGapToPoint = 8, kWidest = 0.3;  // of the plot
  const QFontMetricsF metrics(f.font);
  std::vector<EndLabel> labels;
  for (const PlotSeries& series : f.content->series) {
    if (series.label.isEmpty() || series.line == LineLook::faded) continue;
    for (auto point = series.points.rbegin(); point != series.points.rend(); ++point) {
      const auto at = f.pixel(point->x, point->y);
      if (!at || !f.area.contains(*at)) continue;
      EndLabel label{metrics.elidedText(series.label, Qt::ElideMiddle, f.area.width() * kWidest),
                     f.theme->colour(series.colour),
                     {}};
      label.box = QRectF(at->x() + kGapToPoint, at->y() - metrics.height() / 2,
                         metrics.horizontalAdvance(label.text) + 4, metrics.height());
      if (label.box.right() > f.area.right()) label.box.moveRight(at->x() - kGapToPoint);
      labels.push_back(std::move(label));
      break;
    }
  }
  return labels;
}

// Labels keep their order from top to bottom. One that would cover an earlier one moves below it; at the lower edge all
// of them move up.
void paint_end_labels(QPainter& painter, const PlotFrame& f) {
  std::vector<EndLabel> labels = end_labels(f);
  std::stable_sort(labels.begin(), labels.end(),
                   [](const EndLabel& a, const EndLabel& b) { return a.box.top() < b.box.top(); });
  for (std::size_t i = 0; i < labels.size(); ++i) {
    QRectF& box = labels[i].box;
    box.moveTop(std::max(box.top(), f.area.top() + 1));
    for (std::size_t k = 0; k < i; ++k) {
      if (labels[k].box.intersects(box)) box.moveTop(labels[k].box.bottom() + 1);
    }
  }
  double lowest = f.area.bottom();
  for (auto label = labels.rbegin(); label != labels.rend(); ++label) {
    if (label->box.bottom() <= lowest) continue;
    label->box.moveBottom(lowest - 1);
    lowest = label->box.top();
  }
  const QFontMetricsF metrics(f.font);
  QColor ground = f.theme->background;
  ground.setAlphaF(0.8F);
  painter.setFont(f.font);
  for (const EndLabel& label : labels) {
    painter.fillRect(label.box, ground);
    painter.setPen(label.colour);
    painter.drawText(QPointF(label.box.left() + 2, label.box.top() + metrics.ascent()), label.text);
  }
}

void draw_cross(QPainter& painter, const QPointF& at, double r) {
  painter.drawLine(at + QPointF(-r, -r), at + QPointF(r, r));
  painter.drawLine(at + QPointF(-r, r), at + QPointF(r, -r));
}

// Draws crosses at the upper edge, with their labels one below the other so that they do not overlap.
void paint_failures(QPainter& painter, const PlotFrame& f) {
  constexpr double kRadius = 5;
  const QFontMetricsF metrics(f.font);
  double top = f.area.top() + kRadius + 4;
  painter.setFont(f.font);
  for (const PlotFailure& failure : f.content->failures) {
    const auto place = failure.x ? f.x->place(*failure.x) : std::nullopt;
    const double x = place ? f.pixel_of_place(*place, f.y->low()).x() : f.area.right();
    const QPointF at(std::clamp(x, f.area.left() + kRadius + 2, f.area.right() - kRadius - 2),
                     f.area.top() + kRadius + 2);
    painter.setPen(QPen(f.theme->colour(failure.colour), 2.2));
    draw_cross(painter, at, kRadius);
    const QString text = metrics.elidedText(failure.label, Qt::ElideRight, f.area.width() - 40);
    QRectF box(0, top, metrics.horizontalAdvance(text) + 4, metrics.height());
    box.moveRight(std::max(at.x() - kRadius - 4, f.area.left() + box.width() + 4));
    QColor ground = f.theme->background;
    ground.setAlphaF(0.85F);
    painter.fillRect(box, ground);
    painter.setPen(f.theme->bad);
    painter.drawText(QPointF(box.left() + 2, box.top() + metrics.ascent()), text);
    top += metrics.height() + 2;
  }
}

// Hatches a strip along the line from a doubtful point half way to its neighbours, so that a single point is visible
// too.
void paint_doubt(QPainter& painter, const PlotFrame& f, const PlotSeries& series) {
  constexpr double kWidth = 18;
  QPainterPath path;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const PlotPoint& point = series.points[i];
    const auto at = f.pixel(point.x, point.y);
    if (!point.doubtful || !at) continue;
    const auto reach = [&](std::size_t other) {
      const auto to =
          other < series.points.size() ? f.pixel(series.points[other].x, series.points[other].y) : std::nullopt;
      return to ? (*at + *to) / 2 : *at;
    };
    path.moveTo(i > 0 ? reach(i - 1) : *at);
    path.lineTo(*at);
    path.lineTo(reach(i + 1));
  }
  if (path.isEmpty()) return;
  QPainterPathStroker stroker;
  stroker.setWidth(kWidth);
  stroker.setCapStyle(Qt::RoundCap);
  stroker.setJoinStyle(Qt::RoundJoin);
  QColor colour = f.theme->colour(series.colour);
  colour.setAlphaF(0.55F);
  painter.save();
  painter.setClipRect(f.area);
  // simplified() unites overlapping strips, which would otherwise be hatched twice.
  painter.fillPath(stroker.createStroke(path).simplified(), QBrush(colour, Qt::BDiagPattern));
  painter.restore();
}

}  // namespace

std::optional<QPointF> PlotFrame::pixel(double x_value, double y_value) const {
  const auto px = x->place(x_value), py = y->place(y_value);
  if (!px || !py) return {};
  return pixel_of_place(*px, *py);
}

QPointF PlotFrame::pixel_of_place(double px, double py) const {
  return {area.left() + (px - x->low()) / (x->high() - x->low()) * area.width(),
          area.bottom() - (py - y->low()) / (y->high() - y->low()) * area.height()};
}

void draw_marker(QPainter& painter, const QPointF& at, const Marker& marker, const QColor& background) {
  const bool hollow = marker.look == PointLook::hollow || marker.look == PointLook::crossed;
  painter.setPen(QPen(marker.colour, hollow ? 1.8 : 1));
  painter.setBrush(hollow ? background : marker.colour);
  draw_shape(painter, at, marker.shape, hollow ? marker.radius + 0.8 : marker.radius);
  if (marker.look == PointLook::crossed) draw_cross(painter, at, marker.radius + 1.5);
}

void draw_swatch(QPainter& painter, const QRectF& box, const PlotSeries& series, const Theme& theme) {
  const bool trail = series.line == LineLook::trail;
  const QColor colour = trail || series.line == LineLook::faded ? theme.frame : theme.colour(series.colour);
  if (series.line != LineLook::none) {
    painter.setPen(QPen(colour, trail ? kTrailWidth : series.width,
                        series.line == LineLook::dashed ? Qt::DashLine : Qt::SolidLine));
    painter.drawLine(QPointF(box.left(), box.center().y()), QPointF(box.right(), box.center().y()));
  }
  if (!series.markers) return;
  // A legend shows the usual marker, even if the first point is a refined one.
  const PointLook look = series.points.empty() ? PointLook::filled : series.points.front().look;
  draw_marker(painter, box.center(),
              {.shape = series.colour, .colour = colour, .look = look == PointLook::hollow ? look : PointLook::filled},
              theme.background);
}

bool has_scale(const PlotContent& content) {
  const auto has_points = [](const PlotSeries& series) { return !series.points.empty(); };
  return content.message.isEmpty() || !content.cloud.empty() ||
         std::any_of(content.series.begin(), content.series.end(), has_points);
}

void paint_axes(QPainter& painter, const PlotFrame& f) {
  // Antialiased, a grid line takes ten times as long and blurs over two pixels.
  painter.setRenderHint(QPainter::Antialiasing, false);
  paint_grid(painter, f);
  painter.setRenderHint(QPainter::Antialiasing);
  paint_labels(painter, f);
  paint_titles(painter, f);
}

void paint_grounds(QPainter& painter, const PlotFrame& f) {
  paint_cloud(painter, f);
  painter.setRenderHint(QPainter::Antialiasing);
  for (const PlotSeries& series : f.content->series) paint_doubt(painter, f, series);
}

void paint_over(QPainter& painter, const PlotFrame& f) {
  painter.setRenderHint(QPainter::Antialiasing);
  for (const PlotLine& line : f.content->lines) paint_limit(painter, f, line);
  for (const PlotSeries& series : f.content->series) {
    if (series.markers) paint_series_marks(painter, f, series);
  }
  for (const PlotMark& mark : f.content->marks) paint_mark(painter, f, mark);
  paint_end_labels(painter, f);
  paint_failures(painter, f);
  if (f.content->message.isEmpty()) return;
  painter.setFont(f.font);
  const QRectF room = f.area.adjusted(20, 20, -20, -20);
  const QRectF box =
      painter.boundingRect(room, Qt::AlignCenter | Qt::TextWordWrap, f.content->message).adjusted(-8, -6, 8, 6);
  painter.fillRect(box, f.theme->background);  // greyed curves must not cross the text
  painter.setPen(f.theme->soft_text);
  painter.drawText(room, Qt::AlignCenter | Qt::TextWordWrap, f.content->message);
}

void paint_cursor(QPainter& painter, const PlotFrame& f, const QPointF& at, const QString& tip) {
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(f.theme->text, 1.6));
  painter.setBrush(Qt::NoBrush);
  painter.drawEllipse(at, 8, 8);
  if (tip.isEmpty()) return;
  const QFontMetricsF metrics(f.font);
  QRectF box =
      metrics.boundingRect(QRectF(0, 0, f.area.width(), f.area.height()), Qt::AlignLeft, tip).adjusted(-8, -6, 8, 6);
  // Place the box below and to the right of the point, or on the other side where it would leave the plot.
  box.moveTopLeft(at + QPointF(14, 14));
  if (box.right() > f.area.right()) box.moveRight(at.x() - 14);
  if (box.bottom() > f.area.bottom()) box.moveBottom(at.y() - 14);
  box.moveLeft(std::max(box.left(), f.area.left()));
  box.moveTop(std::max(box.top(), f.area.top()));
  painter.setPen(QPen(f.theme->frame, 1));
  painter.setBrush(f.theme->panel);
  painter.drawRoundedRect(box, 5, 5);
  painter.setFont(f.font);
  painter.setPen(f.theme->text);
  painter.drawText(box.adjusted(8, 6, -8, -6), Qt::AlignLeft, tip);
}

QMarginsF plot_margins(const PlotContent& content, const AxisScale& y, const QFont& font, const QSizeF& size) {
  const QFontMetricsF metrics(font);
  const double labels = content.x.labels ? metrics.height() + kGap : 0;
  const double bottom = labels + (content.x.title.isEmpty() ? kGap : metrics.height() + 2 * kGap);
  double widest = metrics.horizontalAdvance(QStringLiteral("000"));
  for (const AxisTick& tick : y.ticks(wanted_y(size.height() - bottom, font)))
    widest = std::max(widest, metrics.horizontalAdvance(tick.label));
  // Rounds widths to a fixed grid, so that the plot does not shift sideways with every digit.
  const double unit = metrics.horizontalAdvance(QStringLiteral("00"));
  return {std::ceil(widest / unit) * unit + metrics.height() + 3 * kGap, 10, 16, bottom};
}

}  // namespace plimsoll::gui
