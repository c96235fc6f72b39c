// SPDX-License-Identifier: Apache-2.0
#include "study/output/chart.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace plimsoll::study {
namespace {

constexpr int kDotsAcross = 2, kDotsDown = 4;  // dots in a braille cell
constexpr int kMinWidth = 40, kMinHeight = 8;
constexpr std::array<const char*, 7> kMarks = {"●", "■", "◆", "▲", "○", "□", "◇"};
constexpr std::array<int, 7> kColours = {34, 31, 32, 35,
                                         33, 36, 37};  // ANSI: blue, red, green, magenta, yellow, cyan, white

// Bits of the dots of U+2800, by column and row.
constexpr std::array<std::array<unsigned char, kDotsDown>, kDotsAcross> kDotBits = {
    {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};

// The three bytes of UTF-8 for U+2800 plus the bits of the dots.
std::string braille(unsigned char dots) {
  return {static_cast<char>(0xE2), static_cast<char>(0xA0 | (dots >> 6U)), static_cast<char>(0x80 | (dots & 0x3FU))};
}

// Splits UTF-8 into characters; each takes one cell.
std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> all;
  for (const char c : text) {
    const bool continues = (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
    if (continues && !all.empty())
      all.back() += c;
    else
      all.emplace_back(1, c);
  }
  return all;
}

std::size_t cells_of(const std::string& text) { return characters(text).size(); }

std::string shortened(const std::string& text, std::size_t width) {
  const std::vector<std::string> all = characters(text);
  std::string out;
  for (std::size_t i = 0; i < std::min(width, all.size()); ++i) out += all[i];
  return out;
}

class Canvas {
 public:
  Canvas(const Chart& chart, const TextCanvas& size)
      : chart_(chart),
        size_(size),
        x_(chart.x.scale, values(chart, &ChartPoint::x)),
        y_(chart.y.scale, values(chart, &ChartPoint::y)) {
    size_.width = std::max(size.width, kMinWidth);
    size_.height = std::max(size.height, kMinHeight);
    for (const Tick& tick : y_.ticks()) label_width_ = std::max(label_width_, static_cast<int>(cells_of(tick.label)));
    across_ = size_.width - label_width_ - 2;
    down_ = size_.height - 3;  // title, ticks, legend
    cells_.resize(static_cast<std::size_t>(across_ * down_));
  }

  std::string draw() {
    for (const ChartSeries& series : chart_.series) {
      if (series.style != SeriesStyle::points) line(series);
    }
    for (const ChartSeries& series : chart_.series) {
      if (series.style != SeriesStyle::limit) marks(series);
    }
    if (!any_) return {};
    std::string out = shortened(chart_.y.text + " over " + chart_.x.text, static_cast<std::size_t>(size_.width)) + '\n';
    const std::vector<std::string> labels = row_labels();
    for (int row = 0; row < down_; ++row) {
      const std::string& label = labels[static_cast<std::size_t>(row)];
      out += std::string(static_cast<std::size_t>(label_width_) - cells_of(label), ' ') + label +
             (label.empty() ? " │" : " ┤");
      out += row_text(row) + '\n';
    }
    return out + bottom() + legend();
  }

 private:
  struct CellInk {
    unsigned char dots = 0;
    int series = -1;             // its colour is the colour of the dots
    const char* mark = nullptr;  // drawn instead of the dots
  };

  static std::vector<double> values(const Chart& chart, double ChartPoint::*member) {
    std::vector<double> all;
    for (const ChartSeries& series : chart.series) {
      for (const ChartPoint& point : series.points) all.push_back(point.*member);
    }
    return all;
  }

  [[nodiscard]] std::size_t index(int column, int row) const {
    return static_cast<std::size_t>(row * across_ + column);
  }
  [[nodiscard]] bool shows(const ChartPoint& point) const { return x_.shows(point.x) && y_.shows(point.y); }
  [[nodiscard]] int dot_x(double x) const {
    return static_cast<int>(std::lround(x_.fraction(x) * (across_ * kDotsAcross - 1)));
  }
  [[nodiscard]] int dot_y(double y) const {
    return static_cast<int>(std::lround((1 - y_.fraction(y)) * (down_ * kDotsDown - 1)));
  }

  void dot(int x, int y, int colour) {
    CellInk& cell = cells_[index(x / kDotsAcross, y / kDotsDown)];
    cell.dots |= kDotBits[static_cast<std::size_t>(x % kDotsAcross)][static_cast<std::size_t>(y % kDotsDown)];
    cell.series = colour;
  }

  // Limits are dotted, and missing values leave a gap.
  void line(const ChartSeries& series) {
    const int every = series.style == SeriesStyle::limit ? 4 : 1;
    for (std::size_t i = 1; i < series.points.size(); ++i) {
      const ChartPoint &a = series.points[i - 1], &b = series.points[i];
      if (!shows(a) || !shows(b)) continue;
      const int x0 = dot_x(a.x), y0 = dot_y(a.y), x1 = dot_x(b.x), y1 = dot_y(b.y);
      const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
      for (int s = 0; s <= steps; s += every) {
        dot(x0 + static_cast<int>(std::lround(1.0 * s * (x1 - x0) / steps)),
            y0 + static_cast<int>(std::lround(1.0 * s * (y1 - y0) / steps)), static_cast<int>(series.colour));
      }
    }
  }

  void marks(const ChartSeries& series) {
    for (const ChartPoint& point : series.points) {
      if (!shows(point)) continue;
      CellInk& cell = cells_[index(dot_x(point.x) / kDotsAcross, dot_y(point.y) / kDotsDown)];
      cell.mark = kMarks[series.colour % kMarks.size()];
      cell.series = static_cast<int>(series.colour);
      any_ = true;
    }
  }

  [[nodiscard]] std::string coloured(const std::string& text, int series) const {
    return size_.colour && series >= 0 && !text.empty()
               ? fmt::format("\033[{}m{}\033[0m", kColours[static_cast<std::size_t>(series) % kColours.size()], text)
               : text;
  }

  static std::string cell_text(const CellInk& cell) {
    if (cell.mark != nullptr) return cell.mark;
    return cell.dots == 0 ? " " : braille(cell.dots);
  }

  // Neighbouring cells of one colour share a colour code.
  [[nodiscard]] std::string row_text(int row) const {
    // Blanks at the end of a line are not printed: terminals wrap them, and files keep them.
    int last = across_;
    while (last > 0 && cell_text(cells_[index(last - 1, row)]) == " ") --last;
    std::string text, run;
    int series = -1;
    for (int column = 0; column < last; ++column) {
      const CellInk& cell = cells_[index(column, row)];
      if (cell.series != series) {
        text += coloured(run, series);
        run.clear();
        series = cell.series;
      }
      run += cell_text(cell);
    }
    return text + coloured(run, series);
  }

  static std::string trimmed(const std::string& text) { return text.substr(0, text.find_last_not_of(' ') + 1); }

  // A tick's label is in the tick's row. If two ticks share a row, the first label is shown.
  [[nodiscard]] std::vector<std::string> row_labels() const {
    std::vector<std::string> labels(static_cast<std::size_t>(down_));
    for (const Tick& tick : y_.ticks()) {
      if (tick.label.empty() || !y_.shows(tick.value)) continue;
      std::string& label = labels[static_cast<std::size_t>(dot_y(tick.value) / kDotsDown)];
      if (label.empty()) label = tick.label;
    }
    return labels;
  }

  [[nodiscard]] std::string bottom() const {
    std::vector<std::string> line(static_cast<std::size_t>(across_), " ");
    std::size_t free = 0;
    for (const Tick& tick : x_.ticks()) {
      if (tick.label.empty() || !x_.shows(tick.value)) continue;
      const std::vector<std::string> label = characters(tick.label);
      const auto centre = static_cast<std::size_t>(dot_x(tick.value) / kDotsAcross);
      const std::size_t begin = std::min(centre - std::min(centre, label.size() / 2), line.size() - label.size());
      // A label that would touch the one before it is left out.
      if (begin < free) continue;
      std::copy(label.begin(), label.end(), line.begin() + static_cast<std::ptrdiff_t>(begin));
      free = begin + label.size() + 2;
    }
    return trimmed(fmt::format("{:{}}{}", "", label_width_ + 2, fmt::join(line, ""))) + '\n';
  }

  // Leaves out entries that do not fit into the line.
  [[nodiscard]] std::string legend() const {
    std::string text;
    std::size_t cells = 0;
    for (const ChartSeries& series : chart_.series) {
      const std::string entry = fmt::format(
          "{} {}", series.style == SeriesStyle::limit ? "┄" : kMarks[series.colour % kMarks.size()], series.name);
      if (cells + cells_of(entry) + 3 > static_cast<std::size_t>(size_.width)) {
        text += " …";
        break;
      }
      text += (text.empty() ? "" : "   ") + coloured(entry, static_cast<int>(series.colour));
      cells += cells_of(entry) + 3;
    }
    return text + '\n';
  }

  const Chart& chart_;
  TextCanvas size_;
  ChartAxis x_, y_;
  int label_width_ = 0, across_ = 0, down_ = 0;
  std::vector<CellInk> cells_;
  bool any_ = false;
};

}  // namespace

std::string text_chart(const Chart& chart, const TextCanvas& canvas) { return Canvas(chart, canvas).draw(); }

}  // namespace plimsoll::study
