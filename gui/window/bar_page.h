// SPDX-License-Identifier: GPL-3.0-or-later
// Views made of stacked bars or cells: memory of a GPU, time along the curve, TP by batch limit.
#pragma once

#include "gui/core/details.h"
#include "gui/window/view.h"

class QCheckBox;
class QComboBox;
class QLabel;
class QTableView;

namespace plimsoll::gui {

class HeatGrid;

/// Stacked horizontal bars with a legend.
class BarChart final : public QWidget {
  Q_OBJECT
 public:
  struct Part {
    QString name;
    std::size_t colour = 0;
  };
  struct Bar {
    QString label;
    std::vector<double> values;
    QString note;
  };
  /// A line across the bars, in their unit.
  struct Limit {
    double value = 0;
    QString text;
  };
  explicit BarChart(QWidget* parent = nullptr);
  /// Replaces what is shown.
  void show_bars(std::vector<Part> parts, std::vector<Bar> bars, const QString& unit, std::optional<Limit> limit = {});
  void set_theme(const Theme& theme) {
    theme_ = &theme;
    update();
  }
  /// Returns the parts of all bars, a row each.
  [[nodiscard]] TableData table() const;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  void paint_legend(QPainter& painter, double& top) const;
  void paint_bar(QPainter& painter, const Bar& bar, const QRectF& box, double most) const;
  void paint_scale(QPainter& painter, const QRectF& box, double most) const;
  std::vector<Part> parts_;
  std::vector<Bar> bars_;
  QString unit_;
  std::optional<Limit> limit_;
  const Theme* theme_ = &light_theme();
};

class BarPage : public View {
  Q_OBJECT
 public:
  explicit BarPage(Workbench& bench, QWidget* parent = nullptr);
  void set_theme(const Theme& theme) override;
  [[nodiscard]] TableData table() const override { return chart_->table(); }
  [[nodiscard]] PictureParts picture() const override;

 protected:
  BarChart* chart_ = nullptr;
  QLabel* caption_ = nullptr;
};

class MemoryPage final : public BarPage {
  Q_OBJECT
 public:
  using BarPage::BarPage;
  [[nodiscard]] QString id() const override { return QStringLiteral("memory"); }
  [[nodiscard]] QString title() const override { return tr("Memory"); }
  void refresh() override;
};

class TimePage final : public BarPage {
  Q_OBJECT
 public:
  using BarPage::BarPage;
  [[nodiscard]] QString id() const override { return QStringLiteral("time"); }
  [[nodiscard]] QString title() const override { return tr("Where time goes"); }
  void refresh() override;
};

class HeatPage final : public View {
  Q_OBJECT
 public:
  explicit HeatPage(Workbench& bench, QWidget* parent = nullptr);
  [[nodiscard]] QString id() const override { return QStringLiteral("heatmap"); }
  [[nodiscard]] QString title() const override { return tr("TP × batch"); }
  void refresh() override;
  void prepare() override;
  void set_theme(const Theme& theme) override;
  [[nodiscard]] TableData table() const override;
  [[nodiscard]] PictureParts picture() const override;

 private:
  void use(int tp, int batch);
  [[nodiscard]] QString load_of_map() const;
  HeatGrid* grid_ = nullptr;
  QLabel* caption_ = nullptr;
  [[nodiscard]] bool is_within();
  QComboBox *metric_ = nullptr, *at_ = nullptr;
  bool chosen_ = false;  // whether the user has chosen the load
  std::string key_;
  bool waiting_ = false;  // for the map of key_
};

class TablePage final : public View {
  Q_OBJECT
 public:
  explicit TablePage(Workbench& bench, QWidget* parent = nullptr);
  [[nodiscard]] QString id() const override { return QStringLiteral("table"); }
  [[nodiscard]] QString title() const override { return tr("Points"); }
  void refresh() override;
  void set_theme(const Theme& /*theme*/) override {}
  [[nodiscard]] TableData table() const override;
  [[nodiscard]] PictureParts picture() const override;

 private:
  QTableView* view_ = nullptr;
  QCheckBox* all_ = nullptr;
};

}  // namespace plimsoll::gui
