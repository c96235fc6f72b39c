// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/main_window.h"

#include <QAbstractSpinBox>
#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QMimeData>
#include <QPlainTextEdit>
#include <QStatusBar>
#include <QTabWidget>
#include <QTableWidget>
#include <QUrl>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/core/text.h"
#include "gui/plot/theme.h"
#include "gui/window/banner.h"
#include "gui/window/bar_page.h"
#include "gui/window/curves_view.h"
#include "gui/window/decision_dock.h"
#include "gui/window/header_bar.h"
#include "gui/window/live_dock.h"
#include "gui/window/plot_page.h"
#include "gui/window/scenario_dock.h"
#include "gui/window/timeline_page.h"
#include "gui/window/view.h"
#include "gui/window/welcome.h"
#include "gui/window/yaml_dock.h"

namespace plimsoll::gui {
namespace {

// Returns the text line of a text field, of an editable list or of a number field; nullptr for other objects. The
// latter two send keys that the line ignored to it a second time.
const QLineEdit* line_of(const QObject* object) {
  if (const auto* line = qobject_cast<const QLineEdit*>(object)) return line;
  if (const auto* box = qobject_cast<const QComboBox*>(object)) return box->lineEdit();
  const auto* spin = qobject_cast<const QAbstractSpinBox*>(object);
  return spin != nullptr ? spin->findChild<QLineEdit*>() : nullptr;
}

QString simulating(std::size_t done, std::size_t of) {
  return MainWindow::tr("● simulating: %1 of %2 points").arg(done).arg(of);
}

constexpr std::size_t kDecisionDock = 1;
constexpr int kFrameMs = 16;
constexpr int kDockWidth = 360;  // wide enough for a ranking's first columns and its buttons side by side

}  // namespace

MainWindow::MainWindow(Workbench& bench, bool dark) : bench_(bench), dark_(dark) {
  // Set before there are children: each existing child would have to be styled again.
  style();
  setObjectName(QStringLiteral("main"));
  setAcceptDrops(true);
  setDockNestingEnabled(true);
  make_views();
  make_docks();
  make_menus();
  state_ = new QLabel(this);
  state_->setAccessibleName(tr("State of the simulation"));
  // Its text changes with every point. A fixed size spares the window a new layout each time.
  state_->setFixedSize(fontMetrics().horizontalAdvance(simulating(9999, 9999)), state_->sizeHint().height());
  state_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  validity_ = new QLabel(this);
  validity_->setAccessibleName(tr("What the figures rest on"));
  statusBar()->addPermanentWidget(validity_);
  statusBar()->addPermanentWidget(state_);
  refresh_soon_.setSingleShot(true);
  refresh_soon_.setTimerType(Qt::PreciseTimer);
  connect(&refresh_soon_, &QTimer::timeout, this, &MainWindow::refresh);
  for (const auto change : {&Workbench::curves_changed, &Workbench::overlays_changed, &Workbench::selection_changed}) {
    connect(&bench_, change, this, &MainWindow::refresh_in_time);
  }
  connect(&bench_, &Workbench::settled, this, [this] {
    // No more results will arrive, so the last drawing need not wait for its frame. It chooses the final ranges.
    refresh_soon_.start(0);
    refresh_status();
  });
  connect(&bench_.session(), &Session::changed, this, [this] {
    scenario_->refresh();
    refresh_title();
  });
  connect(header_, &HeaderBar::edit_wanted, this, [this](const QString& path) {
    show_dock(*docks_.front());
    scenario_->reveal(path);
  });
  watch_children();
  resize(1320, 860);
  pass_theme_on();
  scenario_->refresh();
  refresh_title();
}

MainWindow::~MainWindow() = default;

void MainWindow::make_views() {
  auto* centre = new QWidget(this);
  auto* column = new QVBoxLayout(centre);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  banner_ = new Banner(centre);
  tabs_ = new QTabWidget(centre);
  tabs_->setDocumentMode(true);
  tabs_->setAccessibleName(tr("Views"));
  make_welcome();
  column->addWidget(welcome_);
  header_ = new HeaderBar(bench_, centre);
  column->addWidget(header_);
  column->addWidget(banner_);
  column->addWidget(tabs_, 1);
  setCentralWidget(centre);
  curves_ = new CurvesView(bench_, this);
  views_ = {curves_,
            new ParetoPage(bench_, this),
            new HeatPage(bench_, this),
            new CdfPage(bench_, this),
            new TimelinePage(bench_, this),
            new TimePage(bench_, this),
            new MemoryPage(bench_, this),
            new CostPage(bench_, this),
            new ParityPage(bench_, this),
            new ComparePage(bench_, this),
            new TablePage(bench_, this)};
  for (View* view : views_) {
    tabs_->addTab(view, view->title());
    connect(view, &View::message, this, [this](const QString& text) { statusBar()->showMessage(text); });
  }
  connect(tabs_, &QTabWidget::currentChanged, this, [this] {
    // Hidden views are not refreshed, so the one that is shown now may be out of date.
    if (View* view = current_view()) {
      view->prepare();
      view->refresh();
      fill_twin();
    }
  });
}

QDockWidget* MainWindow::add_dock(const QString& name, const QString& title, QWidget* inside, Qt::DockWidgetArea area) {
  auto* dock = new QDockWidget(title, this);
  dock->setObjectName(name);
  dock->setWidget(inside);
  addDockWidget(area, dock);
  docks_.push_back(dock);
  return dock;
}

void MainWindow::show_dock(QDockWidget& dock) {
  dock.show();
  dock.raise();
  // A dock that is already wider keeps its width.
  const int wanted = std::min(kDockWidth, width() / 3);
  if (dock.width() < wanted) resizeDocks({&dock}, {wanted}, Qt::Horizontal);
}

void MainWindow::make_docks() {
  scenario_ = new ScenarioDock(bench_, this);
  connect(scenario_, &ScenarioDock::hardware_wanted, this, &MainWindow::choose_hardware);
  decision_ = new DecisionDock(bench_, this);
  live_ = new LiveDock(bench_, this);
  connect(live_, &LiveDock::fit_wanted, this, &MainWindow::fit_engine);
  twin_ = new QTableWidget(this);
  twin_->setAccessibleName(tr("Data of the current view"));
  twin_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  twin_->setTabKeyNavigation(false);
  twin_->setSortingEnabled(true);
  twin_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
  add_dock(QStringLiteral("scenario"), tr("Scenario"), scenario_, Qt::LeftDockWidgetArea);
  QDockWidget* decision = add_dock(QStringLiteral("decision"), tr("Decision"), decision_, Qt::RightDockWidgetArea);
  QDockWidget* live = add_dock(QStringLiteral("live"), tr("Measure"), live_, Qt::RightDockWidgetArea);
  tabifyDockWidget(decision, live);
  QDockWidget* twin = add_dock(QStringLiteral("data"), tr("Data of the view"), twin_, Qt::BottomDockWidgetArea);
  yaml_ = new YamlDock(bench_, this);
  QDockWidget* yaml = add_dock(QStringLiteral("yaml"), tr("YAML"), yaml_, Qt::LeftDockWidgetArea);
  splitDockWidget(docks_.front(), yaml, Qt::Horizontal);
  for (QDockWidget* dock : {decision, live, twin, yaml}) dock->hide();
  connect(twin, &QDockWidget::visibilityChanged, this, [this](bool shown) {
    if (shown) fill_twin();
  });
}

// Copies the current view's data into a table, which a screen reader can read.
void MainWindow::fill_twin() {
  const View* view = current_view();
  if (view == nullptr || !twin_->isVisible()) return;
  const TableData table = view->table();
  QStringList before;
  for (int c = 0; c < twin_->columnCount(); ++c) before << twin_->horizontalHeaderItem(c)->text();
  twin_->setSortingEnabled(false);
  twin_->clear();
  twin_->setColumnCount(static_cast<int>(table.headers.size()));
  // Each cell is a widget, so longer tables would take seconds. Export and copy contain all rows.
  twin_->setRowCount(static_cast<int>(std::min<std::size_t>(table.rows.size(), 5000)));
  twin_->setHorizontalHeaderLabels(table.headers);
  for (int r = 0; r < twin_->rowCount(); ++r) {
    const QStringList& row = table.rows[static_cast<std::size_t>(r)];
    for (int c = 0; c < row.size(); ++c) {
      bool number = false;
      const double value = row[c].toDouble(&number);
      // Six digits are read; a copy and an export have them all.
      twin_->setItem(
          r, c, new SortedItem(number ? reader_text(value, 6) : row[c], number ? std::optional(value) : std::nullopt));
    }
  }
  if (before != table.headers) twin_->resizeColumnsToContents();  // not at every step of a drag
  twin_->setSortingEnabled(true);
}

// Returns null if no view has this id.
View* MainWindow::view(const QString& id) const {
  for (View* view : views_) {
    if (view->id() == id) return view;
  }
  return nullptr;
}

CurvesView& MainWindow::curves() {
  curves_->complete();
  return *curves_;
}

View* MainWindow::current_view() const { return qobject_cast<View*>(tabs_->currentWidget()); }

bool MainWindow::show_view(const QString& id) {
  if (id == QLatin1String(kDecisionView)) {
    show_dock(*docks_[kDecisionDock]);
    // The planner's dock belongs beside the curves.
    return show_view(curves_->id());
  }
  View* found = view(id);
  if (found == nullptr) return false;
  tabs_->setCurrentWidget(found);
  found->prepare();
  found->refresh();
  return true;
}

void MainWindow::style() {
  QApplication::setPalette(theme().palette());
  setStyleSheet(style_sheet(theme()));
}

void MainWindow::set_dark(bool dark) {
  if (dark == dark_) return;
  dark_ = dark;
  style();
  pass_theme_on();
}

void MainWindow::pass_theme_on() {
  dark_action_->setChecked(dark_);
  scenario_->set_theme(theme());
  yaml_->set_theme(theme());
  for (View* view : views_) view->set_theme(theme());
  refresh_status();
}

void MainWindow::report(const QString& text) {
  banner_->show_text(text.isEmpty() ? text : QStringLiteral("✗ ") + text);
}

QString MainWindow::problem() const { return banner_->isHidden() ? QString() : banner_->text(); }

// Draws the window at most once per frame, however many changes arrive. Draws immediately if the last drawing was more
// than a frame ago, and for the first points after a change.
void MainWindow::refresh_in_time() {
  const qint64 passed = refreshed_.isValid() ? refreshed_.elapsed() : kFrameMs;
  auto wait = static_cast<int>(std::clamp<qint64>(kFrameMs - passed, 0, kFrameMs));
  // The first points follow a change within milliseconds. Drawing without them would delay them.
  const bool points = has_points();
  if (!points && !bench_.failure()) wait = kFrameMs;
  if (points && !drawn_points_) wait = 0;
  if (!bench_.is_busy()) wait = 0;  // no more results will follow
  if (!points) drawn_points_ = false;
  // During a drag, the first points of this move replace the last drawing of the previous one.
  const bool later = bench_.awaits_curves() && passed < 2 * kFrameMs;
  if (!refresh_soon_.isActive() || refresh_soon_.remainingTime() > wait || later) refresh_soon_.start(wait);
}

bool MainWindow::has_points() const {
  const auto& curves = bench_.curves().curves();
  return !bench_.awaits_curves() &&
         std::any_of(curves.begin(), curves.end(), [](const Curve& curve) { return !curve.points.empty(); });
}

void MainWindow::refresh() {
  refreshed_.start();
  drawn_points_ = has_points();
  scenario_->refresh_findings();
  header_->refresh();
  if (View* view = current_view()) view->refresh();
  fill_twin();
  refresh_status();
}

void MainWindow::refresh_title() {
  QString name = bench_.session().scenario().name;
  // The file that Ctrl+S writes.
  if (const QString& file = bench_.session_file(); !file.isEmpty())
    name += QStringLiteral(" – ") + QFileInfo(file).fileName();
  setWindowTitle(
      QStringLiteral("%1%2 – Plimsoll").arg(name, bench_.session().is_modified() ? QStringLiteral(" *") : QString()));
  undo_->setEnabled(bench_.session().can_undo());
  redo_->setEnabled(bench_.session().can_redo());
  undo_->setText(tr("&Undo %1").arg(bench_.session().undo_label()));
  redo_->setText(tr("&Redo %1").arg(bench_.session().redo_label()));
}

void MainWindow::refresh_status() {
  if (state_ == nullptr) return;
  const CurveModel& curves = bench_.curves();
  if (bench_.is_busy())
    state_->setText(simulating(curves.simulated(), curves.outline().points));
  else
    state_->setText((curves.simulated() == 1 ? tr("○ %1 point in %2 ms") : tr("○ %1 points in %2 ms"))
                        .arg(curves.simulated())
                        .arg(bench_.last_seconds() * 1000, 0, 'f', 0));
  const QString why = curves.extrapolates();
  validity_->setText(why.isEmpty() ? QString() : tr("⚠ estimated, not calibrated"));
  validity_->setToolTip(why);
}

void MainWindow::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Space && event->modifiers() == Qt::NoModifier && !event->isAutoRepeat())
    bench_.swap_compared();
  else
    QMainWindow::keyPressEvent(event);
}

