// SPDX-License-Identifier: Apache-2.0
// A workbench with a study that takes milliseconds to simulate, and functions that wait for it.
#pragma once

#include <gmock/gmock.h>

#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>
#include <string>

#include "gui/core/text.h"
#include "gui/core/workbench.h"

namespace plimsoll::gui {

inline const std::string kJumpStart = std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies/jumpstart-7b-p4d.yaml";

/// The longest wait for an event. On an idle machine events come immediately, with twenty jobs per core they may take
/// minutes. There is never a fixed sleep.
inline constexpr int kPatienceMs = 300'000;

class BenchTest : public ::testing::Test {
 protected:
  /// Waits until no work is in progress. Uses a deadline, not a sleep: it ends as soon as possible.
  static void settle(Workbench& bench) {
    const bool done = QTest::qWaitFor([&] { return !bench.is_busy() && !bench.tasks().busy(); }, kPatienceMs);
    ASSERT_TRUE(done) << "the lanes did not come to rest";
    for (int turn = 0; turn < 3; ++turn) QCoreApplication::processEvents();  // delivered results request a redraw
  }
  void open(Workbench& bench, const std::string& file) {
    bench.open(qs(file));
    settle(bench);
  }
  std::string write(const std::string& name, const std::string& text) {
    const QString path = folder_.filePath(qs(name));
    QFile file(path);
    EXPECT_TRUE(file.open(QIODevice::WriteOnly));
    file.write(QByteArray::fromStdString(text));
    return utf8(path);
  }
  QTemporaryDir folder_;
};

}  // namespace plimsoll::gui
