// SPDX-License-Identifier: Apache-2.0
#include "study/output/chart.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

#include "study/output/html_page.h"

namespace plimsoll::study {
namespace {

constexpr double kWidth = 980, kHeight = 620;
constexpr double kLeft = 84, kTop = 84, kRight = 220, kBottom = 92;
constexpr double kPlotWidth = kWidth - kLeft - kRight, kPlotHeight = kHeight - kTop - kBottom;
constexpr const char* kInk = "#1b1f24";
constexpr const char* kSoft = "#57606a";
constexpr const char* kGrid = "#e3e7eb";
constexpr const char* kMinorGrid = "#f1f3f5";
// Okabe and Ito, "Color Universal Design" (2008), without yellow, which is too pale on white.
constexpr std::array<const char*, 7> kPalette = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#000000"};

class Drawing {
 public:
  explicit Drawing(const Chart& chart)
      : chart_(chart),
        x_(chart.x.scale, values(chart, &ChartPoint::x)),
        y_(chart.y.scale, values(chart, &ChartPoint::y)) {}

  std::string draw() {
    open();
    grid();
    for (const ChartSeries& series : chart_.series) {
      if (series.style != SeriesStyle::points) line(series);
    }
    for (const ChartSeries& series : chart_.series) {
      if (series.style != SeriesStyle::limit) markers(series);
    }
    titles();
    legend();
    return std::move(out_) + "</svg>\n";
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  static std::vector<double> values(const Chart& chart, double ChartPoint::*member) {
    std::vector<double> all;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) all.push_back(point.*member);
    }
    return all;
  }

  double px(double value) const { return kLeft + x_.fraction(value) * kPlotWidth; }
  double py(double value) const { return kTop + (1 - y_.fraction(value)) * kPlotHeight; }
  bool shows(const ChartPoint& point) const { return x_.shows(point.x) && y_.shows(point.y); }
  static const char* dashes(const ChartSeries& series) {
    return series.style == SeriesStyle::limit ? " stroke-dasharray=\"3 7\"" : "";
  }
  // Colours return after seven; the shape of the marker then differs, as it has another period.
  static const char* colour(std::size_t index) { return kPalette[index % kPalette.size()]; }

  void open() {
    put("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"Inter, 'DejaVu Sans', 'Segoe UI', Helvetica, Arial, sans-serif\" role=\"img\">",
        kWidth, kHeight);
    put("<title>{}</title>", html_escaped(chart_.title));
    put("<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
  }

  void grid() {
    for (const Tick& tick : x_.ticks()) vertical(tick);
    for (const Tick& tick : y_.ticks()) horizontal(tick);
    put("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\" fill=\"none\" stroke=\"{4}\" stroke-width=\"1.2\"/>", kLeft, kTop,
        kTop + kPlotHeight, kLeft + kPlotWidth, kSoft);
  }

  void vertical(const Tick& tick) {
    const double x = px(tick.value), bottom = kTop + kPlotHeight;
    put("<path d=\"M{:.1f} {:.1f}V{:.1f}\" stroke=\"{}\"/>", x, kTop, bottom, tick.label.empty() ? kMinorGrid : kGrid);
    if (tick.label.empty()) return;
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"13\" fill=\"{}\" text-anchor=\"middle\">{}</text>", x, bottom + 20,
        kSoft, tick.label);
  }

  void horizontal(const Tick& tick) {
    const double y = py(tick.value);
    put("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"{}\"/>", kLeft, y, kLeft + kPlotWidth,
        tick.label.empty() ? kMinorGrid : kGrid);
    if (tick.label.empty()) return;
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"13\" fill=\"{}\" text-anchor=\"end\">{}</text>", kLeft - 8,
        y + 4.5, kSoft, tick.label);
  }

  void line(const ChartSeries& series) {
    std::string path;
    bool pen_down = false;
    for (const ChartPoint& point : series.points) {
      if (!shows(point)) {
        pen_down = false;  // a gap instead of a line across missing values
        continue;
      }
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', px(point.x), py(point.y));
      pen_down = true;
    }
    if (path.empty()) return;
    put("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2.4\" stroke-linejoin=\"round\" "
        "stroke-linecap=\"round\"{}/>",
        path, colour(series.colour), dashes(series));
  }

