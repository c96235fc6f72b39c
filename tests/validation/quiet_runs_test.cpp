// SPDX-License-Identifier: Apache-2.0
#include "validation/quiet_runs.h"

#include <gtest/gtest.h>

#include <deque>

namespace plimsoll::validation {
namespace {

constexpr exec::SteadyRates kQuiet{30e9, 200e9}, kNoisy{26e9, 200e9}, kSlow{30e9, 170e9};

// Returns the given probes in order; each is an independent measurement.
struct Machine {
  std::deque<exec::SteadyRates> probes;
  int runs = 0;
  [[nodiscard]] QuietSettings settings() {
    return {.reference = kQuiet,
            .tolerance = 0.1,
            .most_attempts = 5,
            .probe =
                [this] {
                  const exec::SteadyRates next = probes.front();
                  if (probes.size() > 1) probes.pop_front();
                  return next;
                },
            .control = nullptr};
  }
  [[nodiscard]] study::RunPoint measure() {
    return [this](const study::PointResult&, const load::Scenario&, const sim::RunOptions&) {
      ++runs;
      sim::RunResult result;
      result.steps_run = runs;
      return result;
    };
  }
};

std::int64_t run(QuietRuns& runs, std::size_t index) {
  study::PointResult point;
  point.index = index;
  return runs.run(point, {}, {}).steps_run;
}

TEST(QuietRuns, ARateThatDiffersByMoreThanTheToleranceIsNotQuiet) {
  EXPECT_TRUE(is_quiet({32.9e9, 200e9}, kQuiet, 0.1));
  EXPECT_FALSE(is_quiet(kNoisy, kQuiet, 0.1));         // 13 % less bandwidth
  EXPECT_FALSE(is_quiet(kSlow, kQuiet, 0.1));          // 15 % fewer multiply-adds
  EXPECT_FALSE(is_quiet({34e9, 200e9}, kQuiet, 0.1));  // faster than the calibration is not quiet either
}

// One probe before the first point and one after each: the probe after a point is also the one before the next.
TEST(QuietRuns, QuietPointsAreMeasuredOnce) {
  Machine machine{.probes = {kQuiet, kQuiet, kQuiet}};
  QuietRuns runs(machine.settings(), machine.measure());
  run(runs, 0);
  run(runs, 1);
  ASSERT_EQ(runs.records().size(), 2U);
  EXPECT_TRUE(runs.records()[1].quiet);
  EXPECT_EQ(runs.records()[1].attempts, 1);
  EXPECT_EQ(runs.records()[1].point, 1U);
}

// The probe after the first attempt is noisy; the next one, before the second attempt, is quiet again.
TEST(QuietRuns, ADisturbedPointIsMeasuredAgainAndTheQuietAttemptIsKept) {
  Machine machine{.probes = {kQuiet, kNoisy, kQuiet, kQuiet}};
  QuietRuns runs(machine.settings(), machine.measure());
  EXPECT_EQ(run(runs, 0), 2);
  EXPECT_TRUE(runs.records()[0].quiet);
  EXPECT_EQ(runs.records()[0].attempts, 2);
}

// Noise after a point does not count against the next point.
TEST(QuietRuns, ANoisyProbeSpoilsOnePoint) {
  Machine machine{.probes = {kQuiet, kNoisy, kQuiet, kQuiet}};
  QuietSettings settings = machine.settings();
  settings.most_attempts = 1;
  QuietRuns runs(settings, machine.measure());
  run(runs, 0);
  run(runs, 1);
  EXPECT_FALSE(runs.records()[0].quiet);
  EXPECT_TRUE(runs.records()[1].quiet);
}

TEST(QuietRuns, RepeatsNothingWhenPatienceIsOver) {
  Machine machine{.probes = {kSlow}};
  QuietSettings settings = machine.settings();
  settings.patience = 0;
  QuietRuns runs(settings, machine.measure());
  run(runs, 0);
  EXPECT_EQ(runs.records()[0].attempts, 1);
}

TEST(QuietRuns, GivesUpAfterSoManyAttemptsAndSaysSo) {
  Machine machine{.probes = {kSlow}};
  QuietRuns runs(machine.settings(), machine.measure());
  EXPECT_EQ(run(runs, 0), 5);
  EXPECT_FALSE(runs.records()[0].quiet);
  EXPECT_EQ(runs.records()[0].after.multiply_add, kSlow.multiply_add);
}

// Without calibrated rates, the first probes of the run define what is quiet.
TEST(QuietRuns, TheFirstProbesStandInForACalibration) {
  Machine machine{.probes = {kSlow, kSlow}};
  QuietSettings settings = machine.settings();
  settings.reference = {};
  QuietRuns runs(settings, machine.measure());
  run(runs, 0);
  EXPECT_TRUE(runs.records()[0].quiet);
  EXPECT_EQ(runs.reference().multiply_add, kSlow.multiply_add);
}

}  // namespace
}  // namespace plimsoll::validation
