// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/wheel_guard.h"

#include <QAbstractSpinBox>
#include <QComboBox>
#include <QEvent>
#include <QSlider>

namespace plimsoll::gui {
namespace {

bool takes_wheel(const QWidget& widget) {
  return qobject_cast<const QComboBox*>(&widget) != nullptr || qobject_cast<const QSlider*>(&widget) != nullptr ||
         qobject_cast<const QAbstractSpinBox*>(&widget) != nullptr;
}

}  // namespace

// With the wheel's focus policy, the field would take the keyboard from the field that the user types in.
WheelGuard::WheelGuard(QWidget& field) : QObject(&field) {
  field.setFocusPolicy(Qt::StrongFocus);
  field.installEventFilter(this);
}

// An event that is filtered but not accepted goes to the parents, up to the scroll area.
bool WheelGuard::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() != QEvent::Wheel) return QObject::eventFilter(watched, event);
  event->ignore();
  return true;
}

void leave_wheel_to_form(QWidget& form) {
  QList<QWidget*> fields = form.findChildren<QWidget*>();
  fields << &form;
  for (QWidget* field : std::as_const(fields)) {
    const bool guarded = field->findChild<WheelGuard*>(QString(), Qt::FindDirectChildrenOnly) != nullptr;
    if (takes_wheel(*field) && !guarded) new WheelGuard(*field);
  }
}

}  // namespace plimsoll::gui
