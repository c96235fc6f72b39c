// SPDX-License-Identifier: Apache-2.0
#include "gui/core/session.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <QDir>
#include <set>

#include "gui/core/overlay.h"
#include "gui/core/recovery.h"
#include "model/error.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

MeasuredRun some_run() {
  return {QStringLiteral("measured \"today\""),
          QStringLiteral("was measured on a busy machine"),
          {overlay_row({{"source", std::string("measured")},
                        {"model", std::string("demo-llama-40m")},
                        {"hardware", std::string("this-machine")},
                        {"tp", std::int64_t{2}},
                        {"load_kind", std::string("closed_loop")},
                        {"load_value", 4.0},
                        {"output_tokens_per_s", 0.1},
                        {"stable", true}}),
           overlay_row({{"load_value", 8.0}})},
          "/tmp/run-1"};
}

SessionState rich_session() {
  SessionState state;
  state.scenarios = {open_scenario(kJumpStart), default_scenario()};
  set_field(state.scenarios[0], "deployment.tp", QStringLiteral("4"));
  set_field(state.scenarios[1], "hardware", QStringLiteral("{accelerator: h100-sxm, count: 8}"));
  state.scenarios[1].name = QStringLiteral("it's \"B\" – ü");
  state.current = 1;
  state.compared = 0;
  state.view.x = "requests_per_s";
  state.view.log_y = false;
  state.view.limit = 50.25;
  state.pins = {{QStringLiteral("A"), QStringLiteral("tp 4"), 64}};
  state.measured = {"/tmp/a b.csv"};
  state.runs = {std::make_shared<const MeasuredRun>(some_run())};
  return state;
}

TEST(SessionTest, ASessionReadsBackAsItWasWritten) {
  const SessionState state = rich_session();
  const std::string text = session_text(state);
  const SessionState back = parse_session(text, "s.plimsoll-session.yaml");
  EXPECT_EQ(session_text(back), text);
  EXPECT_EQ(back.scenarios[1].name, state.scenarios[1].name);
  EXPECT_EQ(back.scenarios[0].edits, state.scenarios[0].edits);
  EXPECT_EQ(back.view, state.view);
  EXPECT_EQ(back.pins, state.pins);
  EXPECT_EQ(back.measured, state.measured);
  EXPECT_EQ(back.compared, state.compared);
}

TEST(SessionTest, AStudyInsideASessionSimulatesLikeItsFile) {
  const auto catalogue = std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  const SessionState back = parse_session(session_text(rich_session()), "s.yaml");
  EXPECT_EQ(make_study(back.scenarios[0], catalogue).resolved_yaml(),
            make_study(rich_session().scenarios[0], catalogue).resolved_yaml());
}

