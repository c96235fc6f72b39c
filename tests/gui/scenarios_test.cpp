// SPDX-License-Identifier: Apache-2.0
// Any number of scenarios: each is drawn, answered and compared as if it were alone.
#include <QApplication>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QLayout>
#include <QLineEdit>
#include <QListWidget>
#include <QTableWidget>
#include <QToolButton>
#include <cmath>
#include <set>
#include <thread>

#include "gui/window/answer_card.h"
#include "gui/window/curve_words.h"
#include "gui/window/curves_view.h"
#include "gui/window/header_bar.h"
#include "gui/window/main_window.h"
#include "gui/window/scenario_dock.h"
#include "model/error.h"
#include "study/run/run_study.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

int rows_of(const QWidget& bar, int width) {
  const int one = bar.layout()->itemAt(0)->sizeHint().height();
  return static_cast<int>(std::lround(static_cast<double>(bar.layout()->heightForWidth(width)) / one));
}

class ScenariosTest : public BenchTest {
 protected:
  ScenariosTest() : window_(bench_) {
    window_.resize(1400, 900);
    window_.show();
    QApplication::setActiveWindow(&window_);
  }
  std::string study(const std::string& name, const std::string& hardware, int tp, const std::string& more = "") {
    return write(name + ".yaml", "study: " + name + "\nmodel: llama-3.1-8b\nhardware: " + hardware +
                                     "\nengine: vllm-0.12\ndeployment: {tp: " + std::to_string(tp) +
                                     ", replicas: 1}\n" + more +
                                     "workload:\n  load: {closed_loop: {concurrency: 1}}\n"
                                     "  lengths: {input: 128, output: 32}\n  requests: 100\n"
                                     "sweep: {workload.concurrency: [1, 4, 16, 64]}\n");
  }
  void open_three() {
    window_.open_files({qs(study("small", "g5.12xlarge", 1)), qs(study("large", "p5.48xlarge", 1)),
                        qs(study("split", "p4d.24xlarge", 4))});
    settle(bench_);
  }
  [[nodiscard]] const SessionState& state() const { return bench_.session().state(); }
  [[nodiscard]] std::vector<AnswerRow> rows() const { return answer_rows(bench_, drawn_limit(state().view)); }
  Workbench bench_;
  MainWindow window_;
};

TEST_F(ScenariosTest, OpeningSeveralStudiesDrawsThemAll) {
  open_three();
  ASSERT_EQ(state().scenarios.size(), 3U);
  std::set<QString> names;
  std::set<std::size_t> colours;
  for (const PlotSeries& series : window_.curves().plot().content().series) {
    EXPECT_EQ(series.points.size() >= 4, true) << utf8(series.name);
    EXPECT_EQ(series.label, series.name) << "several curves are named at their ends";
    names.insert(series.name);
    colours.insert(series.colour % 8);
  }
  EXPECT_EQ(names, (std::set<QString>{QStringLiteral("small"), QStringLiteral("large"), QStringLiteral("split")}));
  EXPECT_EQ(colours.size(), 3U);
}

// Every drawn figure is that of `simulate` with the scenario's study, whether or not it is the edited one.
TEST_F(ScenariosTest, EachScenarioHasTheFiguresOfItsOwnStudy) {
  open_three();
  for (std::size_t s = 0; s < 3; ++s) {
    const study::Study alone = make_study(state().scenarios[s], bench_.catalogue());
    study::RunSettings settings;
    settings.bands = true;
    EXPECT_EQ(study::points_csv(alone.swept_keys(), study::run_study(alone, settings).points),
              study::points_csv(alone.swept_keys(), bench_.curves_of(s)->results()))
        << utf8(state().scenarios[s].name);
  }
}

TEST_F(ScenariosTest, TheAnswerDoesNotDependOnWhichScenarioIsEdited) {
  open_three();
  bench_.set_view({}, {}, [](ViewState& v) { v.limit = 20; });
  settle(bench_);
  const std::string first = utf8(limit_answer(bench_, drawn_limit(state().view)));
  for (const std::size_t s : {2U, 0U, 1U}) {
    bench_.choose_scenario(s);
    settle(bench_);
    EXPECT_EQ(utf8(limit_answer(bench_, drawn_limit(state().view))), first);
  }
}

