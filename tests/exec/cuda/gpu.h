// SPDX-License-Identifier: Apache-2.0
// Finds out if there is a GPU to test on (or its emulation).
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace plimsoll::exec {

/// Returns an empty string if the CUDA backend can run, else the reason.
[[nodiscard]] std::string gpu_problem();

/// Returns an empty string if NCCL can connect that many ranks here, else the reason. That needs a GPU per rank, or two
/// ranks on the only GPU, which NCCL 2.30 and later allow if NCCL_MULTI_RANK_GPU_ENABLE is set (this function sets it).
/// A failure after an empty result is a real failure.
[[nodiscard]] std::string nccl_problem(int ranks);

}  // namespace plimsoll::exec

/// Skips the test, visibly, without a GPU.
#define PLIMSOLL_NEEDS_GPU()                                                                  \
  do {                                                                                        \
    if (const std::string problem = gpu_problem(); !problem.empty()) GTEST_SKIP() << problem; \
  } while (false)
