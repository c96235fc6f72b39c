// SPDX-License-Identifier: GPL-3.0-or-later
// Views of one point: the distributions of its requests, and its timeline.
#pragma once

#include "gui/window/plot_page.h"

class QScrollArea;

namespace plimsoll::gui {

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

/// Requests as bars (waiting, prefill, decode) above the batch, the KV blocks and the queue over time.
class Waterfall;
class TimelinePage final : public View {
  Q_OBJECT
 public:
  explicit TimelinePage(Workbench& bench, QWidget* parent = nullptr);
  [[nodiscard]] QString id() const override { return QStringLiteral("timeline"); }
  [[nodiscard]] QString title() const override { return tr("Timeline"); }
  void refresh() override;
  void set_theme(const Theme& theme) override;
  [[nodiscard]] TableData table() const override;
  void prepare() override { static_cast<void>(bench_.details()); }
  void reset_zoom() override;

 private:
  PlotView* make_strip(const QString& name);
  PlotContent strip(const PointDetails& details, const QString& title, const std::function<double(const sim::StepRow&)>& value) const;
  Waterfall* waterfall_ = nullptr;
  PlotView *batch_ = nullptr, *kv_ = nullptr, *queue_ = nullptr;
  QLabel* caption_ = nullptr;
};

}  // namespace plimsoll::gui
