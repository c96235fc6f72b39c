// SPDX-License-Identifier: Apache-2.0
// plimsoll serve, started and ended as a user does.
#include <gmock/gmock.h>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class ServeCommandTest : public CommandTest {};

// Standard output contains only the base URL. SIGTERM ends the server, which then prints a summary.
TEST_F(ServeCommandTest, PrintsItsUrlAnswersAndEndsOnSigterm) {
  const std::string study = write("tiny.yaml", kTinyStudy);
  const std::string out = file("url"), err = file("errors");
  const Outcome outcome =
      shell("(" + kProgram + " serve " + study + " --port 0 >" + out + " 2>" + err + " & p=$!; while ! [ -s " + out +
            " ]; do sleep 0.02; done; kill -TERM $p; wait $p); echo exit $?; cat " + out);
  EXPECT_THAT(outcome.output, MatchesRegex("exit 0\nhttp://127\\.0\\.0\\.1:[0-9]+\n"));
  EXPECT_THAT(shell("cat " + err).output, HasSubstr("served 0 requests"));
}

// The program contains both the client and the server, and the two work together.
TEST_F(ServeCommandTest, IsMeasuredByTheSameProgram) {
  const std::string study = write("tiny.yaml", kTinyStudy);
  const std::string out = file("url"), err = file("errors");
  const Outcome outcome = shell("(" + kProgram + " serve " + study + " --speed 1000 --port 0 >" + out + " 2>" + err +
                                " & p=$!; while ! [ -s " + out + " ]; do sleep 0.02; done; " + kProgram + " measure " +
                                study + " --endpoint $(cat " + out + ") --vocab 1000 --out " + file("measured") +
                                " >/dev/null 2>&1; echo measured $?; kill -TERM $p; wait $p); echo exit $?");
  EXPECT_EQ(outcome.output, "measured 0\nexit 0\n");
  EXPECT_THAT(shell("cat " + err).output, Not(HasSubstr("served 0 requests")));
}

TEST_F(ServeCommandTest, RefusesWhatCannotBeServed) {
  const std::string tiny = write("tiny.yaml", kTinyStudy);
  const std::string sweep = write("sweep.yaml", std::string(kTinyStudy) + "sweep: {scheduler.max_running: [1, 2]}\n");
  const std::pair<std::string, const char*> cases[] = {
      {tiny + " --port 65536", "--port"},
      {tiny + " --speed 0", "--speed: found '0'"},
      {tiny + " --drain soon", "--drain: found 'soon'"},
      {tiny + " --api-key-env PLIMSOLL_NO_SUCH_KEY", "PLIMSOLL_NO_SUCH_KEY is not set"},
      {tiny + " --progress jsonl", "only its base URL"},
      {sweep, "--set scheduler.max_running"}};
  for (const auto& [arguments, phrase] : cases) {
    const Outcome outcome = run("serve " + arguments);
    EXPECT_EQ(outcome.exit, 2) << arguments << '\n' << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(phrase));
  }
  const Outcome taken = run("serve " + tiny + " --host 192.0.2.1");  // an address that no machine has
  EXPECT_EQ(taken.exit, 3);
  EXPECT_THAT(taken.output, HasSubstr("cannot listen on 192.0.2.1 port 8000"));
}

}  // namespace
}  // namespace plimsoll::study
