// SPDX-License-Identifier: Apache-2.0
// Determines whether there is a GPU to test on (or its emulation).
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::exec {

/// Returns an empty string if the CUDA backend can run, otherwise the reason.
[[nodiscard]] std::string gpu_problem();

/// Returns an empty string if NCCL can connect that many ranks here, otherwise the reason. It can with a GPU per rank.
/// NCCL 2.30 and later can also run two ranks on the only GPU with NCCL_MULTI_RANK_GPU_ENABLE, which this function
/// sets. A failure after an empty result is a real failure.
[[nodiscard]] std::string nccl_problem(int ranks);

}  // namespace plimsoll::exec

/// Skips the test, with a visible reason, if there is no GPU.
#define PLIMSOLL_NEEDS_GPU()                                                                  \
  do {                                                                                        \
    if (const std::string problem = gpu_problem(); !problem.empty()) GTEST_SKIP() << problem; \
  } while (false)
