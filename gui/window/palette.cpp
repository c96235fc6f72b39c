// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/palette.h"

#include <QAction>
#include <QKeyEvent>
#include <QLineEdit>
#include <QListWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <utility>

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

std::vector<Command> commands_of(const std::vector<QAction*>& actions) {
  std::vector<Command> out;
  for (QAction* action : actions) {
    if (action->isEnabled())
      out.push_back(
          {plain(*action), action->shortcut().toString(QKeySequence::NativeText), [action] { action->trigger(); }});
  }
  return out;
}

std::vector<Command> commands_of(const SettableField& field, const QString& typed,
                                 const std::function<void(const QString& path)>& go,
                                 const std::function<void(const QString& path, const QString& value)>& set) {
  // A field is known by its label and by its key in a study.
  const QString name = QStringLiteral("%1 (%2)").arg(field.label, field.path.section(QChar(u'.'), -1));
  const QString words = typed.simplified(), head = words.section(QChar(u' '), 0, -2),
                value = words.section(QChar(u' '), -1);
  std::vector<Command> out;
  bool number = false;
  value.toDouble(&number);
  const bool settable = number || field.choices.contains(value, Qt::CaseInsensitive);
  if (!head.isEmpty() && settable && match_score(head, name) >= 0)
    out.push_back({Palette::tr("Set %1 to %2").arg(name, value),
                   {},
                   [set, path = field.path, value] { set(path, value); },
                   match_score(head, name)});
  const int score = words.isEmpty() ? -1 : match_score(words, name);
  if (score >= 0) out.push_back({Palette::tr("Go to %1").arg(name), {}, [go, path = field.path] { go(path); }, score});
  return out;
}

Palette::Palette(std::vector<Command> commands, std::function<std::vector<Command>(const QString& typed)> fields,
                 QWidget* parent)
    : QDialog(parent), commands_(std::move(commands)), fields_(std::move(fields)) {
  setWindowTitle(tr("Commands"));
  line_ = new QLineEdit(this);
  line_->setPlaceholderText(tr("A few letters of a command or a field, or a field and its value: tp 4"));
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
  found_.clear();
  for (Command& command : commands_) {
    command.score = match_score(wanted, command.text);
    if (command.score >= 0) found_.push_back(command);
  }
  for (Command& field : fields_(wanted)) found_.push_back(std::move(field));
  // Equal scores keep the order of the menus and of the form.
  std::stable_sort(found_.begin(), found_.end(), [](const Command& a, const Command& b) { return a.score < b.score; });
  list_->clear();
  for (const Command& one : found_)
    list_->addItem(one.keys.isEmpty() ? one.text : QStringLiteral("%1    [%2]").arg(one.text, one.keys));
  if (found_.empty()) {
    auto* none = new QListWidgetItem(tr("No command and no field matches"), list_);
    none->setFlags(Qt::NoItemFlags);
  }
  list_->setCurrentRow(0);
}

QStringList Palette::listed() const {
  QStringList out;
  for (const Command& one : found_) out << one.text;
  return out;
}

void Palette::run() {
  const int row = list_->currentRow();
  if (row < 0 || row >= static_cast<int>(found_.size())) return;
  const std::function<void()> command = found_[static_cast<std::size_t>(row)].run;
  // Closes first: the command may open a dialog of its own.
  accept();
  command();
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
