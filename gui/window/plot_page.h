// SPDX-License-Identifier: GPL-3.0-or-later
// Views of one plot with a legend and a line of text: Pareto, cost, parity, distributions over a point's requests, A
// against B.
#pragma once

#include "gui/core/details.h"
#include "gui/window/curve_content.h"
#include "gui/window/legend.h"
#include "gui/window/view.h"

class QBoxLayout;
class QLabel;

namespace plimsoll::gui {

/// Derived classes define the content; legend, zoom, table and theme are handled here.
class PlotPage : public View {
  Q_OBJECT
 public:
  explicit PlotPage(Workbench& bench, QWidget* parent = nullptr);
  void refresh() override;
  void set_theme(const Theme& theme) override;
  [[nodiscard]] TableData table() const override;
  [[nodiscard]] PictureParts picture() const override;
  void reset_zoom() override { plot_->reset_zoom(); }
  void zoom_back() override { plot_->zoom_back(); }

 protected:
  struct Page {
    PlotContent content;
    QString caption;
  };
  /// Returns the content; `hidden` are the series that the legend hides.
  [[nodiscard]] virtual Page build(const std::set<QString>& hidden) const = 0;
  /// Returns the names of the series that the legend hides.
  [[nodiscard]] const std::set<QString>& hidden() const { return legend_->hidden(); }
  void resizeEvent(QResizeEvent* event) override;
  PlotView* plot_ = nullptr;

 private:
  Legend* legend_ = nullptr;
  QBoxLayout* row_ = nullptr;  // the plot and the legend
  QLabel* caption_ = nullptr;
  const Theme* theme_ = &light_theme();
};

class ParetoPage final : public PlotPage {
  Q_OBJECT
 public:
  using PlotPage::PlotPage;
  [[nodiscard]] QString id() const override { return QStringLiteral("pareto"); }
  [[nodiscard]] QString title() const override { return tr("Pareto"); }
  [[nodiscard]] TableData table() const override;

 protected:
  [[nodiscard]] Page build(const std::set<QString>& hidden) const override;

 private:
  [[nodiscard]] ContentChoice choice(const std::set<QString>& hidden) const;
};

class CostPage final : public PlotPage {
  Q_OBJECT
 public:
  using PlotPage::PlotPage;
  [[nodiscard]] QString id() const override { return QStringLiteral("cost"); }
  [[nodiscard]] QString title() const override { return tr("Cost"); }
  [[nodiscard]] TableData table() const override;

 protected:
  [[nodiscard]] Page build(const std::set<QString>& hidden) const override;

 private:
  [[nodiscard]] ContentChoice choice(const std::set<QString>& hidden) const;
};

class ParityPage final : public PlotPage {
  Q_OBJECT
 public:
  using PlotPage::PlotPage;
  [[nodiscard]] QString id() const override { return QStringLiteral("parity"); }
  [[nodiscard]] QString title() const override { return tr("Parity"); }
  [[nodiscard]] TableData table() const override;

 protected:
  [[nodiscard]] Page build(const std::set<QString>& hidden) const override;
};

/// Compares B with A at every load that both have, over paired replications.
class ComparePage final : public PlotPage {
  Q_OBJECT
 public:
  explicit ComparePage(Workbench& bench, QWidget* parent = nullptr);
  [[nodiscard]] QString id() const override { return QStringLiteral("compare"); }
  [[nodiscard]] QString title() const override { return tr("A – B"); }
  void prepare() override;
  void refresh() override;

 protected:
  [[nodiscard]] Page build(const std::set<QString>& hidden) const override;

 private:
  [[nodiscard]] QString why_empty() const;
  std::vector<PairedDifference> differences_;
  std::string key_;
  QString failure_;
  enum class Stage : unsigned char { waiting, cancelled, done } stage_ = Stage::waiting;  // of the comparison of key_
};

/// Cumulative distributions of latency, TTFT and TPOT.
class CdfPage final : public PlotPage {
  Q_OBJECT
 public:
  explicit CdfPage(Workbench& bench, QWidget* parent = nullptr);
  [[nodiscard]] QString id() const override { return QStringLiteral("cdf"); }
  [[nodiscard]] QString title() const override { return tr("Distributions"); }
  void prepare() override { static_cast<void>(bench_.details()); }

 protected:
  [[nodiscard]] Page build(const std::set<QString>& hidden) const override;
};

}  // namespace plimsoll::gui
