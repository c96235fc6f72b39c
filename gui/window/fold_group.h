// SPDX-License-Identifier: GPL-3.0-or-later
// A group of a form below a title that folds it.
#pragma once

#include <QWidget>

class QToolButton;
class QVBoxLayout;

namespace plimsoll::gui {

class FoldGroup final : public QWidget {
  Q_OBJECT
 public:
  /// `key` names the group in the settings, which remember whether the user has folded it; `open` applies before.
  FoldGroup(const QString& title, const QString& key, bool open, QWidget* parent);
  [[nodiscard]] QVBoxLayout& content() { return *layout_; }
  [[nodiscard]] bool is_open() const;
  /// Unfolds or folds the group without remembering it.
  void set_open(bool open);

 private:
  QToolButton* title_ = nullptr;
  QWidget* inside_ = nullptr;
  QVBoxLayout* layout_ = nullptr;
};

}  // namespace plimsoll::gui
