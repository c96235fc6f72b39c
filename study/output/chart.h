// SPDX-License-Identifier: Apache-2.0
// Curves as an SVG picture, which needs no display, or as text for a terminal. A chart has several series and linear or
// log axes; measured or published points are drawn on top as hollow markers. Colours are those of Okabe and Ito, which
// colour-blind readers can tell apart. Each series has its own marker shape, so that the picture is also readable in
// grey.
#pragma once

#include <string>
#include <vector>

#include "study/output/chart_axis.h"

namespace plimsoll::study {

struct ChartPoint {
  double x = 0, y = 0;
  std::string label;  // tooltip of the point; may be empty
};

enum class SeriesStyle : unsigned char {
  curve,   // a line with small filled markers: a prediction
  points,  // only hollow markers: measured or published
  limit    // a dashed line without markers: an SLO
};

/// One curve or one set of points.
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;  // in the order in which the line connects them
  SeriesStyle style = SeriesStyle::curve;
  std::size_t colour = 0;  // series with the same number share colour and marker shape
};

struct AxisTitle {
  std::string text;  // with its unit: "output tokens/s"
  Scale scale = Scale::log;
};

/// A chart with all its texts and series.
struct Chart {
  std::string title, subtitle;
  AxisTitle x, y;
  std::vector<ChartSeries> series;
  std::string note;  // a line below the picture: source, calibration
};

/// Returns the chart as an SVG document.
[[nodiscard]] std::string svg_chart(const Chart& chart);

// A chart as text for a terminal: lines of braille dots, a different mark for the points of each series, axes with
// ticks, and a legend.

struct TextCanvas {
  int width = 80, height = 16;  // character cells, axes included; at least 40 x 8
  bool colour = false;          // use ANSI colours; without them, only the marks distinguish the series
};

/// Returns lines no wider than the canvas, each ended by a line break. Empty if no point can be shown.
[[nodiscard]] std::string text_chart(const Chart& chart, const TextCanvas& canvas);

}  // namespace plimsoll::study
