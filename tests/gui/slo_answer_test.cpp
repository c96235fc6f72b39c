// SPDX-License-Identifier: Apache-2.0
// The answer "within the SLO" must mean every limit of the study and the drawn one, judged as by `simulate`.
#include "gui/core/slo_answer.h"

#include "gui/core/answer_rows.h"
#include "gui/window/curve_words.h"
#include "gui/window/curves_view.h"
#include "gui/window/main_window.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SloAnswerTest : public BenchTest {
 protected:
  /// An open load on one A100 of a p4d; TTFT and ITL both grow with the rate.
  std::string study(const std::string& slo, const std::string& more = "") {
    return write("slo.yaml",
                 "study: slo\nmodel: llama-3.1-8b\nhardware: p4d.24xlarge\nengine: vllm-0.12\n"
                 "deployment: {tp: 1, replicas: 1}\n" +
                     more +
                     "workload:\n  load: {poisson: {rate: 1 /s}}\n"
                     "  lengths: {input: 512, output: 64}\n  requests: 300\n" +
                     (slo.empty() ? "" : "slo: " + slo + "\n") + "sweep: {workload.rate: [1 /s, 4 /s, 8 /s, 16 /s]}\n");
  }
  [[nodiscard]] DrawnLimit drawn() const {
    const ViewState& view = bench_.session().state().view;
    return {find_metric(view.y), view.limit, view.log_y};
  }
  [[nodiscard]] std::optional<SloAnswer> answer(BandSide side = BandSide::middle) const {
    return slo_answer(bench_.curves().curves().at(0), drawn(), side);
  }
  [[nodiscard]] std::string words() const { return utf8(limit_answer(bench_, drawn())); }
  double value(std::size_t point, const char* column) const {
    return *value_of(make_row(bench_.curves().results().at(point), 1), *find_metric(column));
  }
  Workbench bench_;
};

// The regression: p99 ITL alone is kept up to a high rate, and its line is the one that is drawn.
TEST_F(SloAnswerTest, ALimitThatIsNotDrawnCountsToo) {
  open(bench_, study("{p99_itl: 500 ms, p90_ttft: 1 ms}"));
  ASSERT_EQ(bench_.session().state().view.y, "itl_p99_s");
  EXPECT_THAT(words(), Not(HasSubstr("✓")));
  EXPECT_THAT(words(), HasSubstr("✗ never within: p90 TTFT "));
  EXPECT_THAT(words(), HasSubstr(" of at most 1 ms at "));
}

// For every limit between the simulated values, the load is between the last point that `simulate` judges as kept and
// the first that it judges as missed.
TEST_F(SloAnswerTest, AgreesWithTheVerdictOfTheStudysPoints) {
  open(bench_, study("{p99_itl: 500 ms, p90_ttft: 20 s}"));
  const double low = value(0, "ttft_p90_s"), high = value(3, "ttft_p90_s");
  ASSERT_LT(low, high) << "TTFT grows with the rate";
  for (const double part : {-0.1, 0.1, 0.5, 0.9, 1.1}) {
    const double limit = low + part * (high - low);
    open(bench_, study("{p99_itl: 500 ms, p90_ttft: " + std::to_string(limit) + " ms}"));
    double kept = 0, missed = 1e9;
    for (const study::PointResult& point : bench_.curves().results()) {
      double& load = point.missed_slo->empty() ? kept : missed;
      load =
          point.missed_slo->empty() ? std::max(load, point.labels.load_value) : std::min(load, point.labels.load_value);
    }
    const auto found = answer();
    ASSERT_TRUE(found);
    EXPECT_EQ(found->carried, kept > 0) << limit;
    if (!found->carried) continue;
    EXPECT_GE(found->labels.load_value, kept) << limit;
    EXPECT_LE(found->labels.load_value, missed) << limit;
    EXPECT_EQ(found->every, missed == 1e9) << limit;
    ASSERT_TRUE(found->binding);
    if (missed < 1e9) {
      EXPECT_EQ(utf8(found->binding->name), "p90 TTFT") << limit;
      EXPECT_THAT(words(), HasSubstr("limited by p90 TTFT"));
      EXPECT_THAT(words(), HasSubstr("no 90 % band for p90 TTFT")) << "its safe side is unknown, so the answer says so";
    }
  }
}