// A safety margin tightens every scenario's limits, and the answers state it.
TEST_F(ScenariosTest, TheMarginAppliesToEveryScenario) {
  open_three();
  bench_.set_view({}, {}, [](ViewState& v) { v.limit = 20; });
  settle(bench_);
  const auto all = rows();
  bench_.set_view({}, {}, [](ViewState& v) { v.margin = 0.2; });
  settle(bench_);
  const auto less = rows();
  bench_.set_view({}, {}, [](ViewState& v) {
    v.margin = 0;
    v.safe = true;
  });
  settle(bench_);
  const auto safe = rows();
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(all[i].answer && less[i].answer && safe[i].answer) << i;
    EXPECT_NEAR(less[i].answer->binding->limit, 0.8 * 0.02, 1e-9) << "20 ms less 20 %";
    for (const AnswerRow* row : {&less[i], &safe[i]}) {
      if (!row->answer->carried) continue;
      EXPECT_LE(row->answer->labels.load_value, all[i].answer->labels.load_value) << i;
    }
    if (safe[i].answer->carried) {
      EXPECT_THAT(utf8(safe[i].margin), HasSubstr("90 % band"));
    }
  }
  EXPECT_THAT(utf8(window_.curves().card().limits()), HasSubstr("by the whole 90 % band"));
  bench_.session().undo();
  EXPECT_THAT(utf8(limits_text(bench_, drawn_limit(state().view))), HasSubstr("16 ms (less a margin of 20 %)"));
}

// Limits on neither axis are marked on the curve of each scenario, in the middle of its own range.
TEST_F(ScenariosTest, EachCurveIsMarkedWhereItLeavesItsOwnLimits) {
  open_three();
  const Metric& ttft = *find_metric("ttft_p90_s");
  std::vector<double> limits;
  for (std::size_t s = 0; s < 3; ++s) {
    const auto results = bench_.curves_of(s)->results();
    limits.push_back((*value_of(make_row(results.front(), 1), ttft) + *value_of(make_row(results.back(), 1), ttft)) /
                     2);
  }
  bench_.session().edit({}, {}, [&](SessionState& now) {
    for (std::size_t s = 0; s < 3; ++s)
      set_edit(now.scenarios[s], "slo", "{p90_ttft: " + std::to_string(limits[s]) + " ms}");
  });
  settle(bench_);
  std::set<std::size_t> colours;
  for (const PlotMark& mark : window_.curves().plot().content().marks) {
    if (mark.look == MarkLook::limit) colours.insert(mark.colour);
  }
  EXPECT_EQ(colours.size(), 3U);
}

// 500 requests at 20 /s last 25 s, less than the ten latencies of a request that a verdict needs (docs/metrics.md): the
// answer is uncertain until the runs are as long as it says.
TEST_F(ScenariosTest, AnUncertainAnswerOffersRunsThatAreLongEnough) {
  bench_.begin(new_session());
  bench_.session().edit({}, {}, [](SessionState& s) {
    set_load(s.scenarios[0], QStringLiteral("poisson"), QStringLiteral("20"));
    set_edit(s.scenarios[0], "slo", "{p90_ttft: 1 s}");
  });
  settle(bench_);
  const auto row = [&] { return answer_rows(bench_, drawn_limit(bench_.session().state().view)).at(0); };
  ASSERT_EQ(row().verdict, QStringLiteral("?"));
  // The loads that are refined beyond the stated one need more than that one; each offer is for the present answer.
  for (int turn = 0; turn < 4 && row().requests_needed > 0; ++turn) {
    EXPECT_GT(row().requests_needed, 500);
    bench_.lengthen_runs(0, row().requests_needed);
    settle(bench_);
  }
  EXPECT_EQ(row().verdict, QStringLiteral("✓")) << utf8(answer_words(row()));
}

TEST_F(ScenariosTest, ChoosingAFinishedScenarioSimulatesNothing) {
  open_three();
  bench_.choose_scenario(2);
  EXPECT_FALSE(bench_.is_busy()) << "its curves are known";
  EXPECT_TRUE(bench_.curves().is_complete());
  EXPECT_EQ(bench_.curves().results().front().labels.tp, 4);
  // The former scenario keeps its curves beside it.
  ASSERT_NE(bench_.curves_of(0), nullptr);
  EXPECT_EQ(bench_.curves_of(0)->results().size(), 4U);
}

