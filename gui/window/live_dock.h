// SPDX-License-Identifier: GPL-3.0-or-later
// The dock that measures the current scenario, on this machine or on a server, and calibrates the machine.
#pragma once

#include <vector>

#include "gui/window/run_dock.h"

class QCheckBox;
class QComboBox;
class QLineEdit;
class QSpinBox;

namespace plimsoll::gui {

/// Only one run at a time, since two would share the device.
class LiveDock final : public RunDock {
  Q_OBJECT
 public:
  explicit LiveDock(Workbench& bench, QWidget* parent = nullptr);
  /// Measures the scenario's points one after another. Each appears in the curves when it finishes.
  void measure();
  /// Calibrates for the duration in the dock's field. Predictions for `hardware: this-machine` then use the result.
  void calibrate();
  /// Changes the scenario to one for this machine: hardware, engine, and a model that a CPU can run.
  void use_this_machine();
  /// Shows whether the scenario can be measured, and why not.
  void refresh();
  [[nodiscard]] QSpinBox& seconds() { return *seconds_; }
  /// Returns the field for the address of a server to measure; if it is empty, this machine is measured.
  [[nodiscard]] QLineEdit& endpoint() { return *endpoint_; }

 Q_SIGNALS:
  /// The user asks for a profile of the user's own engine; the address of its server may be empty.
  void fit_wanted(const QString& endpoint);

 protected:
  void clear() override;
  void finished(const QString& verb, int exit_code, const QString& text) override;

 private:
  [[nodiscard]] bool is_this_machine() const;
  QComboBox* device_ = nullptr;
  QLineEdit *endpoint_ = nullptr, *key_ = nullptr;
  QCheckBox* as_is_ = nullptr;
  QSpinBox* seconds_ = nullptr;
  QLabel* hint_ = nullptr;
  QString name_, note_;  // of the run
  std::vector<PointRow> rows_;
};

}  // namespace plimsoll::gui
