// SPDX-License-Identifier: GPL-3.0-or-later
// One point over time: its requests as bars, and below them the batch, the KV blocks, the KV transfers between pools,
// and the queue. Shows the simulation, a measurement if a run left its files, and the difference between the two.
#pragma once

#include <functional>

#include "gui/core/details.h"
#include "gui/window/view.h"

class QComboBox;
class QLabel;

namespace plimsoll::gui {

class Waterfall;

/// Shows the selected point, else the middle one of the last curve. The point is simulated again in the background,
/// with its requests and steps.
class TimelinePage final : public View {
  Q_OBJECT
 public:
  enum class Shown : unsigned char { simulated, measured, difference };
  explicit TimelinePage(Workbench& bench, QWidget* parent = nullptr);
  [[nodiscard]] QString id() const override { return QStringLiteral("timeline"); }
  [[nodiscard]] QString title() const override { return tr("Timeline"); }
  void refresh() override;
  void set_theme(const Theme& theme) override;
  [[nodiscard]] TableData table() const override;
  [[nodiscard]] PictureParts picture() const override;
  void prepare() override { static_cast<void>(bench_.details()); }
  void reset_zoom() override;
  /// Chooses what is shown where a run left files of the same point.
  void show_side(Shown side);

 private:
  using StepValue = std::function<double(const sim::StepRow&)>;
  PlotView* make_strip(const QString& name);
  void refresh_choice(const PointDetails& details);
  void show_run(const std::vector<sim::RequestRow>& requests, const std::vector<sim::StepRow>& steps);
  void show_difference(const PointDetails& details);
  [[nodiscard]] PlotContent strip(const QString& title, const StepValue& value,
                                  const std::vector<sim::StepRow>& steps) const;
  [[nodiscard]] PlotContent difference_strip(const QString& title, const StepValue& value,
                                             const PointDetails& details) const;
  [[nodiscard]] TableData difference_table() const;
  Waterfall* waterfall_ = nullptr;
  [[nodiscard]] PlotContent transfers_strip(const std::vector<sim::RequestRow>& requests) const;
  [[nodiscard]] PlotSeries stepped(std::int32_t replica, const std::vector<TimedValue>& values) const;
  PlotView *requests_ = nullptr, *batch_ = nullptr, *kv_ = nullptr, *transfers_ = nullptr, *queue_ = nullptr;
  std::int32_t decode_replicas_ = 0;  // as in PointDetails
  QComboBox* side_ = nullptr;
  QLabel* caption_ = nullptr;
};

}  // namespace plimsoll::gui