TEST_F(SloAnswerTest, TheDrawnLineReplacesTheStudysLimitOnItsMetric) {
  open(bench_, study("{p90_ttft: 1 ms}"));
  EXPECT_FALSE(answer()->carried);
  bench_.set_view({}, {}, [](ViewState& v) { v.limit = 1e6; });
  settle(bench_);
  ASSERT_TRUE(answer()->carried);
  EXPECT_EQ(limits_of(bench_.curves().curves()[0].points[0].row, drawn()).size(), 1U);
  // Another metric has no line yet, and the study's limit applies again.
  bench_.set_view({}, {}, [](ViewState& v) {
    v.y = "tpot_mean_s";
    v.limit = 0;
  });
  settle(bench_);
  EXPECT_FALSE(answer()->carried);
  EXPECT_THAT(words(), HasSubstr("✗ never within: p90 TTFT"));
}

TEST_F(SloAnswerTest, TheBandsUnfavourableSideIsReachedFirst) {
  open(bench_, study(""));
  const double low = value(0, "latency_per_token_p90_s"), high = value(3, "latency_per_token_p90_s");
  open(bench_, study("{p90_latency_per_token: " + std::to_string((low + high) / 2) + " ms}"));
  const auto middle = answer(), safe = answer(BandSide::unfavourable);
  ASSERT_TRUE(middle && middle->carried);
  ASSERT_TRUE(safe) << "this metric has a band";
  EXPECT_LT(safe->carried ? safe->labels.load_value : 0, middle->labels.load_value);
  EXPECT_THAT(words(), HasSubstr("90 % band"));
}

// As in a study's SLO, a request that is refused counts as infinitely late: refusing must not improve the answer.
TEST_F(SloAnswerTest, RejectedRequestsMissTheDrawnLimit) {
  open(bench_, study("", "scheduler: {max_concurrent: 2}\n"));
  const study::PointResult last = bench_.curves().results().back();
  ASSERT_GT(last.metrics->requests_rejected, 30) << "more than a tenth, so p90 is infinite";
  bench_.set_view({}, {}, [](ViewState& v) {
    v.y = "ttft_p90_s";
    v.limit = 1e6;
  });
  settle(bench_);
  ASSERT_TRUE(value_of(make_row(last, 1), *find_metric("ttft_p90_s"))) << "the requests that were served have a p90";
  EXPECT_FALSE(keeps_limits(make_row(last, 1), drawn()));
  EXPECT_FALSE(answer()->every);
}

TEST_F(SloAnswerTest, TheWindowNamesAllLimits) {
  MainWindow window(bench_);
  window.show();
  open(bench_, study("{p99_itl: 500 ms, p90_ttft: 1 ms}"));
  EXPECT_EQ(utf8(window.curves().card().limits()), "Within the SLO: p99 ITL ≤ 500 ms, p90 TTFT ≤ 1 ms");
  EXPECT_THAT(utf8(window.curves().card().headline()), StartsWith("✗ never within: p90 TTFT "));
}

class FailureTest : public SloAnswerTest {
 protected:
  FailureTest() : window_(bench_) { window_.show(); }
  const PlotContent& plot() { return window_.curves().plot().content(); }
  MainWindow window_;
};

TEST_F(FailureTest, PointsWithFailedRequestsAreMarkedAndExplained) {
  open(bench_, study("", "scheduler: {max_concurrent: 2}\n"));
  bool crossed = false;
  for (const PlotSeries& series : plot().series) {
    for (const PlotPoint& point : series.points) {
      if (point.look != PointLook::crossed) continue;
      crossed = true;
      EXPECT_THAT(utf8(point.tip), HasSubstr("of the requests rejected"));
    }
  }
  EXPECT_TRUE(crossed);
  EXPECT_THAT(utf8(window_.curves().notes()), HasSubstr("of the requests rejected"));
}

