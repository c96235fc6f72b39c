// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/palette.h"

#include <QAction>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QVBoxLayout>
#include <algorithm>

namespace plimsoll::gui {
namespace {

QString plain(const QAction& action) { return QString(action.text()).remove(QChar(u'&')); }

}  // namespace

// Adds up the gaps between the letters, up to 20 each. A letter that begins a word costs nothing.
int match_score(const QString& wanted, const QString& text) {
  int score = 0;
  qsizetype at = -1;
  for (const QChar letter : wanted) {
    if (letter.isSpace()) continue;
    const qsizetype next = text.indexOf(letter, at + 1, Qt::CaseInsensitive);
    if (next < 0) return -1;
    const bool word_start = next == 0 || !text[next - 1].isLetterOrNumber();
    score += next == at + 1 || word_start ? 0 : static_cast<int>(std::min<qsizetype>(next - at, 20));
    at = next;
  }
  return score;
}

Palette::Palette(const std::vector<QAction*>& actions, QWidget* parent) : QDialog(parent), actions_(actions) {
  setWindowTitle(tr("Commands"));
  line_ = new QLineEdit(this);
  line_->setPlaceholderText(tr("Type a few letters of a command"));
  line_->setAccessibleName(tr("Command"));
  line_->setClearButtonEnabled(true);
  line_->installEventFilter(this);
  list_ = new QListWidget(this);
  list_->setAccessibleName(tr("Commands that match"));
  auto* column = new QVBoxLayout(this);
  column->addWidget(line_);
  column->addWidget(list_);
  resize(fontMetrics().averageCharWidth() * 70, fontMetrics().height() * 24);
  connect(line_, &QLineEdit::textChanged, this, &Palette::filter);
  connect(line_, &QLineEdit::returnPressed, this, &Palette::run);
  connect(list_, &QListWidget::itemActivated, this, &Palette::run);
  filter({});
}

void Palette::filter(const QString& wanted) {
  list_->clear();
  std::vector<std::pair<int, std::size_t>> found;
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    const int score = match_score(wanted, plain(*actions_[i]));
    if (score >= 0 && actions_[i]->isEnabled()) found.emplace_back(score, i);
  }
  // Equal scores keep the order of the menus, because the index is the second key.
  std::stable_sort(found.begin(), found.end());
  for (const auto& [score, i] : found) {
    const QString keys = actions_[i]->shortcut().toString(QKeySequence::NativeText);
    auto* item = new QListWidgetItem(
        keys.isEmpty() ? plain(*actions_[i]) : QStringLiteral("%1    [%2]").arg(plain(*actions_[i]), keys), list_);
    item->setData(Qt::UserRole, static_cast<qulonglong>(i));
  }
  list_->setCurrentRow(0);
}

void Palette::run() {
  const QListWidgetItem* item = list_->currentItem();
  if (item == nullptr) return;
  QAction* action = actions_[item->data(Qt::UserRole).toULongLong()];
  // Closes first: the action may open a dialog of its own.
  accept();
  action->trigger();
}

bool Palette::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::KeyPress) {
    const int key = static_cast<QKeyEvent*>(event)->key();
    // The arrow keys move through the list while the line keeps the focus.
    if (key == Qt::Key_Up || key == Qt::Key_Down) {
      list_->setCurrentRow(
          std::clamp(list_->currentRow() + (key == Qt::Key_Down ? 1 : -1), 0, std::max(0, list_->count() - 1)));
      return true;
    }
  }
  return QDialog::eventFilter(watched, event);
}

}  // namespace plimsoll::gui
