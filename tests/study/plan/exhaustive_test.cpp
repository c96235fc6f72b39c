// SPDX-License-Identifier: Apache-2.0
// Compares a search that leaves most candidates out with long runs of every candidate.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <rapidcheck.h>

#include "sim/simulate.h"
#include "study/run/resolve.h"
#include "tests/study/plan/plan_study.h"

namespace plimsoll::study::plan {
namespace {

class ExhaustiveTest : public PlanFolder {
 protected:
  enum class Verdict { keeps, misses, unclear };

  // Judges by two long runs with their own seeds; within 5 % of a limit, chance decides.
  static Verdict long_verdict(const Candidate& candidate) {
    std::size_t keeps = 0, misses = 0;
    for (const std::uint64_t seed : {1001, 1002}) {
      PointSpec spec = candidate.spec;
      spec.workload.requests = 4000;
      spec.workload.seed = seed;
      const sched::PointMetrics metrics = sim::simulate(*resolve_spec(spec).scenario).metrics;
      const sched::PointMetrics* const run = &metrics;
      const double used = standing_of(spec, std::span(&run, 1), 0.95).ratio;
      keeps += used < 0.95 ? 1 : 0;
      misses += used > 1.05 ? 1 : 0;
    }
    return keeps == 2 ? Verdict::keeps : misses == 2 ? Verdict::misses : Verdict::unclear;
  }
};

// The first token costs nothing, the other nine 10 ms each: a replica that serves m requests at once carries up to 11 m
// /s, independently of the others. The answer has the fewest replicas within the limit and, among these, the largest m,
// because it carries most.
struct Axes {
  std::vector<int> replicas, batches;
};
std::string grid(int rate, int limit_ms, const Axes& axes, const char* objective) {
  return fmt::format(
      "study: grid\nengine: {{constant: {{prefill: 0 s, decode: 10 ms}}}}\nscheduler: {{policy: vllm_v1, block_size: "
      "16}}\n"
      "workload:\n  load: {{poisson: {{rate: {} /s}}}}\n  lengths: {{input: 1, output: 10}}\n  requests: 400\n"
      "slo: {{p90_latency: {} ms}}\nsearch: {{replicas: [{}], max_running: [{}], objective: {}}}\n",
      rate, limit_ms, fmt::join(axes.replicas, ", "), fmt::join(axes.batches, ", "), objective);
}

TEST_F(ExhaustiveTest, TheCheapestIsThatOfTryingEverything) {
  const auto holds = [this] {
    const int rate = *rc::gen::inRange(5, 150), limit = *rc::gen::inRange(105, 500);
    const std::vector<int> replicas =
        *rc::gen::element(std::vector<int>{1, 2, 3, 4, 6, 8}, std::vector<int>{2, 5, 9, 12}, std::vector<int>{1, 4, 7});
    const std::vector<int> batches =
        *rc::gen::element(std::vector<int>{1, 2, 4}, std::vector<int>{2, 3}, std::vector<int>{4});
    const Searched found = search(grid(rate, limit, {replicas, batches}, *rc::gen::element("cost", "gpus")), {}, 2);
    std::map<int, std::vector<Verdict>> by_replicas;
    for (const Candidate& c : found.question.candidates)
      by_replicas[c.spec.deployment.replicas].push_back(long_verdict(c));
    for (const auto& [count, verdicts] : by_replicas) {
      if (std::find(verdicts.begin(), verdicts.end(), Verdict::keeps) == verdicts.end()) continue;
      RC_ASSERT(found.answer.winner.has_value());
      RC_ASSERT(found.winner().spec.deployment.replicas <= count);
      break;
    }
    if (!found.answer.winner) return;
    RC_ASSERT(long_verdict(found.winner()) != Verdict::misses);
    for (std::size_t i = 0; i < found.question.candidates.size(); ++i) {
      const Candidate& c = found.question.candidates[i];
      const bool same =
          c.spec.deployment.replicas == found.winner().spec.deployment.replicas && long_verdict(c) == Verdict::keeps;
      if (same) RC_ASSERT(*c.spec.policy.max_running <= *found.winner().spec.policy.max_running);
      if (found.answer.entries[i].stage == Stage::outranked) RC_ASSERT(!found.answer.entries[i].verdict.empty());
    }
  };
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = 5;  // each is a search and two long runs per candidate
  const auto result = rc::detail::checkTestable(holds, rc::detail::TestMetadata{}, params);
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  EXPECT_TRUE(result.is<rc::detail::SuccessResult>()) << text.str();
}

// A search for the largest load tests most candidates only once, just below the best load. The winner must be the one
// found by searching each candidate alone.
TEST_F(ExhaustiveTest, TheLargestCapacityIsThatOfTryingEach) {
  for (const int limit : {115, 160, 400}) {
    const Searched found = search(grid(30, limit, {{1, 3}, {1, 2, 3, 5, 8, 13, 21, 34}}, "capacity"));
    double best = 0;
    for (const int batch : {1, 2, 3, 5, 8, 13, 21, 34}) {
      const Searched alone = search(grid(30, limit, {{3}, {batch}}, "capacity"));
      best = std::max(best, alone.answer.entries.front().capacity.value().load.mean);
    }
    ASSERT_TRUE(found.answer.winner);
    const Capacity& carries = found.answer.entries[*found.answer.winner].capacity.value();
    EXPECT_GE(carries.load.mean, 0.97 * best) << found.winner_name() << " at " << limit << " ms";
    EXPECT_TRUE(carries.confirmed);
  }
}

// A replica of a fleet gets its requests more evenly than one alone, and more so the larger the fleet: in long runs one
// carries 32 /s and eight 283 /s. First looks simulate only two of the eight.
TEST_F(ExhaustiveTest, ALargeFleetMayBeTheCheapestForEachToken) {
  const Searched found = search(
      "study: fleets\nmodel: llama-3.1-8b\ndtype: bf16\nhardware: p5.4xlarge\nengine: vllm-0.6\n"
      "workload:\n  load: {poisson: {rate: 27.8 /s}}\n  lengths: {input: 200, output: 150}\n"
      "slo: {mean_tpot: 40 ms}\n"
      "search: {tp: [1], replicas: [1, 8], max_running: [256], objective: cost_per_token}\n");
  ASSERT_TRUE(found.answer.winner);
  EXPECT_EQ(found.winner().spec.deployment.replicas, 8) << found.winner_name();
  EXPECT_NEAR(found.answer.entries[*found.answer.winner].capacity.value().load.mean, 283, 0.05 * 283);
}

// Runs of 400 000 requests say that each batch carries 29.5 /s: at 30.1 /s their p99 TTFT is above 2 s. Both are
// confirmed, and they tie.
TEST_F(ExhaustiveTest, ADisprovedLeaderMeetsItsRivals) {
  const Searched found = search(
      "study: rivals\nmodel: llama-3.2-3b\ndtype: bf16\nhardware: g5.2xlarge\nengine: trtllm-1.0\n"
      "workload:\n  load: {gamma: {rate: 23 /s, cv: 0.5}}\n  lengths: {input: 800, output: 120}\n"
      "slo: {p99_ttft: 2 s}\n"
      "search: {tp: [1], replicas: [4], max_running: [64, 256], objective: cost}\n");
  ASSERT_TRUE(found.answer.winner);
  for (std::size_t i = 0; i < found.answer.entries.size(); ++i) {
    const Entry& entry = found.answer.entries[i];
    ASSERT_TRUE(entry.capacity && entry.capacity->confirmed) << found.question.candidates[i].name;
    EXPECT_NEAR(entry.capacity->load.mean, 29.5, 0.05 * 29.5) << found.question.candidates[i].name;
    EXPECT_EQ(entry.ties, i != *found.answer.winner) << found.question.candidates[i].name;
  }
}

// In short runs both budgets carry alike. Long runs show that the larger one delays tokens by long prompts: it carries
// a fifth less, and the smaller one 232 /s. A leader that long runs disprove may not win, nor tie with the other.
TEST_F(ExhaustiveTest, ADisprovedLeaderDoesNotWin) {
  const Searched found = search(
      "study: budgets\nmodel: llama-3.2-3b\ndtype: bf16\nhardware: g6e.12xlarge\nengine: vllm-0.12\n"
      "workload:\n  load: {poisson: {rate: 22.9 /s}}\n  lengths: {input: 500, output: 60}\n"
      "slo: {p99_itl: 120 ms, p90_ttft: 800 ms}\n"
      "search: {tp: [1], replicas: [6], max_running: [256], step_token_budget: [1024, 8192], objective: "
      "cost_per_token}\n");
  ASSERT_TRUE(found.answer.winner);
  EXPECT_EQ(found.winner().spec.policy.step_token_budget, 1024) << found.winner_name();
  EXPECT_NEAR(found.answer.entries[*found.answer.winner].capacity.value().load.mean, 232, 0.05 * 232);
}

// Consider a load between one that a deployment just carries and one that it just misses. No answer may say both that
// the deployment wins and that it carries less than required.
TEST_F(ExhaustiveTest, AWinnerCarriesTheLoadThatIsAskedFor) {
  for (int rate = 60; rate <= 88; rate += 2) {
    const Searched found = search(grid(rate, 150, {{1, 2}, {8}}, "gpus"), {}, 2, true);
    ASSERT_TRUE(found.answer.winner) << rate;
    EXPECT_GE(found.answer.entries[*found.answer.winner].capacity.value().load.mean, rate) << found.winner_name();
  }
}

// A batch limit that is never reached changes nothing, so one run is used for all such limits. Each must have the
// result that its own run would have.
TEST_F(ExhaustiveTest, TwinsShareARunOnlyWhereTheyAreEqual) {
  const auto holds = [this] {
    const auto policy =
        *rc::gen::element<std::string>("vllm_v1", "vllm_v0", "tgi", "sarathi", "trtllm", "sglang", "llama_cpp", "orca",
                                       "rolling", "static", "tgi, batch_size_bug: true");
    const auto limits = *rc::gen::element<std::string>("", "limits: {timeout: 300 ms, retries: 2}\n",
                                                       "limits: {timeout: 200 ms, cancel_on_timeout: true}\n");
    const auto load = *rc::gen::element<std::string>("{poisson: {rate: 40 /s}}", "{gamma: {rate: 40 /s, cv: 3}}",
                                                     "{closed_loop: {concurrency: 9}}", "{burst: {count: 30}}");
    const std::string yaml = fmt::format(
        "study: twins\nengine: {{constant: {{prefill: 5 ms, decode: 10 ms}}}}\nscheduler: {{policy: {}}}\nworkload:\n  "
        "load: {}\n  lengths: {{input: {{uniform: {{min: 1, max: 40}}}}, output: {{geometric: {{mean: 12, max: "
        "60}}}}}}\n"
        "  requests: 300\n{}slo: {{p90_latency: 2 s}}\nsearch: {{replicas: [1, 2], max_running: [2, 4, 8, 16, 64, "
        "256], objective: latency}}\n",
        policy, load, limits);
    const Study study = read(yaml, {{"seed", fmt::format("{}", *rc::gen::inRange(1, 1000))}});
    const Question question = make_question(study, 0);
    Trials trials(question, {});
    std::vector<Trial> todo;
    for (std::size_t i = 0; i < question.candidates.size(); ++i) todo.push_back(first_trial(question.spec, i));
    trials.run(todo);
    for (const Trial& trial : todo) {
      const auto alone = simulate_trial(question.candidates[trial.candidate], trial, false, {});
      RC_ASSERT(trials.of(trial) == alone->metrics);
    }
  };
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = 30;
  const auto result = rc::detail::checkTestable(holds, rc::detail::TestMetadata{}, params);
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  EXPECT_TRUE(result.is<rc::detail::SuccessResult>()) << text.str();
}

// 20 /s of 120 ms each: two or three at once. All limits except the smallest share one simulation.
TEST_F(ExhaustiveTest, LimitsThatAreNeverReachedCostOneSimulation) {
  const Study study = read(grid(20, 400, {{1}, {1, 64, 128, 256, 512, 1024}}, "latency"));
  const Question question = make_question(study, 0);
  Trials trials(question, {});
  std::vector<Trial> todo;
  for (std::size_t i = 0; i < question.candidates.size(); ++i) todo.push_back(first_trial(question.spec, i));
  trials.run(todo);
  EXPECT_EQ(trials.count(), 6U);
  EXPECT_EQ(trials.simulated(), 2U);
}

// Only few of 144 deployments are simulated at all, and each of the others states why not.
TEST_F(ExhaustiveTest, MostOfAGridIsLeftOutWithItsReason) {
  const Searched found = search(grid(
      60, 150, {{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 64}, {1, 2, 3, 4, 5, 6, 7, 8}}, "cost"));
  ASSERT_TRUE(found.answer.winner);
  EXPECT_EQ(found.winner().spec.deployment.replicas, 1) << "eight at once carry 88 /s";
  EXPECT_EQ(*found.winner().spec.policy.max_running, 8);
  EXPECT_LT(found.answer.order.size(), 40U);
  for (const Entry& entry : found.answer.entries) {
    if (entry.stage == Stage::screened || entry.stage == Stage::confirmed) continue;
    EXPECT_THAT(entry.verdict,
                ::testing::AnyOf(::testing::HasSubstr("more expensive than the certain winner"),
                                 ::testing::HasSubstr("misses the SLO with"), ::testing::HasSubstr("carries at most")));
  }
}

}  // namespace
}  // namespace plimsoll::study::plan
