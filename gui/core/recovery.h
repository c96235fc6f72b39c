// SPDX-License-Identifier: GPL-3.0-or-later
// Protects unsaved work. While a session differs from its file, a folder holds a copy of it. A program that ends
// normally removes the copy; one that crashes leaves it for the next program.
#pragma once

#include <QLockFile>
#include <QTimer>

#include "gui/core/session.h"

namespace plimsoll::gui {

class Recovery final : public QObject {
  Q_OBJECT
 public:
  /// If several programs share a folder, only the first keeps copies. A folder that cannot be written is ignored.
  Recovery(Session& session, const QString& folder, int delay_ms, QObject* parent = nullptr);

  /// Returns the file that an earlier program left; empty if none.
  [[nodiscard]] const QString& found() const { return found_; }
  /// Replaces the current session by the recovered one, as a step that can be undone. Throws InputError.
  void restore();
  /// Removes what an earlier program left, which is otherwise found again.
  void dismiss();
  /// Call at the normal end of the program. Removes the copy.
  void done();

 private:
  void keep();
  Session& session_;
  QString copy_, found_;
  QLockFile lock_;
  QTimer soon_;
};

}  // namespace plimsoll::gui