TEST_F(ScenariosTest, AnEarlierValueIsShownAtOnceAndIsTheSame) {
  open(bench_, study("one", "p5.48xlarge", 1));
  const auto before = study::points_csv(bench_.curves().outline().swept_keys, bench_.curves().results());
  bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("2"));
  settle(bench_);
  EXPECT_NE(study::points_csv(bench_.curves().outline().swept_keys, bench_.curves().results()), before);
  bench_.session().undo();
  settle(bench_);
  EXPECT_EQ(study::points_csv(bench_.curves().outline().swept_keys, bench_.curves().results()), before);
}

TEST_F(ScenariosTest, TheListHidesRenamesAndSelects) {
  open_three();
  QListWidget& list = window_.scenario().scenarios().list();
  ASSERT_EQ(list.count(), 3);
  list.item(1)->setCheckState(Qt::Unchecked);
  settle(bench_);
  EXPECT_FALSE(state().scenarios[1].shown);
  EXPECT_EQ(rows().size(), 2U);
  EXPECT_EQ(bench_.curves_of(1), nullptr) << "what is hidden is not simulated";
  list.item(2)->setText(QStringLiteral("small"));
  EXPECT_EQ(utf8(state().scenarios[2].name), "small 2") << "names stay unique";
  EXPECT_EQ(utf8(list.item(2)->text()), "small 2");
  ASSERT_EQ(state().current, 2U) << "the study that was added last";
  list.setCurrentRow(0);
  EXPECT_EQ(state().current, 0U);
  settle(bench_);
  EXPECT_EQ(rows().size(), 2U);
  EXPECT_EQ(utf8(rows()[1].drawn.name), "small 2");
  for (int i = 0; i < 3; ++i) bench_.session().undo();
  EXPECT_EQ(utf8(state().scenarios[2].name), "split");
  EXPECT_TRUE(state().scenarios[1].shown);
}

TEST_F(ScenariosTest, HidingTheEditedScenarioLeavesTheOthers) {
  open_three();
  bench_.choose_scenario(0);
  bench_.show_scenario(0, false);
  settle(bench_);
  EXPECT_EQ(rows().size(), 2U);
  for (const PlotSeries& series : window_.curves().plot().content().series) EXPECT_NE(utf8(series.name), "small");
  bench_.show_scenario(1, false);
  bench_.show_scenario(2, false);
  settle(bench_);
  EXPECT_THAT(utf8(window_.curves().plot().content().message), HasSubstr("Every scenario is hidden"));
}

TEST_F(ScenariosTest, RemovingOneKeepsTheOthersAsTheyWere) {
  open_three();
  bench_.choose_scenario(2);
  bench_.compare_with(1);
  bench_.remove_scenario(0);
  EXPECT_EQ(utf8(bench_.session().scenario().name), "split");
  EXPECT_EQ(state().compared, std::optional<std::size_t>(0)) << "still the one that is named large";
  settle(bench_);
  EXPECT_EQ(rows().size(), 2U);
}

TEST_F(ScenariosTest, ASessionKeepsColoursAndWhatIsHidden) {
  open_three();
  bench_.colour_scenario(1, 5);
  bench_.show_scenario(2, false);
  const SessionState back = parse_session(session_text(state()), "s.yaml");
  EXPECT_EQ(back.scenarios[1].colour, 5U);
  EXPECT_FALSE(back.scenarios[2].shown);
  EXPECT_TRUE(back.scenarios[0].shown);
}

TEST_F(ScenariosTest, AnInvalidScenarioSaysSoBesideTheValidOnes) {
  open_three();
  bench_.choose_scenario(1);
  bench_.set_value(QStringLiteral("hardware"), QStringLiteral("no-such-instance"));
  settle(bench_);
  bench_.choose_scenario(0);
  settle(bench_);
  EXPECT_THAT(utf8(window_.curves().notes()), HasSubstr("✗ large: "));
  std::size_t drawn = 0;
  for (const PlotSeries& series : window_.curves().plot().content().series)
    drawn += series.line != LineLook::faded && !series.points.empty() ? 1 : 0;
  EXPECT_EQ(drawn, 2U);
  EXPECT_EQ(utf8(window_.curves().plot().content().message), "");
}

