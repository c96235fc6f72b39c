// SPDX-License-Identifier: Apache-2.0
// Curves as an SVG picture, without a display, or as text for a terminal: several series, measured or published points
// on top as hollow markers, linear or log axes. Colours are those of Okabe and Ito, which stay apart for colour-blind
// readers, and each series has its own marker shape, so that the picture also reads in grey.
#pragma once

#include <string>
#include <vector>

#include "study/output/chart_axis.h"

namespace plimsoll::study {

struct ChartPoint {
  double x = 0, y = 0;
  std::string label;  // shown by viewers when the pointer rests on the point; may be empty
};

enum class SeriesStyle : unsigned char {
  curve,   // a line with small filled markers: a prediction
  points,  // hollow markers alone: measured or published
  limit    // a dashed line without markers: an SLO
};

struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // in the order in which the line joins them
  SeriesStyle style = SeriesStyle::curve;
  std::size_t colour = 0;  // series of the same number share colour and marker shape
};

struct AxisTitle {
  std::string text;  // with its unit: "output tokens/s"
  Scale scale = Scale::log;
};

struct Chart {
  std::string title, subtitle;
  AxisTitle x, y;
  std::vector<ChartSeries> series;
  std::string note;  // a line below the picture: source, calibration
};

[[nodiscard]] std::string svg_chart(const Chart& chart);

// A chart as text for a terminal: lines of braille dots, a mark of its own for the points of each series,
// axes with their ticks, a legend.

struct TextCanvas {
  int width = 80, height = 16;  // character cells, axes included; at least 40 x 8
  bool colour = false;          // ANSI colours; without them the marks alone tell the series apart
};

/// Lines that are no wider than the canvas, each ended by a line break. Empty where no point can be shown.
[[nodiscard]] std::string text_chart(const Chart& chart, const TextCanvas& canvas);

}  // namespace plimsoll::study
