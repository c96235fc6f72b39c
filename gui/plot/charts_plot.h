// SPDX-License-Identifier: GPL-3.0-or-later
// PlotView on Qt Charts, which draws the lines; grid, axes, bands, markers and limits are our own (plot_painter.h,
// band_layer.h).
// Reasons for the limits: a line has at most about two thousand points; no QScatterSeries (takes seconds for 10^5
// points), no QLogValueAxis (one value <= 0 hides the series), no OpenGL (crashes without a display).
#pragma once

#include <QtCharts/QChart>
#include <QtCharts/QChartView>
#include <QtCharts/QLineSeries>
#include <QtCharts/QValueAxis>

#include "gui/plot/axis_scale.h"
#include "gui/plot/band_layer.h"
#include "gui/plot/layer_cache.h"
#include "gui/plot/plot_painter.h"
#include "gui/plot/plot_view.h"

namespace plimsoll::gui {

class ChartsPlot final : public PlotView {
  Q_OBJECT
 public:
  explicit ChartsPlot(QWidget* parent);

  void set_name(const QString& name) override;
  void set_content(PlotContent content) override;
  [[nodiscard]] const PlotContent& content() const override { return content_; }
  void set_theme(const Theme& theme) override;
  void follow_x(std::optional<std::pair<double, double>> range) override;
  [[nodiscard]] std::pair<double, double> x_range() const override { return {x_.low(), x_.high()}; }
  void reset_zoom() override;
  void zoom_back() override;
  [[nodiscard]] std::size_t undrawable() const override { return undrawable_; }
  [[nodiscard]] QPointF place_of(double x, double y) const override;
  [[nodiscard]] QPointF value_at(const QPointF& place) const override;
  [[nodiscard]] PlotFrame frame() const;
  [[nodiscard]] const LayerCache& axes() const { return axes_; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  struct Hit {
    std::size_t series = 0, point = 0;
  };
  enum class Drag : unsigned char { none, zoom, pan, line };

  void make_series();
  void style_series();
  void update_lines();
  void fit();
  void fit_axis(AxisScale& scale, const std::vector<double>& places, const PlotAxis& axis) const;
  void lay_out();
  [[nodiscard]] std::vector<QPointF> places_of(const PlotSeries& series) const;
  [[nodiscard]] std::optional<Hit> hit(const QPointF& at) const;
  [[nodiscard]] const PlotLine* line_at(const QPointF& at) const;
  void set_cursor(std::optional<Hit> where);
  void move_cursor(int points, int series);
  bool press(QMouseEvent* event);
  bool move(QMouseEvent* event);
  bool release(QMouseEvent* event);
  bool wheel(QWheelEvent* event);
  bool key(QKeyEvent* event);
  void zoom_to(const QRectF& places);
  void drag_line(const QPointF& at, bool finished);
  [[nodiscard]] QRectF shown() const { return {x_.low(), y_.low(), x_.high() - x_.low(), y_.high() - y_.low()}; }

  PlotContent content_;
  const Theme* theme_ = &light_theme();
  AxisScale x_, y_;                // as shown
  AxisScale fitted_x_, fitted_y_;  // to the content
  bool fitted_ = false;            // to a content with points on the present axes
  LayerCache axes_;
  BandLayer bands_;
  QChart* chart_ = nullptr;
  QChartView* view_ = nullptr;
  QValueAxis *x_axis_ = nullptr, *y_axis_ = nullptr;
  QGraphicsItem *under_ = nullptr, *over_ = nullptr;
  std::vector<QLineSeries*> lines_;
  std::size_t undrawable_ = 0;
  std::optional<QRectF> zoom_;  // on the linear scales
  std::vector<QRectF> history_;
  std::optional<std::pair<double, double>> followed_;
  std::optional<Hit> cursor_;
  Drag drag_ = Drag::none;
  int dragged_line_ = 0;
  QPointF drag_start_, drag_end_;
  QRectF drag_shown_;
};

}  // namespace plimsoll::gui
