// SPDX-License-Identifier: GPL-3.0-or-later
// A report about the current scenario for readers without the program: the question, the answer, the picture, the
// assumptions and the flags to deploy it.
#pragma once

#include <QString>

#include "gui/window/curves_view.h"

namespace plimsoll::gui {

/// Writes the report: a single HTML page like report.html of `simulate`, or one A4 page as PDF, in which the session is
/// embedded. Throws InputError for another ending and for an invalid scenario, DeviceError if the file cannot be
/// written. The picture is that of `curves`.
void write_report(const Workbench& bench, CurvesView& curves, const QString& file);

}  // namespace plimsoll::gui
