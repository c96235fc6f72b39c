// SPDX-License-Identifier: GPL-3.0-or-later
// `--screenshot`: writes any view to a PNG, without a display.
#pragma once

#include <QSize>
#include <QString>

#include "gui/window/main_window.h"

namespace plimsoll::gui {

/// Shows the view, waits until everything it requested has arrived (at most `timeout_ms`) and writes the picture.
/// Throws DeviceError if the file cannot be written or a result did not arrive in time.
void write_screenshot(Workbench& bench, MainWindow& window, const QString& view, const QString& file, const QSize& size,
                      int timeout_ms = 60000);

}  // namespace plimsoll::gui
