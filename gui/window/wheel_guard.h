// SPDX-License-Identifier: GPL-3.0-or-later
// Keeps the wheel from editing. In a form that scrolls, fields pass below the pointer; a box or slider that takes the
// wheel there changes its value unseen and stops the scrolling.
#pragma once

#include <QObject>

class QWidget;

namespace plimsoll::gui {

/// Takes the wheel from one field, so that the form around it scrolls. The field's popup list still scrolls.
class WheelGuard final : public QObject {
  Q_OBJECT
 public:
  /// Belongs to `field`.
  explicit WheelGuard(QWidget& field);

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
};

/// Guards every box, slider and spin box in `form` that is not guarded yet, and `form` itself if it is one. Call it
/// again after fields were added.
void leave_wheel_to_form(QWidget& form);

}  // namespace plimsoll::gui
