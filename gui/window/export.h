// SPDX-License-Identifier: GPL-3.0-or-later
// Exports views: PNG, SVG and PDF contain the whole session, so that a picture can be opened again; CSV contains the
// data.
#pragma once

#include <QSize>
#include <QString>
#include <string>

#include "gui/window/main_window.h"
#include "gui/window/view.h"

namespace plimsoll::gui {

/// Writes a view in the format of the name's ending. Throws InputError for an unknown ending, DeviceError if the file
/// cannot be written.
void export_view(View& view, const QString& file, const std::string& session, double scale = 2);
/// Returns the session contained in a PNG, SVG or PDF written by export_view(); empty if there is none.
[[nodiscard]] std::string session_in_picture(const QString& file);

/// `--screenshot`, in screenshot.cpp.
struct Screenshot {
  QString view, file;
  QSize size;
  int timeout_ms = 60000;
};
/// Shows the view, waits until everything it requested has arrived and writes the picture. Throws DeviceError if the
/// file cannot be written or a result did not arrive in time.
void write_screenshot(Workbench& bench, MainWindow& window, const Screenshot& shot);

}  // namespace plimsoll::gui
