// SPDX-License-Identifier: GPL-3.0-or-later
// Between the texts of Qt (UTF-16) and those of everything below (UTF-8).
#pragma once

#include <QString>
#include <string>
#include <string_view>

namespace plimsoll::gui {

[[nodiscard]] inline QString qs(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}
[[nodiscard]] inline QString qs(const char* text) { return QString::fromUtf8(text); }
[[nodiscard]] inline std::string utf8(const QString& text) { return text.toStdString(); }

/// A number for a reader: at most `digits` significant digits, thousands apart, no exponent where it can be avoided.
[[nodiscard]] QString reader_text(double value, int digits = 4);

}  // namespace plimsoll::gui
