// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/text.h"

#include "study/output/chart_axis.h"

namespace plimsoll::gui {

QString reader_text(double value, int digits) { return qs(study::reader_number(value, digits)); }

}  // namespace plimsoll::gui
