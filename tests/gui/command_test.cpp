// SPDX-License-Identifier: Apache-2.0
// `plimsoll gui` as started from a shell, without a display.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <QImage>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

class GuiCommandTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    if (!std::filesystem::exists(kProgram + "-gui")) GTEST_SKIP() << "build the target plimsoll_gui first";
  }
};

const std::string kStudy = std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies/jumpstart-7b-p4d.yaml";

TEST_F(GuiCommandTest, EveryListedViewHasAPicture) {
  const Outcome list = run("gui --list-views");
  ASSERT_EQ(list.exit, 0) << list.output;
  std::istringstream lines(list.output);
  int scale = 2;  // of the first view; four times the pixels take four times as long to compress
  for (std::string line; std::getline(lines, line); scale = 1) {
    const std::string view = line.substr(0, line.find(' '));
    const std::string picture = this->file("shot-" + view + ".png");
    const Outcome shot = run("gui --screenshot " + picture + " --view " + view + " --size 1100x600 --scale " +
                             std::to_string(scale) + " " + kStudy);
    ASSERT_EQ(shot.exit, 0) << view << ": " << shot.output;
    const QImage image(QString::fromStdString(picture));
    EXPECT_EQ(image.size(), QSize(1100, 600) * scale) << view;
  }
}

// The factor of the user's desktop used to be overwritten by the default of --scale.
TEST_F(GuiCommandTest, TheDesktopsScaleApplies) {
  ASSERT_TRUE(qputenv("QT_SCALE_FACTOR", "1.5"));
  const std::string picture = file("scaled.png");
  const Outcome shot = run("gui --screenshot " + picture + " --size 800x600 " + kStudy);
  qunsetenv("QT_SCALE_FACTOR");
  ASSERT_EQ(shot.exit, 0) << shot.output;
  EXPECT_EQ(QImage(QString::fromStdString(picture)).size(), QSize(1200, 900));
}

TEST_F(GuiCommandTest, BadUseIsOneLineAndExitTwo) {
  for (const char* const arguments :
       {"--view nonsense --screenshot x.png", "--size 3x4", "--theme pink", "--nonsense",
        "--screenshot x.png --scale 0", "--scale 99", "--scale abc", "--screenshot x.png --scale 4 --size 8000x8000",
        "--screenshot x.png /nowhere.yaml"}) {
    const Outcome outcome = run(std::string("gui ") + arguments, "2>&1 < /dev/null");
    EXPECT_EQ(outcome.exit, 2) << arguments << ": " << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("plimsoll: "));
    EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  }
}

}  // namespace
}  // namespace plimsoll::study
