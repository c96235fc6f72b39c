// SPDX-License-Identifier: GPL-3.0-or-later
// The distributions over the requests of one point.
#pragma once

#include "gui/window/plot_page.h"

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

}  // namespace plimsoll::gui
