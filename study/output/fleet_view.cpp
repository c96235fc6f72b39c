// SPDX-License-Identifier: Apache-2.0
#include "study/output/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "study/output/chart.h"
#include "study/output/table_view.h"

namespace plimsoll::study {
namespace {

using sched::FleetRow;

constexpr double kHour = 3600;

struct StateColumn {
  const char* name;
  std::int32_t FleetRow::*count;
};
constexpr std::array<StateColumn, 4> kStates = {{{"serving", &FleetRow::serving},
                                                 {"starting", &FleetRow::starting},
                                                 {"draining", &FleetRow::draining},
                                                 {"failed", &FleetRow::failed}}};

double seconds(Nanos time) { return static_cast<double>(time) / 1e9; }

std::optional<double> usd_per_instance_hour(const PointResult& point) {
  if (!point.usd_per_hour) return {};
  return *point.usd_per_hour / point.instances;
}

/// Means over one time slice of the run.
struct Part {
  double begin_s = 0, end_s = 0;
  std::array<double, kStates.size()> replicas{};
  std::int32_t most_serving = 0, least_serving = 0;
  double instance_hours = 0;
};

std::vector<Part> parts_of(const std::vector<FleetRow>& rows, std::size_t count) {
  std::vector<Part> parts(count);
  const double end = seconds(rows.back().time), width = end / static_cast<double>(count);
  for (std::size_t p = 0; p < count; ++p) {
    parts[p].begin_s = width * static_cast<double>(p);
    parts[p].end_s = p + 1 == count ? end : width * static_cast<double>(p + 1);
    parts[p].least_serving = -1;
  }
  std::size_t p = 0;
  // A row holds until the next one. Its time is divided among the parts that it overlaps, in one pass even for
  // thousands of changes.
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const double from = seconds(rows[i].time), to = seconds(rows[i + 1].time);
    while (p + 1 < count && parts[p].end_s <= from) ++p;
    for (std::size_t q = p; q < count && parts[q].begin_s < to; ++q) {
      Part& part = parts[q];
      const double overlap = std::min(to, part.end_s) - std::max(from, part.begin_s);
      if (!(overlap > 0)) continue;
      const double share = overlap / (part.end_s - part.begin_s);
      for (std::size_t s = 0; s < kStates.size(); ++s) part.replicas[s] += share * rows[i].*kStates[s].count;
      part.most_serving = std::max(part.most_serving, rows[i].serving);
      part.least_serving = part.least_serving < 0 ? rows[i].serving : std::min(part.least_serving, rows[i].serving);
      part.instance_hours += overlap * rows[i].instances / kHour;
    }
  }
  return parts;
}

/// Cumulative instance hours at each row.
std::vector<double> hours_until(const std::vector<FleetRow>& rows) {
  std::vector<double> hours(rows.size(), 0);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    hours[i] = hours[i - 1] + rows[i - 1].instances * seconds(rows[i].time - rows[i - 1].time) / kHour;
  }
  return hours;
}

// Draws few changes as steps, and many as the means of equal time slices; at this resolution the curve looks the same.
std::vector<ChartPoint> state_curve(const std::vector<FleetRow>& rows, std::size_t state) {
  constexpr std::size_t kMaxSteps = 100, kParts = 200;
  std::vector<ChartPoint> curve;
  if (rows.size() > kMaxSteps) {
    for (const Part& part : parts_of(rows, kParts))
      curve.push_back({(part.begin_s + part.end_s) / 2, part.replicas[state], ""});
    return curve;
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) curve.push_back({seconds(rows[i].time), static_cast<double>(rows[i - 1].*kStates[state].count), ""});
    curve.push_back({seconds(rows[i].time), static_cast<double>(rows[i].*kStates[state].count), ""});
  }
  return curve;
}

std::string totals(const PointResult& point) {
  const double hours = hours_until(point.fleet).back();
  const auto price = usd_per_instance_hour(point);
  return fmt::format("{} instance hours{} in {} s", reader_number(hours),
                     price ? fmt::format(", {} USD", reader_number(hours * *price)) : "",
                     reader_number(seconds(point.fleet.back().time)));
}

}  // namespace

std::string fleet_csv(const PointResult& point) {
  std::string text =
      csv_header({"time_s", "starting", "serving", "draining", "failed", "instances", "instance_hours", "usd"});
  const std::vector<double> hours = hours_until(point.fleet);
  const auto price = usd_per_instance_hour(point);
  for (std::size_t i = 0; i < point.fleet.size(); ++i) {
    const FleetRow& row = point.fleet[i];
    const auto count = [](std::int32_t value) { return Cell(std::int64_t{value}); };
    text += csv_line({seconds(row.time), count(row.starting), count(row.serving), count(row.draining),
                      count(row.failed), count(row.instances), hours[i], price ? Cell(hours[i] * *price) : Cell()});
  }
  return text;
}

std::string fleet_svg(const std::string& title, const PointResult& point) {
  Chart chart{.title = title,
              .subtitle = "replicas over time",
              .x = {"s", Scale::linear},
              .y = {"replicas", Scale::linear},
              .series = {},
              .note = totals(point)};
  for (std::size_t s = 0; s < kStates.size(); ++s) {
    const auto counts = [&](const FleetRow& row) { return row.*kStates[s].count > 0; };
    if (s > 0 && std::none_of(point.fleet.begin(), point.fleet.end(), counts)) continue;
    chart.series.push_back(
        {.name = kStates[s].name, .points = state_curve(point.fleet, s), .style = SeriesStyle::curve, .colour = s});
  }
  return svg_chart(chart);
}

std::string fleet_cost_svg(const std::string& title, const PointResult& point) {
  const auto price = usd_per_instance_hour(point);
  Chart chart{.title = title,
              .subtitle = price ? "cost so far" : "instance hours so far",
              .x = {"s", Scale::linear},
              .y = {price ? "USD" : "instance hours", Scale::linear},
              .series = {},
              .note = totals(point)};
  ChartSeries series{.name = price ? "cost" : "instance hours", .points = {}, .style = SeriesStyle::curve, .colour = 0};
  constexpr std::size_t kParts = 100;
  double hours = 0;
  series.points.push_back({0, 0, ""});
  for (const Part& part : parts_of(point.fleet, kParts)) {
    hours += part.instance_hours;
    series.points.push_back({part.end_s, hours * price.value_or(1), ""});
  }
  chart.series.push_back(std::move(series));
  return svg_chart(chart);
}

std::string fleet_table(const PointResult& point) {
  constexpr std::size_t kParts = 12;
  const auto price = usd_per_instance_hour(point);
  TextTable table{.header = {{"from", "to", "serving", "serving", "starting", "draining", "failed", "instance", "cost"},
                             {"s", "s", "mean", "least–most", "mean", "mean", "mean", "hours", "USD"}},
                  .rows = {},
                  .left = 0};
  for (const Part& part : parts_of(point.fleet, kParts)) {
    std::vector<std::string> cells = {reader_number(part.begin_s), reader_number(part.end_s),
                                      reader_number(part.replicas[0], 3),
                                      fmt::format("{}–{}", std::max(0, part.least_serving), part.most_serving)};
    for (std::size_t s = 1; s < kStates.size(); ++s) cells.push_back(reader_number(part.replicas[s], 3));
    cells.push_back(reader_number(part.instance_hours));
    cells.push_back(price ? reader_number(part.instance_hours * *price) : "-");
    table.rows.push_back(std::move(cells));
  }
  return fmt::format("replicas over time: {}\n\n{}", totals(point), text_table(table));
}

}  // namespace plimsoll::study
