// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/run_dock.h"

#include <QComboBox>
#include <QHeaderView>
#include <QLabel>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/core/text.h"
#include "gui/window/flow_layout.h"

namespace plimsoll::gui {

RunDock::RunDock(Workbench& bench, QWidget* parent) : QWidget(parent), bench_(bench) {
  column_ = new QVBoxLayout(this);
  column_->setContentsMargins(8, 6, 8, 8);
  buttons_ = new QWidget(this);
  new FlowLayout(buttons_);
  pause_ = new QPushButton(tr("&Pause"), buttons_);
  cancel_ = new QPushButton(tr("Ca&ncel"), buttons_);
  cancel_->setToolTip(tr("Esc; what has finished is kept"));
  progress_ = new QProgressBar(this);
  progress_->setAccessibleName(tr("Progress"));
  progress_->hide();
  state_ = new QLabel(this);
  state_->setWordWrap(true);
  state_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  log_ = new QPlainTextEdit(this);
  log_->setReadOnly(true);
  log_->setMaximumBlockCount(1000);
  log_->setAccessibleName(tr("Messages of the process"));
  log_->setTabChangesFocus(true);
  log_->setMinimumHeight(50);
  column_->addWidget(buttons_);
  column_->addWidget(progress_);
  column_->addWidget(state_);
  column_->addWidget(log_, 1);
  connect(pause_, &QPushButton::clicked, this, [this] { run_.state() == ChildRun::State::paused ? run_.resume() : run_.pause(); });
  connect(cancel_, &QPushButton::clicked, this, &RunDock::cancel);
  connect(&run_, &ChildRun::state_changed, this, &RunDock::refresh_buttons);
  connect(&run_, &ChildRun::logged, this, [this](const QString& level, const QString& text) { say(level + QStringLiteral(": ") + text); });
  connect(&run_, &ChildRun::ended, this, &RunDock::end);
  connect(&run_, &ChildRun::progressed, this, [this](double done, double total, double eta) {
    progress_->setRange(0, 1000);
    progress_->setValue(total > 0 ? static_cast<int>(1000 * done / total) : 0);
    state_->setText(tr("%1 of %2").arg(reader_text(done, 3), reader_text(total, 6)) + (eta >= 0 ? tr(", %1 s left").arg(reader_text(eta, 2)) : QString()));
  });
}

QPushButton* RunDock::add_button(const QString& text, const QString& help) {
  auto* button = new QPushButton(text, buttons_);
  button->setToolTip(help);
  button->setAccessibleDescription(help);
  buttons_->layout()->addWidget(button);
  starters_.push_back(button);
  buttons_->layout()->removeWidget(pause_);
  buttons_->layout()->removeWidget(cancel_);
  buttons_->layout()->addWidget(pause_);
  buttons_->layout()->addWidget(cancel_);
  refresh_buttons();
  return button;
}

void RunDock::refresh_buttons() {
  const bool idle = run_.state() == ChildRun::State::idle;
  for (QPushButton* starter : starters_) starter->setEnabled(idle);
  pause_->setEnabled(run_.state() == ChildRun::State::running || run_.state() == ChildRun::State::paused);
  pause_->setText(run_.state() == ChildRun::State::paused ? tr("&Resume") : tr("&Pause"));
  cancel_->setEnabled(!idle && run_.state() != ChildRun::State::cancelling);
  progress_->setVisible(!idle);
  if (run_.state() == ChildRun::State::paused) state_->setText(tr("paused"));
  if (run_.state() == ChildRun::State::cancelling) state_->setText(tr("cancelling…"));
}

bool RunDock::start(const QString& verb, const QStringList& options, bool with_study) {
  try {
    QStringList arguments{verb};
    if (with_study) {
      folder_ = std::make_unique<QTemporaryDir>();
      const QString study = folder_->filePath(QStringLiteral("study.yaml"));
      bench_.save_study(study);
      arguments << study;
    }
    arguments << options << QStringLiteral("--progress") << QStringLiteral("jsonl");
    clear();
    log_->clear();
    progress_->setRange(0, 0);
    state_->setText(tr("starting…"));
    return run_.start(ChildRun::program(), arguments);
  } catch (const std::exception& error) {
    state_->setText(QStringLiteral("✗ ") + qs(error.what()));
    return false;
  }
}

void RunDock::say(const QString& text) { log_->appendPlainText(text); }

void RunDock::end(int exit_code, const QString& text) {
  if (!text.isEmpty()) state_->setText(QStringLiteral("✗ ") + text);
  else if (exit_code == 4) state_->setText(tr("✗ done: the answer is no"));
  else state_->setText(exit_code == 0 ? tr("✓ done") : tr("cancelled; what had finished is kept"));
  if (!text.isEmpty()) say(text);
}

LiveDock::LiveDock(Workbench& bench, QWidget* parent) : RunDock(bench, parent) {
  device_ = new QComboBox(this);
  device_->setAccessibleName(tr("Device to measure on"));
  device_->addItem(tr("This machine's CPU"), QStringLiteral("cpu"));
  device_->addItem(tr("This machine's GPU"), QStringLiteral("cuda"));
  column_->insertWidget(0, device_);
  connect(add_button(tr("&Measure"), tr("Run the scenario's points on this machine, in a process of its own")), &QPushButton::clicked, this, &LiveDock::measure);
  connect(add_button(tr("Ca&librate"), tr("Measure this machine's speed, so that predictions rest on it")), &QPushButton::clicked, this,
          [this] { start(QStringLiteral("calibrate"), {}, false); });
  connect(&run_, &ChildRun::point, this, [this](const PointRow& row) {
    rows_.push_back(row);
    bench_.set_live_points(tr("measured live"), rows_);
  });
}

void LiveDock::measure() { start(QStringLiteral("measure"), {QStringLiteral("--device"), device_->currentData().toString()}); }

void LiveDock::clear() { rows_.clear(); }

DecisionDock::DecisionDock(Workbench& bench, QWidget* parent) : RunDock(bench, parent) {
  best_ = new QLabel(this);
  best_->setWordWrap(true);
  best_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  best_->setText(tr("Searches TP, replicas, batch limits and instances for the scenario's SLO."));
  ranking_ = new QTableWidget(this);
  ranking_->setAccessibleName(tr("Deployments, best first"));
  ranking_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  ranking_->setTabKeyNavigation(false);
  ranking_->setAlternatingRowColors(true);
  ranking_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
  column_->insertWidget(0, best_);
  column_->insertWidget(4, ranking_, 3);
  connect(add_button(tr("P&lan"), tr("Find the best deployment; the search is the study's")), &QPushButton::clicked, this, &DecisionDock::plan);
  connect(&run_, &ChildRun::object, this, &DecisionDock::add);
}

void DecisionDock::plan() { start(QStringLiteral("plan"), {}); }

void DecisionDock::clear() {
  ranking_->clear();
  ranking_->setRowCount(0);
  ranking_->setColumnCount(0);
}

// A line an object of any type: its members are the columns, in the order in which they first appear.
void DecisionDock::add(const QString& /*type*/, const QJsonObject& line) {
  const int row = ranking_->rowCount();
  ranking_->insertRow(row);
  for (auto it = line.begin(); it != line.end(); ++it) {
    if (it.key() == QStringLiteral("v") || it.key() == QStringLiteral("t_s") || it.value().isArray() || it.value().isObject()) continue;
    int column = 0;
    while (column < ranking_->columnCount() && ranking_->horizontalHeaderItem(column)->text() != it.key()) ++column;
    if (column == ranking_->columnCount()) {
      ranking_->insertColumn(column);
      ranking_->setHorizontalHeaderItem(column, new QTableWidgetItem(it.key()));
    }
    const QJsonValue& value = it.value();
    const QString text = value.isDouble() ? reader_text(value.toDouble(), 5) : value.isBool() ? (value.toBool() ? QStringLiteral("✓") : QStringLiteral("✗")) : value.toString();
    ranking_->setItem(row, column, new QTableWidgetItem(text));
  }
}

TableData DecisionDock::table() const {
  TableData table;
  for (int c = 0; c < ranking_->columnCount(); ++c) table.headers << ranking_->horizontalHeaderItem(c)->text();
  for (int r = 0; r < ranking_->rowCount(); ++r) {
    QStringList row;
    for (int c = 0; c < ranking_->columnCount(); ++c) row << (ranking_->item(r, c) ? ranking_->item(r, c)->text() : QString());
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace plimsoll::gui
