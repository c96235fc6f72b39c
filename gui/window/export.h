// SPDX-License-Identifier: GPL-3.0-or-later
// Exports views and reports. PNG, SVG and PDF contain the whole session, so that a picture can be opened again; CSV
// contains the data.
#pragma once

#include <QImage>
#include <QSize>
#include <QString>
#include <string>

#include "gui/window/main_window.h"
#include "gui/window/picture.h"
#include "gui/window/view.h"

namespace plimsoll::gui {

/// Writes a view in the format of the name's ending. Throws InputError for an unknown ending, DeviceError if the file
/// cannot be written.
void export_view(View& view, const QString& file, const std::string& session, double scale = 2);
/// Returns the picture with `scale` pixels for each of the view's.
[[nodiscard]] QImage picture_image(const Picture& picture, double scale);
/// Returns the session contained in a PNG, SVG or PDF written by export_view(); empty if there is none.
[[nodiscard]] std::string session_in_picture(const QString& file);

/// Replaces the file at once. Throws DeviceError if it cannot be written.
void write_bytes(const QString& file, const QByteArray& text);

/// `--screenshot`, in screenshot.cpp.
struct Screenshot {
  QString view, file;
  QSize size;
  int timeout_ms = 60000;
};
/// Shows the view, waits until everything it requested has arrived and writes the picture. Throws DeviceError if the
/// file cannot be written or a result did not arrive in time.
void write_screenshot(Workbench& bench, MainWindow& window, const Screenshot& shot);

/// Writes a report about the scenario for readers without the program (report.cpp): the question, the answer, the
/// picture of `curves`, the assumptions and the flags to deploy it. The form is a single HTML page like report.html of
/// `simulate`, or one A4 page as PDF, in which the session is embedded. Throws InputError for another ending and for an
/// invalid scenario, DeviceError if the file cannot be written.
void write_report(const Workbench& bench, CurvesView& curves, const QString& file);

}  // namespace plimsoll::gui
