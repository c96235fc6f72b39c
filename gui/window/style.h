// SPDX-License-Identifier: GPL-3.0-or-later
// The look of the widgets: a hierarchy of text, space instead of frames, and one accent colour.
#pragma once

#include <QString>

#include "gui/plot/theme.h"

namespace plimsoll::gui {

/// Returns the style sheet of the window. Labels named "soft" and "problem", and the welcome strip, have looks of their
/// own. Every size follows the system's font.
[[nodiscard]] QString style_sheet(const Theme& theme);

}  // namespace plimsoll::gui
