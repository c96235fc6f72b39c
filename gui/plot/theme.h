// SPDX-License-Identifier: GPL-3.0-or-later
// Colours, light and dark. Series colours are chosen so that they stay apart for colour-blind readers (after Okabe and
// Ito), each at least 3:1 against the background, text at least 4.5:1 (WCAG 2.1); tests/gui holds them to it.
#pragma once

#include <QColor>
#include <QPalette>
#include <array>
#include <cstddef>

namespace plimsoll::gui {

struct Theme {
  bool dark = false;
  QColor background, panel, text, soft_text, grid, frame, accent, good, bad, shade;
  std::array<QColor, 8> series;
  [[nodiscard]] QColor colour(std::size_t index) const { return series[index % series.size()]; }
  [[nodiscard]] QPalette palette() const;
};

[[nodiscard]] const Theme& light_theme();
[[nodiscard]] const Theme& dark_theme();
/// WCAG 2.1 contrast ratio, 1 to 21.
[[nodiscard]] double contrast(const QColor& a, const QColor& b);
/// White on a fill that gives it 4.5:1, else black or white, whichever has more: on saturated fills of medium lightness
/// black reads worse than its ratio says.
[[nodiscard]] QColor text_on(const QColor& fill);

}  // namespace plimsoll::gui
