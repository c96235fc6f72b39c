// SPDX-License-Identifier: GPL-3.0-or-later
// Help texts: the meaning of every metric and of every key.
#pragma once

#include <QDialog>
#include <vector>

class QAction;

namespace plimsoll::gui {

class Help final : public QDialog {
  Q_OBJECT
 public:
  Help(const std::vector<QAction*>& actions, QWidget* parent);
};

}  // namespace plimsoll::gui
