// SPDX-License-Identifier: GPL-3.0-or-later
// The strip above the views that welcomes a new user, and the text about the program.
#pragma once

#include <QFrame>
#include <QString>

namespace plimsoll::gui {

/// Says what is shown and what can be done with it. The window connects the signals to its actions.
class WelcomeStrip final : public QFrame {
  Q_OBJECT
 public:
  explicit WelcomeStrip(QWidget* parent = nullptr);

 Q_SIGNALS:
  void example_wanted();
  void new_wanted();
  void open_wanted();
  void plan_wanted();
  void measure_wanted();
  void import_wanted();
  /// The user has closed the strip; it should not come back by itself.
  void dismissed();
};

/// Returns name, version, licences and sources as HTML.
[[nodiscard]] QString about_text();

}  // namespace plimsoll::gui
