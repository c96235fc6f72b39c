// SPDX-License-Identifier: Apache-2.0
// Whether there is a GPU to test on (or its emulation).
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::exec {

/// Empty where the CUDA backend can run, else why not.
[[nodiscard]] std::string gpu_problem();

/// Empty where NCCL can join so many ranks here: with a GPU a rank, or two on the only one, which NCCL 2.30 and later
/// allow when NCCL_MULTI_RANK_GPU_ENABLE says so (this function does). Else why not; anything that fails then is a
/// failure.
[[nodiscard]] std::string nccl_problem(int ranks);

}  // namespace plimsoll::exec

/// Skips the test, visibly, where there is no GPU.
#define PLIMSOLL_NEEDS_GPU()                                                                  \
  do {                                                                                        \
    if (const std::string problem = gpu_problem(); !problem.empty()) GTEST_SKIP() << problem; \
  } while (false)
