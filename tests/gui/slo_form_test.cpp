// SPDX-License-Identifier: Apache-2.0
// The SLO table of the form. It, the line of the curves, the planner and the saved study have the same limits.
#include "gui/core/slo_form.h"

#include <QComboBox>
#include <QLabel>
#include <QLineEdit>
#include <QToolButton>
#include <algorithm>

#include "gui/core/plan_question.h"
#include "gui/window/curves_view.h"
#include "gui/window/main_window.h"
#include "gui/window/slo_panel.h"
#include "model/error.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

SessionState session_with(const char* slo) {
  SessionState state = default_session();
  if (*slo != '\0') set_edit(state.scenarios[0], "slo", slo);
  return state;
}

std::string slo_of(const SessionState& state) { return utf8(field_value(state.scenarios[0], "slo").text); }

// Every metric on the vertical axis that a study can limit has a key whose column is that metric.
TEST(SloFormTest, KeysAndColumnsAgree) {
  std::size_t limited = 0;
  for (const Metric& metric : metrics()) {
    const std::string key = slo_key(metric);
    if (key.empty()) continue;
    ++limited;
    SessionState state = default_session();
    state.view.y = metric.id;
    state.view.limit = 7;
    const auto rows = slo_rows(state.scenarios[0], state.view);
    ASSERT_EQ(rows.size(), 1U) << metric.id;
    EXPECT_EQ(rows[0].key, key);
    set_slo_rows(state, rows);
    EXPECT_DOUBLE_EQ(state.view.limit, 7) << metric.id << ": the line stays where it is";
    EXPECT_EQ(slo_rows(state.scenarios[0], state.view), rows);
  }
  EXPECT_GE(limited, 15U);
}

TEST(SloFormTest, TheLineIsTheRowOfItsMetric) {
  SessionState state = session_with("{p90_latency_per_token: 50 ms, p90_ttft: 2 s}");
  state.view.limit = 50;
  EXPECT_EQ(slo_rows(state.scenarios[0], state.view)[0].limit, "50 ms") << "as it is written";
  move_slo_line(state, 40);
  EXPECT_EQ(slo_of(state), "{p90_latency_per_token: 40 ms, p90_ttft: 2 s}") << "the saved study has the limit too";
  move_slo_line(state, 0);
  EXPECT_EQ(slo_of(state), "{p90_ttft: 2 s}");
  move_slo_line(state, 30);
  EXPECT_EQ(slo_of(state), "{p90_ttft: 2 s}") << "a line alone is a limit of the session";
  EXPECT_EQ(slo_rows(state.scenarios[0], state.view).size(), 2U);
}

TEST(SloFormTest, AnotherMetricKeepsTheLimit) {
  SessionState state = session_with("");
  state.view.limit = 50;
  choose_y(state, "ttft_p90_s");
  EXPECT_EQ(slo_of(state), "{p90_latency_per_token: 50 ms}");
  EXPECT_EQ(state.view.limit, 0);
  choose_y(state, "latency_per_token_p90_s");
  EXPECT_DOUBLE_EQ(state.view.limit, 50) << "and back: the line is there again";
}

TEST(SloFormTest, BadLimitsChangeNothing) {
  const SessionState before = session_with("{p90_ttft: 2 s}");
  for (const auto& [key, limit] : {std::pair("p90_ttft", "x"), std::pair("p90_ttft", "-1 s"),
                                   std::pair("p0_ttft", "1 s"), std::pair("max_timeout_rate", "2")}) {
    SessionState state = before;
    EXPECT_THROW(set_slo_rows(state, {{key, limit}}), InputError) << key << " " << limit;
    EXPECT_EQ(slo_of(state), slo_of(before));
  }
  SessionState state = before;
  EXPECT_THROW(set_slo_rows(state, {{"p90_ttft", "1 s"}, {"p90_ttft", "2 s"}}), InputError);
  set_slo_rows(state, {{"p90_ttft", "250"}});
  EXPECT_EQ(slo_of(state), "{p90_ttft: 250 ms}") << "a bare number has the unit of its metric";
  set_slo_rows(state, {});
  EXPECT_EQ(slo_of(state), "") << "the file states none";
}

class SloPanelTest : public BenchTest {
 protected:
  SloPanelTest() : window_(bench_) {
    window_.resize(1300, 850);
    window_.show();
    open(bench_, write("study.yaml",
                       "study: slo\nmodel: llama-3.1-8b\nhardware: p4d.24xlarge\nengine: vllm-0.12\n"
                       "deployment: {tp: 1, replicas: 1}\nworkload:\n  load: {poisson: {rate: 1 /s}}\n"
                       "  lengths: {input: 512, output: 64}\n  requests: 300\n"
                       "slo: {p99_itl: 500 ms, p90_ttft: 20 s}\n"
                       "sweep: {workload.rate: [1 /s, 4 /s, 8 /s, 16 /s]}\n"));
    panel_ = window_.findChild<SloPanel*>();
  }
  void type(QLineEdit& line, const char* text) {
    line.setFocus();
    line.selectAll();
    QTest::keyClicks(&line, qs(text));
    QTest::keyClick(&line, Qt::Key_Return);
    settle(bench_);
  }
  Workbench bench_;
  MainWindow window_;
  SloPanel* panel_ = nullptr;
};

