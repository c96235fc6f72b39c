// SPDX-License-Identifier: Apache-2.0
// The bars of requests: what the pointer shows, and which request a click selects.
#include "gui/window/waterfall.h"

#include "gui/window/main_window.h"
#include "gui/window/timeline_page.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

sim::RequestRow request(std::uint64_t id, double arrival, double first, double end) {
  const auto nanos = [](double s) { return static_cast<Nanos>(s * 1e9); };
  sim::RequestRow row;
  row.id = id;
  row.replica = 0;
  row.arrival = row.dispatched = nanos(arrival);
  row.first_token = nanos(first);
  row.end = nanos(end);
  row.input = 100;
  row.generated = 20;
  return row;
}

TEST(WaterfallTest, APlaceBelongsToTheRequestOfItsRow) {
  Waterfall bars;
  bars.resize(600, 300);
  bars.show_requests({request(7, 0, 0.25, 2), request(8, 1, 1.5, 4)});
  EXPECT_FALSE(bars.request_at(QPointF(300, 2))) << "the legend";
  EXPECT_EQ(bars.request_at(QPointF(300, 80)), 0U);
  EXPECT_EQ(bars.request_at(QPointF(300, 280)), 1U);
  const std::string words = utf8(bars.words(1));
  EXPECT_THAT(words, HasSubstr("request 8, replica 0, sent at 1 s"));
  EXPECT_THAT(words, HasSubstr("queue + prefill 500 ms\n")) << "1 s to 1.5 s";
  EXPECT_THAT(words, HasSubstr("decode 2.5 s\nTTFT 500 ms, latency 3 s"));
}

TEST(WaterfallTest, AClickSelectsAndASecondOneDoesNot) {
  Waterfall bars;
  bars.resize(600, 300);
  bars.show_requests({request(7, 0, 0.25, 2), request(8, 1, 1.5, 4)});
  QTest::mouseClick(&bars, Qt::LeftButton, {}, QPoint(300, 280));
  EXPECT_EQ(bars.selected(), 1U);
  QTest::mouseClick(&bars, Qt::LeftButton, {}, QPoint(300, 280));
  EXPECT_FALSE(bars.selected());
  bars.select(5);
  EXPECT_FALSE(bars.selected()) << "there is no such request";
  bars.select(0);
  bars.show_requests({request(9, 0, 1, 3)});
  EXPECT_FALSE(bars.selected()) << "it was one of another run";
}

class TimelineSelectionTest : public BenchTest {};

// The strips below mark when the selected request arrived and ended.
TEST_F(TimelineSelectionTest, ASelectedRequestIsMarkedInTheStrips) {
  Workbench bench;
  MainWindow window(bench);
  window.resize(1100, 700);
  window.show();
  open(bench, kJumpStart);
  window.show_view(QStringLiteral("timeline"));
  settle(bench);
  ASSERT_TRUE(QTest::qWaitFor([&] { return bench.details() != nullptr; }, kPatienceMs));
  settle(bench);
  auto* bars = window.findChild<Waterfall*>();
  ASSERT_NE(bars, nullptr);
  ASSERT_FALSE(bars->requests().empty());
  bars->select(0);
  std::size_t marked = 0;
  for (const PlotView* strip : window.view(QStringLiteral("timeline"))->findChildren<PlotView*>())
    marked += strip->content().lines.size() == 2 ? 1U : 0U;
  EXPECT_EQ(marked, 3U) << "batch, KV blocks, queue";
}

}  // namespace
}  // namespace plimsoll::gui
