// SPDX-License-Identifier: GPL-3.0-or-later
// The window's menus and their file operations.
#include <QApplication>
#include <QClipboard>
#include <QCloseEvent>
#include <QDockWidget>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QMenuBar>
#include <QMessageBox>
#include <QSettings>
#include <QStandardPaths>
#include <QStatusBar>
#include <QToolButton>

#include "gui/core/pool_form.h"
#include "gui/core/recovery.h"
#include "gui/core/text.h"
#include "gui/window/banner.h"
#include "gui/window/decision_dock.h"
#include "gui/window/export.h"
#include "gui/window/fit_dialog.h"
#include "gui/window/hardware_dialog.h"
#include "gui/window/import_dialog.h"
#include "gui/window/live_dock.h"
#include "gui/window/main_window.h"
#include "gui/window/palette.h"
#include "gui/window/scenario_dock.h"
#include "gui/window/welcome.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

// Returns whether a file is a table with a header of words and a row of as many fields.
bool is_foreign_table(const QString& file) {
  if (!QStringList({QStringLiteral("csv"), QStringLiteral("tsv"), QStringLiteral("txt")})
           .contains(QFileInfo(file).suffix().toLower()))
    return false;
  try {
    const study::TableHead head = study::read_table_head(utf8(file), 1);
    return head.is_table && head.header.size() > 1 && !head.rows.empty();
  } catch (const std::exception&) {
    return false;
  }
}

bool is_picture(const QString& file) {
  return QStringList({QStringLiteral("png"), QStringLiteral("svg"), QStringLiteral("pdf")})
      .contains(QFileInfo(file).suffix().toLower());
}

constexpr int kMaxRecent = 10;
const QString kRecent = QStringLiteral("recent");
const QString kWelcomed = QStringLiteral("welcomed");  // the user has closed the welcome strip

}  // namespace

template <class Action>
QAction* MainWindow::add_action(QMenu* menu, const QString& text, const QKeySequence& keys, Action&& action) {
  QAction* made = menu->addAction(text);
  made->setShortcut(keys);
  connect(made, &QAction::triggered, this, std::forward<Action>(action));
  return made;
}

void MainWindow::make_menus() {
  make_file_menu();
  make_edit_menu();
  make_scenario_menu();
  make_view_menu();
  make_run_menu();
  make_help_menu();
}

void MainWindow::make_file_menu() {
  QMenu* file = menuBar()->addMenu(tr("&File"));
  add_action(file, tr("&New"), QKeySequence::New, [this] { begin_new(); });
  add_action(file, tr("&Open…"), QKeySequence::Open, [this] { open_dialog(false); });
  add_action(file, tr("&Import measured runs…"), {}, [this] {
    const QString name = QFileDialog::getOpenFileName(
        this, tr("Import measured runs"), {}, tr("Runs (*.csv *.tsv *.txt *.json *.jsonl *.gz);;All files (*)"));
    if (!name.isEmpty()) import_runs(name);
  });
  recent_ = file->addMenu(tr("Open &recent"));
  connect(recent_, &QMenu::aboutToShow, this, &MainWindow::refresh_recent);
  recover_ = add_action(file, tr("&Recover the unsaved session"), {}, [this] { recover(); });
  recover_->setEnabled(false);
  file->addSeparator();
  add_action(file, tr("&Save session"), QKeySequence::Save, [this] { save(false); });
  add_action(file, tr("Save session &as…"), QKeySequence(tr("Ctrl+Shift+S")), [this] { save(true); });
  add_action(file, tr("Save the s&tudy alone…"), {}, [this] {
    const QString name =
        QFileDialog::getSaveFileName(this, tr("Save the study"), QStringLiteral("study.yaml"), tr("Studies (*.yaml)"));
    if (name.isEmpty()) return;
    try {
      bench_.save_study(name);
    } catch (const std::exception& error) {
      report(qs(error.what()));
    }
  });
  file->addSeparator();
  add_action(file, tr("&Export the view…"), QKeySequence(tr("Ctrl+E")), [this] { export_dialog(); });
  add_action(file, tr("Write a &report…"), QKeySequence(tr("Ctrl+R")), [this] {
    const QString name = QFileDialog::getSaveFileName(this, tr("Write a report"),
                                                      bench_.session().scenario().name + QStringLiteral(".pdf"),
                                                      tr("Reports (*.pdf *.html)"));
    if (!name.isEmpty()) report_to(name);
  });
  file->addSeparator();
  add_action(file, tr("&Quit"), QKeySequence(tr("Ctrl+Q")), [this] { close(); });
}

