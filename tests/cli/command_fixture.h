// SPDX-License-Identifier: Apache-2.0
// Runs the program as a user does.
#pragma once

#include "tests/shell.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {

class CommandTest : public StudyFolder {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << "build the target plimsoll_exe first: " << kProgram;
    ::setenv("XDG_DATA_HOME", file("data").c_str(), 1);  // no calibration of the user's own
  }
  static Outcome run(const std::string& arguments, const std::string& redirect = "2>&1") {
    return shell(kProgram + " " + arguments + " " + redirect);
  }
  inline static const std::string kProgram = std::string(PLIMSOLL_BINARY_DIR) + "/plimsoll";
};

}  // namespace plimsoll::study
