// SPDX-License-Identifier: Apache-2.0
#include "calibration/machine_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace plimsoll::calibration {
namespace {

HostSample run_of(HostSample run, const std::array<double, 4>& x) {
  run.seconds = run.steps * x[0] + run.rows * x[1] + run.tokens * x[2] + run.prompts * x[3];
  return run;
}

std::vector<HostSample> samples_of(const std::array<double, 4>& x) {
  return {run_of({1200, 1200, 1290, 6}, x), run_of({200, 800, 920, 8}, x), run_of({120, 1920, 2400, 32}, x),
          run_of({12, 32, 272, 16}, x),     run_of({48, 48, 1578, 6}, x),  run_of({12, 12, 2406, 6}, x)};
}

// Times that are exactly such a sum have a unique solution.
TEST(HostFit, FindsTheTimesARunIsMadeOf) {
  const std::array<double, 4> x = {12e-6, 0.4e-6, 0.02e-6, 30e-6}, found = fit_host(samples_of(x));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(found[i], x[i], 1e-9 * x[0]) << i;
}

// If the best fit needs a negative time, that term is dropped and the others are fitted without it.
TEST(HostFit, LeavesOutATermRatherThanPayingForIt) {
  std::array<double, 4> x = {12e-6, 0.4e-6, -0.002e-6, 30e-6};
  const std::array<double, 4> found = fit_host(samples_of(x));
  double error = 0;
  for (const HostSample& s : samples_of(x)) {
    const double predicted = s.steps * found[0] + s.rows * found[1] + s.tokens * found[2] + s.prompts * found[3];
    error = std::max(error, std::abs(predicted / s.seconds - 1));
  }
  for (const double time : found) EXPECT_GE(time, 0);
  EXPECT_EQ(found[2], 0);
  EXPECT_LT(error, 0.02);
}

}  // namespace
}  // namespace plimsoll::calibration
