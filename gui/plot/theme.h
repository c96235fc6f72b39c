// SPDX-License-Identifier: GPL-3.0-or-later
// The look of the window: its style sheet and its colours, light and dark. Series colours (after Okabe and Ito) are
// distinguishable for colour-blind readers. They have a contrast of at least 3:1 with the background, and text has at
// least 4.5:1 (WCAG 2.1); tests/gui checks both.
#pragma once

#include <QColor>
#include <QPalette>
#include <QString>
#include <array>
#include <cstddef>

namespace plimsoll::gui {

/// The colours of a window and its plots. Series beyond the eighth repeat colours, in another shade and with other
/// markers; a shade has at least the contrast of its colour.
struct Theme {
  bool dark = false;
  QColor background, panel, text, soft_text, grid, frame, accent, good, bad, shade;
  std::array<QColor, 8> series;
  [[nodiscard]] QColor colour(std::size_t index) const;
  [[nodiscard]] QPalette palette() const;
};

/// Return the two themes; valid as long as the program runs.
[[nodiscard]] const Theme& light_theme();
[[nodiscard]] const Theme& dark_theme();
/// Returns `part` of one colour over the rest of another: a tint on which the theme's text stays legible.
[[nodiscard]] QColor mixed(const QColor& over, const QColor& under, double part);
/// WCAG 2.1 contrast ratio, 1 to 21.
[[nodiscard]] double contrast(const QColor& a, const QColor& b);
/// Returns white if its contrast on the fill is at least 4.5:1, else black or white, whichever has more contrast. White
/// is preferred because on saturated fills of medium lightness black reads worse than its ratio suggests.
[[nodiscard]] QColor text_on(const QColor& fill);

/// Returns the style sheet of the window. Labels named "soft" and "problem", and the welcome strip, have looks of their
/// own. Every size follows the system's font.
[[nodiscard]] QString style_sheet(const Theme& theme);

}  // namespace plimsoll::gui
