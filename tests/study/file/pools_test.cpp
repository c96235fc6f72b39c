// SPDX-License-Identifier: Apache-2.0
// Studies with pools for prefill and decode: what each pool takes from the study, what is refused and where.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/error.h"
#include "study/file/read_point.h"
#include "study/run/point_result.h"
#include "study/run/resolve.h"
#include "study/run/simulate_point.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kPools = R"(study: pools
model: llama-2-7b
hardware: p5.48xlarge
engine: vllm-0.12
scheduler: {max_num_seqs: 64}
deployment:
  router: round_robin
  pools:
    prefill: {replicas: 2, tp: 1, scheduler: {step_token_budget: 16384, max_running: 8}}
    decode: {replicas: 3, tp: 2, hardware: p4d.24xlarge, router: least_kv}
  transfer: {bandwidth: 20 GB/s, launch: 2 ms, overlap: none, hold: 60 s}
  local_prefill: {policy: isl, tokens: 512}
workload:
  load: {poisson: {rate: 4 /s}}
  lengths: {input: 256, output: 32}
  requests: 50
)";

class PoolsStudyTest : public StudyFolder {
 protected:
  [[nodiscard]] Study read(const std::string& text) const {
    return Study(write("study.yaml", text), {}, shipped_catalogue());
  }
  [[nodiscard]] Study changed(const Overrides& overrides) const {
    return Study(write("study.yaml", kPools), overrides, shipped_catalogue());
  }
  // The message of a study that is refused when it is read, or whose point is impossible.
  [[nodiscard]] std::string problem(const Overrides& overrides) const {
    try {
      const Study study = changed(overrides);
      const ResolvedPoint point = resolve_point(study, 0);
      return point.impossible ? point.impossible->reason : "";
    } catch (const InputError& error) {
      return error.where().file.substr(error.where().file.rfind('/') + 1) + ": " + error.text();
    }
  }
};