void MainWindow::make_edit_menu() {
  QMenu* edit = menuBar()->addMenu(tr("&Edit"));
  undo_ = add_action(edit, tr("&Undo"), QKeySequence::Undo, [this] { bench_.session().undo(); });
  redo_ = add_action(edit, tr("&Redo"), QKeySequence(tr("Ctrl+Y")), [this] { bench_.session().redo(); });
  edit->addSeparator();
  add_action(edit, tr("Copy as &command line"), QKeySequence(tr("Ctrl+Shift+C")), [this] {
    try {
      const QString folder = QStandardPaths::writableLocation(QStandardPaths::AppDataLocation);
      const QString command = bench_.command(QStringLiteral("simulate"), folder + QStringLiteral("/studies"));
      QApplication::clipboard()->setText(command);
      statusBar()->showMessage(tr("Copied: %1").arg(command), 5000);
    } catch (const std::exception& error) {
      report(qs(error.what()));
    }
  });
  add_action(edit, tr("Copy the deployment &flags"), QKeySequence(tr("Ctrl+Shift+F")), [this] {
    try {
      const study::Study study = make_study(bench_.session().scenario(), bench_.catalogue());
      const LanePoint* point = bench_.selected_point();
      QApplication::clipboard()->setText(qs(server_flags(study.point(point ? point->index : 0))));
      statusBar()->showMessage(
          tr("Copied the flags of %1").arg(point ? tr("the selected point") : tr("the first point")), 5000);
    } catch (const std::exception& error) {
      report(qs(error.what()));
    }
  });
  add_action(edit, tr("Copy the &data of the view"), QKeySequence(tr("Ctrl+Shift+D")), [this] {
    if (const View* view = current_view()) QApplication::clipboard()->setText(table_text(view->table(), QChar(u'\t')));
  });
  add_action(edit, tr("Copy the &picture of the view"), QKeySequence(tr("Ctrl+Shift+P")), [this] {
    constexpr double kScale = 2;  // sharp on other screens
    if (View* view = current_view()) QApplication::clipboard()->setImage(picture_image(Picture(*view), kScale));
  });
  edit->addSeparator();
  add_action(edit, tr("Choose &hardware…"), QKeySequence(tr("Ctrl+H")), [this] { choose_hardware(); });
}

void MainWindow::make_scenario_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&Scenarios"));
  QAction* add =
      add_action(menu, tr("&Add from files…"), QKeySequence(tr("Ctrl+Shift+O")), [this] { open_dialog(true); });
  QAction* planned = add_action(menu, tr("Add the &plan's answer"), {}, [this] { add_planned(); });
  QMenu& more = scenario_->scenarios().add_menu();
  more.insertAction(more.actions().front(), add);
  more.insertAction(more.actions()[1], planned);
  add_action(menu, tr("D&uplicate the scenario"), QKeySequence(tr("Ctrl+D")), [this] { bench_.duplicate_scenario(); });
  add_action(menu, tr("Remo&ve the scenario"), {},
             [this] { bench_.remove_scenario(bench_.session().state().current); });
  add_action(menu, tr("S&wap A and B"), QKeySequence(tr("Ctrl+B")), [this] { bench_.swap_compared(); });
  menu->addSeparator();
  add_action(menu, tr("&Fill the instances with replicas"), {}, [this] {
    if (bench_.filling_replicas())
      bench_.fill_instances();
    else
      statusBar()->showMessage(tr("The instances have no room for further replicas"), 5000);
  });
  add_action(menu, tr("Find the &loads of all shown scenarios"), {}, [this] { bench_.find_all_loads(); });
  add_action(menu, tr("Use &equal numbers of GPUs"), {}, [this] {
    const QStringList inexact = bench_.equalise_gpus();
    statusBar()->showMessage(inexact.isEmpty()
                                 ? tr("All shown scenarios use the same number of GPUs")
                                 : tr("Another number of GPUs remains: %1").arg(inexact.join(QStringLiteral(", "))),
                             10000);
  });
}

