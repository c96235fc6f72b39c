// SPDX-License-Identifier: GPL-3.0-or-later
// `--screenshot`: any view into a PNG, without a display.
#pragma once

#include <QSize>
#include <QString>

#include "gui/window/main_window.h"

namespace plimsoll::gui {

/// Shows the view, waits until everything it asks for has arrived (at most `timeout_ms`) and writes the picture. Throws
/// DeviceError when it cannot be written or nothing arrived in time.
void write_screenshot(Workbench& bench, MainWindow& window, const QString& view, const QString& file, const QSize& size,
                      int timeout_ms = 60000);

}  // namespace plimsoll::gui