TEST_F(PoolsStudyTest, EachPoolStatesWhatDiffersFromTheStudy) {
  const PointSpec decode = read(kPools).point(0);
  ASSERT_TRUE(decode.prefill);
  const PointSpec& prefill = *decode.prefill;
  EXPECT_EQ(prefill.deployment.replicas, 2);
  EXPECT_EQ(decode.deployment.replicas, 3);
  EXPECT_EQ(decode.deployment.tp, 2);
  EXPECT_EQ(prefill.hardware.label, "p5.48xlarge");
  EXPECT_EQ(decode.hardware.label, "p4d.24xlarge");
  // max_running replaces max_num_seqs, which is the same setting.
  EXPECT_EQ(prefill.policy.max_running, 8);
  EXPECT_EQ(decode.policy.max_running, 64);
  EXPECT_EQ(prefill.policy.step_token_budget, 16384);
  EXPECT_EQ(prefill.deployment.router, sched::RouterKind::round_robin);
  EXPECT_EQ(decode.deployment.router, sched::RouterKind::least_kv);
  EXPECT_EQ(decode.transfer.bandwidth, 20e9);
  EXPECT_EQ(decode.transfer.hold, 60'000'000'000);
  EXPECT_EQ(decode.transfer.mode, load::TransferMode::pull);
  EXPECT_EQ(decode.local_prefill.tokens, 512);
}

// Llama 2 7B in fp16: 32 layers x 2 x 32 heads x 128 x 2 bytes = 524288 bytes a token, whatever the TP degree. The
// decode side has two GPUs, the prefill side one.
TEST_F(PoolsStudyTest, ResolvesToOneScenarioWithBothPools) {
  const ResolvedPoint point = resolve_point(read(kPools), 0);
  ASSERT_TRUE(point.scenario);
  const load::Pools& pools = *point.scenario->pools;
  EXPECT_EQ(pools.prefill->policy.role, sched::Role::prefill);
  EXPECT_EQ(point.scenario->policy.role, sched::Role::decode);
  EXPECT_DOUBLE_EQ(pools.transfer.bytes_per_token, 524288);
  EXPECT_DOUBLE_EQ(pools.transfer.source_rate, 20e9);
  EXPECT_DOUBLE_EQ(pools.transfer.target_rate, 40e9);
  EXPECT_EQ(pools.transfer.layers, 32);
  EXPECT_EQ(point.result.gpus, 2 * 1 + 3 * 2);
  EXPECT_EQ(point.result.instances, 2);
  EXPECT_EQ(point.result.labels.replicas, 5);
  EXPECT_EQ(point.result.pools, "prefill 2 + decode 3");
  EXPECT_GT(point.result.usd_per_hour.value(), 0);
}

// DeepSeek's latent cache is whole on every rank: eight ranks get eight copies.
TEST_F(PoolsStudyTest, LatentCachesGoToEveryRank) {
  const auto bytes = [&](const char* tp) {
    const Study study = changed({{"model", "deepseek-v2-lite"},
                                 {"deployment.pools.decode", std::string("{tp: ") + tp + ", hardware: p5.48xlarge}"}});
    const ResolvedPoint point = resolve_point(study, 0);
    point.require_possible();
    return point.scenario->pools->transfer.bytes_per_token;
  };
  EXPECT_DOUBLE_EQ(bytes("8"), 8 * bytes("1"));
}

TEST_F(PoolsStudyTest, ProductsSetTheDefaultsOfTheTransfer) {
  const PointSpec spec = changed({{"engine", "sglang-0.5"},
                                  {"scheduler", "{}"},
                                  {"deployment.transfer", "{}"},
                                  {"deployment.local_prefill", "never"}})
                             .point(0);
  EXPECT_EQ(spec.transfer.mode, load::TransferMode::push);
  EXPECT_EQ(spec.transfer.overlap, load::TransferOverlap::chunk);
  EXPECT_EQ(spec.transfer.first_token, load::FirstToken::prefill);
}

TEST_F(PoolsStudyTest, RefusesWhatAProductCannotDo) {
  EXPECT_THAT(problem({{"deployment.pools.prefill.tp", "4"}}), HasSubstr("is not a multiple of tp 4"));
  EXPECT_THAT(problem({{"deployment.pools.decode.scheduler", "{block_size: 32}"}}), HasSubstr("blocks of 16 and 32"));
  EXPECT_THAT(problem({{"scheduler.policy", "tgi"}}), HasSubstr("policy tgi has no pools"));
  EXPECT_THAT(problem({{"deployment.pools.prefill.scheduler", "{policy: sglang}"}}),
              HasSubstr("one product cannot read the KV cache of another"));
  EXPECT_THAT(problem({{"engine", "sglang-0.5"}, {"scheduler", "{}"}, {"deployment.local_prefill", "{uncached: 8}"}}),
              HasSubstr("computes no prompts"));
}

TEST_F(PoolsStudyTest, RefusesMistakesWithTheirPlace) {
  EXPECT_THAT(problem({{"deployment.replicas", "4"}}), HasSubstr("state 'replicas' in each pool"));
  EXPECT_THAT(problem({{"deployment.pools", "{decode: {replicas: 1}}"}}), HasSubstr("key 'prefill' is missing"));
  EXPECT_THAT(problem({{"deployment.pools.decode.dp", "8"}}), HasSubstr("data parallelism inside a replica"));
  EXPECT_THAT(problem({{"deployment.pools.decode.replica", "8"}}), HasSubstr("replicas"));
  EXPECT_THAT(problem({{"deployment.transfer.bandwidth", "40"}}), HasSubstr("a unit is missing"));
  EXPECT_THAT(problem({{"deployment.local_prefill", "{uncached: 0}"}}), HasSubstr("expected"));
  EXPECT_THAT(problem({{"deployment.pools.prefill", "{rates: {decode_tokens_per_s: 10k}}"}}),
              HasSubstr("the prefill pool needs prefill_tokens_per_s"));
  EXPECT_THAT(problem({{"workload", "{load: {script: 'A:4+2'}}"},
                       {"deployment.pools.decode.failures", "{mean_time_between: 1 h, restart: 1 s}"}}),
              HasSubstr("a script needs a fixed fleet"));
}

TEST_F(PoolsStudyTest, OtherCommandsRefuseInOneLine) {
  const Study study = read(kPools);
  try {
    refuse_pools(study, "plan");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.where().line, 9);
    EXPECT_THAT(error.text(), HasSubstr("plan does not handle pools"));
  }
}

TEST_F(PoolsStudyTest, TransferAndLocalPrefillNeedPools) {
  const std::string text = R"(model: llama-2-7b
hardware: p5.48xlarge
deployment: {transfer: {bandwidth: 40 GB/s}}
workload: {load: {poisson: {rate: 4 /s}}, lengths: {input: 256, output: 32}, requests: 50}
)";
  EXPECT_THROW((void)read(text), InputError);
}

// Columns of pools appear only where pools are stated.
TEST_F(PoolsStudyTest, ColumnsAreAddedAtTheEndOnlyWithPools) {
  const FinishedPoint pooled = simulate_point(resolve_point(read(kPools), 0));
  ASSERT_TRUE(pooled.result.metrics);
  const std::string csv = points_csv({}, {pooled.result});
  EXPECT_THAT(csv, AllOf(HasSubstr(",pool,transfer_s_mean,transfer_s_p99,staging_blocks_peak,local_prefill_share,"
                                   "time_transfer_s,"),
                         HasSubstr(",prefill 2 + decode 3,")));
  PointResult one = pooled.result;
  one.pools.clear();
  EXPECT_THAT(points_csv({}, {one}), ::testing::Not(HasSubstr("transfer_s_mean")));
}

