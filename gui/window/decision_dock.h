// SPDX-License-Identifier: GPL-3.0-or-later
// The decision: `plimsoll plan` on the current scenario. Its deployments, best first; what keeps each from winning; the
// winner's flags and files.
#pragma once

#include <QJsonObject>
#include <vector>

#include "gui/window/run_dock.h"
#include "gui/window/view.h"

class QComboBox;
class QTableWidget;

namespace plimsoll::gui {

class Field;

/// The study that is planned: the scenario without its sweep, with the SLO line where it states no SLO, and a search of
/// what it sweeps where it states none. Throws InputError where no SLO can be had.
[[nodiscard]] Scenario plan_scenario(const Scenario& scenario, const ViewState& view);

class DecisionDock final : public RunDock {
  Q_OBJECT
 public:
  explicit DecisionDock(Workbench& bench, QWidget* parent = nullptr);
  void plan();
  /// Every column of every deployment.
  [[nodiscard]] TableData table() const;
  [[nodiscard]] QTableWidget& ranking() { return *ranking_; }
  [[nodiscard]] QString answer() const;
  /// The deployment of a row becomes the scenario's.
  void use(int row);
  void refresh();

 protected:
  void clear() override;
  void finished(const QString& verb, int exit_code, const QString& text) override;

 private:
  void add(const QString& type, const QJsonObject& line);
  void add_deployment(const QJsonObject& line);
  void show_answer(const QJsonObject& line);
  void explain(int row);
  void copy_file();
  [[nodiscard]] const QJsonObject* deployment_at(int row) const;
  Field *slo_ = nullptr, *search_ = nullptr;
  QTableWidget* ranking_ = nullptr;
  QLabel *best_ = nullptr, *why_ = nullptr;
  QComboBox* files_ = nullptr;
  QPushButton *copy_ = nullptr, *use_ = nullptr;
  std::vector<QJsonObject> deployments_;   // best first
  QJsonObject deploy_;                     // name of a file or of a tool's flags, its text
  std::size_t tried_ = 0;
};

}  // namespace plimsoll::gui
