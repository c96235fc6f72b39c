// SPDX-License-Identifier: Apache-2.0
// Results of other tools and runs, shown together with the curves.
#include "gui/core/overlay.h"

#include <cmath>

#include <QDropEvent>
#include <QLabel>
#include <QMimeData>
#include <QUrl>

#include "gui/core/details.h"
#include "gui/window/curve_words.h"
#include "gui/window/curves_view.h"
#include "gui/window/main_window.h"
#include "gui/window/timeline_page.h"
#include "model/error.h"
#include "study/output/run_files.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class OverlayTest : public BenchTest {
 protected:
  OverlayTest() : window_(bench_) {
    window_.resize(1300, 850);
    window_.show();
  }
  void SetUp() override {
    open(bench_, kJumpStart);
    bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("4"));
    settle(bench_);
  }
  /// A result of `vllm bench serve` with 8 clients; `more` are additional members.
  std::string vllm(const std::string& model, int input, const std::string& more = {}) {
    return write("bench.json",
                 R"({"model_id": ")" + model +
                     R"(", "request_rate": "inf", "max_concurrency": 8, "completed": 10, "total_input_tokens": )" +
                     std::to_string(input * 10) +
                     R"(, "total_output_tokens": 2560, "output_throughput": 512, "duration": 5, "mean_tpot_ms": 13,
            "mean_ttft_ms": 60)" +
                     more + "}");
  }
  std::size_t on_chart(const QString& tool) const {
    std::size_t n = 0;
    for (const OverlayPoint& point : overlay_points(bench_.curves(), bench_.tables()))
      n += point.table->tool == tool ? 1 : 0;
    return n;
  }
  Workbench bench_;
  MainWindow window_;
};

TEST_F(OverlayTest, AnotherToolsResultFindsItsCurve) {
  window_.open_files({qs(vllm("meta-llama/Llama-2-7b-hf", 256))});
  settle(bench_);
  EXPECT_EQ(window_.problem(), QString());
  EXPECT_EQ(on_chart(QStringLiteral("vLLM bench")), 1U);
  bench_.set_view({}, {}, [](ViewState& v) { v.y = "tpot_mean_s"; });
  settle(bench_);
  // The study has a load of 8 clients, so the point has a residual.
  const auto all = residuals(bench_.curves(), overlay_points(bench_.curves(), bench_.tables()),
                             *find_metric("output_tokens_per_s"), *find_metric("tpot_mean_s"));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_DOUBLE_EQ(all[0].measured, 13);
}

// The band at 8 clients is about 15 to 22 ms.
TEST_F(OverlayTest, TheBandSaysWhetherAMeasurementAgrees) {
  const QString other = folder_.filePath(QStringLiteral("other.json"));
  ASSERT_TRUE(QFile::rename(qs(vllm("Llama-2-7b", 256, R"(, "mean_tpot_ms": 19)")), other));
  window_.open_files({other, qs(vllm("Llama-2-7b", 256))});
  bench_.set_view({}, {}, [](ViewState& v) { v.y = "tpot_mean_s"; });
  settle(bench_);
  std::vector<std::pair<long, bool>> found;  // measured milliseconds
  for (const Residual& one : residuals(bench_.curves(), overlay_points(bench_.curves(), bench_.tables()),
                                       *find_metric("output_tokens_per_s"), *find_metric("tpot_mean_s")))
    found.emplace_back(std::lround(one.measured), one.in_band.value());
  EXPECT_THAT(found, ::testing::UnorderedElementsAre(std::pair(13L, false), std::pair(19L, true)));
  EXPECT_THAT(utf8(window_.curves().picture().text.join(QChar(u'\n'))),
              ::testing::HasSubstr("n = 2, 1 of 2 in the 90 % band"));
}

TEST_F(OverlayTest, WhatFitsNoCurveSaysWhy) {
  window_.open_files({qs(vllm("mistralai/Mistral-7B-v0.1", 256))});
  settle(bench_);
  EXPECT_EQ(on_chart(QStringLiteral("vLLM bench")), 0U);
  EXPECT_TRUE(window_.curves().notes().contains(
      QStringLiteral("1 of 1 points belong to no curve here: it states model mistralai/Mistral-7B-v0.1")))
      << utf8(window_.curves().notes());
  window_.open_files({qs(vllm("Llama-2-7b", 999))});
  bench_.session().edit({}, {}, [](SessionState& s) { s.measured = {s.measured.back()}; });
  EXPECT_THROW(static_cast<void>(read_overlay(write("empty.json", "{}"))), InputError);
}

