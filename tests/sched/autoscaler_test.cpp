// SPDX-License-Identifier: Apache-2.0
#include "sched/autoscaler.h"

#include <gtest/gtest.h>

namespace plimsoll::sched {
namespace {

constexpr Nanos kMinute = 60'000'000'000;

AutoscalingConfig invocations(double target) {
  AutoscalingConfig config;
  config.max = 10;
  config.target = target;
  return config;
}

// 150 invocations per minute on one replica with target 70 for 3 minutes: ceil(150 / 70) = 3 replicas.
TEST(Autoscaler, ThreePointsAboveTheTargetScaleOut) {
  Autoscaler scaler(invocations(70), 1);
  EXPECT_EQ(scaler.on_point(1 * kMinute, 150, 1), 1);
  EXPECT_EQ(scaler.on_point(2 * kMinute, 150, 1), 1);
  EXPECT_EQ(scaler.on_point(3 * kMinute, 150, 1), 3);
}

// Then 100 per minute over 3 replicas: 33 < 63 = 0.9 x 70. Scaling in takes 15 points and must wait for the cooldown of
// the scale-out: at minute 18, ceil(100 / 70) = 2 are left. The next scale-in must wait for its own cooldown.
TEST(Autoscaler, ScaleInTakesFifteenPoints) {
  Autoscaler scaler(invocations(70), 1);
  for (int m = 1; m <= 3; ++m) scaler.on_point(m * kMinute, 150, 1);
  for (int m = 4; m <= 17; ++m) EXPECT_EQ(scaler.on_point(m * kMinute, 100, 3), 3) << m;
  EXPECT_EQ(scaler.on_point(18 * kMinute, 100, 3), 2);
  for (int m = 19; m <= 22; ++m) EXPECT_EQ(scaler.on_point(m * kMinute, 10, 2), 2) << "cooldown at minute " << m;
  EXPECT_EQ(scaler.on_point(23 * kMinute, 10, 2), 1);
}

// A century in periods of a millisecond has more points than 32 bits can count: the fleet must stay as it is.
TEST(Autoscaler, ALongTimeOfShortPeriodsIsLong) {
  AutoscalingConfig config = invocations(70);
  config.period = 1'000'000;
  config.in_time = Nanos{3'155'760'000} * 1'000'000'000;
  config.out_cooldown = config.in_cooldown = 0;
  Autoscaler scaler(config, 3);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(scaler.on_point(i * config.period, 1, 3), 3);
}

TEST(Autoscaler, OnePointBetweenStartsTheCountAnew) {
  Autoscaler scaler(invocations(70), 1);
  scaler.on_point(1 * kMinute, 150, 1);
  scaler.on_point(2 * kMinute, 150, 1);
  scaler.on_point(3 * kMinute, 60, 1);
  scaler.on_point(4 * kMinute, 150, 1);
  EXPECT_EQ(scaler.on_point(5 * kMinute, 150, 1), 1);
  EXPECT_EQ(scaler.on_point(6 * kMinute, 150, 1), 3);
}

// While replicas start, the old ones stay above the target: more are added only if even more are wanted.
TEST(Autoscaler, DuringTheCooldownOnlyMoreLoadAddsMore) {
  Autoscaler scaler(invocations(70), 1);
  for (int m = 1; m <= 3; ++m) scaler.on_point(m * kMinute, 150, 1);
  EXPECT_EQ(scaler.on_point(4 * kMinute, 150, 1), 3);
  EXPECT_EQ(scaler.on_point(5 * kMinute, 300, 1), 5);
}

TEST(Autoscaler, AScaleOutDuringTheScaleInCooldownIsImmediate) {
  Autoscaler scaler(invocations(70), 3);
  for (int m = 1; m <= 15; ++m) scaler.on_point(m * kMinute, 100, 3);
  ASSERT_EQ(scaler.wanted(), 2);
  for (int m = 16; m <= 17; ++m) EXPECT_EQ(scaler.on_point(m * kMinute, 400, 2), 2);
  EXPECT_EQ(scaler.on_point(18 * kMinute, 400, 2), 6);
}

TEST(Autoscaler, ItStaysWithinItsLimits) {
  AutoscalingConfig config = invocations(10);
  config.min = 2;
  config.max = 4;
  Autoscaler scaler(config, 1);
  EXPECT_EQ(scaler.wanted(), 2);
  for (int m = 1; m <= 3; ++m) scaler.on_point(m * kMinute, 1000, 2);
  EXPECT_EQ(scaler.wanted(), 4);
  for (int m = 4; m <= 40; ++m) scaler.on_point(m * kMinute, 0, 4);
  EXPECT_EQ(scaler.wanted(), 2);
}

// 3 replicas are enough for a load of exactly 3 targets.
TEST(Autoscaler, WholeMultiplesNeedNoMore) {
  Autoscaler scaler(invocations(0.1), 1);
  for (int m = 1; m <= 3; ++m) scaler.on_point(m * kMinute, 0.3, 1);
  EXPECT_EQ(scaler.wanted(), 3);
}

}  // namespace
}  // namespace plimsoll::sched
