// SPDX-License-Identifier: Apache-2.0
#include "sim/step_series.h"

#include <gtest/gtest.h>

#include "tests/sim/scenarios.h"

namespace plimsoll::sim {
namespace {

class StepSeriesTest : public ::testing::Test {
 protected:
  StepSeriesTest()
      : scenario_(testing::base_scenario()),
        cost_({.shape = scenario_.shape.get(),
               .accelerator = scenario_.accelerator.get(),
               .interconnect = nullptr,
               .engine = scenario_.engine.get(),
               .weight_dtype = model::DType::fp16,
               .kv_dtype = model::DType::fp16,
               .tp = 1,
               .pp = 1}) {}

  StepSeries series(std::int64_t rows, double context_a_row) {
    const auto n = static_cast<double>(rows);
    return {cost_.decode_curve(rows), {n * context_a_row, n * context_a_row}, {n, n}};
  }

  load::Scenario scenario_;
  model::ForwardCost cost_;
};

// The contract of a leap: equal to the sum of the single steps within 1e-11, for every cell that the simulator may use.
TEST_F(StepSeriesTest, SumsAgreeWithSingleStepsTo1e11) {
  for (const std::int64_t rows : {1, 7, 64, 500})
    for (const double context : {1.0, 40.0, 300.0, 3000.0}) {
      const StepSeries s = series(rows, context);
      for (std::int64_t n = 1; n <= s.cell(); n = n * 3 / 2 + 1) {
        long double direct = 0;
        for (std::int64_t j = 0; j < n; ++j) direct += s.at(static_cast<double>(j));
        const auto expected = static_cast<double>(direct);
        EXPECT_NEAR(s.sum(n), expected, 1e-11 * expected) << rows << " rows, context " << context << ", n " << n;
      }
    }
}

TEST_F(StepSeriesTest, MomentsAgreeWithSingleSteps) {
  const StepSeries s = series(50, 800);
  const std::int64_t n = s.cell();
  double m1 = 0, m2 = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    const auto x = static_cast<double>(j);
    m1 += x * s.at(x);
    m2 += x * x * s.at(x);
  }
  sched::StepsTime time;
  s.measure(n, time);
  EXPECT_NEAR(time.moment1, m1, 1e-10 * m1);
  EXPECT_NEAR(time.moment2, m2, 1e-10 * m2);
  EXPECT_NEAR(time.parts.total(), time.total, 1e-10 * time.total);
}

// steps_within() is the inverse of sum(): exactly from sum(k) on, k steps fit a span.
TEST_F(StepSeriesTest, FindsHowManyStepsFit) {
  const StepSeries s = series(20, 1000);
  const std::int64_t n = s.cell();
  const double total = s.sum(n);
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, std::int64_t{17}, n - 1, n}) {
    double elapsed = -1;
    EXPECT_EQ(s.steps_within(s.sum(k) * (1 + 1e-9), n, elapsed), k);
    EXPECT_NEAR(elapsed, s.sum(k), 1e-10 * total);
  }
}

// Leaps and steps fill the same bins of the histogram.
TEST_F(StepSeriesTest, GapsFillTheHistogramLikeSingleSteps) {
  const StepSeries s = series(300, 500);
  const std::int64_t n = s.cell();
  sched::HistogramShare leaping;
  sched::LogHistogram stepping;
  s.add_gaps(n, 300, s.sum(n), leaping);
  for (std::int64_t j = 1; j < n; ++j) stepping.add(s.at(static_cast<double>(j)), 300);
  EXPECT_EQ(leaping.counts().count(), stepping.count());
  EXPECT_NEAR(leaping.sum() / static_cast<double>(stepping.count()), stepping.mean(), 1e-10);
  for (const double q : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) EXPECT_EQ(leaping.counts().quantile(q), stepping.quantile(q));
}

}  // namespace
}  // namespace plimsoll::sim
