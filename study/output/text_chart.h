// SPDX-License-Identifier: Apache-2.0
// A chart (svg_chart.h) as text for a terminal: lines of braille dots, a mark of its own for the points of each series,
// axes with their ticks, a legend.
#pragma once

#include <string>

#include "study/output/svg_chart.h"

namespace plimsoll::study {

struct TextCanvas {
  int width = 80, height = 16;  // character cells, axes included; at least 40 x 8
  bool colour = false;          // ANSI colours; without them the marks alone tell the series apart
};

/// Lines that are no wider than the canvas, each ended by a line break. Empty where no point can be shown.
[[nodiscard]] std::string text_chart(const Chart& chart, const TextCanvas& canvas);

}  // namespace plimsoll::study
