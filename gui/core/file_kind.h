// SPDX-License-Identifier: GPL-3.0-or-later
// What a file that was opened or dropped is, by what is in it.
#pragma once

#include <QString>
#include <string>

namespace plimsoll::gui {

enum class FileKind : unsigned char { session, study, table, trace, model, unknown_json };

/// The whole text, at most 16 MiB. Throws InputError.
[[nodiscard]] std::string read_text(const QString& file);
/// A packed file can only be a trace; its text is not looked at.
[[nodiscard]] bool is_packed(const QString& file);
[[nodiscard]] FileKind kind_of(const QString& file, const std::string& text);

}  // namespace plimsoll::gui