TEST_F(ScenariosTest, PointsThatCannotBeDrawnAreMarkedForEveryScenario) {
  // 70B at TP 1 does not fit. This must also be reported for a scenario that is not being edited.
  window_.open_files({qs(study("fits", "p5.48xlarge", 1)),
                      qs(write("huge.yaml",
                               "study: huge\nmodel: llama-3.1-70b\nhardware: p4d.24xlarge\nengine: vllm-0.12\n"
                               "deployment: {tp: 1, replicas: 1}\nworkload:\n  load: {closed_loop: {concurrency: 1}}\n"
                               "  lengths: {input: 128, output: 32}\n  requests: 100\n"
                               "sweep: {workload.concurrency: [1, 4]}\n"))});
  bench_.choose_scenario(0);
  settle(bench_);
  const auto& failures = window_.curves().plot().content().failures;
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_THAT(utf8(failures[0].label), HasSubstr("huge, 1 client: cannot run"));
  EXPECT_EQ(utf8(rows()[1].verdict), "✗");
  EXPECT_TRUE(rows()[1].warnings.contains(QStringLiteral("2 points cannot run")));
}

// The views answer "which is cheapest within the SLO" with the same figures, over everything that is drawn.
TEST_F(ScenariosTest, CurvesCostAndParetoCoverEveryScenario) {
  open_three();
  bench_.choose_scenario(0);
  bench_.set_view({}, {}, [](ViewState& v) { v.limit = 30; });
  settle(bench_);
  const auto answers = rows();
  const AnswerRow* best = best_row(answers);
  ASSERT_NE(best, nullptr);
  for (const AnswerRow& row : answers) {
    if (!row.answer || !row.answer->carried) continue;
    EXPECT_GE(*row.answer->usd_per_million, *best->answer->usd_per_million) << utf8(row.drawn.name);
  }
  window_.show_view(QStringLiteral("cost"));
  settle(bench_);
  bool said = false;
  for (const QLabel* label : window_.current_view()->findChildren<QLabel*>()) {
    said = said || (label->text().contains(reader_text(*best->answer->usd_per_million, 3)) &&
                    label->text().contains(best->drawn.name) && label->text().contains(best->load));
  }
  EXPECT_TRUE(said) << utf8(best->drawn.name);
  window_.show_view(QStringLiteral("pareto"));
  settle(bench_);
  const PlotContent& content = window_.current_view()->findChild<PlotView*>()->content();
  const PlotSeries& front = content.series.front();
  ASSERT_FALSE(front.points.empty());
  EXPECT_EQ(front.line, LineLook::trail) << "grey and behind the curves, whose colours stay";
  for (const PlotSeries& series : content.series) {
    for (const PlotPoint& point : series.points) {
      const bool covered = std::any_of(front.points.begin(), front.points.end(),
                                       [&](const PlotPoint& p) { return p.x >= point.x && p.y >= point.y; });
      EXPECT_TRUE(covered) << utf8(series.name) << " is better than the front";
    }
  }
}

TEST_F(ScenariosTest, TheCardHasARowForEachCurveAndCopiesThem) {
  open_three();
  AnswerCard& card = window_.curves().card();
  ASSERT_EQ(card.rows().rowCount(), 3);
  EXPECT_THAT(utf8(card.headline()), HasSubstr("No SLO is set. Cheapest: "));
  const TableData table = card.table();
  ASSERT_EQ(table.rows.size(), 3U);
  const auto column = [&](const char* title) { return static_cast<int>(table.headers.indexOf(qs(title))); };
  EXPECT_EQ(utf8(table.rows[2][column("footprint")]),
            utf8(footprint_text(footprint_of(bench_.curves_of(2)->results().front()))));
  EXPECT_THAT(utf8(table.rows[2][column("footprint")]), HasSubstr("4 GPUs, 1 × p4d.24xlarge"));
  EXPECT_THAT(utf8(table.rows[2][column("warnings")]), HasSubstr("4 GPUs idle"));
  // Sorting by a figure orders by its number; the copy keeps the order of the scenarios.
  const int cost = column("USD/M tokens");
  card.rows().sortItems(cost);
  double last = 0;
  for (int r = 0; r < 3; ++r) {
    const double value = card.rows().item(r, cost)->text().toDouble();
    EXPECT_GE(value, last);
    last = value;
  }
  EXPECT_EQ(utf8(card.table().rows[0][0]), "small");
  // A row chosen by Return becomes the edited scenario.
  for (int r = 0; r < 3; ++r) {
    if (card.rows().item(r, 0)->text() == QStringLiteral("split")) Q_EMIT card.rows().cellActivated(r, 0);
  }
  EXPECT_EQ(utf8(bench_.session().scenario().name), "split");
}

