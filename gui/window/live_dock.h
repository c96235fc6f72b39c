// SPDX-License-Identifier: GPL-3.0-or-later
// Measuring the current scenario on this machine, and calibrating the machine.
#pragma once

#include <string>
#include <vector>

#include "gui/window/run_dock.h"

class QCheckBox;
class QComboBox;
class QSpinBox;

namespace plimsoll::gui {

class LiveDock final : public RunDock {
  Q_OBJECT
 public:
  explicit LiveDock(Workbench& bench, QWidget* parent = nullptr);
  /// The scenario's points, one after another; they appear in the curves as they finish.
  void measure();
  /// For as long as the dock's field says; then predictions for `hardware: this-machine` rest on it.
  void calibrate();
  /// Turns the scenario into one for this machine: hardware, engine, and a model that a CPU can run.
  void use_this_machine();
  void refresh();
  [[nodiscard]] QSpinBox& seconds() { return *seconds_; }

 protected:
  void clear() override;
  void finished(const QString& verb, int exit_code, const QString& text) override;

 private:
  [[nodiscard]] bool is_this_machine() const;
  QComboBox* device_ = nullptr;
  QCheckBox* as_is_ = nullptr;
  QSpinBox* seconds_ = nullptr;
  QLabel* hint_ = nullptr;
  std::vector<PointRow> rows_;
};

}  // namespace plimsoll::gui
