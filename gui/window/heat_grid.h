// SPDX-License-Identifier: GPL-3.0-or-later
// The cells of the TP x batch map, with mouse and keyboard navigation.
#pragma once

#include <QWidget>
#include <optional>

#include "gui/core/details.h"
#include "gui/core/metrics.h"
#include "gui/core/slo_answer.h"
#include "gui/plot/theme.h"

namespace plimsoll::gui {

/// Arrow keys, Home and End move a cursor. Its cell is announced, also to assistive technology. Return or a
/// double-click chooses the cell.
class HeatGrid final : public QWidget {
  Q_OBJECT
 public:
  explicit HeatGrid(QWidget* parent = nullptr);

  /// Shows a map, or `message` if the map has no cells. The cursor stays where it is.
  void show_map(HeatMap map, const QString& message);
  /// Chooses the metric that cells show. Cells that miss the study's SLO or the drawn limit are marked.
  void show_metric(const Metric& metric, const DrawnLimit& drawn);
  /// Frames the cell with the scenario's own values, if the map has it.
  void show_own(std::int64_t tp, std::int64_t batch);
  void set_theme(const Theme& theme);
  [[nodiscard]] const HeatMap& map() const { return map_; }
  /// Returns the metric of a cell in its unit; nullopt if the deployment does not fit or was not simulated.
  [[nodiscard]] std::optional<double> value(std::size_t cell) const;
  /// Returns "TP 4, batch limit 64: 1343 tokens/s", or why there is no value.
  [[nodiscard]] QString cell_text(std::size_t cell) const;
  [[nodiscard]] std::optional<std::size_t> cursor() const { return cursor_; }
  /// Return the cell with the scenario's own values, and the best one within the SLO; nullopt if the map has none.
  [[nodiscard]] std::optional<std::size_t> own() const;
  [[nodiscard]] std::optional<std::size_t> best() const;
  /// Returns the position of a cell in this widget.
  [[nodiscard]] QRectF cell_box(std::size_t cell) const;

 Q_SIGNALS:
  /// The text that assistive technology reads for the cell under the cursor.
  void said(const QString& text);
  /// A cell was chosen by Return or a double click.
  void chosen(int tp, int batch);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void focusInEvent(QFocusEvent* event) override;

 private:
  [[nodiscard]] std::pair<double, double> range() const;
  [[nodiscard]] std::optional<std::size_t> cell_at(const QPointF& place) const;
  [[nodiscard]] QString mark_of(std::size_t cell) const;
  void move_cursor(std::size_t cell);
  void choose();
  void paint_heads(QPainter& painter) const;
  /// The range of all cells, and whether this one is the best.
  struct CellLook {
    double low = 0, high = 0;
    bool best = false;
  };
  void paint_cell(QPainter& painter, std::size_t cell, const CellLook& look) const;

  HeatMap map_;
  QString message_;
  const Metric* metric_ = nullptr;
  DrawnLimit drawn_;
  const Theme* theme_ = &light_theme();
  std::optional<std::size_t> cursor_;
  std::pair<std::int64_t, std::int64_t> own_;  // TP degree and batch limit
};

}  // namespace plimsoll::gui
