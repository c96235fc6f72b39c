// SPDX-License-Identifier: GPL-3.0-or-later
// Protects unsaved work. While a session differs from its file, a folder holds a copy of it. A program that ends
// normally removes the copy; one that crashes leaves it for the next program.
#pragma once

#include <QLockFile>
#include <QStringList>
#include <QTimer>
#include <memory>

#include "gui/core/session.h"

namespace plimsoll::gui {

class Recovery final : public QObject {
  Q_OBJECT
 public:
  /// Programs that share a folder keep a copy each; the first of them finds what earlier ones left. A folder that
  /// cannot be written is ignored.
  Recovery(Session& session, const QString& folder, int delay_ms, QObject* parent = nullptr);

  /// Returns the newest file that earlier programs left; empty if none.
  [[nodiscard]] QString found() const { return found_.isEmpty() ? QString() : found_.front(); }
  /// Returns how many such files there are.
  [[nodiscard]] qsizetype count() const { return found_.size(); }
  /// Replaces the current session by the newest recovered one, as a step that can be undone. Throws InputError.
  void restore();
  /// Removes the newest file that was found. It would otherwise be found again.
  void dismiss();
  /// Call at the normal end of the program. Removes the copy.
  void done();

 private:
  void move_aside(const QString& copy) const;
  void find_left();
  void keep();
  Session& session_;
  QString folder_, copy_;
  QStringList found_;
  std::unique_ptr<QLockFile> lock_;  // of the copy
  QTimer soon_;
};

}  // namespace plimsoll::gui
