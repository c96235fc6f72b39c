// SPDX-License-Identifier: Apache-2.0
#include "study/output/chart.h"

#include <gmock/gmock.h>

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ReaderNumber, IsShortAndPlain) {
  EXPECT_EQ(reader_number(0), "0");
  EXPECT_EQ(reader_number(1234.5678), "1235");
  EXPECT_EQ(reader_number(0.00123456), "0.001235");
  EXPECT_EQ(reader_number(12), "12");
  EXPECT_EQ(reader_number(12345678), "12\u202f345\u202f678");
}

TEST(ChartAxis, LogTicksStandOnPowersAndTheirHalves) {
  const ChartAxis axis(Scale::log, {1, 100});
  EXPECT_LT(axis.fraction(1), 0.1);
  EXPECT_GT(axis.fraction(100), 0.9);
  EXPECT_NEAR(axis.fraction(10), 0.5, 1e-9);
  std::vector<std::string> labels;
  for (const Tick& tick : axis.ticks()) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  EXPECT_THAT(labels, ::testing::ElementsAre("1", "2", "5", "10", "20", "50", "100"));
}

TEST(ChartAxis, EmptyAndImpossibleValuesGiveAnAxisAllTheSame) {
  EXPECT_FALSE(ChartAxis(Scale::log, {}).ticks().empty());
  EXPECT_FALSE(ChartAxis(Scale::log, {0, -1}).shows(0));
  EXPECT_FALSE(ChartAxis(Scale::linear, {}).ticks().empty());
}

TEST(SvgChart, DrawsCurvesPointsTitlesAndLegend) {
  const Chart chart{.title = "A < B & \"C\"",
                    .subtitle = "subtitle",
                    .x = {"output tokens/s", Scale::log},
                    .y = {"latency, ms", Scale::log},
                    .series = {{"TP 1", {{10, 5, "c = 1"}, {20, 6, ""}}, SeriesStyle::curve, 0},
                               {"published", {{11, 5.5, ""}}, SeriesStyle::points, 0}},
                    .note = "note"};
  const std::string svg = svg_chart(chart);
  EXPECT_THAT(svg, HasSubstr("A &lt; B &amp; &quot;C&quot;"));
  EXPECT_THAT(svg, HasSubstr("output tokens/s"));
  EXPECT_THAT(svg, HasSubstr("<title>c = 1</title>"));
  EXPECT_THAT(svg, HasSubstr("published"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
}

}  // namespace
}  // namespace plimsoll::study