// Typing a limit into the second row changes the verdict of the curves, whose line is on the first one's metric.
TEST_F(SloPanelTest, ALimitOfTheTableBinds) {
  ASSERT_NE(panel_, nullptr);
  ASSERT_EQ(panel_->row_count(), 2U);
  EXPECT_EQ(panel_->limit_line(1).text(), QStringLiteral("20 s"));
  EXPECT_THAT(utf8(panel_->standing_label(1).text()), StartsWith("✓ "));
  type(panel_->limit_line(1), "1 ms");
  EXPECT_THAT(utf8(field_value(bench_.session().scenario(), "slo").text), HasSubstr("p90_ttft: 1 ms"));
  EXPECT_THAT(utf8(panel_->standing_label(1).text()), StartsWith("✗ "));
  EXPECT_THAT(utf8(panel_->standing_label(0).text()), StartsWith("✓ "));
  EXPECT_EQ(plan_question(bench_.session().scenario(), bench_.session().state().view).slo,
            "{p99_itl: 500 ms, p90_ttft: 1 ms}");
}

TEST_F(SloPanelTest, RowsAreAddedAndRemoved) {
  panel_->add_row();
  settle(bench_);
  ASSERT_EQ(panel_->row_count(), 3U);
  EXPECT_FALSE(bench_.failure());
  panel_->remove_button(0).click();
  settle(bench_);
  ASSERT_EQ(panel_->row_count(), 2U);
  EXPECT_EQ(bench_.session().state().view.limit, 0) << "its line is gone with it";
  bench_.session().undo();
  EXPECT_EQ(panel_->row_count(), 3U);
  EXPECT_EQ(bench_.session().state().view.limit, 500);
}

TEST_F(SloPanelTest, AnInvalidLimitIsRefusedBesideTheTable) {
  type(panel_->limit_line(1), "soon");
  EXPECT_THAT(utf8(panel_->notes()), HasSubstr("soon"));
  EXPECT_THAT(utf8(field_value(bench_.session().scenario(), "slo").text), HasSubstr("p90_ttft: 20 s"));
}

// With a margin of 20 % no load can be carried that is not carried without one, and a limit that is met by less than
// 20 % ends the range.
TEST_F(SloPanelTest, AMarginNeverCarriesMore) {
  const double high = *value_of(make_row(bench_.curves().results().at(3), 1), *find_metric("ttft_p90_s"));
  type(panel_->limit_line(1), (std::to_string(high * 1.1) + " ms").c_str());
  const Curve& curve = bench_.curves().curves().at(0);
  DrawnLimit drawn = drawn_limit(bench_.session().state().view);
  const auto all = slo_answer(curve, drawn);
  ASSERT_TRUE(all && all->every);
  const int index = panel_->margin_box().findData(0.2);
  panel_->margin_box().setCurrentIndex(index);
  Q_EMIT panel_->margin_box().activated(index);
  settle(bench_);
  drawn = drawn_limit(bench_.session().state().view);
  EXPECT_EQ(drawn.margin, 0.2);
  const auto less = slo_answer(bench_.curves().curves().at(0), drawn);
  ASSERT_TRUE(less);
  EXPECT_FALSE(less->every);
  EXPECT_LT(less->labels.load_value, all->labels.load_value);
  EXPECT_EQ(utf8(less->binding->name), "p90 TTFT");
  EXPECT_NEAR(less->binding->limit, 0.8 * high * 1.1 / 1000, 1e-6);
}

// A limit that is on neither axis is marked where the curve leaves it; the line's own is not marked twice.
TEST_F(SloPanelTest, EveryLimitHasALineOrAMark) {
  const auto value = [&](std::size_t i) {
    return *value_of(make_row(bench_.curves().results().at(i), 1), *find_metric("ttft_p90_s"));
  };
  type(panel_->limit_line(1), (std::to_string((value(0) + value(3)) / 2) + " ms").c_str());
  const PlotContent& content = window_.curves().plot().content();
  const auto marked = std::count_if(content.marks.begin(), content.marks.end(),
                                    [](const PlotMark& m) { return m.look == MarkLook::limit; });
  ASSERT_EQ(marked, 1);
  EXPECT_EQ(content.lines.size(), 1U) << "p99 ITL, on the vertical axis";
  const auto mark = std::find_if(content.marks.begin(), content.marks.end(),
                                 [](const PlotMark& m) { return m.look == MarkLook::limit; });
  EXPECT_THAT(utf8(mark->label), StartsWith("p90 TTFT ≤ "));
}

TEST(SloFormTest, TheMarginIsSaved) {
  SessionState state = default_session();
  state.view.margin = 0.1;
  state.view.safe = true;
  const SessionState again = parse_session(session_text(state), "s");
  EXPECT_EQ(again.view, state.view);
}

}  // namespace
}  // namespace plimsoll::gui
