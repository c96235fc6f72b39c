// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/style.h"

namespace plimsoll::gui {
QString style_sheet(const Theme& theme) {
  constexpr double kFill = 0.3, kHint = 0.08;
  // Groups are told apart by a heading and space. Only what is pressed, filled or focused gets the accent.
  return QStringLiteral(
             "QLabel#problem{color:%1;}"
             "QLabel#soft{color:%5;}"
             "QGroupBox{border:0;margin-top:1.6em;padding:0;}"
             "QGroupBox::title{subcontrol-origin:margin;subcontrol-position:top left;left:0;top:0.3em;color:%2;"
             "font-weight:600;}"
             "QProgressBar{border:1px solid %4;border-radius:3px;background:%6;color:%2;text-align:center;}"
             "QProgressBar::chunk{background:%7;border-radius:2px;}"
             "QFrame#welcome{background:%8;border:0;border-bottom:1px solid %4;}"
             "QToolButton#series{border:1px solid transparent;padding:1px 3px;}"
             "QToolButton#series:hover,QToolButton#series:focus{border:1px solid %4;border-radius:3px;}"
             "QToolButton#header{font-weight:600;}"
             "QLabel#chip{border:1px solid %4;border-radius:8px;padding:0px 7px;color:%5;}"
             "QToolTip{color:%2;background:%3;border:1px solid %4;}")
      .arg(theme.bad.name(), theme.text.name(), theme.panel.name(), theme.frame.name(), theme.soft_text.name(),
           theme.background.name(), mixed(theme.accent, theme.background, kFill).name(),
           mixed(theme.accent, theme.background, kHint).name());
}

}  // namespace plimsoll::gui
