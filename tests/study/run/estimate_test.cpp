// SPDX-License-Identifier: Apache-2.0
// Compares the first estimate with the simulation that replaces it, where its assumptions hold.
#include "study/run/estimate.h"

#include <gtest/gtest.h>

#include "sim/simulate.h"
#include "study/run/resolve.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

class Estimate : public StudyFolder {
 protected:
  [[nodiscard]] load::Scenario scenario(const std::string& load) const {
    return *resolve_point(read("model: llama-3.1-8b\nhardware: {accelerator: h100-sxm, count: 1}\nengine: vllm-0.12\n"
                               "workload: {load: {" +
                               load + "}, lengths: {input: 200, output: 100}, requests: 400}\n"),
                          0)
                .scenario;
  }
};

TEST(MeanLengths, OfDistributionsAndTraces) {
  const load::LengthDistribution uniform{.family = load::LengthFamily::uniform, .min = 10, .max = 30};
  const auto drawn = mean_lengths({.lengths = load::IndependentLengths{uniform, load::FixedLength{7}}});
  ASSERT_TRUE(drawn);
  EXPECT_EQ(drawn->input, 20);
  EXPECT_EQ(drawn->output, 7);
  traces::Trace trace;
  EXPECT_FALSE(mean_lengths({.lengths = load::TracePairs{std::make_shared<const traces::Trace>(trace)}}));
  trace.records = {{0, 100, 3, 0}, {1, 300, 5, 0}};
  const auto rows = mean_lengths({.lengths = load::TracePairs{std::make_shared<const traces::Trace>(trace)}});
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->input, 200);
  EXPECT_EQ(rows->output, 4);
}

// The columns satisfy Little's law, and the batch contains all clients.
TEST_F(Estimate, AClosedLoopKeepsAllItsClientsInTheBatch) {
  const auto m = estimate_point(scenario("closed_loop: {concurrency: 8}"));
  ASSERT_TRUE(m);
  EXPECT_EQ(m->batch_mean, 8);
  EXPECT_NEAR(m->requests_per_s * *m->latency.mean, 8, 1e-9);
  EXPECT_EQ(m->output_tokens_per_s, 100 * m->requests_per_s);
}

// Without a queue and with equal lengths, estimate and simulation differ only by the delay from other prefills.
TEST_F(Estimate, IsNearTheSimulationBelowCapacity) {
  for (const std::string load : {"closed_loop: {concurrency: 8}", "poisson: {rate: 4 /s}"}) {
    const load::Scenario s = scenario(load);
    const auto guess = estimate_point(s);
    const sched::PointMetrics run = sim::simulate(s, {}).metrics;
    ASSERT_TRUE(guess) << load;
    EXPECT_NEAR(*guess->latency.mean, *run.latency.mean, 0.15 * *run.latency.mean) << load;
    EXPECT_NEAR(guess->requests_per_s, run.requests_per_s, 0.15 * run.requests_per_s) << load;
  }
}

TEST_F(Estimate, SaysNothingBeyondCapacityOrWithoutARate) {
  EXPECT_TRUE(estimate_point(scenario("poisson: {rate: 1 /s}")));
  EXPECT_FALSE(estimate_point(scenario("poisson: {rate: 10000 /s}")));
  EXPECT_FALSE(estimate_point(scenario("burst: {count: 5}")));
}

}  // namespace
}  // namespace plimsoll::study
