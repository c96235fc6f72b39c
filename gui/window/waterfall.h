// SPDX-License-Identifier: GPL-3.0-or-later
// Requests over time as bars, divided into the client's wait, queue and prefill, and decode, or into the stages of
// pools. Each request is a row. If there are more rows than pixels, only rows that get their own pixel are drawn.
// Pointing at a request shows its times, and a click selects it.
#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "gui/core/request_stages.h"
#include "gui/plot/theme.h"
#include "sim/simulate.h"

namespace plimsoll::gui {

class Waterfall final : public QWidget {
  Q_OBJECT
 public:
  explicit Waterfall(QWidget* parent = nullptr);
  void show_requests(const std::vector<sim::RequestRow>& requests);
  [[nodiscard]] const std::vector<sim::RequestRow>& requests() const { return requests_; }
  void set_theme(const Theme& theme);
  void show_all();
  /// Returns the seconds shown.
  [[nodiscard]] std::pair<double, double> range() const { return {low_, high_}; }
  /// Returns the index of the request whose row is at this height; nullopt outside the bars.
  [[nodiscard]] std::optional<std::size_t> request_at(const QPointF& place) const;
  /// Returns the times of a request in words.
  [[nodiscard]] QString words(std::size_t request) const;
  [[nodiscard]] std::optional<std::size_t> selected() const { return selected_; }
  /// Selects a request, or none; its row is marked.
  void select(std::optional<std::size_t> request);

 Q_SIGNALS:
  void range_changed(double low, double high);
  void selection_changed();

 protected:
  bool event(QEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void paintEvent(QPaintEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  [[nodiscard]] QRectF area() const;
  [[nodiscard]] double pixel(double second) const;
  void set_range(double low, double high);
  void zoom(double factor, double around);
  [[nodiscard]] QColor colour_of(RequestStage stage) const;
  void paint_bars(QPainter& painter);
  void paint_legend(QPainter& painter);
  std::vector<sim::RequestRow> requests_;  // sorted by arrival
  bool pools_ = false;                     // whether requests went through pools
  const Theme* theme_ = &light_theme();
  std::optional<std::size_t> selected_;
  double low_ = 0, high_ = 1, end_ = 1;
};

}  // namespace plimsoll::gui