// The answer becomes a copy of the scenario with the selected deployment's settings.
void MainWindow::add_planned() {
  const int row = decision_->ranking().currentRow();
  if (row < 0) {
    report(tr("The planner has no answer yet: Run ▸ Plan"));
    return;
  }
  decision_->add_scenario(row);
}

// The first nine views get Ctrl+1 to Ctrl+9.
void MainWindow::make_view_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&View"));
  int number = 0;
  for (View* view : views_) {
    ++number;
    const QKeySequence keys = number <= 9 ? QKeySequence(QStringLiteral("Ctrl+%1").arg(number)) : QKeySequence();
    add_action(menu, view->title(), keys, [this, view] { show_view(view->id()); });
  }
  menu->addSeparator();
  add_action(menu, tr("&Whole range"), QKeySequence(tr("Ctrl+0")), [this] {
    if (View* view = current_view()) view->reset_zoom();
  });
  const auto flag = [&](const QString& text, const QString& keys, bool ViewState::*which) {
    QAction* action = add_action(menu, text, QKeySequence(keys), [this, which] {
      bench_.set_view(tr("Change the view"), {}, [which](ViewState& v) { v.*which = !(v.*which); });
    });
    action->setCheckable(true);
    flags_.emplace_back(action, which);
  };
  flag(tr("Logarithmic x"), tr("Alt+Shift+X"), &ViewState::log_x);
  flag(tr("Logarithmic y"), tr("Alt+Shift+L"), &ViewState::log_y);
  flag(tr("Measured points"), tr("Alt+Shift+M"), &ViewState::measured);
  flag(tr("Residuals"), tr("Alt+Shift+R"), &ViewState::residuals);
  flag(tr("Knees"), tr("Alt+Shift+K"), &ViewState::knees);
  flag(tr("Bands"), tr("Alt+Shift+B"), &ViewState::bands);
  // A check mark shows the state of the session, whatever has changed it.
  connect(menu, &QMenu::aboutToShow, this, [this] {
    for (const auto& [action, which] : flags_) action->setChecked(bench_.session().state().view.*which);
  });
  menu->addSeparator();
  for (QDockWidget* dock : docks_) menu->addAction(dock->toggleViewAction());
  for (QDockWidget* dock : docks_) {
    if (dock->objectName() == QStringLiteral("data")) dock->toggleViewAction()->setShortcut(QKeySequence(tr("Ctrl+T")));
    if (dock->objectName() == QStringLiteral("yaml"))
      dock->toggleViewAction()->setShortcut(QKeySequence(tr("Ctrl+Shift+Y")));
  }
  menu->addSeparator();
  dark_action_ = add_action(menu, tr("&Dark"), QKeySequence(tr("Ctrl+Shift+L")), [this](bool on) {
    set_dark(on);
    QSettings().setValue(QStringLiteral("dark"), on);
  });
  dark_action_->setCheckable(true);
}

void MainWindow::make_run_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&Run"));
  const auto show = [this](std::size_t dock) { show_dock(*docks_[dock]); };
  QAction* plan = add_action(menu, tr("&Plan: find the best deployment"), QKeySequence(tr("Ctrl+P")), [this, show] {
    show(1);
    decision_->plan();
  });
  QAction* measure = add_action(menu, tr("&Measure on this machine"), QKeySequence(tr("Ctrl+M")), [this, show] {
    show(2);
    live_->measure();
  });
  add_action(menu, tr("Ca&librate this machine"), {}, [this, show] {
    show(2);
    live_->calibrate();
  });
  add_action(menu, tr("&Fit an engine of your own…"), {}, [this] { fit_engine({}); });
  add_action(menu, tr("&Use this machine for the scenario"), {}, [this, show] {
    show(2);
    live_->use_this_machine();
  });
  add_action(menu, tr("&Cancel what runs"), QKeySequence(tr("Esc")), [this] {
    decision_->cancel();
    live_->cancel();
    bench_.tasks().cancel_all();
  });
  add_to_corner({{tr("Plan"), plan}, {tr("Measure"), measure}});
}