TEST_F(ScenariosTest, TheHeaderSaysWhatIsSimulatedAndFillsTheInstance) {
  open_three();
  bench_.choose_scenario(2);
  settle(bench_);
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("llama-3.1-8b"));
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("8 × A100 SXM 40 GB, p4d.24xlarge"));
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("4 GPUs, 1 × p4d.24xlarge"));
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("fill with 2 replicas"));
  bench_.fill_instances();
  settle(bench_);
  EXPECT_EQ(utf8(field_value(bench_.session().scenario(), "deployment.replicas").text), "2");
  EXPECT_THAT(utf8(window_.header().text()), HasSubstr("8 GPUs, 1 × p4d.24xlarge"));
  EXPECT_FALSE(bench_.filling_replicas());
}

TEST_F(ScenariosTest, EqualGpusIsOneStepAndNamesWhatCannotBeEqual) {
  open_three();
  const QStringList inexact = bench_.equalise_gpus();
  settle(bench_);
  EXPECT_EQ(inexact, QStringList()) << "1, 1 and 4 GPUs a replica: all reach 4";
  for (std::size_t s = 0; s < 3; ++s) EXPECT_EQ(bench_.curves_of(s)->results().front().gpus, 4);
  bench_.session().undo();
  settle(bench_);
  for (std::size_t s = 0; s < 2; ++s) EXPECT_EQ(bench_.curves_of(s)->results().front().gpus, 1);
}

TEST_F(ScenariosTest, EachFieldOfTheHeaderLeadsToItsFieldInTheForm) {
  open_three();
  for (FoldGroup* group : window_.scenario().groups()) group->set_open(false);
  Q_EMIT window_.header().edit_wanted(QStringLiteral("hardware"));
  const QWidget* box = window_.scenario().field(QStringLiteral("hardware"))->box();  // its line passes the focus on
  EXPECT_TRUE(QApplication::focusWidget() == box);
}

// Divided by GPUs or price, a metric is its total over the divisor, for every family and point.
TEST_F(ScenariosTest, ABasisDividesByGpusOrPrice) {
  open_three();
  for (const Metric& metric : metrics()) {
    if (basis_of(metric) != Basis::total) continue;
    for (std::size_t s = 0; s < 3; ++s) {
      for (const study::PointResult& point : bench_.curves_of(s)->results()) {
        const PointRow row = make_row(point, 1);
        const double total = *value_of(row, metric);
        EXPECT_DOUBLE_EQ(*value_of(row, *on_basis(metric, Basis::per_gpu)), total / static_cast<double>(point.gpus));
        EXPECT_DOUBLE_EQ(*value_of(row, *on_basis(metric, Basis::per_price)), total / *point.usd_per_hour);
      }
    }
  }
}

TEST_F(ScenariosTest, AddingAFileKeepsTheSession) {
  open(bench_, study("first", "p5.48xlarge", 1));
  window_.add_files({qs(study("second", "p4d.24xlarge", 1)), qs(study("first", "g5.12xlarge", 1))});
  settle(bench_);
  ASSERT_EQ(state().scenarios.size(), 3U);
  EXPECT_EQ(utf8(state().scenarios[2].name), "first 2");
  // An unreadable study is reported and not added.
  window_.add_files({qs(write("bad.yaml", "study: bad\nmodel: no-such-model\n"))});
  EXPECT_EQ(state().scenarios.size(), 3U);
  EXPECT_FALSE(window_.problem().isEmpty());
}

// Without a scenario to compare with, the view explains itself; a legend would name a curve that is not there.
TEST_F(ScenariosTest, AnEmptyComparisonHasNoLegend) {
  open(bench_, study("alone", "p5.48xlarge", 1));
  const QString id = QStringLiteral("compare");
  ASSERT_TRUE(window_.show_view(id));
  const auto buttons = [&] { return window_.view(id)->findChildren<QToolButton*>(QStringLiteral("series")).size(); };
  EXPECT_EQ(buttons(), 0);
  bench_.duplicate_scenario();
  bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("2"));
  window_.show_view(id);
  settle(bench_);
  EXPECT_EQ(buttons(), 1) << "the difference";
}

