// SPDX-License-Identifier: GPL-3.0-or-later
// The Plan dock runs `plimsoll plan` on the current scenario. It shows the deployments, best first, why each does not
// win, and the winner's flags and files. While the search runs, it ranks the deployments by their first looks.
#pragma once

#include <QJsonObject>
#include <functional>
#include <vector>

#include "gui/window/run_dock.h"
#include "gui/window/view.h"

class QComboBox;
class QTableWidget;
class QScrollArea;
class QToolButton;

namespace plimsoll::gui {

class PlanPanel;

/// Results belong to the question that was asked. If the question changes, they stay and the dock marks them as
/// outdated.
class DecisionDock final : public RunDock {
  Q_OBJECT
 public:
  explicit DecisionDock(Workbench& bench, QWidget* parent = nullptr);
  /// Starts the planner on the current scenario, or shows why it cannot.
  void plan();
  /// Returns every column of every deployment.
  [[nodiscard]] TableData table() const;
  [[nodiscard]] QTableWidget& ranking() { return *ranking_; }
  [[nodiscard]] PlanPanel& panel() { return *panel_; }
  /// Returns the best deployment in one sentence, or why there is none.
  [[nodiscard]] QString answer() const;
  /// Applies the deployment of a row to the scenario.
  void use(int row);
  /// Adds a copy of the scenario with that deployment.
  void add_scenario(int row);
  /// Shows the scenario's SLO and search space; called whenever the session changes.
  void refresh();

 protected:
  void clear() override;
  void showEvent(QShowEvent* event) override;
  void finished(const QString& verb, int exit_code, const QString& text) override;

 private:
  using ScenarioChange = std::function<void(Scenario&)>;
  void apply(int row, const std::function<void(const ScenarioChange&)>& edit);
  bool ask();
  void fit_columns();
  void add(const QString& type, const QJsonObject& line);
  void add_look(const QJsonObject& line);
  void add_deployment(const QJsonObject& line);
  void clear_ranking();
  void show_results(bool shown);
  void show_so_far();
  void mark_cancelled();
  void show_answer(const QJsonObject& line);
  void explain(int row);
  [[nodiscard]] QString margin_text(int rank) const;
  [[nodiscard]] QString thin_margin(int rank) const;
  void copy_file();
  void make_panel();
  void make_ranking();
  void connect_all();
  [[nodiscard]] std::string key() const;
  [[nodiscard]] const QJsonObject* deployment_at(int row) const;
  PlanPanel* panel_ = nullptr;
  QToolButton* fold_ = nullptr;
  QScrollArea* form_ = nullptr;  // with the panel
  QTableWidget* ranking_ = nullptr;
  QLabel *asks_ = nullptr, *best_ = nullptr, *why_ = nullptr;
  QComboBox* files_ = nullptr;
  QPushButton *copy_ = nullptr, *use_ = nullptr;
  std::vector<QJsonObject> deployments_;  // best first
  QJsonObject deploy_;                    // texts, keyed by the name of a file or a tool
  std::string asking_, asked_;            // keys of the question being asked and of the answered one; empty if none
  QString verdict_;                       // the outcome as text
  std::size_t tried_ = 0;
  bool provisional_ = false;  // the ranking shows first looks; the answer is not known yet
};

}  // namespace plimsoll::gui