// Adds the actions that a newcomer looks for at the end of the menu bar. Tab skips them, because the menus have them
// all.
void MainWindow::add_to_corner(const std::vector<std::pair<QString, QAction*>>& buttons) {
  QWidget* corner = menuBar()->cornerWidget();
  if (corner == nullptr) {
    corner = new QWidget(menuBar());
    auto* row = new QHBoxLayout(corner);
    row->setContentsMargins(0, 1, 6, 1);
    row->setSpacing(4);
    menuBar()->setCornerWidget(corner);
  }
  for (const auto& [text, action] : buttons) {
    auto* button = new QToolButton(corner);
    button->setText(text);
    button->setAccessibleName(action->text().remove(QChar(u'&')));
    button->setToolTip(
        QStringLiteral("%1 (%2)").arg(button->accessibleName(), action->shortcut().toString(QKeySequence::NativeText)));
    button->setFocusPolicy(Qt::NoFocus);
    connect(button, &QToolButton::clicked, action, &QAction::trigger);
    corner->layout()->addWidget(button);
  }
}

void MainWindow::make_help_menu() {
  QMenu* menu = menuBar()->addMenu(tr("&Help"));
  add_action(menu, tr("&Metrics and keys"), QKeySequence(tr("F1")), [this] {
    auto* help = new Help(actions_of_menus(), this);
    help->setAttribute(Qt::WA_DeleteOnClose);
    help->show();
  });
  QAction* commands = add_action(menu, tr("&Command palette"), QKeySequence(tr("Ctrl+K")), [this] {
    const auto go = [this](const QString& path) {
      show_dock(*docks_.front());
      scenario_->reveal(path);
    };
    const auto fields = [this, go](const QString& typed) { return scenario_->commands(typed, go); };
    auto* palette = new Palette(commands_of(actions_of_menus()), fields, this);
    palette->setAttribute(Qt::WA_DeleteOnClose);
    palette->open();
  });
  add_to_corner({{tr("Commands…"), commands}});
  add_action(menu, tr("&Welcome"), {}, [this] { welcome_->show(); });
  add_action(menu, tr("&About Plimsoll"), {}, [this] {
    auto* about = new QMessageBox(QMessageBox::NoIcon, tr("About Plimsoll"), about_text(), QMessageBox::Close, this);
    about->setAttribute(Qt::WA_DeleteOnClose);
    about->open();
  });
  add_action(menu, tr("About &Qt"), {}, [] { QApplication::aboutQt(); });
}

std::vector<QAction*> MainWindow::actions_of_menus() const {
  std::vector<QAction*> found;
  for (const QAction* top : menuBar()->actions()) {
    for (QAction* action : top->menu()->actions()) {
      if (!action->isSeparator() && action->menu() == nullptr) found.push_back(action);
    }
  }
  return found;
}

void MainWindow::open_dialog(bool add) {
  const QStringList files = QFileDialog::getOpenFileNames(
      this, add ? tr("Add scenarios") : tr("Open"), {},
      tr("Studies, sessions, tables, pictures (*.yaml *.yml *.csv *.json *.jsonl *.png *.svg *.pdf);;All files (*)"));
  add ? add_files(files) : open_files(files);
}

// Opens files in turn. A file that fails is reported, and the next ones are still opened.
void MainWindow::open_files(const QStringList& files) {
  report({});
  bool studies = false;  // whether one of these files has been opened as a study
  for (const QString& file : files) {
    try {
      const bool picture = is_picture(file), replaces = !picture && Workbench::replaces_session(file);
      if (replaces && studies) {
        bench_.add(file);
        remember(file);
        continue;
      }
      // The file is read before the user is asked about unsaved changes: it may be unusable.
      const std::function<void()> open = picture ? read_picture(file) : bench_.read(file);
      if ((picture || replaces) && !may_discard()) continue;
      open();
      studies = studies || replaces;
      remember(file);
      welcome_->hide();
    } catch (const std::exception& error) {
      report_unopened(file, qs(error.what()));
    }
  }
}

