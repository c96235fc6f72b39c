// SPDX-License-Identifier: Apache-2.0
// Searches over pools for prefill and decode: the split, its bounds, and the comparison with one pool.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "sim/simulate.h"
#include "study/plan/bounds.h"
#include "study/plan/pool_counts.h"
#include "study/plan/view.h"
#include "study/run/rate_bound.h"
#include "study/run/resolve.h"
#include "tests/study/plan/plan_study.h"

namespace plimsoll::study::plan {
namespace {

using ::testing::HasSubstr;

// Rates instead of hardware: a prompt of 1000 tokens takes 100 ms of a prefill node, an answer of 101 tokens 100 ms of
// a decode node (its first token comes with the KV).
std::string rates_study(const std::string& rate, const std::string& slo, const std::string& search) {
  return "study: rates\nengine: sglang-0.5\n"
         "deployment:\n"
         "  pools:\n"
         "    prefill: {rates: {prefill_tokens_per_s: 10k}}\n"
         "    decode: {rates: {decode_tokens_per_s: 1k}, scheduler: {max_running: 512}}\n"
         "  transfer: {bandwidth: unlimited, launch: 0 s}\n"
         "workload:\n  load: {poisson: {rate: " +
         rate + "}}\n  lengths: {input: 1000, output: 101}\n  requests: 1500\nslo: " + slo + "\nsearch: " + search +
         "\n";
}

class PoolSearchTest : public PlanFolder {
 protected:
  [[nodiscard]] std::string problem(const std::string& yaml) const {
    try {
      const Study study = read(yaml);
      static_cast<void>(make_question(study, 0));
    } catch (const InputError& error) {
      return error.text();
    }
    return "";
  }
};

TEST_F(PoolSearchTest, ASplitIsEveryDivisionOfItsTotals) {
  const Study study = read(rates_study("20 /s", "{p90_ttft: 1 s}", "{split: auto, replicas: [2, 5]}"));
  const Question question = make_question(study, 0);
  std::vector<PoolCounts> found;
  for (const Candidate& c : question.candidates) found.push_back(counts_of(c.spec));
  EXPECT_THAT(found, ::testing::ElementsAre(PoolCounts{1, 1}, PoolCounts{1, 4}, PoolCounts{2, 3}, PoolCounts{3, 2},
                                            PoolCounts{4, 1}));
  EXPECT_EQ(question.candidates.at(2).name, "prefill 2 + decode 3");
  EXPECT_EQ(question.candidates.at(2).gpus, 5);
}

TEST_F(PoolSearchTest, EachPoolHasAxesOfItsOwn) {
  const Study study = read(
      "study: axes\nmodel: llama-2-7b\nhardware: p5.48xlarge\nengine: vllm-0.12\n"
      "deployment: {pools: {prefill: {}, decode: {}}}\n"
      "workload: {load: {poisson: {rate: 4 /s}}, lengths: {input: 500, output: 50}}\n"
      "search: {prefill: {tp: [1, 2], replicas: [1]}, decode.tp: 2, decode.replicas: [1, 3], "
      "decode.max_running: [32, 64], local_prefill: [never, {uncached: 64}]}\n");
  const Question question = make_question(study, 0);
  ASSERT_EQ(question.candidates.size(), 16U);
  const Candidate& last = question.candidates.back();
  EXPECT_EQ(last.spec.prefill->deployment.tp, 2);
  EXPECT_EQ(last.spec.deployment.tp, 2);
  EXPECT_EQ(last.spec.deployment.replicas, 3);
  EXPECT_EQ(last.spec.policy.max_running, 64);
  EXPECT_NE(last.spec.prefill->policy.max_running, 64);
  EXPECT_EQ(last.spec.local_prefill.policy, load::LocalPrefill::Policy::uncached);
  EXPECT_EQ(last.gpus, 8);
  EXPECT_THAT(last.name, HasSubstr("p5.48xlarge x 2: prefill 1 x tp 2 + decode 3 x tp 2"));
  // The settings turn the study into the candidate.
  const PointSpec again = study.point(0, last.settings);
  EXPECT_EQ(counts_of(again), counts_of(last.spec));
}

TEST_F(PoolSearchTest, KeysThatContradictAreRefused) {
  const auto with = [](const std::string& search) { return rates_study("20 /s", "{p90_ttft: 1 s}", search); };
  EXPECT_THAT(problem(with("{replicas: [4]}")), HasSubstr("split: auto"));
  EXPECT_THAT(problem(with("{split: auto, prefill.replicas: [4]}")), HasSubstr("state their total"));
  EXPECT_THAT(problem(with("{split: even}")), HasSubstr("auto"));
  EXPECT_THAT(problem(with("{prefill.replica: [4]}")), HasSubstr("prefill.replicas"));
  EXPECT_THAT(problem(queue_study("{poisson: {rate: 3 /s}}", "{p90_latency: 1 s}", "{split: auto}")),
              HasSubstr("needs deployment.pools"));
}

// DeepSeek's day: 2345.7 prompts/s of 3000 tokens at 73.7 k/s and answers of 829 at 14.8 k/s need 95.5 + 131.4 nodes.
TEST_F(PoolSearchTest, RatesGiveTheNodesOfDeepSeeksDay) {
  const Study study =
      Study(std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies/plan-pools-deepseek.yaml", {}, shipped_catalogue());
  const PoolNeed need = RateBound().need(study.point(0)).value();
  EXPECT_NEAR(need.prefill, 95.5, 0.01 * 95.5);
  EXPECT_NEAR(need.decode, 131.4, 0.01 * 131.4);
  EXPECT_NEAR(need.prefill / need.decode, 0.727, 0.01 * 0.727);
}

// A node has 100 ms of work for each request on either side. So 12 requests/s keep 1.2 + 1.2 nodes busy: two of each
// pool are needed, and no bound or run may say otherwise.
TEST_F(PoolSearchTest, TheSplitFollowsTheWork) {
  const Searched found =
      search(rates_study("12 /s", "{p90_ttft: 1 s}", "{split: auto, replicas: [2, 3, 4, 5], objective: gpus}"));
  ASSERT_TRUE(found.answer.winner);
  EXPECT_EQ(counts_of(found.winner().spec), (PoolCounts{2, 2})) << found.winner_name();
  for (std::size_t i = 0; i < found.answer.entries.size(); ++i) {
    if (i != *found.answer.winner) {
      EXPECT_FALSE(found.answer.entries[i].verdict.empty());
    }
  }
}

// 20.1 requests/s keep 2.01 + 2.01 nodes busy. With two of either pool the queue grows by half a percent of the load:
// the 1 500 requests of a run are all served within seconds, but the wait has no end.
TEST_F(PoolSearchTest, APoolBeyondItsRateNeverPasses) {
  const auto study = [](const std::string& block) { return rates_study("20.1 /s", "{p90_ttft: 20 s}", block); };
  const Searched found = search(study("{split: auto, replicas: [4, 5, 6], objective: gpus}"));
  ASSERT_TRUE(found.answer.winner);
  EXPECT_EQ(counts_of(found.winner().spec), (PoolCounts{3, 3})) << found.winner_name();
  // Not even if there is no other choice.
  for (const char* const only :
       {"{prefill.replicas: [2], decode.replicas: [9]}", "{prefill.replicas: [9], decode.replicas: [2]}"})
    EXPECT_FALSE(search(study(only)).answer.winner) << only;
  // Nor if the search finds the load: two nodes carry at most 20 /s.
  const Searched most = search(study("{prefill.replicas: [2], decode.replicas: [2], objective: capacity}"));
  ASSERT_TRUE(most.answer.winner);
  EXPECT_LE(most.answer.entries.front().capacity.value().load.mean, 20);
}

// 20 requests/s keep exactly 2 + 2 nodes busy. Requests at equal distances never wait; the queue of random ones has no
// end.
TEST_F(PoolSearchTest, AtItsRateAPoolKeepsUpWithEvenArrivalsOnly) {
  std::string yaml = rates_study("20 /s", "{p90_ttft: 20 s}", "{prefill.replicas: [2], decode.replicas: [2]}");
  EXPECT_FALSE(search(yaml).answer.winner);
  yaml.replace(yaml.find("poisson"), 7, "constant");
  EXPECT_TRUE(search(yaml).answer.winner);
}

// 19.8 requests/s use 99 % of two prefill nodes. Requests wait 100 ms / (2 x 2 x 0.01) = 2.5 s on average there (M/D/2
// in heavy traffic), so the p99 is about ln 100 = 4.6 times as long, 11.5 s. The queue forgets its past after 0.99 /
// 0.01^2 = 9 900 requests; 100 000 show about ten of its rises, and the check takes 198 000. A limit of 6 s is missed.
TEST_F(PoolSearchTest, CloseToItsRateAPoolIsCheckedForLonger) {
  const auto winner = [this](const std::string& limit) {
    return search(rates_study("19.8 /s", "{p99_ttft: " + limit + "}", "{prefill.replicas: [2], decode.replicas: [9]}"))
        .answer.winner.has_value();
  };
  EXPECT_FALSE(winner("6 s"));
  EXPECT_TRUE(winner("60 s"));
}

// Queueing needs the replicas that the answer has beyond its need. If decode replicas compute prompts too, a deployment
// may have fewer prefill replicas than all prompts need; queueing then needs 0, never a negative number.
TEST_F(PoolSearchTest, QueueingNeverNeedsLessThanNothing) {
  EXPECT_DOUBLE_EQ(beyond_need(1.2, 2).value(), 0.8);
  EXPECT_DOUBLE_EQ(beyond_need(131.2, 131).value(), 0);
  EXPECT_FALSE(beyond_need(0, 3));
}

// The bound of every split is above what long runs of it carry.
TEST_F(PoolSearchTest, BoundsExcludeNoSplitThatCarriesTheLoad) {
  const Study study =
      read(rates_study("18 /s", "{p90_ttft: 1 s, p90_tpot: 100 ms}", "{split: auto, replicas: [4, 5, 6, 7]}"));
  const Question question = make_question(study, 0);
  RateBound rates;
  Bounds bounds;
  int excluded = 0;
  for (const Candidate& c : question.candidates) {
    const bool is_excluded = !bounds.problem(c).reason.empty() || !beyond_rate(c, rates.most(c.spec)).reason.empty();
    excluded += is_excluded ? 1 : 0;
    if (!is_excluded) continue;
    PointSpec spec = c.spec;
    spec.workload.requests = 6000;
    const sched::PointMetrics metrics = sim::simulate(*resolve_spec(spec).scenario).metrics;
    const sched::PointMetrics* const run = &metrics;
    EXPECT_FALSE(standing_of(spec, std::span(&run, 1), 0.95).meets) << c.name;
  }
  EXPECT_GT(excluded, 4);  // pools of one node are busy for longer than there is time
}

// The winner is the best of all splits when each is searched alone.
TEST_F(PoolSearchTest, TheLargestCapacityIsThatOfTryingEachSplit) {
  const auto study = [](const std::string& search) {
    return rates_study("20 /s", "{p90_ttft: 600 ms, p90_tpot: 40 ms}", search);
  };
  const Searched found = search(study("{split: auto, replicas: [5], objective: capacity}"));
  ASSERT_TRUE(found.answer.winner);
  double best = 0;
  for (int p = 1; p < 5; ++p) {
    const Searched alone =
        search(study(fmt::format("{{prefill.replicas: {}, decode.replicas: {}, objective: capacity}}", p, 5 - p)));
    if (alone.answer.winner) best = std::max(best, alone.answer.entries.front().capacity.value().load.mean);
  }
  const Capacity& carries = found.answer.entries[*found.answer.winner].capacity.value();
  EXPECT_TRUE(carries.confirmed);
  EXPECT_GE(carries.load.mean, 0.97 * best) << found.winner_name();
}

// An examined winner is compared with one pool on as many GPUs. On whole instances of one kind these cost as much.
TEST_F(PoolSearchTest, TheWinnerIsComparedWithOnePool) {
  const std::string yaml =
      "study: one pool\nmodel: llama-2-7b\nhardware: p5.4xlarge\nengine: vllm-0.12\n"
      "deployment: {pools: {prefill: {replicas: 1}, decode: {replicas: 1}}}\n"
      "workload:\n  load: {poisson: {rate: 6 /s}}\n  lengths: {input: 300, output: 30}\n  requests: 300\n"
      "slo: {p90_ttft: 500 ms, p90_tpot: 60 ms}\nsearch: {objective: gpus}\n";
  const Searched found = search(yaml, {}, 2, true);
  ASSERT_TRUE(found.answer.winner);
  const PoolFindings& pools = found.answer.pools.value();
  ASSERT_EQ(pools.one_pool.size(), 1U);
  const OnePool& other = pools.one_pool.front();
  EXPECT_TRUE(other.also_money);
  EXPECT_TRUE(other.carries);
  EXPECT_EQ(other.candidate.gpus, found.winner().gpus);
  EXPECT_FALSE(other.candidate.spec.prefill);
  EXPECT_TRUE(other.entry.capacity->confirmed);
  EXPECT_FALSE(found.study->point(0, other.candidate.settings).prefill);
}

// With pools that scale, the cost follows the load; one that scales is cheaper than one that always runs at its most.
TEST_F(PoolSearchTest, ScalingPoolsCostWhatTheyUse) {
  std::string yaml = rates_study("6 /s", "{p90_ttft: 5 s}", "{objective: cost}");
  const auto replace = [&](const std::string& what, const std::string& by) {
    yaml.replace(yaml.find(what), what.size(), by);
  };
  const std::string scaling = "{min: 1, max: 4, metric: concurrency, target: 2, period: 2 s, start_up: 1 s}";
  replace("{prefill_tokens_per_s: 10k}}", "{prefill_tokens_per_s: 10k}, replicas: 1, autoscaling: " + scaling + "}");
  replace("scheduler: {max_running: 512}}",
          "scheduler: {max_running: 512}, replicas: 1, autoscaling: " + scaling + "}");
  const Searched found = search(yaml);
  ASSERT_TRUE(found.answer.winner) << nearest_text({found.question, found.answer, {}});
  const Entry& entry = found.answer.entries[*found.answer.winner];
  EXPECT_GT(entry.objective.mean, 1.9);  // at least one of each
  EXPECT_LT(entry.objective.mean, 8);
  EXPECT_GT(entry.standing.prefill_instances.mean, 0);
  EXPECT_NEAR(entry.objective.mean, entry.standing.instances.mean, 1e-9);
}

}  // namespace
}  // namespace plimsoll::study::plan
