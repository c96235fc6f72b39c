// SPDX-License-Identifier: GPL-3.0-or-later
// The only interface to the charting library. Qt Charts is used only in charts_plot.cpp. It has been deprecated since
// Qt 6.10 and can be replaced in that file.
#pragma once

#include <QPointF>
#include <QString>
#include <QWidget>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "gui/plot/theme.h"

namespace plimsoll::gui {

/// The marker of a point: simulated, measured, added between the study's points, or simulated with failed requests.
enum class PointLook : unsigned char { filled, hollow, small, crossed };

/// A point in the units of the axes.
struct PlotPoint {
  double x = 0, y = 0;
  PointLook look = PointLook::filled;
  QString tip;            // may have several lines
  std::size_t id = 0;     // chosen and interpreted by the caller
  double error = 0;       // > 0: half-width of an error bar in y
  bool doubtful = false;  // the line is hatched around such points
};

/// trail: a wide grey line behind the curves that it follows.
enum class LineLook : unsigned char { none, solid, dashed, faded, steps, trail };
/// Of a trail, in pixels: it shows on both sides of a curve.
inline constexpr double kTrailWidth = 9;

/// Points with their line, in drawing order.
struct PlotSeries {
  QString name;
  std::size_t colour = 0;  // also selects the marker's shape
  LineLook line = LineLook::solid;
  bool markers = true;
  std::vector<PlotPoint> points;
  double width = 2.2;  // of the line, in pixels
  QString label = {};  // written at the last point; empty: none
};

/// A filled area between two lines over x.
struct PlotBand {
  std::size_t colour = 0;
  struct Span {
    double x = 0, low = 0, high = 0;
  };
  std::vector<Span> spans;
};

/// A limit; a horizontal one is a value of y.
struct PlotLine {
  int id = 0;
  Qt::Orientation orientation = Qt::Horizontal;
  double value = 0;
  QString label;
  bool draggable = false, shaded = false;  // shaded: values beyond it are excluded
};

/// pin: a diamond around the point; knee: a tick below it, which covers nothing; limit: a bar across the line in the
/// colour of limits.
enum class MarkLook : unsigned char { pin, knee, limit };

struct PlotMark {
  double x = 0, y = 0;
  std::size_t colour = 0;
  QString label;
  MarkLook look = MarkLook::pin;
};

/// A point that cannot be drawn. It is shown as a cross at the upper edge, at its x or at the right end, with the
/// reason.
struct PlotFailure {
  std::optional<double> x;
  std::size_t colour = 0;
  QString label;
};

/// Title and scale of an axis; its range follows the content unless the user zooms.
struct PlotAxis {
  QString title;
  bool log = false;
  bool from_zero = true;   // linear axes only
  bool symmetric = false;  // linear axes only: extends equally above and below zero
  double most = 0;         // linear axes only, > 0: the greatest possible value, such as 100 %
  bool labels = true;      // false: the plot above has the same ticks
};

/// Everything that a plot shows.
struct PlotContent {
  PlotAxis x, y;
  std::vector<PlotSeries> series;
  std::vector<PlotBand> bands;
  std::vector<PlotLine> lines;
  std::vector<PlotMark> marks;
  std::vector<PlotFailure> failures;
  std::vector<QPointF> cloud;  // drawn as a density
  QString message;             // shown over an empty or a stale chart
  QString note;                // small text below
  /// False while more points will follow: then the axes keep their range if it shows everything and is not far too
  /// large, so that they do not jump during a drag.
  bool settled = true;
};

/// A chart with zoom, hover and keyboard cursor. Belongs to the window's thread.
class PlotView : public QWidget {
  Q_OBJECT
 public:
  using QWidget::QWidget;
  /// Sets the accessible name of the plot and of its parts that take the focus.
  virtual void set_name(const QString& name) = 0;
  /// Sets the content and keeps the zoom. Points that cannot be drawn (not finite, or not positive on a log axis) are
  /// omitted and counted in undrawable().
  virtual void set_content(PlotContent content) = 0;
  [[nodiscard]] virtual const PlotContent& content() const = 0;
  virtual void set_theme(const Theme& theme) = 0;
  /// Shows the x range of another plot; nullopt restores its own range.
  virtual void follow_x(std::optional<std::pair<double, double>> range) = 0;
  [[nodiscard]] virtual std::pair<double, double> x_range() const = 0;
  /// Show the whole content again, or undo the last zoom.
  virtual void reset_zoom() = 0;
  virtual void zoom_back() = 0;
  /// Returns the number of points that set_content() omitted.
  [[nodiscard]] virtual std::size_t undrawable() const = 0;
  /// Map a value to its position in this widget and back; for tests and for dragging.
  [[nodiscard]] virtual QPointF place_of(double x, double y) const = 0;
  [[nodiscard]] virtual QPointF value_at(const QPointF& place) const = 0;

 Q_SIGNALS:
  void hovered(const QString& tip);  // empty if there is no point
  /// A point was clicked, or chosen with Return.
  void activated(std::size_t series, std::size_t point, Qt::KeyboardModifiers modifiers);
  /// A draggable limit is being moved; `finished` is true when it is released.
  void line_moved(int id, double value, bool finished);
  /// The shown range has changed, by the user or by new content.
  void range_changed();
};

/// Returns a plot drawn by the charting library.
[[nodiscard]] std::unique_ptr<PlotView> make_plot_view(QWidget* parent = nullptr);

}  // namespace plimsoll::gui
