// SPDX-License-Identifier: Apache-2.0
// Child processes that succeed, crash, hang or print garbage; each is a shell script.
#include "gui/core/child_run.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/gui/bench_fixture.h"

namespace plimsoll::gui {
namespace {

class ChildRunTest : public BenchTest {
 protected:
  /// Runs a script and waits for its end.
  void run(const std::string& script) {
    QObject::connect(&child_, &ChildRun::point, &child_, [this](const PointRow& row) { points_.push_back(row); });
    QObject::connect(&child_, &ChildRun::progressed, &child_,
                     [this](double done, double, double) { done_.push_back(done); });
    QObject::connect(&child_, &ChildRun::logged, &child_,
                     [this](const QString&, const QString& text) { log_ << text; });
    QObject::connect(&child_, &ChildRun::ended, &child_, [this](int code, const QString& text) {
      code_ = code;
      text_ = text;
      ended_ = true;
    });
    ASSERT_TRUE(child_.start(QStringLiteral("/bin/sh"), {QStringLiteral("-c"), qs(script)}));
  }
  void wait() {
    ASSERT_TRUE(QTest::qWaitFor([this] { return ended_; }, kPatienceMs));
  }

  ChildRun child_{ChildRun::Patience{.silence = 150, .cancel = 100}};
  std::vector<PointRow> points_;
  std::vector<double> done_;
  QStringList log_;
  QString text_;
  int code_ = -99;
  bool ended_ = false;
};

const char* const kPoint =
    R"(echo '{"v":1,"type":"point","tp":4,"replicas":1,"load_value":8,"output_tokens_per_s":12.5,)"
    R"("source":"measured"}';)";
const char* const kDone = R"(echo '{"v":1,"type":"done","exit":0}';)";

TEST_F(ChildRunTest, LinesBecomePointsAndProgress) {
  run(std::string(R"(echo '{"v":1,"type":"progress","done":0.5,"total":2,"eta_s":3}';)") + kPoint + kDone);
  wait();
  EXPECT_EQ(text_, QString());
  EXPECT_EQ(code_, 0);
  ASSERT_EQ(points_.size(), 1U);
  EXPECT_EQ(value_of(points_[0], *find_metric("output_tokens_per_s")), 12.5);
  EXPECT_EQ(points_[0].gpus, 4);
  EXPECT_EQ(done_, std::vector<double>{0.5});
  EXPECT_EQ(child_.state(), ChildRun::State::idle);
}

TEST_F(ChildRunTest, ACrashKeepsWhatHadArrived) {
  run(std::string(kPoint) + "kill -SEGV $$");
  wait();
  EXPECT_TRUE(text_.contains(QStringLiteral("crashed"))) << utf8(text_);
  EXPECT_EQ(points_.size(), 1U);
}

TEST_F(ChildRunTest, NonsenseIsSaidOnceAndTheRestIsRead) {
  run(std::string(
          "echo nonsense; echo '{'; echo '[1]'; echo '{\"a\":1}'; head -c 3000000 /dev/zero | tr '\\0' x; echo;") +
      kPoint + kDone);
  wait();
  EXPECT_EQ(points_.size(), 1U);
  EXPECT_EQ(log_.filter(QStringLiteral("is not JSON")).size(), 1);
  EXPECT_TRUE(text_.startsWith(QStringLiteral("5 lines"))) << utf8(text_);
}

TEST_F(ChildRunTest, TheChildsOwnErrorIsShown) {
  run(R"(echo '{"v":1,"type":"error","code":2,"text":"unknown verb"}'; exit 2)");
  wait();
  EXPECT_EQ(text_, QStringLiteral("unknown verb"));
  EXPECT_EQ(code_, 2);
}

TEST_F(ChildRunTest, AnEndWithoutDoneIsNoSuccess) {
  run("true");
  wait();
  EXPECT_TRUE(text_.contains(QStringLiteral("without reporting"))) << utf8(text_);
}

TEST_F(ChildRunTest, AHangingChildIsSaidToBeSilentAndCanBeKilled) {
  run("trap '' TERM; while :; do read line || sleep 1; done < /dev/null");
  ASSERT_TRUE(QTest::qWaitFor([this] { return !log_.isEmpty(); }, kPatienceMs));
  EXPECT_TRUE(log_.front().contains(QStringLiteral("no heartbeat")));
  child_.cancel();
  EXPECT_EQ(child_.state(), ChildRun::State::cancelling);
  wait();
  EXPECT_EQ(text_, QString()) << "cancelled is not failed";
}

TEST_F(ChildRunTest, PauseResumeAndCancelReachTheChild) {
  run(R"(while read line; do echo "{\"v\":1,\"type\":\"log\",\"level\":\"note\",\"text\":\"$line\"}"; )"
      R"([ $line = cancel ] && exit 130; done)");
  child_.pause();
  EXPECT_EQ(child_.state(), ChildRun::State::paused);
  child_.resume();
  child_.cancel();
  wait();
  EXPECT_EQ(log_, QStringList({QStringLiteral("pause"), QStringLiteral("resume"), QStringLiteral("cancel")}));
  EXPECT_EQ(code_, 130);
}

TEST_F(ChildRunTest, AProgramThatIsNotThereSaysSo) {
  QString text;
  QObject::connect(&child_, &ChildRun::ended, &child_, [&](int, const QString& why) { text = why; });
  child_.start(QStringLiteral("/nowhere/plimsoll"), {});
  ASSERT_TRUE(QTest::qWaitFor([&] { return !text.isEmpty(); }, kPatienceMs));
  EXPECT_TRUE(text.contains(QStringLiteral("cannot be started")));
}

// A killed window cannot cancel anything, so the system tells the child.
TEST_F(ChildRunTest, AChildEndsWithAWindowThatIsKilled) {
  // The child's next parent is this process, which can therefore see how it ends.
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  const QString file = folder_.filePath(QStringLiteral("pid"));
  const pid_t window = ::fork();
  if (window == 0) {
    ChildRun child;
    child.start(QStringLiteral("/bin/sh"),
                {QStringLiteral("-c"), QStringLiteral("echo $$ > %1.new; mv %1.new %1; exec sleep 600").arg(file)});
    for (;;) ::pause();
  }
  const auto wait_for = [](const auto& condition) { return QTest::qWaitFor(condition, kPatienceMs); };
  EXPECT_TRUE(wait_for([&] { return QFile::exists(file); }));
  ::kill(window, SIGKILL);
  EXPECT_EQ(::waitpid(window, nullptr, 0), window);
  QFile in(file);
  ASSERT_TRUE(in.open(QIODevice::ReadOnly));
  const pid_t child = in.readAll().trimmed().toInt();
  int status = 0;
  const bool ended = wait_for([&] { return ::waitpid(child, &status, WNOHANG) == child; });
  EXPECT_TRUE(ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  if (!ended) ::kill(child, SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace plimsoll::gui
