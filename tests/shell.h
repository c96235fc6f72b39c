// SPDX-License-Identifier: Apache-2.0
// Runs a command line as a user does.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace plimsoll {

struct Outcome {
  int exit = -1;       // as a shell states it: 128 + the number of a signal
  std::string output;  // standard output; standard error too if the command redirects it there
};

/// Runs a command line with /bin/sh until it ends.
inline Outcome shell(const std::string& command) {
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  Outcome outcome;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), size);
  const int status = ::pclose(pipe);
  outcome.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace plimsoll