  void markers(const ChartSeries& series) {
    for (const ChartPoint& point : series.points) {
      if (shows(point)) marker(series, px(point.x), py(point.y), point.label);
    }
  }

  // Draws a circle, square, diamond or triangle, by the series' number.
  void marker(const ChartSeries& series, double x, double y, const std::string& label) {
    // Measured points are hollow and larger, so that a predicted curve shows through them.
    const bool hollow = series.style == SeriesStyle::points;
    const double r = hollow ? 5.5 : 3.8;
    std::string shape;
    switch (series.colour % 4) {
      case 0: shape = fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"", x, y, r); break;
      case 1:
        shape = fmt::format("<path d=\"M{:.1f} {:.1f}h{:.1f}v{:.1f}h{:.1f}z\"", x - r, y - r, 2 * r, 2 * r, -2 * r);
        break;
      case 2:
        shape = fmt::format("<path d=\"M{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}z\"", x, y - 1.3 * r,
                            1.3 * r, 1.3 * r, -1.3 * r, 1.3 * r, -1.3 * r, -1.3 * r);
        break;
      default:
        shape = fmt::format("<path d=\"M{:.1f} {:.1f}l{:.1f} {:.1f}h{:.1f}z\"", x, y - 1.25 * r, 1.25 * r, 2.2 * r,
                            -2.5 * r);
    }
    const char* const paint = colour(series.colour);
    const std::string style =
        hollow ? fmt::format(" fill=\"#ffffff\" fill-opacity=\"0.85\" stroke=\"{}\" stroke-width=\"1.8\"", paint)
               : fmt::format(" fill=\"{}\" stroke=\"#ffffff\" stroke-width=\"0.9\"", paint);
    if (label.empty()) {
      put("{}{}/>", shape, style);
    } else {
      put("<g><title>{}</title>{}{}/></g>", html_escaped(label), shape, style);
    }
  }

  void titles() {
    put("<text x=\"{}\" y=\"36\" font-size=\"20\" font-weight=\"600\" fill=\"{}\">{}</text>", 24, kInk,
        html_escaped(chart_.title));
    put("<text x=\"{}\" y=\"60\" font-size=\"14\" fill=\"{}\">{}</text>", 24, kSoft, html_escaped(chart_.subtitle));
    put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"14\" fill=\"{}\" text-anchor=\"middle\">{}</text>",
        kLeft + kPlotWidth / 2, kTop + kPlotHeight + 46, kInk, html_escaped(chart_.x.text));
    put("<text transform=\"translate(24 {:.1f}) rotate(-90)\" font-size=\"14\" fill=\"{}\" "
        "text-anchor=\"middle\">{}</text>",
        kTop + kPlotHeight / 2, kInk, html_escaped(chart_.y.text));
    put("<text x=\"{}\" y=\"{:.1f}\" font-size=\"12\" fill=\"{}\">{}</text>", 24, kHeight - 16, kSoft,
        html_escaped(chart_.note));
  }

  void legend() {
    const double x = kLeft + kPlotWidth + 22;
    double y = kTop + 12;
    for (const ChartSeries& series : chart_.series) {
      if (series.style != SeriesStyle::points) {
        put("<path d=\"M{:.1f} {:.1f}h26\" stroke=\"{}\" stroke-width=\"2.4\" stroke-linecap=\"round\"{}/>", x, y,
            colour(series.colour), dashes(series));
      }
      if (series.style != SeriesStyle::limit) marker(series, x + 13, y, "");
      put("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"13\" fill=\"{}\">{}</text>", x + 34, y + 4.5, kInk,
          html_escaped(series.name));
      y += 23;
    }
  }

  const Chart& chart_;
  ChartAxis x_, y_;
  std::string out_;
};

}  // namespace

std::string svg_chart(const Chart& chart) { return Drawing(chart).draw(); }

}  // namespace plimsoll::study