TEST(SessionTest, CorruptSessionsSayWhere) {
  const std::string good = session_text(rich_session());
  const auto message = [](const std::string& text) -> std::string {
    try {
      static_cast<void>(parse_session(text, "s.yaml"));
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(message("plimsoll_session: 1\ncurrent: 0\n"), HasSubstr("at least one scenario"));
  EXPECT_THAT(message("plimsoll_session: 9\n"), HasSubstr("s.yaml:1:19"));
  std::string wrong = good;
  wrong.replace(wrong.find("current: 1"), 10, "current: 7");
  EXPECT_THAT(message(wrong), HasSubstr("s.yaml:3:10"));
  wrong = good;
  wrong.replace(wrong.find("requests_per_s"), 14, "requests_per_x");
  EXPECT_THAT(message(wrong), HasSubstr("requests_per_x"));
  // Cut anywhere, the text gives an error or a session, never a crash.
  for (std::size_t n = 0; n < good.size(); n += 7) static_cast<void>(message(good.substr(0, n)));
}

// Changed bytes or lost and doubled lines give an error or a session whose studies can be tried, never a crash.
RC_GTEST_PROP(SessionTest, DamagedSessionsAreRefusedOrRead, ()) {
  static const auto catalogue = std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  static const std::string good = session_text(rich_session());
  std::string text = good;
  for (int n = *rc::gen::inRange(1, 4); n > 0; --n) {
    const auto at = static_cast<std::size_t>(*rc::gen::inRange(0, static_cast<int>(text.size())));
    const auto line = std::min(text.find('\n', at), text.size() - 1);
    switch (*rc::gen::inRange(0, 3)) {
      case 0: text[at] = *rc::gen::element('\0', '"', '{', '}', '[', ':', '-', ' ', '\n', '9', '\xff'); break;
      case 1: text.erase(at, line + 1 - at); break;
      default: text.insert(at, text.substr(at, line + 1 - at)); break;
    }
    if (text.empty()) return;
  }
  try {
    const SessionState state = parse_session(text, "s.yaml");
    RC_ASSERT(state.current < state.scenarios.size());
    for (const Scenario& scenario : state.scenarios) static_cast<void>(make_study(scenario, catalogue));
  } catch (const InputError&) {}
}

TEST(SessionTest, AMeasuredRunIsSavedWithEveryFigure) {
  Session session;
  session.set_run(some_run());
  const std::string text = session_text(session.state());
  const SessionState read = parse_session(text, "s.yaml");
  ASSERT_EQ(read.runs.size(), 1U);
  EXPECT_EQ(read.runs[0]->name, some_run().name);
  EXPECT_EQ(read.runs[0]->note, some_run().note);
  ASSERT_EQ(read.runs[0]->rows.size(), 2U);
  EXPECT_EQ(read.runs[0]->rows[0].result.labels.tp, 2);
  EXPECT_EQ(read.runs[0]->rows[0].result.labels.model, "demo-llama-40m");
  EXPECT_EQ(value_of(read.runs[0]->rows[0], *find_metric("output_tokens_per_s")), std::optional(0.1));
  EXPECT_FALSE(value_of(read.runs[0]->rows[1], *find_metric("output_tokens_per_s")));
  EXPECT_EQ(session_text(read), text) << "every cell comes back";
}

// Measurements cost machine time: they count as unsaved, and no undo takes them away.
TEST(SessionTest, AMeasuredRunIsUnsavedUntilItIsSavedAndSurvivesUndo) {
  Session session;
  session.edit(QStringLiteral("tp"), {}, [](SessionState& s) { set_edit(s.scenarios[0], "deployment.tp", "2"); });
  session.set_saved();
  session.set_run(some_run());
  EXPECT_TRUE(session.is_modified());
  session.undo();
  EXPECT_EQ(session.state().runs.size(), 1U);
  session.redo();
  EXPECT_EQ(session.state().runs.size(), 1U);
  EXPECT_TRUE(session.is_modified()) << "the scenario is as saved, but the run is not saved";
  MeasuredRun more = some_run();
  more.rows.push_back(more.rows.back());
  session.set_run(more);
  ASSERT_EQ(session.state().runs.size(), 1U) << "the same run, with another point";
  EXPECT_EQ(session.state().runs[0]->rows.size(), 3U);
  session.set_saved();
  EXPECT_FALSE(session.is_modified());
}

class RecoveryTest : public BenchTest {};

TEST_F(RecoveryTest, WhatACrashLeavesIsThereForTheNext) {
  const QString copy = folder_.filePath(QStringLiteral("unsaved.plimsoll-session.yaml"));
  std::string unsaved;
  {
    Session session;
    Recovery recovery(session, folder_.path(), 1);
    EXPECT_EQ(recovery.found(), QString());
    session.replace(rich_session());
    session.edit(QStringLiteral("tp"), {}, [](SessionState& s) { set_edit(s.scenarios[0], "deployment.tp", "2"); });
    unsaved = session_text(session.state());
    ASSERT_TRUE(QTest::qWaitFor([&] { return QFile::exists(copy); }, kPatienceMs));
    Session other;  // a concurrent program has nothing to recover
    EXPECT_EQ(Recovery(other, folder_.path(), 1).found(), QString());
  }
  Session session;
  Recovery recovery(session, folder_.path(), 1);
  ASSERT_NE(recovery.found(), QString());
  recovery.restore();
  EXPECT_EQ(session_text(session.state()), unsaved);
  EXPECT_TRUE(session.is_modified());
  ASSERT_TRUE(QTest::qWaitFor([&] { return QFile::exists(copy); }, kPatienceMs)) << "it is still not saved";
  recovery.done();
  EXPECT_FALSE(QFile::exists(copy));
}

TEST_F(RecoveryTest, ItIsOfferedUntilItIsRecoveredOrDismissed) {
  write("unsaved.plimsoll-session.yaml", session_text(rich_session()));
  const auto found = [&] {
    Session session;
    return Recovery(session, folder_.path(), 1).found();
  };
  EXPECT_NE(found(), QString());
  EXPECT_NE(found(), QString()) << "the second start finds it too";
  {
    Session session;
    Recovery(session, folder_.path(), 1).dismiss();
  }
  EXPECT_EQ(found(), QString());
}

// Each program ends here as by a crash: without done().
TEST_F(RecoveryTest, TheSessionsOfSeveralCrashesAreAllKept) {
  const auto leave = [&](Session& session, const char* degree) {
    session.edit({}, {}, [&](SessionState& s) { set_edit(s.scenarios[0], "deployment.tp", degree); });
    const auto kept = [&] {
      for (const QFileInfo& file : QDir(folder_.path()).entryInfoList({QStringLiteral("unsaved*.yaml")})) {
        QFile in(file.filePath());
        if (in.open(QIODevice::ReadOnly) && in.readAll().toStdString() == session_text(session.state())) return true;
      }
      return false;
    };
    ASSERT_TRUE(QTest::qWaitFor(kept, kPatienceMs));
  };
  {
    Session first, second;  // at the same time
    const Recovery a(first, folder_.path(), 1), b(second, folder_.path(), 1);
    leave(first, "2");
    leave(second, "4");
  }
  {
    Session third;
    const Recovery c(third, folder_.path(), 1);
    EXPECT_EQ(c.count(), 2);
    leave(third, "8");
  }
  Session session;
  Recovery recovery(session, folder_.path(), 1);
  std::set<std::string> degrees;
  while (recovery.count() > 0 && degrees.size() < 3) {
    recovery.restore();
    degrees.insert(utf8(field_value(session.scenario(), "deployment.tp").text));
  }
  EXPECT_THAT(degrees, ::testing::ElementsAre("2", "4", "8"));
  EXPECT_EQ(recovery.found(), QString());
}

TEST_F(RecoveryTest, ADamagedCopyIsAnErrorAndChangesNothing) {
  write("unsaved.plimsoll-session.yaml", "plimsoll_session: [");
  Session session;
  Recovery recovery(session, folder_.path(), 1);
  const std::string before = session_text(session.state());
  EXPECT_THROW(recovery.restore(), InputError);
  EXPECT_EQ(session_text(session.state()), before);
}

TEST(SessionTest, UndoAndRedoGiveTheSameBytes) {
  Session session;
  session.replace(rich_session());
  std::vector<std::string> history = {session_text(session.state())};
  const auto step = [&](const char* path, const char* text) {
    session.edit(qs(path), {}, [&](SessionState& s) { set_field(s.scenarios[s.current], path, qs(text)); });
    history.push_back(session_text(session.state()));
  };
  step("deployment.tp", "8");
  step("model", "llama-2-13b");
  step("deployment.tp", "1, 2");
  step("deployment.tp", "");
  for (std::size_t i = history.size() - 1; i > 0; --i) {
    session.undo();
    EXPECT_EQ(session_text(session.state()), history[i - 1]);
  }
  EXPECT_FALSE(session.can_undo());
  for (std::size_t i = 1; i < history.size(); ++i) {
    session.redo();
    EXPECT_EQ(session_text(session.state()), history[i]);
  }
}

TEST(SessionTest, StepsOfOneDragAreOneStepAndTheNextDragAnother) {
  Session session;
  const auto drag = [&](int value) {
    session.edit(QStringLiteral("tp"), QStringLiteral("tp"),
                 [&](SessionState& s) { set_edit(s.scenarios[0], "deployment.tp", std::to_string(value)); });
  };
  drag(1);
  drag(2);
  session.end_merge();
  drag(4);
  session.undo();
  EXPECT_EQ(field_value(session.scenario(), "deployment.tp").text, QStringLiteral("2"));
  session.undo();
  EXPECT_FALSE(session.can_undo());
}

TEST(SessionTest, UndoBackToWhatWasSavedLeavesNothingToSave) {
  Session session;
  const auto drag = [&](int value) {
    session.edit(QStringLiteral("tp"), QStringLiteral("tp"),
                 [&](SessionState& s) { set_edit(s.scenarios[0], "deployment.tp", std::to_string(value)); });
  };
  EXPECT_FALSE(session.is_modified());
  drag(1);
  EXPECT_TRUE(session.is_modified());
  session.undo();
  EXPECT_FALSE(session.is_modified()) << "as it was opened";
  session.redo();
  session.set_saved();
  EXPECT_FALSE(session.is_modified());
  drag(2);  // the same drag; the state that was saved meanwhile remains a step
  EXPECT_TRUE(session.is_modified());
  session.undo();
  EXPECT_EQ(field_value(session.scenario(), "deployment.tp").text, QStringLiteral("1"));
  EXPECT_FALSE(session.is_modified());
  session.undo();
  EXPECT_TRUE(session.is_modified()) << "before what was saved";
  drag(8);  // the saved state can no longer be reached
  session.undo();
  EXPECT_TRUE(session.is_modified());
}

TEST(SessionTest, AChangeThatThrowsHasNotHappened) {
  Session session;
  const std::string before = session_text(session.state());
  EXPECT_THROW(session.edit(QStringLiteral("x"), {},
                            [](SessionState& s) {
                              s.current = 5;
                              throw InputError("no");
                            }),
               InputError);
  EXPECT_EQ(session_text(session.state()), before);
  EXPECT_FALSE(session.can_undo());
}

}  // namespace
}  // namespace plimsoll::gui
