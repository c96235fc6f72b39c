// SPDX-License-Identifier: GPL-3.0-or-later
// The window: menus, docks, views, status. It holds no knowledge of its own; the workbench does.
#pragma once

#include <QMainWindow>
#include <vector>

#include "gui/core/workbench.h"
#include "gui/window/view.h"

class QLabel;
class QTabWidget;

namespace plimsoll::gui {

class ScenarioDock;
class CurvesView;

class MainWindow final : public QMainWindow {
  Q_OBJECT
 public:
  explicit MainWindow(Workbench& bench, QWidget* parent = nullptr);
  ~MainWindow() override;

  [[nodiscard]] const std::vector<View*>& views() const { return views_; }
  [[nodiscard]] View* view(const QString& id) const;
  [[nodiscard]] View* current_view() const;
  /// False for a name that is none.
  bool show_view(const QString& id);
  void set_dark(bool dark);
  /// Shows what is wrong in the status bar and the message line, not in a dialog.
  void report(const QString& text);
  [[nodiscard]] QString problem() const;
  void open_files(const QStringList& files);
  [[nodiscard]] ScenarioDock& scenario() { return *scenario_; }
  [[nodiscard]] CurvesView& curves() { return *curves_; }
  [[nodiscard]] const Theme& theme() const { return dark_ ? dark_theme() : light_theme(); }

 protected:
  void closeEvent(QCloseEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void make_views();
  void make_docks();
  void make_menus();
  void refresh();
  void refresh_status();
  void refresh_title();
  template <class Action>
  QAction* add_action(QMenu* menu, const QString& text, const QKeySequence& keys, Action&& action);

  Workbench& bench_;
  QTabWidget* tabs_ = nullptr;
  std::vector<View*> views_;
  ScenarioDock* scenario_ = nullptr;
  CurvesView* curves_ = nullptr;
  QLabel *state_ = nullptr, *validity_ = nullptr, *banner_ = nullptr;
  QAction *undo_ = nullptr, *redo_ = nullptr, *dark_action_ = nullptr;
  bool dark_ = false, refresh_scheduled_ = false;
};

}  // namespace plimsoll::gui
