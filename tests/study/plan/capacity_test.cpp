// SPDX-License-Identifier: Apache-2.0
// The largest load within an SLO, against queues that have a formula.
#include "study/plan/capacity.h"

#include "study/plan/bracket.h"
#include "study/plan/load_curve.h"
#include "tests/study/plan/plan_study.h"

namespace plimsoll::study::plan {
namespace {

class CapacityTest : public PlanFolder {
 protected:
  [[nodiscard]] Capacity capacity(const std::string& slo, const Overrides& overrides = {}, int jobs = 2) const {
    const Searched found = search(queue_study("{poisson: {rate: 5 /s}}", slo, "{replicas: [1], objective: capacity}"), overrides, jobs);
    return found.answer.entries.front().capacity.value();
  }
};

// M/D/1 of D = 100 ms: mean latency D + rho D / (2 (1 - rho)). 200 ms is reached at rho = 2/3: 6.667 /s.
TEST_F(CapacityTest, MeanLatencyOfAnMD1) {
  const Capacity found = capacity("{mean_latency: 200 ms}");
  EXPECT_NEAR(found.load.mean, 20.0 / 3, std::max(0.02 * 20 / 3, found.load.half_width));
  EXPECT_LT(found.load.half_width, 0.5);
  ASSERT_TRUE(found.failing);
  EXPECT_LT(found.passing, *found.failing);
  EXPECT_LT(*found.at_passing->latency.mean, 0.2);
  EXPECT_GT(found.at_failing->latency.mean.value_or(1e9), 0.2);
}

// Without an SLO what counts is whether the queue ends: 10 /s.
TEST_F(CapacityTest, WithoutAnSloItIsTheServiceRate) {
  EXPECT_NEAR(capacity("{}").load.mean, 10, 0.8);
}

TEST_F(CapacityTest, ItGrowsWithTheSlo) {
  double before = 0;
  for (const char* const slo : {"{p90_latency: 150 ms}", "{p90_latency: 250 ms}", "{p90_latency: 400 ms}", "{p90_latency: 800 ms}"}) {
    const double load = capacity(slo).load.mean;
    EXPECT_GT(load, before) << slo;
    before = load;
  }
}

TEST_F(CapacityTest, NeitherJobsNorSeedChangeIt) {
  const Capacity one = capacity("{p90_latency: 300 ms}", {}, 1), two = capacity("{p90_latency: 300 ms}", {}, 2);
  EXPECT_EQ(one.load.mean, two.load.mean);
  const Capacity other = capacity("{p90_latency: 300 ms}", {{"seed", "99"}});
  EXPECT_NEAR(other.load.mean, one.load.mean, 1.5 * (other.load.half_width + one.load.half_width));
}

// Closed loop, one server: N clients wait N x 100 ms each; 1 s is kept by 10.
TEST_F(CapacityTest, ClientsAreWhole) {
  const Searched found = search(queue_study("{closed_loop: {concurrency: 3}}", "{p90_latency: 1.05 s}", "{replicas: [1], objective: capacity}"));
  EXPECT_EQ(found.answer.entries.front().capacity.value().passing, 10);
  EXPECT_EQ(found.answer.entries.front().capacity.value().failing, 11);
}

// Two servers carry twice what one does, and win.
TEST_F(CapacityTest, MoreServersCarryMore) {
  const Searched found = search(queue_study("{poisson: {rate: 5 /s}}", "{p90_latency: 400 ms}", "{replicas: [1, 2, 3], objective: capacity}"));
  EXPECT_EQ(found.winner().spec.deployment.replicas, 3);
}

TEST(Bracket, ClosesOnTheEdge) {
  Bracket bracket(1, 2, 0.01, false);
  while (const auto load = bracket.next()) bracket.answer(*load, *load <= 37.3);
  EXPECT_LE(bracket.passing(), 37.3);
  EXPECT_GT(bracket.failing().value(), 37.3);
  EXPECT_NEAR(bracket.value(), 37.3, 0.4);
}

TEST(Bracket, NothingPasses) {
  Bracket bracket(16, 2, 0.01, true);
  while (const auto load = bracket.next()) bracket.answer(*load, false);
  EXPECT_EQ(bracket.passing(), 0);
  EXPECT_EQ(bracket.failing(), 1);
}

// M/M/1 latency 1 / (mu - lambda), mu = 1: twice that at half the load where 1 / (1 - x) = 2 / (1 - x / 2), x = 2/3.
TEST(Knee, HalfLatencyOfAnMM1) {
  std::vector<double> load, latency;
  for (int i = 1; i < 95; ++i) {
    load.push_back(0.01 * i);
    latency.push_back(1 / (1 - load.back()));
  }
  EXPECT_NEAR(half_latency_knee(load, latency).value(), 2.0 / 3, 0.005);
}

// Two straight lines meet at 6: there the curve bends most.
TEST(Knee, CurvatureOfAnElbow) {
  std::vector<double> load, latency;
  for (int i = 0; i <= 10; ++i) {
    load.push_back(i);
    latency.push_back(i <= 6 ? 1 : 1 + 3 * (i - 6));
  }
  EXPECT_EQ(max_curvature_knee(load, latency), 6);
}

}  // namespace
}  // namespace plimsoll::study::plan
