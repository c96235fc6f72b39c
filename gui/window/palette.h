// SPDX-License-Identifier: GPL-3.0-or-later
// Dialogs over the actions of the menus: the command palette, and the help.
#pragma once

#include <QDialog>
#include <functional>
#include <vector>

class QAction;
class QLineEdit;
class QListWidget;

namespace plimsoll::gui {

/// Returns a score if the letters of `wanted` occur in `text` in that order: the smaller, the better. Returns -1 if
/// they do not.
[[nodiscard]] int match_score(const QString& wanted, const QString& text);

/// What the palette can do: an action of the menus, or a field of the form to go to or to set.
struct Command {
  QString text, keys;
  std::function<void()> run;
  int score = 0;  // of a field's command, as match_score(): commands are listed from the smallest
};
/// Returns the actions that are enabled, as commands.
[[nodiscard]] std::vector<Command> commands_of(const std::vector<QAction*>& actions);
/// Returns the commands of a form's field for a typed text: to go to it, and to set it if the text ends in a value:
/// "tp 4". Empty if the text does not mean this field.
struct SettableField {
  QString label, path;
  QStringList choices;
};
[[nodiscard]] std::vector<Command> commands_of(
    const SettableField& field, const QString& typed, const std::function<void(const QString& path)>& go,
    const std::function<void(const QString& path, const QString& value)>& set);

/// The command palette: finds a command by a few letters of its name and runs it.
class Palette final : public QDialog {
  Q_OBJECT
 public:
  /// `fields` returns the commands of the form's fields for a typed text.
  Palette(std::vector<Command> commands, std::function<std::vector<Command>(const QString& typed)> fields,
          QWidget* parent);
  /// Returns what is listed.
  [[nodiscard]] QStringList listed() const;
  [[nodiscard]] QLineEdit& line() { return *line_; }

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  void filter(const QString& wanted);
  void run();
  std::vector<Command> commands_, found_;
  std::function<std::vector<Command>(const QString&)> fields_;
  QLineEdit* line_ = nullptr;
  QListWidget* list_ = nullptr;
};

/// The meaning of every metric and of every key (help.cpp).
class Help final : public QDialog {
  Q_OBJECT
 public:
  Help(const std::vector<QAction*>& actions, QWidget* parent);
};

}  // namespace plimsoll::gui
