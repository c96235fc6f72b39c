// SPDX-License-Identifier: Apache-2.0
#include "gui/core/session.h"

#include "model/error.h"
#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(make_study(back.scenarios[0], catalogue).resolved_yaml(), make_study(rich_session().scenarios[0], catalogue).resolved_yaml());
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
  // Cut anywhere: an error or a session, never a crash.
  for (std::size_t n = 0; n < good.size(); n += 7) static_cast<void>(message(good.substr(0, n)));
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
    session.edit(QStringLiteral("tp"), QStringLiteral("tp"), [&](SessionState& s) { set_edit(s.scenarios[0], "deployment.tp", std::to_string(value)); });
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

TEST(SessionTest, AChangeThatThrowsHasNotHappened) {
  Session session;
  const std::string before = session_text(session.state());
  EXPECT_THROW(session.edit(QStringLiteral("x"), {}, [](SessionState& s) {
    s.current = 5;
    throw InputError("no");
  }), InputError);
  EXPECT_EQ(session_text(session.state()), before);
  EXPECT_FALSE(session.can_undo());
}

}  // namespace
}  // namespace plimsoll::gui