void MainWindow::watch_children() {
  // A floating dock is a window of its own, which gets the drops over it.
  for (QDockWidget* dock : docks_) dock->setAcceptDrops(true);
  for (QWidget* child : findChildren<QWidget*>()) {
    const bool text = line_of(child) != nullptr || qobject_cast<QPlainTextEdit*>(child) != nullptr;
    if (child->acceptDrops() || text) child->installEventFilter(this);
  }
}

// On X11 a text field would take Ctrl+E and Ctrl+K, which mean "to the end of the line" and "delete to there" in it.
// The menus show these keys, so they always mean the command.
bool MainWindow::is_menu_key(const QKeyEvent& key) const {
  if ((key.modifiers() & Qt::ControlModifier) == 0) return false;
  const std::vector<QAction*> actions = actions_of_menus();
  return std::any_of(actions.begin(), actions.end(), [&](const QAction* action) {
    return action->isEnabled() && action->shortcut() == QKeySequence(key.keyCombination());
  });
}

bool MainWindow::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::DragEnter || event->type() == QEvent::DragMove || event->type() == QEvent::Drop) {
    auto* drop = static_cast<QDropEvent*>(event);  // the base class of all three
    if (drop->mimeData()->hasUrls()) {
      if (event->type() == QEvent::Drop)
        dropEvent(drop);
      else
        drop->acceptProposedAction();
      return true;
    }
  }
  if (event->type() == QEvent::ShortcutOverride) {
    auto* key = static_cast<QKeyEvent*>(event);
    const QLineEdit* line = line_of(watched);
    const bool undo = key->matches(QKeySequence::Undo), redo = key->matches(QKeySequence::Redo);
    const bool left = line != nullptr && ((undo && !line->isUndoAvailable()) || (redo && !line->isRedoAvailable()));
    if (left || (!undo && !redo && is_menu_key(*key))) {
      key->ignore();
      return true;
    }
  }
  return QMainWindow::eventFilter(watched, event);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  QStringList files;
  for (const QUrl& url : event->mimeData()->urls()) files << url.toLocalFile();
  open_files(files);
  event->acceptProposedAction();
}

}  // namespace plimsoll::gui