TEST_F(OverlayTest, AResultWithoutATpDegreeIsNobodysWhereTpIsSwept) {
  bench_.set_value(QStringLiteral("deployment.tp"), QString());
  settle(bench_);
  window_.open_files({qs(vllm("llama-2-7b", 256))});
  settle(bench_);
  EXPECT_EQ(on_chart(QStringLiteral("vLLM bench")), 0U);
  EXPECT_TRUE(window_.curves().notes().contains(QStringLiteral("fit several curves")))
      << utf8(window_.curves().notes());
  window_.open_files({qs(vllm("llama-2-7b", 256, R"(, "tensor_parallel_size": 2)"))});
  bench_.session().edit({}, {}, [](SessionState& s) { s.measured.push_back(s.measured.back()); });  // read again
  settle(bench_);
  EXPECT_GE(on_chart(QStringLiteral("vLLM bench")), 1U);
}

TEST_F(OverlayTest, MissingFieldsAreSaidInTheWindow) {
  const auto problem = [&](const char* text) {
    window_.report({});
    window_.open_files({qs(write("broken.json", text))});
    return utf8(window_.problem());
  };
  EXPECT_THAT(problem(R"({"ttfts": [1, 2], "itls": [[1]], "output_lens": [2, 2]})"),
              ::testing::HasSubstr("found 2 ttfts, 1 itls and 2 output_lens"));
  EXPECT_THAT(problem(R"({"mean_ttft_ms": "soon"})"), ::testing::HasSubstr("mean_ttft_ms"));
  EXPECT_THAT(problem(R"({"metadata": {"guidellm_version": "1"}, "benchmarks": [{"metrics": {}}]})"),
              ::testing::HasSubstr("holds neither a throughput nor a mean latency"));
  EXPECT_THAT(problem(R"({"a": 1})"), ::testing::HasSubstr("neither a model's config.json nor a result"));
  EXPECT_THAT(problem(R"({"output_throughput": 1)"), ::testing::HasSubstr("is not valid JSON here"));
  EXPECT_EQ(bench_.session().state().measured.size(), 0U);
}

// Whatever is missing in a result or a table is reported or irrelevant; it never invalidates the rest.
TEST_F(OverlayTest, EachFieldMayBeMissing) {
  const std::vector<std::string> fields = {R"("model_id": "llama-2-7b")",   R"("request_rate": "inf")",
                                           R"("max_concurrency": 8)",       R"("completed": 10)",
                                           R"("total_input_tokens": 2560)", R"("total_output_tokens": 2560)",
                                           R"("output_throughput": 512)",   R"("duration": 5)",
                                           R"("mean_tpot_ms": 13)",         R"("mean_ttft_ms": 60)"};
  const std::vector<std::string> columns = {"model",
                                            "hardware",
                                            "engine",
                                            "tp",
                                            "replicas",
                                            "input_tokens",
                                            "output_tokens",
                                            "load_kind",
                                            "load_value",
                                            "output_tokens_per_s",
                                            "latency_per_token_p90_s"};
  const std::vector<std::string> cells = {"llama-2-7b", "ml.p4d.24xlarge", "tgi-1.1", "4",    "1",    "256",
                                          "256",        "jumpstart",       "64",      "1900", "0.035"};
  const auto without = [](const std::vector<std::string>& all, std::size_t left_out) {
    std::string text;
    for (std::size_t i = 0; i < all.size(); ++i) text += i == left_out ? "" : (text.empty() ? "" : ",") + all[i];
    return text;
  };
  const auto try_file = [&](const std::string& name, const std::string& text) {
    window_.open_files({qs(write(name, text))});
    settle(bench_);
    EXPECT_FALSE(bench_.failure());
    EXPECT_EQ(bench_.curves().results().size(), 10U) << name;
    return window_.problem().isEmpty();
  };
  for (std::size_t i = 0; i < fields.size(); ++i)
    try_file("result-" + std::to_string(i) + ".json", "{" + without(fields, i) + "}");
  for (std::size_t i = 0; i < columns.size(); ++i)
    try_file("table-" + std::to_string(i) + ".csv", without(columns, i) + "\n" + without(cells, i) + "\n");
  EXPECT_TRUE(try_file("whole.csv", without(columns, columns.size()) + "\n" + without(cells, columns.size()) + "\n"))
      << utf8(window_.problem());
  EXPECT_FALSE(try_file("nothing.csv", "model,\n"));
  for (View* view : window_.views()) {
    window_.show_view(view->id());
    settle(bench_);
  }
}