// A table whose columns are not ours can still be imported by saying what they mean.
void MainWindow::report_unopened(const QString& file, const QString& why) {
  report(why);
  if (isVisible() && is_foreign_table(file)) import_runs(file);
}

void MainWindow::start_with(const QStringList& files) {
  if (!files.isEmpty()) open_files(files);
  if (!bench_.has_question()) bench_.begin(default_session());
}

std::function<void()> MainWindow::read_picture(const QString& file) {
  const std::string session = session_in_picture(file);
  if (session.empty()) throw InputError(utf8(file) + ": contains no session of this program");
  return [this, state = parse_session(session, utf8(file))] { bench_.begin(state); };
}

void MainWindow::report_to(const QString& file) {
  try {
    write_report(bench_, *curves_, file);
    statusBar()->showMessage(tr("Wrote %1").arg(file), 5000);
  } catch (const std::exception& error) {
    report(qs(error.what()));
  }
}

void MainWindow::choose_hardware() {
  auto* dialog = new HardwareDialog(bench_, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->open();
}

void MainWindow::begin_new() {
  if (!may_discard()) return;
  bench_.begin(new_session());
  welcome_->hide();  // it speaks of the example
}

// The strip's buttons are the menus' actions; it goes when a session replaces the example.
void MainWindow::make_welcome() {
  welcome_ = new WelcomeStrip(this);
  welcome_->hide();
  connect(welcome_, &WelcomeStrip::dismissed, this, [] { QSettings().setValue(kWelcomed, true); });
  connect(welcome_, &WelcomeStrip::example_wanted, this, [this] {
    if (may_discard()) bench_.begin(default_session());
  });
  connect(welcome_, &WelcomeStrip::new_wanted, this, &MainWindow::begin_new);
  connect(welcome_, &WelcomeStrip::open_wanted, this, [this] { open_dialog(false); });
  connect(welcome_, &WelcomeStrip::plan_wanted, this, [this] { show_dock(*docks_[1]); });
  connect(welcome_, &WelcomeStrip::measure_wanted, this, [this] {
    show_dock(*docks_[2]);
    live_->endpoint().setFocus();
  });
  connect(welcome_, &WelcomeStrip::import_wanted, this, [this] {
    const QString name = QFileDialog::getOpenFileName(
        this, tr("Import measured runs"), {}, tr("Runs (*.csv *.tsv *.txt *.json *.jsonl *.gz);;All files (*)"));
    if (!name.isEmpty()) import_runs(name);
  });
}

void MainWindow::welcome() {
  if (!QSettings().value(kWelcomed).toBool()) welcome_->show();
}

void MainWindow::import_runs(const QString& file) {
  try {
    auto* dialog = new ImportDialog(bench_, file, this);
    dialog->setAttribute(Qt::WA_DeleteOnClose);
    connect(dialog, &QDialog::accepted, this, [this] { report({}); });
    dialog->open();
  } catch (const std::exception& error) {
    report(qs(error.what()));
  }
}

void MainWindow::fit_engine(const QString& endpoint) {
  auto* dialog = new FitDialog(bench_, this);
  dialog->setAttribute(Qt::WA_DeleteOnClose);
  dialog->set_theme(theme());
  if (!endpoint.isEmpty()) dialog->choose_server(endpoint);
  dialog->show();
}

void MainWindow::add_files(const QStringList& files) {
  report({});
  for (const QString& file : files) {
    try {
      bench_.add(file);
      remember(file);
    } catch (const std::exception& error) {
      report_unopened(file, qs(error.what()));
    }
  }
}

void MainWindow::save_to(const QString& file) {
  try {
    bench_.save(file);
    remember(file);
    statusBar()->showMessage(tr("Saved %1").arg(file), 5000);
  } catch (const std::exception& error) {
    report(qs(error.what()));
  }
}

void MainWindow::save(bool ask) {
  QString file = bench_.session_file();
  if (ask || file.isEmpty()) {
    const QString proposed = bench_.session().scenario().name + QStringLiteral(".plimsoll-session.yaml");
    file =
        QFileDialog::getSaveFileName(this, tr("Save the session"), proposed, tr("Sessions (*.plimsoll-session.yaml)"));
    if (file.isEmpty()) return;
    if (!is_session_file(file)) file += QStringLiteral(".plimsoll-session.yaml");
  }
  save_to(file);
}

void MainWindow::export_to(const QString& file) {
  try {
    if (View* view = current_view()) export_view(*view, file, session_text(bench_.session().state()));
    statusBar()->showMessage(tr("Wrote %1").arg(file), 5000);
  } catch (const std::exception& error) {
    report(qs(error.what()));
  }
}

void MainWindow::export_dialog() {
  const QString file = QFileDialog::getSaveFileName(this, tr("Export the view"),
                                                    bench_.session().scenario().name + QStringLiteral(".png"),
                                                    tr("Pictures and data (*.png *.svg *.pdf *.csv)"));
  if (!file.isEmpty()) export_to(file);
}

void MainWindow::remember(const QString& file) {
  QSettings settings;
  QStringList recent = settings.value(kRecent).toStringList();
  const QString full = QFileInfo(file).absoluteFilePath();
  recent.removeAll(full);
  recent.prepend(full);
  settings.setValue(kRecent, recent.mid(0, kMaxRecent));
}

void MainWindow::refresh_recent() {
  recent_->clear();
  for (const QString& file : QSettings().value(kRecent).toStringList()) {
    connect(recent_->addAction(file), &QAction::triggered, this, [this, file] { open_files({file}); });
  }
  if (recent_->isEmpty()) recent_->addAction(tr("nothing yet"))->setEnabled(false);
}

// Saving may fail or be cancelled, so the answer Save alone is not enough: the session must be unmodified after it.
bool MainWindow::may_discard() {
  if (!bench_.session().is_modified()) return true;
  const auto answer =
      QMessageBox::question(this, tr("Unsaved changes"), tr("Save the changes and measured runs of this session?"),
                            QMessageBox::Save | QMessageBox::Discard | QMessageBox::Cancel);
  if (answer == QMessageBox::Save) save(false);
  return answer == QMessageBox::Discard || (answer == QMessageBox::Save && !bench_.session().is_modified());
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (isVisible() && !may_discard()) {
    event->ignore();
    return;
  }
  if (recovery_ != nullptr) recovery_->done();
  QSettings().setValue(QStringLiteral("layout"), saveState());
  QSettings().setValue(QStringLiteral("geometry"), saveGeometry());
  QMainWindow::closeEvent(event);
}

void MainWindow::guard(const QString& folder, int delay_ms) {
  recovery_ = new Recovery(bench_.session(), folder, delay_ms, this);
  offer_recovery();
  connect(banner_, &Banner::dismissed, this, [this](bool offered) {
    if (!offered) return;
    recovery_->dismiss();
    offer_recovery();
  });
}

void MainWindow::offer_recovery() {
  const qsizetype left = recovery_->count();
  recover_->setEnabled(left > 0);
  if (left == 0) return;
  const QString kept = tr("It is kept until you recover or dismiss it.");
  banner_->show_text(
      left == 1
          ? tr("⚠ The program ended before a session was saved. %1").arg(kept)
          : tr("⚠ %1 sessions were not saved before the program ended. The newest comes first. %2").arg(left).arg(kept),
      recover_);
}

void MainWindow::recover() {
  if (!may_discard()) return;
  try {
    report({});
    recovery_->restore();
    bench_.forget_file();
    refresh_title();
    offer_recovery();
  } catch (const std::exception& error) {
    report(qs(error.what()));
  }
}

void MainWindow::restore_layout() {
  restoreGeometry(QSettings().value(QStringLiteral("geometry")).toByteArray());
  restoreState(QSettings().value(QStringLiteral("layout")).toByteArray());
}

}  // namespace plimsoll::gui
