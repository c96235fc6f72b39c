// SPDX-License-Identifier: Apache-2.0
#include "sched/log_histogram.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace plimsoll::sched {
namespace {

constexpr double kError = 1.0000001e-3;  // 0.1 %, plus the rounding of exp and log

rc::Gen<std::vector<double>> times() {
  return rc::gen::container<std::vector<double>>(rc::gen::map(rc::gen::inRange<std::int64_t>(1, 40'000'000'000),
                                                              [](auto n) { return static_cast<double>(n) * 1e-9; }));
}

TEST(LogHistogram, IsEmptyAtFirst) {
  const LogHistogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.mean(), 0);
  EXPECT_EQ(histogram.quantile(0.5), 0);
}

RC_GTEST_PROP(LogHistogram, QuantilesAreWithinATenthOfAPercentOfTheOrderStatistic, ()) {
  auto values = *rc::gen::nonEmpty(times());
  LogHistogram histogram;
  for (const double value : values) histogram.add(value, 1);
  std::sort(values.begin(), values.end());
  for (const double q : {0.0, 0.5, 0.9, 0.99, 1.0}) {
    const double exact = values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
    RC_ASSERT(std::fabs(histogram.quantile(q) - exact) <= kError * exact);
  }
}

RC_GTEST_PROP(LogHistogram, OrderWeightsAndGroupingDoNotMatter, ()) {
  const auto values = *times();
  LogHistogram one_by_one, weighted, left, right;
  for (const double value : values)
    for (int i = 0; i < 3; ++i) one_by_one.add(value, 1);
  for (auto value = values.rbegin(); value != values.rend(); ++value) weighted.add(*value, 3);
  for (std::size_t i = 0; i < values.size(); ++i) (i % 2 == 0 ? left : right).add(values[i], 3);
  left.merge(right);
  for (const LogHistogram* other : {&weighted, &left}) {
    RC_ASSERT(other->count() == one_by_one.count());
    RC_ASSERT(std::fabs(other->mean() - one_by_one.mean()) <= 1e-12 * one_by_one.mean());
    for (const double q : {0.0, 0.1, 0.5, 0.95, 1.0}) RC_ASSERT(other->quantile(q) == one_by_one.quantile(q));
  }
}

TEST(LogHistogram, ZeroAndBelowCountAsZero) {
  LogHistogram histogram;
  histogram.add(0, 3);
  histogram.add(-1, 1);
  histogram.add(2, 4);
  histogram.add(5, 0);  // a value without weight does not count
  EXPECT_EQ(histogram.count(), 8);
  EXPECT_EQ(histogram.quantile(0.4), 0);
  EXPECT_NEAR(histogram.quantile(1), 2, 2 * kError);
  EXPECT_DOUBLE_EQ(histogram.mean(), 1);
}

TEST(LogHistogram, MergingKeepsTheZeros) {
  LogHistogram zeros, values;
  zeros.add(0, 2);
  values.add(1, 2);
  values.merge(zeros);
  EXPECT_EQ(values.count(), 4);
  EXPECT_DOUBLE_EQ(values.mean(), 0.5);
  EXPECT_EQ(values.quantile(0.3), 0);
}

// The edges of adjacent bins differ by 0.2 %.
double lower_edge(std::int32_t bin) { return std::pow(1.002, bin); }

TEST(LogHistogram, ARunOfValuesInOneBinEqualsAddingEach) {
  const std::int32_t bin = LogHistogram::bin_of(0.030);
  const double low = lower_edge(bin), high = lower_edge(bin + 1);
  EXPECT_LE(low, 0.030);
  EXPECT_GT(high, 0.030);
  LogHistogram each, run;
  each.add(low + 0.25 * (high - low), 7);
  each.add(low + 0.75 * (high - low), 7);
  run.add_to_bin(bin, 14, 14 * 0.5 * (low + high));
  EXPECT_EQ(run.count(), each.count());
  EXPECT_EQ(run.quantile(0.5), each.quantile(0.5));
  EXPECT_NEAR(run.mean(), each.mean(), 1e-15);
}

RC_GTEST_PROP(LogHistogram, BinsAreMonotone, ()) {
  const auto values = *times();
  for (const double value : values) {
    RC_ASSERT(LogHistogram::bin_of(value) <= LogHistogram::bin_of(std::nextafter(value, 1e9)));
    RC_ASSERT(lower_edge(LogHistogram::bin_of(value)) <= value * (1 + 1e-12));
  }
}

}  // namespace
}  // namespace plimsoll::sched