TEST_F(ScenariosTest, AHiddenDifferenceKeepsItsButton) {
  open(bench_, study("alone", "p5.48xlarge", 1));
  const QString id = QStringLiteral("compare");
  bench_.set_value(QStringLiteral("deployment.tp"), QStringLiteral("1, 2"));
  bench_.duplicate_scenario();
  window_.show_view(id);
  const auto series = [&] { return window_.view(id)->findChild<PlotView*>()->content().series; };
  ASSERT_TRUE(QTest::qWaitFor([&] { return series().size() == 2; }, kPatienceMs));
  settle(bench_);
  const auto buttons = [&] { return window_.view(id)->findChildren<QToolButton*>(QStringLiteral("series")); };
  ASSERT_EQ(buttons().size(), 2);
  buttons()[0]->click();
  QCoreApplication::processEvents();
  ASSERT_EQ(series().size(), 2U);
  EXPECT_TRUE(series()[0].points.empty());
  EXPECT_FALSE(series()[1].points.empty());
  EXPECT_EQ(buttons().size(), 2);
}

// An empty plot says why.
TEST_F(ScenariosTest, AComparisonWithoutPointsSaysWhy) {
  open(bench_, study("alone", "p5.48xlarge", 1));
  const QString id = QStringLiteral("compare");
  bench_.duplicate_scenario();
  bench_.change_load(QStringLiteral("poisson"), QStringLiteral("4"));
  settle(bench_);
  ASSERT_TRUE(window_.show_view(id));
  const auto message = [&] { return utf8(window_.view(id)->findChild<PlotView*>()->content().message); };
  EXPECT_THAT(message(), HasSubstr("Simulating"));
  settle(bench_);
  EXPECT_THAT(message(), HasSubstr("no load in common")) << "clients against requests/s";
  // Occupies the lane, so that the comparison cannot end before it is cancelled.
  bench_.tasks().start(QStringLiteral("other"), [](study::RunControl& control) {
    while (!control.cancelled()) std::this_thread::yield();
    return std::function<void()>();
  });
  bench_.change_load(QStringLiteral("closed_loop"), QStringLiteral("4"));
  ASSERT_TRUE(QTest::qWaitFor([&] { return !bench_.is_busy(); }, kPatienceMs));
  window_.view(id)->refresh();
  EXPECT_THAT(message(), HasSubstr("Simulating"));
  bench_.tasks().cancel_all();
  settle(bench_);
  EXPECT_THAT(message(), HasSubstr("cancelled"));
}

// A button that does nothing would look broken.
TEST_F(ScenariosTest, TheLastScenarioCannotBeRemoved) {
  open(bench_, study("alone", "p5.48xlarge", 1));
  const QToolButton* remove = nullptr;
  for (const QToolButton* button : window_.scenario().scenarios().findChildren<QToolButton*>())
    if (button->text() == QStringLiteral("Remove")) remove = button;
  ASSERT_NE(remove, nullptr);
  EXPECT_FALSE(remove->isEnabled());
  bench_.duplicate_scenario();
  settle(bench_);
  EXPECT_TRUE(remove->isEnabled());
}

// Undoing a name, a colour or a hidden curve needs no simulation, but a new picture.
TEST_F(ScenariosTest, UndoneLooksAreDrawn) {
  open_three();
  const auto first = [&] {
    const AnswerRow row = rows().at(0);
    return std::pair(utf8(row.drawn.name), row.drawn.colour);
  };
  const QTableWidget& table = window_.curves().card().rows();
  const auto before = first();
  bench_.rename_scenario(0, QStringLiteral("renamed"));
  bench_.colour_scenario(0, 5);
  bench_.show_scenario(1, false);
  settle(bench_);
  QSignalSpy drawn(&bench_, &Workbench::curves_changed);
  for (int i = 0; i < 3; ++i) {
    drawn.clear();
    bench_.session().undo();
    EXPECT_GE(drawn.count(), 1) << "step " << i;
  }
  settle(bench_);
  EXPECT_EQ(first(), before);
  static_cast<void>(window_.curves());  // draws what was put off
  ASSERT_EQ(table.rowCount(), 3);
  EXPECT_EQ(utf8(table.item(0, 0)->text()), "small");
}

