// SPDX-License-Identifier: GPL-3.0-or-later
// Views as files: PNG, SVG, PDF with the whole session inside, so that a picture can be opened again; CSV of the data.
#pragma once

#include <QString>
#include <string>

#include "gui/window/view.h"

namespace plimsoll::gui {

/// By the name's ending. Throws InputError for another one, DeviceError when the file cannot be written.
void export_view(View& view, const QString& file, const std::string& session, double scale = 2);
/// The session inside a PNG, SVG or PDF that export_view() wrote; empty: none.
[[nodiscard]] std::string session_in_picture(const QString& file);

}  // namespace plimsoll::gui
