// SPDX-License-Identifier: Apache-2.0
// A load beyond a stated rate is unstable, however little of it a run leaves unserved.
#include "study/run/rate_bound.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "study/run/resolve.h"
#include "study/run/simulate_point.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

class RateBoundTest : public StudyFolder {
 protected:
  [[nodiscard]] sched::SteadyState steady(const std::string& yaml, const Overrides& overrides = {}) const {
    const FinishedPoint point = simulate_point(resolve_point(read(yaml, overrides), 0));
    return point.result.metrics.value().steady;
  }
};

// A prompt of 1000 tokens takes 100 ms of a prefill node, an answer of 101 tokens 100 ms of a decode node.
std::string pools_of(int prefill, int decode, const std::string& load) {
  return fmt::format(
      "study: rates\nengine: sglang-0.5\ndeployment:\n  pools:\n"
      "    prefill: {{replicas: {}, rates: {{prefill_tokens_per_s: 10k}}}}\n"
      "    decode: {{replicas: {}, rates: {{decode_tokens_per_s: 1k}}, scheduler: {{max_running: 512}}}}\n"
      "  transfer: {{bandwidth: unlimited, launch: 0 s}}\n"
      "workload:\n  load: {}\n  lengths: {{input: 1000, output: 101}}\n  requests: 2000\n",
      prefill, decode, load);
}

// 20.1 requests/s are the work of 2.01 nodes of either pool. With two of one pool 99.5 % of the load is served.
TEST_F(RateBoundTest, APoolBeyondItsRateIsUnstable) {
  const sched::SteadyState decode = steady(pools_of(4, 2, "{poisson: {rate: 20.1 /s}}"));
  EXPECT_EQ(decode.verdict, sched::Steadiness::unstable);
  EXPECT_TRUE(decode.grows);
  EXPECT_EQ(decode.reason, "the backlog grows: the load needs 2.01 decode replicas, but there are 2");
  const sched::SteadyState prefill = steady(pools_of(2, 4, "{poisson: {rate: 20.1 /s}}"));
  EXPECT_EQ(prefill.verdict, sched::Steadiness::unstable);
  EXPECT_THAT(prefill.reason, HasSubstr("2.01 prefill replicas"));
  EXPECT_EQ(steady(pools_of(4, 4, "{poisson: {rate: 20.1 /s}}")).verdict, sched::Steadiness::stable);
}

TEST_F(RateBoundTest, AtItsRateAPoolKeepsUpWithEvenArrivalsOnly) {
  const sched::SteadyState random = steady(pools_of(4, 2, "{poisson: {rate: 20 /s}}"));
  EXPECT_EQ(random.verdict, sched::Steadiness::unstable);
  EXPECT_THAT(random.reason, HasSubstr("equals the capacity of 2 decode replicas"));
  EXPECT_EQ(steady(pools_of(4, 2, "{constant: {rate: 20 /s}}")).verdict, sched::Steadiness::stable);
}

// Clients that give up take load away: a deployment that loses less than 3 % of the requests carries the load.
TEST_F(RateBoundTest, ClientsThatGiveUpMayCarryTheExcess) {
  const std::string yaml = pools_of(4, 2, "{poisson: {rate: 20.1 /s}}") + "limits: {timeout: 60 s}\n";
  EXPECT_NE(steady(yaml).verdict, sched::Steadiness::unstable);
}

// One pool of five places: an answer of 101 tokens at 10 ms each holds a place for 1.01 s, so 4.95 requests/s.
TEST_F(RateBoundTest, OnePoolOfConstantStepsIsJudgedAlike) {
  const std::string yaml =
      "study: queue\nengine: {constant: {prefill: 0 s, decode: 10 ms}}\n"
      "scheduler: {policy: vllm_v1, block_size: 16, max_running: 5}\n"
      "workload:\n  load: {poisson: {rate: 4.97 /s}}\n  lengths: {input: 10, output: 101}\n  requests: 3000\n";
  EXPECT_EQ(steady(yaml).verdict, sched::Steadiness::unstable);
  EXPECT_THAT(steady(yaml).reason, HasSubstr("the load needs 1.0039 replicas, but there is 1"));
}

// The means of drawn lengths are known. Answers of 2 to 200 tokens have 101 on average, as above.
TEST_F(RateBoundTest, DrawnLengthsHaveKnownMeans) {
  const Overrides drawn = {{"workload.lengths.output", "{uniform: {min: 2, max: 200}}"}};
  const Study study = read(pools_of(4, 2, "{poisson: {rate: 20.1 /s}}"), drawn);
  EXPECT_DOUBLE_EQ(RateBound().need(study.point(0)).value().decode, 2.01);
  EXPECT_EQ(steady(pools_of(4, 2, "{poisson: {rate: 20.1 /s}}"), drawn).verdict, sched::Steadiness::unstable);
  const Overrides geometric = {{"workload.lengths.output", "{geometric: {mean: 101}}"}};
  EXPECT_DOUBLE_EQ(
      RateBound().need(read(pools_of(4, 2, "{poisson: {rate: 20.1 /s}}"), geometric).point(0)).value().decode, 2.01);
}

// One decode node fewer than DeepSeek's day needs, 131 of 131.2, is refused by simulate as by plan.
TEST_F(RateBoundTest, DeepSeeksDayNeedsTheNodesOfItsRates) {
  const auto verdict = [](const char* decode) {
    const Study study(std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies/pools-deepseek-day.yaml",
                      {{"deployment.pools.prefill.replicas", "96"},
                       {"deployment.pools.decode.replicas", decode},
                       {"workload.duration", "4 s"},
                       {"workload.warmup", "1 s"}},
                      shipped_catalogue());
    return simulate_point(resolve_point(study, 0)).result.metrics.value().steady;
  };
  EXPECT_EQ(verdict("131").reason, "the backlog grows: the load needs 131.23 decode replicas, but there are 131");
  EXPECT_NE(verdict("132").verdict, sched::Steadiness::unstable);
}

}  // namespace
}  // namespace plimsoll::study