// The answer's columns keep their width while their texts change, and get a wider one when a text does not fit.
TEST_F(ScenariosTest, TheAnswersColumnsStandStill) {
  open_three();
  QTableWidget& table = window_.curves().card().rows();
  const QTableWidgetItem* name = table.item(0, 0);
  const int width = table.columnWidth(0), carries = table.columnWidth(1);
  bench_.set_value(QStringLiteral("workload.lengths.output"), QStringLiteral("33"));
  settle(bench_);
  static_cast<void>(window_.curves());
  EXPECT_EQ(table.item(0, 0), name) << "the cells are kept";
  EXPECT_EQ(table.columnWidth(0), width);
  EXPECT_EQ(table.columnWidth(1), carries) << "4 clients, 16 clients: the load takes as much room";
  bench_.rename_scenario(0, QStringLiteral("a name that is much longer than the former one"));
  settle(bench_);
  static_cast<void>(window_.curves());
  EXPECT_GT(table.columnWidth(0), width);
}

// With the planner beside them, the header took two rows of a small window and the controls three: 50 pixels of a plot
// that had 150.
TEST_F(ScenariosTest, ASmallWindowWithTheDecisionDockKeepsItsRowsForThePlot) {
  bench_.open(qs(kJumpStart));
  settle(bench_);
  const QString whole = window_.header().text();
  window_.resize(1100, 700);
  window_.show_view(QString::fromLatin1(kDecisionView));
  settle(bench_);
  HeaderBar& header = window_.header();
  ASSERT_LT(header.width(), 500) << "the test needs a narrow middle";
  EXPECT_EQ(rows_of(header, header.width()), 1);
  EXPECT_EQ(header.text(), whole) << "what is not shown is still said";
  const auto buttons = header.findChildren<QToolButton*>();
  ASSERT_EQ(buttons.size(), 3);
  EXPECT_THAT(utf8(buttons[1]->toolTip()), HasSubstr("ml.p4d.24xlarge"));
  const QWidget* bar = window_.curves().findChild<QDoubleSpinBox*>()->parentWidget()->parentWidget();
  EXPECT_EQ(rows_of(*bar, bar->width()), 2);
  window_.resize(1700, 900);
  settle(bench_);
  EXPECT_EQ(rows_of(header, header.width()), 1);
  EXPECT_THAT(utf8(buttons[1]->text()), HasSubstr("ml.p4d.24xlarge")) << "said again where there is room";
  EXPECT_EQ(rows_of(*bar, bar->width()), 1);
}

// "USD/h" is aligned to the right, and the footprint beside it to the left: without a space they read as one word.
TEST_F(ScenariosTest, TextsOfTheAnswersKeepAwayFromFigures) {
  open_three();
  QTableWidget& table = window_.curves().card().rows();
  int texts = 0;
  for (int c = 1; c < table.columnCount(); ++c) {
    const QTableWidgetItem* heading = table.horizontalHeaderItem(c);
    const bool left = (heading->textAlignment() & Qt::AlignLeft) != 0;
    texts += left ? 1 : 0;
    EXPECT_EQ(heading->text().front().isSpace(), left) << utf8(heading->text());
  }
  EXPECT_GE(texts, 2);
  EXPECT_FALSE(window_.curves().card().table().headers.contains(table.horizontalHeaderItem(1)->text()))
      << "a copy has no indent";
}

// A new icon in the list is painted; at every step of a drag it took 3 % of the time.
TEST_F(ScenariosTest, TheListKeepsItsIconsDuringADrag) {
  open_three();
  QListWidget& list = window_.scenario().scenarios().list();
  const auto key = [&] { return list.item(0)->icon().cacheKey(); };
  const qint64 before = key();
  bench_.set_value(QStringLiteral("scheduler.max_running"), QStringLiteral("77"));
  EXPECT_EQ(key(), before);
  bench_.colour_scenario(0, 4);
  EXPECT_NE(key(), before);
  const qint64 coloured = key();
  window_.set_dark(true);
  EXPECT_NE(key(), coloured);
  settle(bench_);
}

}  // namespace
}  // namespace plimsoll::gui
