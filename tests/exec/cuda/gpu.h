// SPDX-License-Identifier: Apache-2.0
// Whether there is a GPU to test on (or its emulation).
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::exec {

/// Empty where the CUDA backend can run, else why not.
[[nodiscard]] std::string gpu_problem();

}  // namespace plimsoll::exec

/// Skips the test, visibly, where there is no GPU.
#define PLIMSOLL_NEEDS_GPU()                                              \
  do {                                                                    \
    if (const std::string problem = gpu_problem(); !problem.empty()) GTEST_SKIP() << problem; \
  } while (false)
