// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps what has not been saved: while a session differs from its file, a copy of it lies in a folder. A program that
// ends well takes the copy away; one that crashes leaves it for the next.
#pragma once

#include <QLockFile>
#include <QTimer>

#include "gui/core/session.h"

namespace plimsoll::gui {

class Recovery final : public QObject {
  Q_OBJECT
 public:
  /// Of several programs with one folder only the first keeps copies. A folder that cannot be written is no reason to
  /// fail.
  Recovery(Session& session, const QString& folder, int delay_ms, QObject* parent = nullptr);

  /// The file that a program before left; empty: none.
  [[nodiscard]] const QString& found() const { return found_; }
  /// The session in it becomes the current one; a step that can be undone. Throws InputError.
  void restore();
  /// The program ends well.
  void done();

 private:
  void keep();
  Session& session_;
  QString copy_, found_;
  QLockFile lock_;
  QTimer soon_;
};

}  // namespace plimsoll::gui
