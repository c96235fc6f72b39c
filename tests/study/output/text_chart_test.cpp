// SPDX-License-Identifier: Apache-2.0
// Charts as text, and which chart represents a result.
#include "study/output/chart.h"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <sstream>

#include "study/output/points_page.h"

namespace plimsoll::study {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Chart rising() {
  return {.title = "t",
          .subtitle = "",
          .x = {"load", Scale::linear},
          .y = {"latency", Scale::linear},
          .series = {{"tp 1", {{1, 1, ""}, {2, 2, ""}, {4, 4, ""}}, SeriesStyle::curve, 0}},
          .note = ""};
}

TEST(TextChart, DrawsPointsAxesAndLegend) {
  const std::string text = text_chart(rising(), {.width = 60, .height = 12, .colour = false});
  const std::vector<std::string> lines = lines_of(text);
  ASSERT_THAT(lines, SizeIs(12));
  EXPECT_EQ(lines.front(), "latency over load");
  EXPECT_EQ(lines.back(), "● tp 1");
  EXPECT_THAT(text, Not(HasSubstr("\033")));
  // Three points: the last is in the top row, and the one of the legend follows.
  std::size_t marks = 0;
  for (std::size_t at = text.find("●"); at != std::string::npos; at = text.find("●", at + 1)) ++marks;
  EXPECT_EQ(marks, 4U);
  EXPECT_THAT(lines[1], HasSubstr("●"));
}

TEST(TextChart, ColoursOnlyWhereAsked) {
  EXPECT_THAT(text_chart(rising(), {.width = 60, .height = 12, .colour = true}), HasSubstr("\033[34m"));
}

TEST(TextChart, WhatIsNotKnownIsAGap) {
  Chart chart = rising();
  for (ChartPoint& point : chart.series[0].points) point.y = std::numeric_limits<double>::infinity();
  EXPECT_EQ(text_chart(chart, {}), "");
}

RC_GTEST_PROP(TextChartProperty, NoLineIsWiderThanTheCanvas, ()) {
  Chart chart = rising();
  const auto series = *rc::gen::inRange(1, 9);
  for (int s = 1; s < series; ++s) {
    ChartSeries more{"deployment " + std::to_string(s),
                     {},
                     s % 3 == 0 ? SeriesStyle::limit : SeriesStyle::curve,
                     static_cast<std::size_t>(s)};
    const auto points = *rc::gen::inRange(1, 9);
    for (int p = 0; p < points; ++p)
      more.points.push_back({std::pow(10, *rc::gen::inRange(-6, 9)), std::pow(10, *rc::gen::inRange(-6, 9)), ""});
    chart.series.push_back(more);
  }
  if (*rc::gen::arbitrary<bool>()) chart.x.scale = chart.y.scale = Scale::log;
  const TextCanvas canvas{.width = *rc::gen::inRange(1, 200), .height = *rc::gen::inRange(1, 50), .colour = false};
  const auto lines = lines_of(text_chart(chart, canvas));
  for (const std::string& line : lines) {
    const auto cells = std::count_if(line.begin(), line.end(),
                                     [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
    RC_ASSERT(cells <= std::max(canvas.width, 40));
  }
  RC_ASSERT(lines.size() == static_cast<std::size_t>(std::max(canvas.height, 8)));
}

PointResult point(double load, std::int64_t tp, std::optional<double> p90, bool closed = false) {
  PointResult result;
  result.swept = {Cell(tp), Cell(load)};
  result.labels.load_value = load;
  result.labels.load_kind = closed ? "closed_loop" : "poisson";
  result.metrics.emplace();
  result.metrics->output_tokens_per_s = 100 * load;
  result.metrics->latency.p90 = p90;
  return result;
}

const std::vector<std::string> kKeys = {"deployment.tp", "workload.rate"};

TEST(PointsChart, OpenLoadsAreDrawnOverTheOfferedLoadAndClosedOnesOverTheThroughput) {
  const auto open = points_charts("t", kKeys, {point(1, 1, 2), point(2, 1, 3), point(1, 2, 1), point(2, 2, 1.5)});
  ASSERT_THAT(open, SizeIs(2));  // the latency, then the throughput
  EXPECT_EQ(open[0].x.text, "offered requests/s");
  EXPECT_EQ(open[0].y.text, "p90 latency, s");
  ASSERT_THAT(open[0].series, SizeIs(2));
  EXPECT_EQ(open[0].series[0].name, "tp 1");
  EXPECT_EQ(open[0].series[1].points[1].y, 1.5);
  const auto closed = points_charts("t", kKeys, {point(1, 1, 2, true), point(2, 1, 3, true)});
  ASSERT_THAT(closed, SizeIs(1));
  EXPECT_EQ(closed[0].x.text, "output tokens/s");
  EXPECT_EQ(closed[0].series[0].points[1].x, 200);
}

TEST(PointsChart, ShowsWhatTheSloLimitsWithItsLine) {
  std::vector<PointResult> points = {point(1, 1, 2), point(2, 1, 3)};
  for (PointResult& p : points) p.slo = {{"p99 tpot", "s", 0.05, 0.02 * p.labels.load_value, false}};
  const Chart chart = points_charts("t", kKeys, points).front();
  EXPECT_EQ(chart.y.text, "p99 TPOT, ms");
  EXPECT_DOUBLE_EQ(chart.series[0].points[1].y, 40);
  ASSERT_EQ(chart.series.back().style, SeriesStyle::limit);
  EXPECT_DOUBLE_EQ(chart.series.back().points[0].y, 50);
}

TEST(PointsChart, AGrowingQueueHasNoLatency) {
  std::vector<PointResult> points = {point(1, 1, 2), point(2, 1, 300)};
  points[1].metrics->steady = {.verdict = sched::Steadiness::unstable, .grows = true, .reason = "grows"};
  EXPECT_TRUE(std::isnan(points_charts("t", kKeys, points)[0].series[0].points[1].y));
}

TEST(PointsChart, IsNothingWithoutTwoNumbersToDrawOver) {
  EXPECT_THAT(points_charts("t", {}, {}), IsEmpty());
  EXPECT_THAT(points_charts("t", kKeys, {point(1, 1, 2)}), IsEmpty());
  PointResult a = point(1, 1, 2);
  a.swept = {Cell(std::string("fp16"))};
  PointResult b = a;
  b.swept = {Cell(std::string("fp8"))};
  EXPECT_THAT(points_charts("t", {"dtype"}, {a, b}), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::study
