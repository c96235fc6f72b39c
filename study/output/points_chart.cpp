// SPDX-License-Identifier: Apache-2.0
#include "study/output/points_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>

#include "configs/quantity.h"

namespace plimsoll::study {
namespace {

constexpr std::size_t kMaxSeries = 14;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kWide = 6;  // axes whose ends differ by a larger factor are logarithmic

using Value = std::function<double(const PointResult&)>;
struct Axis {
  std::string text;
  Value value;
};

bool is_closed(const PointResult& point) { return point.labels.load().load_class == load::LoadClass::closed; }
bool is_load(const std::string& key) {
  return key == "workload.rate" || key == "workload.concurrency" || key.starts_with("workload.load");
}

double number_of(const Cell& cell) {
  if (const auto* const whole = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*whole);
  if (const auto* const number = std::get_if<double>(&cell)) return *number;
  return kNone;
}

// Returns the number at the beginning of a cell, because rates are swept as text such as "4 /s".
double leading_number(const Cell& cell) {
  if (const auto* const text = std::get_if<std::string>(&cell))
    return configs::parse_number(text->substr(0, text->find(' '))).value_or(kNone);
  return number_of(cell);
}

std::size_t numbers_of(const std::vector<PointResult>& points, std::size_t key) {
  std::set<double> numbers;
  for (const PointResult& point : points) {
    const double number = leading_number(point.swept[key]);
    if (std::isnan(number)) return 0;
    numbers.insert(number);
  }
  return numbers.size();
}

// Returns the key of the x axis: the load if it is swept, else the key with the most numbers. Each combination of the
// other keys' values becomes a curve.
std::optional<std::size_t> key_across(const std::vector<std::string>& keys, const std::vector<PointResult>& points) {
  std::optional<std::size_t> best;
  std::size_t most = 1;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const std::size_t numbers = numbers_of(points, k);
    if (numbers < 2) continue;
    if (is_load(keys[k])) return k;
    if (numbers > most) {
      most = numbers;
      best = k;
    }
  }
  return best;
}

double tokens_per_s(const PointResult& point) { return point.metrics ? point.metrics->output_tokens_per_s : kNone; }

Axis axis_across(const std::vector<std::string>& keys, const std::vector<PointResult>& points, std::size_t key) {
  if (is_load(keys[key]) && is_closed(points.front())) return {"output tokens/s", tokens_per_s};
  if (is_load(keys[key])) {
    const bool scaled = points.front().labels.load().quantity == load::LoadQuantity::rate_scale;
    return {scaled ? "load, times the recorded one" : "offered requests/s",
            [](const PointResult& point) { return point.labels.load_value; }};
  }
  return {keys[key].substr(keys[key].rfind('.') + 1),
          [key](const PointResult& point) { return leading_number(point.swept[key]); }};
}

// Returns the metrics for the y axes: those in seconds that the SLO limits, or the latency if there is none. With a
// growing queue there is no latency.
std::vector<Axis> axes_up(const std::vector<PointResult>& points) {
  std::vector<Axis> axes;
  const auto described =
      std::find_if(points.begin(), points.end(), [](const PointResult& p) { return !p.slo.empty(); });
  if (described != points.end()) {
    for (const SloFigure& figure : described->slo) {
      if (figure.unit != "s") continue;
      axes.push_back({slo_heading(figure) + ", ms", [name = figure.name](const PointResult& point) {
                        for (const SloFigure& f : point.slo) {
                          if (f.name == name) return 1e3 * f.value;
                        }
                        return kNone;
                      }});
    }
  }
  if (axes.empty()) {
    axes.push_back({"p90 latency, s", [](const PointResult& point) {
                      const bool known = point.metrics && !point.metrics->steady.grows;
                      return known ? point.metrics->latency.p90.value_or(kNone) : kNone;
                    }});
  }
  return axes;
}

std::string series_name(const std::vector<std::string>& keys, const PointResult& point, std::size_t across) {
  std::string name;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (k == across) continue;
    name += (name.empty() ? "" : ", ") + keys[k].substr(keys[k].rfind('.') + 1) + ' ' + plain_text(point.swept[k]);
  }
  return name.empty() ? point.labels.source : name;
}

// Curves of load and latency bend over decades; on a linear axis their beginnings would lie on top of each other.
Scale scale_of(const Chart& chart, double ChartPoint::*member) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      const double value = point.*member;
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  return low > 0 && high > kWide * low ? Scale::log : Scale::linear;
}

// Draws the SLO's limit as a line across the chart.
void add_limit(Chart& chart, const std::vector<PointResult>& points, const std::string& axis) {
  std::set<double> limits;
  for (const PointResult& point : points) {
    for (const SloFigure& f : point.slo) {
      if (slo_heading(f) + ", ms" == axis) limits.insert(1e3 * f.limit);
    }
  }
  // Points with different limits have no common line.
  if (limits.size() != 1) return;
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const ChartSeries& series : chart.series) {
    for (const ChartPoint& point : series.points) {
      if (!std::isfinite(point.x) || !std::isfinite(point.y)) continue;
      low = std::min(low, point.x);
      high = std::max(high, point.x);
    }
  }
  if (!(high > low)) return;
  const std::string text = reader_number(*limits.begin());
  chart.series.push_back({fmt::format("SLO: {} ms", text),
                          {{low, *limits.begin(), ""}, {high, *limits.begin(), ""}},
                          SeriesStyle::limit,
                          6});
}

// A sweep whose key `across` is the x axis; each combination of the other keys is a series.
struct Sweep {
  const std::vector<std::string>& keys;
  const std::vector<PointResult>& points;
  std::size_t across;
};

Chart chart_of(const Axis& x, const Axis& y, const Sweep& sweep) {
  const auto& [keys, points, across] = sweep;
  Chart chart;
  chart.x.text = x.text;
  chart.y.text = y.text;
  for (const PointResult& point : points) {
    const std::string name = series_name(keys, point, across);
    auto found =
        std::find_if(chart.series.begin(), chart.series.end(), [&](const ChartSeries& s) { return s.name == name; });
    if (found == chart.series.end()) {
      // More colours than these cannot be distinguished.
      if (chart.series.size() == kMaxSeries) {
        chart.note = fmt::format("The first {} series are shown; points.csv has all.", kMaxSeries);
        continue;
      }
      const std::size_t colour = chart.series.size();
      found = chart.series.insert(chart.series.end(), ChartSeries{name, {}, SeriesStyle::curve, colour});
    }
    found->points.push_back({x.value(point), y.value(point),
                             keys[across].substr(keys[across].rfind('.') + 1) + ' ' + plain_text(point.swept[across])});
  }
  return chart;
}

}  // namespace

std::vector<Chart> points_charts(const std::string& title, const std::vector<std::string>& swept_keys,
                                 const std::vector<PointResult>& points) {
  std::vector<Chart> charts;
  if (points.empty()) return charts;
  const std::optional<std::size_t> across = key_across(swept_keys, points);
  if (!across) return charts;
  const Axis x = axis_across(swept_keys, points, *across);
  std::vector<Axis> ups = axes_up(points);
  if (x.text != "output tokens/s") ups.push_back({"output tokens/s", tokens_per_s});
  for (const Axis& y : ups) {
    Chart chart = chart_of(x, y, {swept_keys, points, *across});
    chart.title = title;
    chart.subtitle = y.text + " over " + x.text;
    chart.x.scale = scale_of(chart, &ChartPoint::x);
    add_limit(chart, points, y.text);
    chart.y.scale = scale_of(chart, &ChartPoint::y);
    charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace plimsoll::study
