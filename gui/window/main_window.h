// SPDX-License-Identifier: GPL-3.0-or-later
// The window: menus, docks, views and status. All state of the application is in the workbench.
#pragma once

#include <QElapsedTimer>
#include <QMainWindow>
#include <QTimer>
#include <vector>

#include "gui/core/workbench.h"
#include "gui/window/view.h"

class QDockWidget;
class QLabel;
class QTableWidget;
class QTabWidget;

namespace plimsoll::gui {

class Banner;
class ScenarioDock;
class CurvesView;
class DecisionDock;
class HeaderBar;
class LiveDock;
class Recovery;
class WelcomeStrip;
class YamlDock;

/// The name with which show_view() shows the curves and the planner's dock.
inline constexpr const char* kDecisionView = "decision";

/// There is one window per process. Files that are dropped on it are opened as from the menu.
class MainWindow final : public QMainWindow {
  Q_OBJECT
 public:
  explicit MainWindow(Workbench& bench, bool dark = false);
  ~MainWindow() override;

  [[nodiscard]] const std::vector<View*>& views() const { return views_; }
  /// Returns nullptr for an unknown name.
  [[nodiscard]] View* view(const QString& id) const;
  [[nodiscard]] View* current_view() const;
  /// Returns false for an unknown name.
  bool show_view(const QString& id);
  void set_dark(bool dark);
  /// Shows an error in the status bar and the message line, not in a dialog.
  void report(const QString& text);
  /// Returns the error that is shown; empty: none.
  [[nodiscard]] QString problem() const;
  /// Opens studies, sessions, tables, traces and models, each by its content. Of several studies, the first replaces
  /// the session and the others are added to it. Reports what cannot be opened.
  void open_files(const QStringList& files);
  /// The same at the start of the program. Without a study, shows the example.
  void start_with(const QStringList& files);
  /// Adds the scenarios of studies and sessions to this session, and opens all other files.
  void add_files(const QStringList& files);
  [[nodiscard]] ScenarioDock& scenario() { return *scenario_; }
  /// Returns the curves, with everything that belongs to their last refresh().
  [[nodiscard]] CurvesView& curves();
  [[nodiscard]] HeaderBar& header() { return *header_; }
  [[nodiscard]] YamlDock& yaml() { return *yaml_; }
  [[nodiscard]] LiveDock& live() { return *live_; }
  [[nodiscard]] DecisionDock& decision() { return *decision_; }
  /// Returns every action of the menus, for the palette, the help and the tests.
  [[nodiscard]] std::vector<QAction*> actions_of_menus() const;
  /// Restores docks and size as they were when the last window was closed.
  void restore_layout();
  /// From now on, keeps a copy of unsaved work in this folder so that it survives a crash. Offers to recover what an
  /// earlier program left there.
  void guard(const QString& folder, int delay_ms);
  /// Writes a report (export.h). Reports a failure.
  void report_to(const QString& file);
  /// Opens the hardware picker for the current scenario.
  void choose_hardware();
  /// Shows the welcome strip, unless the user has closed it before.
  void welcome();
  /// Asks what the columns of a file of runs mean, and adds the runs. Reports a file that cannot be read.
  void import_runs(const QString& file);
  void report_unopened(const QString& file, const QString& why);
  /// Opens the wizard for a profile of the user's own engine; `endpoint` may be empty.
  void fit_engine(const QString& endpoint);
  /// Saves the session. Reports a failure and keeps the session unsaved.
  void save_to(const QString& file);
  /// Writes the current view in the format of the name's ending (export.h). Reports a failure.
  void export_to(const QString& file);
  [[nodiscard]] const Theme& theme() const { return dark_ ? dark_theme() : light_theme(); }

 protected:
  void closeEvent(QCloseEvent* event) override;
  /// Space swaps A and B unless a widget uses it otherwise.
  void keyPressEvent(QKeyEvent* event) override;
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  /// Takes dropped files from children that accept drops themselves, such as charts and text fields. Takes the keys of
  /// the menus from text fields, and undo and redo where a field has nothing to undo.
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void watch_children();
  [[nodiscard]] bool is_menu_key(const QKeyEvent& key) const;
  void style();
  void pass_theme_on();
  void make_views();
  void make_docks();
  void make_menus();
  void make_file_menu();
  void make_edit_menu();
  void make_scenario_menu();
  void make_view_menu();
  void make_run_menu();
  void make_help_menu();
  void make_welcome();
  void add_to_corner(const std::vector<std::pair<QString, QAction*>>& buttons);
  void show_dock(QDockWidget& dock);
  QDockWidget* add_dock(const QString& name, const QString& title, QWidget* inside, Qt::DockWidgetArea area);
  void begin_new();
  void open_dialog(bool add);
  /// Returns the change to the session that a picture contains. Throws InputError.
  [[nodiscard]] std::function<void()> read_picture(const QString& file);
  void add_planned();
  void offer_recovery();
  void recover();
  void save(bool ask);
  void export_dialog();
  void refresh_recent();
  void remember(const QString& file);
  void fill_twin();
  [[nodiscard]] bool may_discard();
  void refresh_in_time();
  /// Returns whether some points of the present question have arrived.
  [[nodiscard]] bool has_points() const;
  void refresh();
  void refresh_status();
  void refresh_title();
  template <class Action>
  QAction* add_action(QMenu* menu, const QString& text, const QKeySequence& keys, Action&& action);

  Workbench& bench_;
  HeaderBar* header_ = nullptr;
  QTabWidget* tabs_ = nullptr;
  std::vector<View*> views_;
  ScenarioDock* scenario_ = nullptr;
  CurvesView* curves_ = nullptr;
  LiveDock* live_ = nullptr;
  DecisionDock* decision_ = nullptr;
  YamlDock* yaml_ = nullptr;
  QTableWidget* twin_ = nullptr;
  std::vector<QDockWidget*> docks_;
  QMenu* recent_ = nullptr;
  QLabel *state_ = nullptr, *validity_ = nullptr;
  Banner* banner_ = nullptr;
  std::vector<std::pair<QAction*, bool ViewState::*>> flags_;
  QAction *undo_ = nullptr, *redo_ = nullptr, *dark_action_ = nullptr, *recover_ = nullptr;
  Recovery* recovery_ = nullptr;
  WelcomeStrip* welcome_ = nullptr;
  QTimer refresh_soon_;
  QElapsedTimer refreshed_;
  bool dark_, drawn_points_ = false;
};

}  // namespace plimsoll::gui