// A step takes a time for each token: 1000 prompt tokens at 100 k/s take 10 ms; then 5 ms of launching; 11 tokens at
// 1 k/s. With sglang the first comes with the KV: 10 + 5 + 10.
TEST_F(PoolsStudyTest, RatesReplaceHardware) {
  const std::string text = R"(engine: sglang-0.5
deployment:
  pools:
    prefill: {rates: {prefill_tokens_per_s: 100k}}
    decode: {rates: {decode_tokens_per_s: 1k}}
  transfer: {launch: 5 ms}
workload: {load: {burst: {count: 1}}, lengths: {input: 1000, output: 11}}
)";
  const FinishedPoint point = simulate_point(resolve_point(read(text), 0));
  ASSERT_TRUE(point.result.metrics) << point.result.infeasible;
  EXPECT_NEAR(point.result.metrics->ttft.mean.value(), 0.015, 1e-9);
  EXPECT_NEAR(point.result.metrics->latency.mean.value(), 0.025, 1e-9);
}

// Two pools on this machine share its cores and its memory as two replicas of one pool do.
TEST_F(PoolsStudyTest, PoolsOnThisMachineShareIt) {
  const std::string head = "model: demo-llama-40m\ndtype: bf16\nhardware: this-machine\nengine: plimsoll-cpu\n",
                    load = "workload: {load: {poisson: {rate: 4 /s}}, lengths: {input: 96, output: 24}}\n";
  const auto scenario = [&](const std::string& deployment) {
    return resolve_point(read(head + "deployment: " + deployment + "\n" + load), 0).scenario.value();
  };
  const load::Scenario one = scenario("{replicas: 3}"),
                       two = scenario("{pools: {prefill: {replicas: 2}, decode: {replicas: 1}}}");
  const load::Scenario& prefill = *two.pools->prefill;
  for (const load::Scenario* const pool : {&two, &prefill}) {
    EXPECT_EQ(pool->kv.blocks, one.kv.blocks);
    EXPECT_EQ(pool->accelerator->memory_bandwidth.value, one.accelerator->memory_bandwidth.value);
  }
}

// A request keeps its priority in both pools; each pool's scheduler uses it if it is set to.
TEST_F(PoolsStudyTest, ANoteNamesThePoolThatIgnoresPriorities) {
  const auto notes = [&](const std::string& prefill, const std::string& decode) {
    return read("engine: {constant: {prefill: 1 ms, decode: 1 ms}}\ndeployment: {pools: {prefill: {" + prefill +
                "}, decode: {" + decode +
                "}}}\nworkload: {load: {poisson: {rate: 4 /s}}, lengths: {input: 96, output: 24}, priorities: {0: 0.9, "
                "5: "
                "0.1}}\n")
        .point(0)
        .load_notes;
  };
  const std::string by_priority = "scheduler: {scheduling: priority}";
  EXPECT_THAT(notes("", ""), ::testing::ElementsAre(kPrioritiesUnused));
  EXPECT_THAT(notes(by_priority, by_priority), ::testing::IsEmpty());
  EXPECT_THAT(notes(by_priority, ""), ::testing::ElementsAre(HasSubstr("no effect in the decode pool")));
  EXPECT_THAT(notes("", by_priority), ::testing::ElementsAre(HasSubstr("no effect in the prefill pool")));
}

// DeepSeek's day (608 G tokens in, 168 G out): 95.5 prefill and 131.4 decode nodes are busy, within 1 %. A tenth of it.
TEST_F(PoolsStudyTest, DeepSeeksDayKeepsThePublishedNodesBusy) {
  const Study study = Study(std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies/pools-deepseek-day.yaml",
                            {{"deployment.pools.prefill.replicas", "10"},
                             {"deployment.pools.decode.replicas", "14"},
                             {"workload.rate", "234.57 /s"},
                             {"workload.load.poisson.rate", "234.57 /s"},
                             {"workload.duration", "150 s"},
                             {"workload.warmup", "50 s"}},
                            shipped_catalogue());
  const FinishedPoint point = simulate_point(resolve_point(study, 0));
  ASSERT_TRUE(point.result.metrics) << point.result.infeasible;
  const sched::PoolMetrics& pools = point.result.metrics->pools.value();
  EXPECT_NEAR(pools.prefill_busy, 9.55, 0.2);
  EXPECT_NEAR(pools.decode_busy, 13.14, 0.3);
}

}  // namespace
}  // namespace plimsoll::study
