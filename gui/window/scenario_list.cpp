// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/scenario_list.h"

#include <QAction>
#include <QDir>
#include <QHBoxLayout>
#include <QListWidget>
#include <QMenu>
#include <QPainter>
#include <QSignalBlocker>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/core/answer_rows.h"
#include "gui/core/text.h"
#include "gui/plot/plot_painter.h"

namespace plimsoll::gui {
namespace {

constexpr int kMostScenarios = 6;  // more are scrolled
constexpr int kChip = 16;
constexpr int kChipRole = Qt::UserRole + 1;

QToolButton* button(const QString& text, const QString& help, QWidget* parent) {
  auto* made = new QToolButton(parent);
  made->setText(text);
  made->setToolTip(help);
  made->setAccessibleName(help);
  made->setFocusPolicy(Qt::StrongFocus);
  return made;
}

// Returns what the scenario simulates and where.
QString tip_of(const Workbench& bench, std::size_t scenario) {
  const CurveModel* model = bench.curves_of(scenario);
  if (const LaneFailure* failure = bench.failure_of(scenario)) return QStringLiteral("✗ ") + failure->text;
  if (model == nullptr || model->outline().footprints.empty()) return {};
  const CurveOutline& outline = model->outline();
  return QStringLiteral("%1\n%2\n%3\n%4")
      .arg(outline.setup.model, outline.setup.hardware, outline.setup.engine, footprint_range(outline.footprints));
}

}  // namespace

ScenarioList::ScenarioList(Workbench& bench, QWidget* parent) : QWidget(parent), bench_(bench) {
  setSizePolicy(QSizePolicy::Preferred, QSizePolicy::Maximum);  // the room of a tall window is below the form
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(4);
  list_ = new QListWidget(this);
  list_->setAccessibleName(tr("Scenarios; the check boxes show and hide them"));
  list_->setEditTriggers(QAbstractItemView::EditKeyPressed | QAbstractItemView::DoubleClicked);
  list_->setContextMenuPolicy(Qt::CustomContextMenu);
  list_->setIconSize(QSize(kChip, kChip));
  list_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  list_->setTextElideMode(Qt::ElideMiddle);
  column->addWidget(list_);
  make_buttons();
  connect(list_, &QListWidget::currentRowChanged, this, [this](int row) {
    if (row >= 0) bench_.choose_scenario(static_cast<std::size_t>(row));
  });
  connect(list_, &QListWidget::itemChanged, this, [this](const QListWidgetItem* item) { changed(list_->row(item)); });
  connect(list_, &QListWidget::customContextMenuRequested, this, &ScenarioList::show_menu);
  // The tooltips tell what the curves' outlines report.
  connect(&bench_, &Workbench::settled, this, &ScenarioList::refresh);
}

void ScenarioList::make_buttons() {
  auto* row = new QHBoxLayout();
  row->setSpacing(4);
  QToolButton* add = button(tr("Add"), tr("Add a scenario: from a file, a preset or the planner's answer"), this);
  add->setPopupMode(QToolButton::InstantPopup);
  add_ = new QMenu(add);
  add->setMenu(add_);
  QToolButton* copy = button(tr("Duplicate"), tr("Copy the scenario and compare the two (Ctrl+D)"), this);
  remove_ = button(tr("Remove"), tr("Remove the scenario"), this);
  for (QToolButton* one : {add, copy, remove_}) row->addWidget(one);
  row->addStretch();
  static_cast<QVBoxLayout*>(layout())->addLayout(row);
  connect(copy, &QToolButton::clicked, &bench_, &Workbench::duplicate_scenario);
  connect(remove_, &QToolButton::clicked, this, [this] { bench_.remove_scenario(bench_.session().state().current); });
  QMenu* presets = add_->addMenu(tr("&Preset"));
  connect(presets, &QMenu::aboutToShow, this, [this, presets] { fill_presets(*presets); });
  add_->addAction(tr("&New study"), this, [this] { bench_.add_scenarios(tr("Add a new study"), {new_scenario()}); });
}

// The presets are the studies that ship with the program.
void ScenarioList::fill_presets(QMenu& menu) {
  menu.clear();
  const QDir folder(qs(configs::Catalogue::default_root() + "/studies"));
  for (const QFileInfo& file : folder.entryInfoList({QStringLiteral("*.yaml")}, QDir::Files, QDir::Name)) {
    menu.addAction(file.completeBaseName(), this, [this, path = file.absoluteFilePath()] { bench_.add(path); });
  }
}

void ScenarioList::changed(int row) {
  const auto index = static_cast<std::size_t>(row);
  const Scenario& scenario = bench_.session().state().scenarios[index];
  const QListWidgetItem* item = list_->item(row);
  const bool shown = item->checkState() == Qt::Checked;
  if (shown != scenario.shown) bench_.show_scenario(index, shown);
  if (item->text() == bench_.session().state().scenarios[index].name) return;
  bench_.rename_scenario(index, item->text());
  refresh();  // an empty name changes nothing in the session
}

void ScenarioList::show_menu(const QPoint& place) {
  const QListWidgetItem* item = list_->itemAt(place);
  if (item == nullptr) return;
  const auto index = static_cast<std::size_t>(list_->row(item));
  const SessionState& state = bench_.session().state();
  QMenu menu(this);
  menu.addAction(tr("Re&name"), this, [this, index] { list_->editItem(list_->item(static_cast<int>(index))); });
  QMenu* colours = menu.addMenu(tr("&Colour"));
  for (std::size_t c = 0; c < theme_->series.size(); ++c) {
    QPixmap pixmap(kChip, kChip);
    pixmap.fill(theme_->series[c]);
    QAction* action = colours->addAction(pixmap, tr("Colour %1").arg(c + 1), this,
                                         [this, index, c] { bench_.colour_scenario(index, c); });
    action->setCheckable(true);
    action->setChecked(c == state.scenarios[index].colour);
  }
  const bool compares = state.compared == index;
  QAction* compare = menu.addAction(tr("Co&mpare with the selected one (A – B)"), this, [this, index, compares] {
    bench_.compare_with(compares ? std::nullopt : std::optional(index));
  });
  compare->setCheckable(true);
  compare->setChecked(compares);
  compare->setEnabled(index != state.current);
  menu.addSeparator();
  QAction* remove = menu.addAction(tr("&Remove"), this, [this, index] { bench_.remove_scenario(index); });
  remove->setEnabled(state.scenarios.size() > 1);
  menu.exec(list_->viewport()->mapToGlobal(place));
}

// Returns what chip() depends on. Most edits leave the chips alone, and another icon would repaint the list.
QString ScenarioList::look_of(std::size_t scenario) const {
  const SessionState& state = bench_.session().state();
  const bool pair = state.compared && *state.compared != state.current;
  return QStringLiteral("%1 %2 %3 %4 %5")
      .arg(state.scenarios[scenario].colour)
      .arg(pair && scenario == *state.compared)
      .arg(pair && scenario == state.current)
      .arg(theme_->dark)
      .arg(devicePixelRatioF());
}

// The scenario's colour and marker. While two scenarios are compared, their letters.
QIcon ScenarioList::chip(std::size_t scenario) const {
  const SessionState& state = bench_.session().state();
  QPixmap pixmap(QSize(kChip, kChip) * devicePixelRatioF());
  pixmap.setDevicePixelRatio(devicePixelRatioF());
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  const QColor colour = theme_->colour(state.scenarios[scenario].colour);
  const QRectF box(1, 1, kChip - 2, kChip - 2);
  const bool pair = state.compared && *state.compared != state.current;
  const QString letter = !pair                         ? QString()
                         : scenario == *state.compared ? QStringLiteral("A")
                         : scenario == state.current   ? QStringLiteral("B")
                                                       : QString();
  if (letter.isEmpty()) {
    // The row of the edited scenario is highlighted, in nearly the first colour.
    painter.setPen(Qt::NoPen);
    painter.setBrush(theme_->background);
    painter.drawEllipse(box);
    draw_marker(painter, box.center(), {state.scenarios[scenario].colour, 5, colour, PointLook::filled}, Qt::white);
    return QIcon(pixmap);
  }
  painter.setPen(Qt::NoPen);
  painter.setBrush(colour);
  painter.drawRoundedRect(box, 3, 3);
  painter.setPen(text_on(colour));
  QFont font = this->font();
  font.setBold(true);
  font.setPixelSize(kChip - 5);
  painter.setFont(font);
  painter.drawText(box, Qt::AlignCenter, letter);
  return QIcon(pixmap);
}

// Changes the items in place, because this may run while one of them reports a change.
void ScenarioList::refresh() {
  const SessionState& state = bench_.session().state();
  const QSignalBlocker quiet(list_);
  const auto count = static_cast<int>(state.scenarios.size());
  remove_->setEnabled(count > 1);
  while (list_->count() > count) delete list_->takeItem(list_->count() - 1);
  while (list_->count() < count) {
    auto* item = new QListWidgetItem(list_);
    item->setFlags(Qt::ItemIsSelectable | Qt::ItemIsEnabled | Qt::ItemIsUserCheckable | Qt::ItemIsEditable);
  }
  for (int row = 0; row < count; ++row) {
    const auto index = static_cast<std::size_t>(row);
    QListWidgetItem* item = list_->item(row);
    item->setText(state.scenarios[index].name);
    item->setCheckState(state.scenarios[index].shown ? Qt::Checked : Qt::Unchecked);
    if (const QString look = look_of(index); item->data(kChipRole).toString() != look) {
      item->setData(kChipRole, look);
      item->setIcon(chip(index));
    }
    item->setToolTip(tip_of(bench_, index));
  }
  list_->setCurrentRow(static_cast<int>(state.current));
  const int rows = std::clamp(count, 1, kMostScenarios);
  list_->setFixedHeight(rows * std::max(list_->sizeHintForRow(0), fontMetrics().height() + 6) +
                        2 * list_->frameWidth() + 2);
}

void ScenarioList::set_theme(const Theme& theme) {
  theme_ = &theme;
  refresh();
}

}  // namespace plimsoll::gui