TEST_F(FailureTest, AnUnstablePointIsMarkedAtTheEdge) {
  const std::string file = write("unstable.yaml",
                                 "study: unstable\nmodel: llama-3.1-8b\nhardware: p4d.24xlarge\nengine: vllm-0.12\n"
                                 "deployment: {tp: 1, replicas: 1}\nscheduler: {max_running: 4}\n"
                                 "workload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 512, output: 256},"
                                 " requests: 1500}\nsweep: {workload.rate: [0.1 /s, 64 /s]}\n");
  open(bench_, file);
  ASSERT_TRUE(bench_.curves().results().back().metrics->steady.grows);
  ASSERT_EQ(plot().failures.size(), 1U);
  EXPECT_EQ(utf8(plot().failures[0].label), "✗ 64 requests/s: unstable");
  EXPECT_THAT(utf8(window_.curves().notes()), HasSubstr("64 requests/s: unstable: the backlog grows"));
  const AnswerRow row = answer_rows(bench_, drawn()).at(0);
  ASSERT_TRUE(row.answer && row.answer->carried);
  EXPECT_LT(row.answer->labels.load_value, 64) << "an unstable load has the most tokens/s, but is not carried";
  // With this load alone nothing can be drawn, and the plot says why.
  bench_.change_load(QStringLiteral("poisson"), QStringLiteral("64"));
  settle(bench_);
  bool any = false;
  for (const PlotSeries& series : plot().series) any = any || !series.points.empty();
  EXPECT_FALSE(any);
  EXPECT_THAT(utf8(plot().message), HasSubstr("unstable"));
  EXPECT_THAT(utf8(answer_words(answer_rows(bench_, drawn()).at(0))), HasSubstr("unstable at 64 requests/s"));
}

TEST(AnswerRowTest, ACertainAnswerComesBeforeACheaperOneThatIsNot) {
  const auto row = [](const char* name, double usd, sched::Steadiness steady) {
    AnswerRow out;
    out.drawn.name = qs(name);
    out.answer.emplace();
    out.answer->carried = true;
    out.answer->steady = steady;
    out.answer->usd_per_million = usd;
    return out;
  };
  const auto stable = sched::Steadiness::stable, unsure = sched::Steadiness::too_short;
  const std::vector<AnswerRow> rows = {row("dear", 3, stable), row("certain", 2, stable), row("unsure", 1, unsure)};
  EXPECT_EQ(utf8(best_row(rows)->drawn.name), "certain");
  ASSERT_NE(possibly_better_row(rows), nullptr);
  EXPECT_EQ(utf8(possibly_better_words(*possibly_better_row(rows))),
            "unsure may be cheaper: 1 USD/M tokens, but its run is too short to tell");
  const std::vector<AnswerRow> dearer = {row("certain", 1, stable), row("unsure", 2, unsure)};
  EXPECT_EQ(possibly_better_row(dearer), nullptr);
  const std::vector<AnswerRow> none_certain = {row("unsure", 2, unsure)};
  EXPECT_EQ(best_row(none_certain), none_certain.data());
  EXPECT_EQ(possibly_better_row(none_certain), nullptr);
}

TEST_F(FailureTest, CurvesOfAnInvalidScenarioAreGreyAndAnswerNothing) {
  open(bench_, study("{p90_ttft: 10 s}"));
  EXPECT_THAT(words(), HasSubstr("every load"));
  bench_.set_value(QStringLiteral("hardware"), QStringLiteral("no-such-instance"));
  settle(bench_);
  ASSERT_TRUE(bench_.failure());
  EXPECT_EQ(words(), "");
  ASSERT_FALSE(plot().series.empty());
  EXPECT_EQ(plot().series.back().line, LineLook::faded);
  EXPECT_FALSE(plot().series.back().points.empty()) << "the last valid curve stays";
  bench_.session().undo();
  settle(bench_);
  EXPECT_NE(plot().series.back().line, LineLook::faded);
}

}  // namespace
}  // namespace plimsoll::gui
