// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/plot/charts_plot.h"

#include <QAccessible>
#include <QEvent>
#include <QGraphicsItem>
#include <QGraphicsLayout>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/plot/decimate.h"

namespace plimsoll::gui {
namespace {

constexpr double kUnderSeries = 2,
                 kOverSeries = 100;  // between Qt Charts' own layers (background -1 … series 4 and above)
constexpr int kMaxColumns = 500;

/// Calls a function that paints in pixels of the chart.
class PaintItem final : public QGraphicsItem {
 public:
  PaintItem(QGraphicsItem* parent, std::function<QRectF()> bounds, std::function<void(QPainter&)> paint)
      : QGraphicsItem(parent), bounds_(std::move(bounds)), paint_(std::move(paint)) {
    setAcceptedMouseButtons(Qt::NoButton);
  }
  [[nodiscard]] QRectF boundingRect() const override { return bounds_(); }
  void paint(QPainter* painter, const QStyleOptionGraphicsItem* /*option*/, QWidget* /*widget*/) override {
    paint_(*painter);
  }
  void moved() { prepareGeometryChange(); }

 private:
  std::function<QRectF()> bounds_;
  std::function<void(QPainter&)> paint_;
};

void silence(QValueAxis& axis) {
  axis.setVisible(false);
  axis.setLabelsVisible(false);
}

// Qt Charts lays a series out again even for the points that it has.
void replace_points(QXYSeries& series, const QList<QPointF>& points) {
  if (series.points() != points) series.replace(points);
}

}  // namespace

std::unique_ptr<PlotView> make_plot_view(QWidget* parent) { return std::make_unique<ChartsPlot>(parent); }

ChartsPlot::ChartsPlot(QWidget* parent) : PlotView(parent) {
  chart_ = new QChart();
  chart_->legend()->hide();
  chart_->setMargins({});
  chart_->setBackgroundRoundness(0);
  chart_->layout()->setContentsMargins(0, 0, 0, 0);
  x_axis_ = new QValueAxis(this);
  y_axis_ = new QValueAxis(this);
  chart_->addAxis(x_axis_, Qt::AlignBottom);
  chart_->addAxis(y_axis_, Qt::AlignLeft);
  silence(*x_axis_);
  silence(*y_axis_);
  view_ = new QChartView(chart_, this);
  view_->setFrameShape(QFrame::NoFrame);
  view_->setRenderHint(QPainter::Antialiasing);
  // Every change redraws the whole plot, so an index and regions of what has changed would only cost time.
  view_->setViewportUpdateMode(QGraphicsView::FullViewportUpdate);
  view_->scene()->setItemIndexMethod(QGraphicsScene::NoIndex);
  view_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  view_->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  view_->setMouseTracking(true);
  view_->viewport()->setMouseTracking(true);
  view_->viewport()->setObjectName(QStringLiteral("canvas"));
  view_->viewport()->installEventFilter(this);
  view_->installEventFilter(this);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(view_);
  setFocusProxy(view_);
  const auto bounds = [this] { return QRectF(QPointF(0, 0), QSizeF(view_->size())); };
  // Qt Charts draws its series between these two items.
  under_ = new PaintItem(chart_, bounds, [this](QPainter& painter) {
    const PlotFrame now = frame();
    painter.fillRect(now.area, theme_->background);
    if (!has_scale(content_)) return;
    axes_.draw_axes(painter, now);
    bands_.draw(painter, now);
    paint_grounds(painter, now);
  });
  over_ = new PaintItem(chart_, bounds, [this](QPainter& painter) {
    paint_over(painter, frame());
    if (cursor_) {
      const PlotPoint& p = content_.series[cursor_->series].points[cursor_->point];
      if (const auto at = frame().pixel(p.x, p.y)) paint_cursor(painter, frame(), *at, p.tip);
    }
    if (drag_ == Drag::zoom) {
      painter.setPen(QPen(theme_->accent, 1, Qt::DashLine));
      painter.setBrush(Qt::NoBrush);
      painter.drawRect(QRectF(drag_start_, drag_end_).normalized());
    }
  });
  under_->setZValue(kUnderSeries);
  over_->setZValue(kOverSeries);
  setMinimumSize(160, 80);
  set_theme(light_theme());
}

void ChartsPlot::set_name(const QString& name) {
  setAccessibleName(name);
  view_->setAccessibleName(name);
}

PlotFrame ChartsPlot::frame() const {
  return {&content_, theme_, &x_, &y_, chart_->plotArea(), QRectF(QPointF(0, 0), QSizeF(view_->size())), font()};
}

void ChartsPlot::set_content(PlotContent content) {
  // The zoom of the old axes has no meaning on new ones.
  if (content.x.log != content_.x.log || content.y.log != content_.y.log || content.x.title != content_.x.title ||
      content.y.title != content_.y.title) {
    zoom_.reset();
    history_.clear();
    fitted_ = false;
  }
  content_ = std::move(content);
  if (cursor_ &&
      (cursor_->series >= content_.series.size() || cursor_->point >= content_.series[cursor_->series].points.size()))
    cursor_.reset();
  x_.set_log(content_.x.log);
  y_.set_log(content_.y.log);
  make_series();
  style_series();
  fit();
}

// Creating the objects of a series costs more than replacing its points. So they are kept, and those that are not
// needed now are empty. There are more of them after a content with more series, and fewer after one with far fewer.
void ChartsPlot::make_series() {
  constexpr std::size_t kSpare = 16;
  const std::size_t wanted = content_.series.size();
  while (lines_.size() > wanted + kSpare) {
    chart_->removeSeries(lines_.back());
    delete lines_.back();
    lines_.pop_back();
  }
  while (lines_.size() < wanted) {
    auto* line = new QLineSeries();
    chart_->addSeries(line);
    line->attachAxis(x_axis_);
    line->attachAxis(y_axis_);
    lines_.push_back(line);
  }
}

void ChartsPlot::style_series() {
  for (std::size_t i = 0; i < content_.series.size(); ++i) {
    const PlotSeries& series = content_.series[i];
    const bool faded = series.line == LineLook::faded;
    QPen pen(faded ? theme_->frame : theme_->colour(series.colour), faded ? 1.6 : series.width);
    if (series.line == LineLook::dashed) pen.setStyle(Qt::DashLine);
    if (series.line == LineLook::none) pen = QPen(Qt::NoPen);
    if (series.line == LineLook::trail)
      pen = QPen(theme_->frame, kTrailWidth, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin);
    if (lines_[i]->pen() != pen) lines_[i]->setPen(pen);
  }
}

std::vector<QPointF> ChartsPlot::places_of(const PlotSeries& series) const {
  std::vector<QPointF> places;
  places.reserve(series.points.size());
  for (const PlotPoint& point : series.points) {
    const auto px = x_.place(point.x), py = y_.place(point.y);
    if (!px || !py) continue;
    // A step keeps its value up to the next point.
    if (series.line == LineLook::steps && !places.empty()) places.emplace_back(*px, places.back().y());
    places.emplace_back(*px, *py);
  }
  return places;
}

// Fits both ranges to everything that is drawn. Points that cannot be placed, such as 0 on a logarithmic axis, are only
// counted.
void ChartsPlot::fit() {
  std::vector<double> xs, ys;
  undrawable_ = 0;
  const auto note = [&](double x, double y) {
    const auto px = x_.place(x), py = y_.place(y);
    if (!px || !py) {
      ++undrawable_;
      return;
    }
    xs.push_back(*px);
    ys.push_back(*py);
  };
  // The range includes bands and error bars. One that cannot be drawn does not count as a missing point.
  const auto note_edge = [&](double y) {
    if (const auto place = y_.place(y)) ys.push_back(*place);
  };
  for (const PlotSeries& series : content_.series) {
    for (const PlotPoint& point : series.points) {
      note(point.x, point.y);
      if (point.error <= 0) continue;
      note_edge(point.y - point.error);
      note_edge(point.y + point.error);
    }
  }
  for (const PlotBand& band : content_.bands) {
    for (const PlotBand::Span& span : band.spans) {
      note_edge(span.low);
      note_edge(span.high);
    }
  }
  for (const QPointF& point : content_.cloud) {
    xs.push_back(point.x());
    ys.push_back(point.y());
  }
  for (const PlotLine& line : content_.lines) {
    const bool across = line.orientation == Qt::Horizontal;
    if (const auto place = (across ? y_ : x_).place(line.value)) (across ? ys : xs).push_back(*place);
  }
  fit_axis(fitted_x_, xs, content_.x);
  fit_axis(fitted_y_, ys, content_.y);
  fitted_ = (!xs.empty() && !ys.empty()) || (fitted_ && !content_.settled);
  x_ = fitted_x_;
  y_ = fitted_y_;
  // The user's own zoom takes precedence over the range of another plot.
  if (followed_) x_.set_range(followed_->first, followed_->second);
  if (zoom_) {
    x_.set_range(zoom_->left(), zoom_->right());
    y_.set_range(zoom_->top(), zoom_->bottom());
  }
  lay_out();
}

void ChartsPlot::fit_axis(AxisScale& scale, const std::vector<double>& places, const PlotAxis& axis) const {
  scale.set_log(axis.log);
  if (fitted_ && !content_.settled)
    scale.fit_loosely(places, axis.from_zero, axis.symmetric);
  else
    scale.fit(places, axis.from_zero, axis.symmetric);
  if (axis.most > 0 && !axis.log && scale.high() > axis.most && scale.low() < axis.most)
    scale.set_range(scale.low(), axis.most);
}

void ChartsPlot::lay_out() {
  const QSizeF size = view_->size();
  // The margins depend on the y labels, so compute them after the range.
  const QMarginsF margins = plot_margins(content_, y_, font(), size);
  chart_->resize(size);
  const QRectF area = QRectF(QPointF(0, 0), size).marginsRemoved(margins);
  if (chart_->plotArea() != area) chart_->setPlotArea(area);
  x_axis_->setRange(x_.low(), x_.high());
  y_axis_->setRange(y_.low(), y_.high());
  update_lines();
  static_cast<PaintItem*>(under_)->moved();
  static_cast<PaintItem*>(over_)->moved();
  under_->update();
  over_->update();
  Q_EMIT range_changed();
}

void ChartsPlot::update_lines() {
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    QList<QPointF> places;
    if (i < content_.series.size() && content_.series[i].line != LineLook::none) {
      // At most four points per column: Qt Charts slows down with every point.
      const auto few = decimate(places_of(content_.series[i]), x_.low(), x_.high(), kMaxColumns);
      places = QList<QPointF>(few.begin(), few.end());
    }
    replace_points(*lines_[i], places);
  }
}

