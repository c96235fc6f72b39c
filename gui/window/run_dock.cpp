// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/run_dock.h"

#include <QFile>
#include <QLabel>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QTextCursor>
#include <QVBoxLayout>
#include <cmath>

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
  cancel_->setToolTip(tr("Esc; finished points are kept"));
  progress_ = new QProgressBar(this);
  progress_->setAccessibleName(tr("Progress"));
  progress_->hide();
  state_ = new QLabel(this);
  state_->setWordWrap(true);
  state_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  log_ = new QPlainTextEdit(this);
  log_->setReadOnly(true);
  // A child that prints without end must not fill the memory.
  log_->setMaximumBlockCount(1000);
  log_->setAccessibleName(tr("Messages of the process"));
  log_->setTabChangesFocus(true);
  log_->setMinimumHeight(50);
  column_->addWidget(buttons_);
  column_->addWidget(progress_);
  column_->addWidget(state_);
  column_->addWidget(log_, 1);
  connect(pause_, &QPushButton::clicked, this,
          [this] { run_.state() == ChildRun::State::paused ? run_.resume() : run_.pause(); });
  connect(cancel_, &QPushButton::clicked, this, &RunDock::cancel);
  connect(&run_, &ChildRun::state_changed, this, &RunDock::refresh_buttons);
  connect(&run_, &ChildRun::logged, this, [this](const QString& level, const QString& text) {
    say(level + QStringLiteral(": ") + text);
    // Until the process says how far it is, its last message tells most.
    if (progress_->maximum() == 0 && run_.state() == ChildRun::State::running) state_->setText(text);
  });
  connect(&run_, &ChildRun::ended, this, &RunDock::end);
  connect(&run_, &ChildRun::progressed, this, [this](double done, double total, double eta) {
    progress_->setRange(0, 1000);
    progress_->setValue(total > 0 ? static_cast<int>(1000 * done / total) : 0);
    if (run_.state() == ChildRun::State::paused) return;  // results in flight may still arrive
    state_->setText(tr("%1 of %2").arg(reader_text(std::floor(done), 6), reader_text(total, 6)) +
                    (eta >= 0 ? tr(", %1 s left").arg(reader_text(eta, 2)) : QString()));
  });
}

QPushButton* RunDock::add_button(const QString& text, const QString& help) {
  auto* button = new QPushButton(text, buttons_);
  button->setAccessibleDescription(help);
  buttons_->layout()->addWidget(button);
  starters_.push_back(button);
  // Remove Pause and Cancel and add them again, so that they stay at the end of the row.
  buttons_->layout()->removeWidget(pause_);
  buttons_->layout()->removeWidget(cancel_);
  buttons_->layout()->addWidget(pause_);
  buttons_->layout()->addWidget(cancel_);
  refresh_buttons();
  return button;
}

void RunDock::refresh_buttons() {
  const bool idle = run_.state() == ChildRun::State::idle;
  for (QPushButton* starter : starters_) {
    starter->setEnabled(idle && held_.isEmpty());
    // A disabled button's tooltip says why it is disabled.
    starter->setToolTip(held_.isEmpty() ? starter->accessibleDescription() : held_);
  }
  pause_->setEnabled(run_.state() == ChildRun::State::running || run_.state() == ChildRun::State::paused);
  pause_->setText(run_.state() == ChildRun::State::paused ? tr("&Resume") : tr("&Pause"));
  cancel_->setEnabled(!idle && run_.state() != ChildRun::State::cancelling);
  progress_->setVisible(!idle);
  if (run_.state() == ChildRun::State::paused) state_->setText(tr("paused: points in progress will still finish"));
  if (run_.state() == ChildRun::State::cancelling) state_->setText(tr("cancelling…"));
}

void RunDock::hold(const QString& why) {
  if (held_ == why) return;
  held_ = why;
  refresh_buttons();
}

// The child reads the study from a file in the run's folder. clear() is called only when the file has been written, so
// that a failure keeps the earlier results.
bool RunDock::start(const QString& verb, const QStringList& options, const std::string& study) {
  if (run_.state() != ChildRun::State::idle) return false;
  QStringList arguments{verb};
  if (!study.empty()) {
    const QString file = folder() + QStringLiteral("/study.yaml");
    QFile out(file);
    const QByteArray text = QByteArray::fromStdString(study);
    if (!out.open(QIODevice::WriteOnly) || out.write(text) != text.size()) {
      refuse(tr("%1 cannot be written: %2").arg(file, out.errorString()));
      return false;
    }
    arguments << file;
  }
  arguments << options << QStringLiteral("--progress") << QStringLiteral("jsonl");
  clear();
  verb_ = verb;
  log_->clear();
  // Show a busy indicator until the first progress line.
  progress_->setRange(0, 0);
  state_->setText(tr("starting…"));
  return run_.start(ChildRun::program(), arguments);
}

void RunDock::say(const QString& text) { log_->appendPlainText(text); }

void RunDock::show_log(bool shown) { log_->setVisible(shown); }

void RunDock::show_log_from_top() {
  log_->moveCursor(QTextCursor::Start);
  log_->ensureCursorVisible();
}

void RunDock::refuse(const QString& why) { state_->setText(QStringLiteral("✗ ") + why); }

void RunDock::end(int exit_code, const QString& text) {
  finished(verb_, exit_code, text);
  if (!text.isEmpty()) say(text);
}

void RunDock::finished(const QString& /*verb*/, int exit_code, const QString& text) {
  if (!text.isEmpty())
    refuse(text);
  else
    state_->setText(exit_code == 0 ? tr("✓ done") : tr("cancelled; finished points are kept"));
}

}  // namespace plimsoll::gui
