// SPDX-License-Identifier: Apache-2.0
// Runs the program as a user does.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "tests/study/study_file.h"

namespace plimsoll::study {

struct Outcome {
  int exit = -1;
  std::string output;  // standard output and standard error
};

class CommandTest : public StudyFolder {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kProgram)) GTEST_SKIP() << "build the target plimsoll_exe first: " << kProgram;
    ::setenv("XDG_DATA_HOME", file("data").c_str(), 1);  // no calibration of the user's own
  }
  static Outcome run(const std::string& arguments, const std::string& redirect = "2>&1") {
    return shell(kProgram + " " + arguments + " " + redirect);
  }
  static Outcome shell(const std::string& command) {
    Outcome outcome;
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    std::array<char, 4096> buffer{};
    while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe))
      outcome.output.append(buffer.data(), size);
    const int status = ::pclose(pipe);
    outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }
  inline static const std::string kProgram = std::string(PLIMSOLL_BINARY_DIR) + "/plimsoll";
};

}  // namespace plimsoll::study