TEST_F(OverlayTest, EveryKindOfFileCanBeDropped) {
  bench_.session().set_saved();  // so that closing does not ask
  const QString trace = qs(write("trace.csv", "arrival_s,input_tokens,output_tokens\n0,100,20\n1,50,30\n2.5,80,10\n"));
  const QString config = qs(
      write("config.json",
            R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 2048,
    "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32, "num_key_value_heads": 4,
    "max_position_embeddings": 4096})"));
  QMimeData data;
  data.setUrls({QUrl::fromLocalFile(qs(kJumpStart)), QUrl::fromLocalFile(qs(vllm("llama-2-7b", 256))),
                QUrl::fromLocalFile(trace), QUrl::fromLocalFile(config)});
  QDragEnterEvent enter(QPoint(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&window_, &enter);
  QDropEvent drop(QPointF(50, 50), Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
  QCoreApplication::sendEvent(&window_, &drop);
  EXPECT_EQ(window_.problem(), QString());
  settle(bench_);
  EXPECT_FALSE(bench_.failure()) << utf8(bench_.failure()->text);
  EXPECT_EQ(bench_.session().state().measured.size(), 1U);
  EXPECT_EQ(load_field(bench_.session().scenario()).kind, QStringLiteral("trace"));
  EXPECT_EQ(field_value(bench_.session().scenario(), "model").text, config);
  const auto results = bench_.curves().results();
  ASSERT_FALSE(results.empty());
  EXPECT_EQ(results.front().labels.load_kind, "trace");
}

// A run's files provide the measured half of a timeline. Here they are written from a simulated run and read back.
TEST_F(OverlayTest, ARunsFilesGiveTheMeasuredTimeline) {
  window_.show_view(QStringLiteral("timeline"));
  settle(bench_);
  const PointDetails* details = bench_.details();
  ASSERT_NE(details, nullptr);
  EXPECT_FALSE(details->measured);
  std::int64_t steps = 0;
  for (const sim::StepRow& row : details->steps) steps += row.steps;
  ASSERT_GT(steps, std::ssize(details->steps)) << "rows stand for runs of equal steps";
  bool said = false;
  for (const QLabel* label : window_.current_view()->findChildren<QLabel*>())
    said = said || label->text().contains(QStringLiteral(" %1 steps").arg(reader_text(static_cast<double>(steps), 6)));
  EXPECT_TRUE(said);
  const LanePoint* point = bench_.curves().find(0, details->load);
  ASSERT_NE(point, nullptr);
  std::vector<sim::RequestRow> slower = details->requests;
  for (sim::RequestRow& row : slower) row.end += 1'000'000'000;  // a second later
  write("requests-3.csv", study::requests_csv(slower));
  write("timeline-3.json", study::timeline_json(details->steps, "run"));
  PointRow row = point->row;
  row.result.index = 3;
  bench_.session().set_run({QStringLiteral("live"), {}, {row}, utf8(folder_.path())});
  window_.show_view(QStringLiteral("timeline"));
  settle(bench_);
  details = bench_.details();
  ASSERT_NE(details, nullptr);
  ASSERT_TRUE(details->measured) << utf8(details->measured_from);
  ASSERT_EQ(details->measured->requests.size(), details->requests.size());
  ASSERT_EQ(details->measured->steps.size(), details->steps.size());
  for (std::size_t i = 0; i < details->steps.size(); ++i) {
    EXPECT_EQ(details->measured->steps[i].kv_blocks, details->steps[i].kv_blocks);
    EXPECT_EQ(details->measured->steps[i].queued, details->steps[i].queued);
    EXPECT_EQ(details->measured->steps[i].decode_rows, details->steps[i].decode_rows);
  }
  for (const RequestDifference& d : request_differences(*details)) EXPECT_NEAR(d.latency_s, 1, 1e-6);
  auto* page = qobject_cast<TimelinePage*>(window_.view(QStringLiteral("timeline")));
  page->show_side(TimelinePage::Shown::difference);
  EXPECT_EQ(page->table().rows.size(), request_differences(*details).size());
  page->show_side(TimelinePage::Shown::measured);
  EXPECT_EQ(page->table().rows.size(), slower.size());
}

TEST_F(OverlayTest, OnlyWhatIsExtrapolatedIsHatched) {
  const auto hatched = [&] {
    std::size_t n = 0;
    const CurveContent shown = curve_content(bench_, window_.curves().choice());
    for (const PlotSeries& series : shown.content.series)
      n += static_cast<std::size_t>(
          std::count_if(series.points.begin(), series.points.end(), [](const PlotPoint& p) { return p.doubtful; }));
    return n;
  };
  std::vector<LanePoint> points = bench_.curves().curves()[0].points;
  ASSERT_GT(points.size(), 5U);
  const auto show = [&](std::size_t calibrated) {
    for (std::size_t i = 0; i < points.size(); ++i)
      points[i].row.result.extrapolates = i < calibrated ? "" : "batch beyond what was measured (details)";
    const CurveOutline outline = bench_.curves().outline();
    bench_.curves().begin(calibrated + 1000, outline);
    bench_.curves().add(calibrated + 1000, points);
    bench_.curves().complete(calibrated + 1000);
  };
  show(5);
  EXPECT_EQ(hatched(), points.size() - 5);
  EXPECT_EQ(validity_text(bench_), QStringLiteral("⚠ Hatched points are extrapolated: batch beyond what was measured"));
  show(0);
  EXPECT_EQ(hatched(), 0U) << "where all are, hatching would say nothing";
  EXPECT_TRUE(validity_text(bench_).startsWith(QStringLiteral("⚠ All points are estimates")))
      << utf8(validity_text(bench_));
  show(points.size());
  EXPECT_EQ(validity_text(bench_), QString());
}

TEST(RunFilesTest, WhatIsWrongIsNamed) {
  const auto problem = [](const char* text) -> std::string {
    try {
      static_cast<void>(parse_requests(text, "r.csv"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(problem("id,arrival_s\n"), ::testing::HasSubstr("r.csv:1: column 'end_s' is missing"));
  EXPECT_THAT(problem("id,arrival_s,end_s,generated_tokens\n1,0\n"),
              ::testing::HasSubstr("r.csv:2: found 2 fields, expected 4"));
  EXPECT_THAT(problem("id,arrival_s,end_s,generated_tokens\n1,x,2,3\n"), ::testing::HasSubstr("arrival_s: found 'x'"));
  EXPECT_THAT(problem("id,arrival_s,end_s,generated_tokens\n"), ::testing::HasSubstr("holds no request"));
  EXPECT_THROW(static_cast<void>(parse_timeline("nonsense", "t.json")), InputError);
}

TEST(StepValuesTest, TheLastValueHoldsUntilItsStepEnds) {
  std::vector<sim::StepRow> steps(3);
  steps[0] = {.replica = 0, .start = 0, .end = 2'000'000'000, .decode_rows = 4};
  steps[1] = {.replica = 1, .start = 0, .end = 9'000'000'000, .decode_rows = 7};
  steps[2] = {
      .replica = 0, .start = 2'000'000'000, .end = 5'000'000'000, .decode_rows = 3};  // several steps in one row
  const auto out =
      step_values(steps, 0, [](const sim::StepRow& step) { return static_cast<double>(step.decode_rows); });
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[1].value, 3);
  EXPECT_DOUBLE_EQ(out[2].at_s, 5) << "of this replica, not of the other one";
  EXPECT_EQ(out[2].value, 0) << "nothing runs any more";
  EXPECT_TRUE(step_values(steps, 2, [](const sim::StepRow&) { return 1.0; }).empty());
}

TEST(StepDifferenceTest, ChangesWhereEitherChanges) {
  const auto out = step_difference({{0, 1}, {2, 5}}, {{1, 3}, {2, 4}});
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[0].value, 1);   // 1 - nothing yet
  EXPECT_EQ(out[1].value, -2);  // 1 - 3
  EXPECT_EQ(out[2].value, 1);   // 5 - 4
}

}  // namespace
}  // namespace plimsoll::gui
