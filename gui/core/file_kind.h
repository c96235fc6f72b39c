// SPDX-License-Identifier: GPL-3.0-or-later
// Determines the kind of an opened or dropped file from its content.
#pragma once

#include <QString>
#include <string>

namespace plimsoll::gui {

enum class FileKind : unsigned char { session, study, table, trace, model, unknown_json };

/// Returns the whole text. Throws InputError if it exceeds 16 MiB or cannot be read.
[[nodiscard]] std::string read_text(const QString& file);
/// Returns true for a compressed file, which can only be a trace; its text is not examined.
[[nodiscard]] bool is_packed(const QString& file);
[[nodiscard]] FileKind kind_of(const QString& file, const std::string& text);

}  // namespace plimsoll::gui