void ChartsPlot::set_theme(const Theme& theme) {
  theme_ = &theme;
  chart_->setBackgroundBrush(theme.background);
  chart_->setPlotAreaBackgroundVisible(false);
  view_->setBackgroundBrush(theme.background);
  style_series();
  fit();
}

void ChartsPlot::follow_x(std::optional<std::pair<double, double>> range) {
  if (followed_ == range) return;
  followed_ = range;
  fit();
}

void ChartsPlot::reset_zoom() {
  zoom_.reset();
  history_.clear();
  fit();
}

void ChartsPlot::zoom_to(const QRectF& places) {
  if (places.width() < 1e-9 || places.height() < 1e-12) return;
  // A null rectangle means that nothing was zoomed.
  history_.push_back(zoom_.value_or(QRectF()));
  zoom_ = places;
  fit();
}

void ChartsPlot::zoom_back() {
  if (history_.empty()) return;
  zoom_ = history_.back().isNull() ? std::nullopt : std::optional(history_.back());
  history_.pop_back();
  fit();
}

QPointF ChartsPlot::place_of(double x, double y) const {
  const auto at = frame().pixel(x, y);
  return at ? view_->mapTo(this, at->toPoint()) : QPointF(-1, -1);
}

QPointF ChartsPlot::value_at(const QPointF& place) const {
  const QRectF area = chart_->plotArea();
  const double px = x_.low() + (place.x() - area.left()) / area.width() * (x_.high() - x_.low());
  const double py = y_.low() + (area.bottom() - place.y()) / area.height() * (y_.high() - y_.low());
  return {x_.value(px), y_.value(py)};
}

void ChartsPlot::resizeEvent(QResizeEvent* event) {
  PlotView::resizeEvent(event);
  view_->resize(size());
  lay_out();
}

void ChartsPlot::changeEvent(QEvent* event) {
  if (event->type() == QEvent::FontChange && chart_ != nullptr) lay_out();
  PlotView::changeEvent(event);
}

}  // namespace plimsoll::gui
