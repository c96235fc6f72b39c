// SPDX-License-Identifier: GPL-3.0-or-later
// The data behind a plot of curves, for the table of a view, the clipboard and CSV.
#pragma once

#include "gui/window/curve_content.h"
#include "gui/window/view.h"

namespace plimsoll::gui {

/// Returns a row for every point of the drawn curves and every measured point on them: curve, kind, load with its unit,
/// TP degree, replicas, both metrics with their 90 % bands, and why a point fails. A point without a figure, which the
/// plot cannot draw, has a blank cell.
[[nodiscard]] TableData curve_table(const Workbench& bench, const ContentChoice& choice);

}  // namespace plimsoll::gui
