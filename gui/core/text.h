// SPDX-License-Identifier: GPL-3.0-or-later
// Converts between Qt's text (UTF-16) and that of all lower layers (UTF-8).
#pragma once

#include <QCoreApplication>
#include <QString>
#include <string>
#include <string_view>

#include "model/units.h"
#include "study/output/chart_axis.h"

namespace plimsoll::gui {

/// Convert UTF-8 to UTF-16 and back.
[[nodiscard]] inline QString qs(std::string_view text) {
  return QString::fromUtf8(text.data(), static_cast<qsizetype>(text.size()));
}
[[nodiscard]] inline QString qs(const char* text) { return QString::fromUtf8(text); }
[[nodiscard]] inline std::string utf8(const QString& text) { return text.toStdString(); }

/// Translates text outside of classes, which have a tr() of their own.
[[nodiscard]] inline QString tr(const char* text) { return QCoreApplication::translate("plimsoll::gui", text); }

[[nodiscard]] inline double seconds(Nanos nanos) { return static_cast<double>(nanos) * 1e-9; }
/// Formats a number for the user: at most `digits` significant digits, grouped thousands, no exponent unless needed.
[[nodiscard]] inline QString reader_text(double value, int digits = 4) {
  return qs(study::reader_number(value, digits));
}

}  // namespace plimsoll::gui
