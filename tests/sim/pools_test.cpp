// SPDX-License-Identifier: Apache-2.0
// Pools for prefill and decode: known answers for each product, invariants over random scenarios, and the limit of
// transfers that cost nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "sim/simulate.h"
#include "tests/sim/random_pools.h"

namespace plimsoll::sim {
namespace {

using load::Scenario;
using testing::add_failures;
using testing::add_scaling;
using testing::base_scenario;
using testing::constant_engine;
using testing::five_ms;
using testing::random_pools;
using testing::random_routed;
using testing::sglang_transfer;
using testing::with_pools;

Scenario known_answer(sched::PolicyKind policy, std::int32_t input, std::int32_t output, std::int32_t count) {
  Scenario s = base_scenario();
  s.engine = constant_engine(0.008, 0.002);  // a step with a prompt takes both
  s.policy.policy = policy;
  s.policy.reserved_decode_tokens = 512;
  s.workload.load = load::Burst{count};
  s.workload.requests = count;
  s.workload.lengths = load::IndependentLengths{load::FixedLength{input}, load::FixedLength{output}};
  s.kv.blocks = 1000;
  return s;
}

RunResult run(const Scenario& s) {
  RunOptions options;
  options.keep_requests = options.keep_steps = options.keep_log = true;
  return simulate(s, options);
}

double ms(Nanos time) { return 1e-6 * static_cast<double>(time); }

// A:32+3. vLLM: prefill until 10, transfer until 15, the last prompt token again until 17: tokens at 17, 19, 21.
TEST(PoolsTest, VllmRecomputesTheLastTokenOfThePrompt) {
  const RunResult result = run(with_pools(known_answer(sched::PolicyKind::vllm_v1, 32, 3, 1), five_ms()));
  ASSERT_EQ(result.requests.size(), 1U);
  const RequestRow& a = result.requests[0];
  EXPECT_DOUBLE_EQ(ms(a.first_token), 17);
  EXPECT_DOUBLE_EQ(ms(a.end), 21);
  const sched::PoolMetrics pools = result.metrics.pools.value();
  EXPECT_NEAR(pools.time_prefill, 0.010, 1e-12);
  EXPECT_NEAR(pools.time_transfer, 0.005, 1e-12);
  EXPECT_NEAR(pools.time_decode, 0.006, 1e-12);
  EXPECT_NEAR(pools.time_queue_prefill + pools.time_queue_decode, 0, 1e-12);
  EXPECT_NEAR(pools.transfer_mean.value(), 0.005, 1e-12);
}

// SGLang: the first token comes with the KV at 15; the request joins the decode that follows: 17, 19.
TEST(PoolsTest, SglangEmitsTheFirstTokenOnArrival) {
  const RunResult result = run(with_pools(known_answer(sched::PolicyKind::sglang, 32, 3, 1), sglang_transfer()));
  ASSERT_EQ(result.requests.size(), 1U);
  EXPECT_DOUBLE_EQ(ms(result.requests[0].first_token), 15);
  EXPECT_DOUBLE_EQ(ms(result.requests[0].end), 19);
}

// TensorRT-LLM: the decode side reads a finished prefill, and the first token comes from the prefill side: 15, 17, 19.
TEST(PoolsTest, TensorRtTakesTheFirstTokenFromThePrefillSide) {
  load::TransferConfig transfer = five_ms();
  transfer.first_token = load::FirstToken::prefill;
  const RunResult result = run(with_pools(known_answer(sched::PolicyKind::trtllm, 32, 3, 1), transfer));
  EXPECT_DOUBLE_EQ(ms(result.requests.at(0).first_token), 15);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(0).end), 19);
}

// A request on its way holds KV but no place: with one place and room for both, the second transfer also starts at 10.
TEST(PoolsTest, TensorRtsTransfersNeedNoPlace) {
  load::TransferConfig transfer = five_ms();
  transfer.first_token = load::FirstToken::prefill;
  Scenario s = with_pools(known_answer(sched::PolicyKind::trtllm, 32, 3, 2), transfer);
  s.policy.max_running = 1;
  const RunResult result = run(s);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(1).stages->transfer_start), 10);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(1).end), 23);
}

// Layer-wise over 10 layers, 5 ms of bytes: all but the last tenth is hidden by the prefill of 10 ms, 0.5 ms are left:
// 10 + 0.5 + 2. The same if the decode side pulls or the prefill side pushes.
TEST(PoolsTest, LayersAreSentDuringThePrefill) {
  load::TransferConfig transfer = five_ms();
  transfer.launch_s = 0;
  transfer.overlap = load::TransferOverlap::layer;
  transfer.layers = 10;
  transfer.bytes_per_token = 1e6;
  transfer.source_rate = transfer.target_rate = 32e6 / 5e-3;
  for (const load::TransferMode mode : {load::TransferMode::pull, load::TransferMode::push}) {
    transfer.mode = mode;
    const RunResult result = run(with_pools(known_answer(sched::PolicyKind::vllm_v1, 32, 3, 1), transfer));
    EXPECT_DOUBLE_EQ(ms(result.requests.at(0).first_token), 12.5);
    EXPECT_NEAR(result.metrics.pools->time_transfer, 0.0005, 1e-12);
  }
}

// Chunks of 16: two prefill steps end at 10 and 20. Each half takes 2.5 ms, so the second arrives at 22.5 and its token
// at 24.5; a transfer of the whole prompt would end at 25.
TEST(PoolsTest, ChunksAreSentAsTheyEnd) {
  load::TransferConfig transfer = five_ms();
  transfer.launch_s = 0;
  transfer.mode = load::TransferMode::push;
  transfer.overlap = load::TransferOverlap::chunk;
  transfer.bytes_per_token = 1e6;
  transfer.source_rate = transfer.target_rate = 32e6 / 5e-3;
  Scenario s = known_answer(sched::PolicyKind::vllm_v1, 32, 3, 1);
  s.policy.step_token_budget = 16;
  EXPECT_DOUBLE_EQ(ms(run(with_pools(s, transfer)).requests.at(0).first_token), 24.5);
  transfer.overlap = load::TransferOverlap::none;
  EXPECT_DOUBLE_EQ(ms(run(with_pools(s, transfer)).requests.at(0).first_token), 27);
}

// The decode pool has 10 blocks and four prompts of 64 tokens (4 blocks) arrive together: two are under way, the third
// waits although no request runs. A and B: transfer 10 to 15, tokens at 17 and 19, when they end. C and D follow.
TEST(PoolsTest, VllmTakesTheBlocksBeforeTheTransfer) {
  Scenario s = with_pools(known_answer(sched::PolicyKind::vllm_v1, 64, 2, 4), five_ms());
  s.kv.blocks = 10;
  const RunResult result = run(s);
  ASSERT_EQ(result.requests.size(), 4U);
  EXPECT_DOUBLE_EQ(ms(result.requests[0].first_token), 17);
  EXPECT_DOUBLE_EQ(ms(result.requests[1].end), 19);
  EXPECT_DOUBLE_EQ(ms(result.requests[2].stages->transfer_start), 19);
  EXPECT_DOUBLE_EQ(ms(result.requests[3].end), 28);
  EXPECT_EQ(result.metrics.pools->staging_blocks_peak, 8);
}

// With one running slot both transfers start at 10, when nothing runs, but one request runs at a time: 15 to 19, 19 to
// 23. A prompt that ends at 26, while another request runs from 15 on, starts its transfer when that one has ended.
TEST(PoolsTest, NoTransferStartsWhileTheBatchIsFull) {
  Scenario s = with_pools(known_answer(sched::PolicyKind::vllm_v1, 64, 2, 2), five_ms());
  s.policy.max_running = 1;
  const RunResult result = run(s);
  std::vector<Nanos> ends{result.requests.at(0).end, result.requests.at(1).end};
  std::sort(ends.begin(), ends.end());
  EXPECT_DOUBLE_EQ(ms(ends[0]), 19);
  EXPECT_DOUBLE_EQ(ms(ends[1]), 23);
  s.workload.load = load::ConstantRate{1000.0 / 16};
  s.workload.lengths = load::IndependentLengths{load::FixedLength{64}, load::FixedLength{20}};
  const RunResult later = run(s);
  EXPECT_EQ(later.requests.at(1).stages->transfer_start, later.requests.at(0).end);
}

// SGLang: a prefill does not begin before the decode side has room. Pool of 600 tokens: 64 + 512 for the first request,
// so the second takes its blocks when the first has ended at 17.
TEST(PoolsTest, SglangsPrefillWaitsForRoomOnTheDecodeSide) {
  Scenario s = with_pools(known_answer(sched::PolicyKind::sglang, 64, 2, 2), sglang_transfer());
  s.kv.block_tokens = 1;
  s.kv.blocks = 600;
  const RunResult result = run(s);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(0).end), 17);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(1).stages->prefill_arrived), 17);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(1).first_token), 32);
}

// The prefill replica keeps its blocks until the decode side has read them: with room for one prompt there, the second
// prefill begins when the first transfer has ended, at 15.
TEST(PoolsTest, PrefillBlocksStayUntilTheyAreRead) {
  Scenario s = known_answer(sched::PolicyKind::vllm_v1, 64, 2, 2);
  s.kv.blocks = 7;
  s = with_pools(s, five_ms());
  s.kv.blocks = 1000;
  const RunResult result = run(s);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(1).stages->prefill_start), 15);
}

// Two prefill replicas finish A and B at 10 and send to one decode replica, whose link alone carries a prompt in 5 ms:
// each gets half of it until both arrive at 20, and the tokens come at 22, 24, 26. With a link of its own for each (two
// decode replicas), both arrive at 15.
TEST(PoolsTest, TransfersShareTheLinkOfTheDecodeReplica) {
  load::TransferConfig transfer = five_ms();
  transfer.launch_s = 0;
  transfer.bytes_per_token = 1e6;
  transfer.source_rate = transfer.target_rate = 32e6 / 5e-3;
  for (const std::int32_t decodes : {1, 2}) {
    Scenario s = with_pools(known_answer(sched::PolicyKind::vllm_v1, 32, 3, 2), transfer, 2);
    s.replicas = decodes;
    const RunResult result = run(s);
    for (const RequestRow& row : result.requests) {
      EXPECT_DOUBLE_EQ(ms(row.stages->transfer_end), decodes == 1 ? 20 : 15);
      EXPECT_DOUBLE_EQ(ms(row.end), decodes == 1 ? 26 : 21);
    }
  }
}

// The decode replica has 16 of 33 tokens in its cache (the last block of a hit is never the whole prompt), so 17 tokens
// are sent: 17/32 of 5 ms. A: until 10, 10 + 5 * 33/32. B has the same first block and appears when A is done.
TEST(PoolsTest, WhatTheDecodeReplicaHasIsNotSent) {
  load::TransferConfig transfer = five_ms();
  transfer.launch_s = 0;
  transfer.bytes_per_token = 1e6;
  transfer.source_rate = transfer.target_rate = 32e6 / 5e-3;
  Scenario s = known_answer(sched::PolicyKind::vllm_v1, 33, 3, 2);
  s.kv.prefix_caching = true;
  s.workload.prefix = {1, 16};
  s.workload.load = load::ConstantRate{10};
  const RunResult result = run(with_pools(s, transfer));
  const auto sending = [&](std::size_t i) {
    const sched::Stages& stages = result.requests.at(i).stages.value();
    return ms(stages.transfer_end - stages.transfer_start);
  };
  EXPECT_EQ(result.requests.at(0).stages->transferred, 33);
  EXPECT_NEAR(sending(0), 5.0 * 33 / 32, 1e-5);
  EXPECT_EQ(result.requests.at(1).stages->transferred, 17);
  EXPECT_NEAR(sending(1), 5.0 * 17 / 32, 1e-5);
}

// Each hop of 1 ms delays once to the prefill and once to the decode replica: 1 + 10 + 1 + 5 + 2.
TEST(PoolsTest, HopsDelayBothStages) {
  load::TransferConfig transfer = five_ms();
  transfer.hop = 1'000'000;
  const RunResult result = run(with_pools(known_answer(sched::PolicyKind::vllm_v1, 32, 3, 1), transfer));
  EXPECT_DOUBLE_EQ(ms(result.requests.at(0).first_token), 19);
}

// The KV is not read within 1 ms, because the decode pool is full until 19: the prompt is computed there, 19 + 10.
TEST(PoolsTest, KvThatIsNotReadInTimeIsComputedAgain) {
  load::TransferConfig transfer = five_ms();
  transfer.hold = 1'000'000;
  Scenario s = with_pools(known_answer(sched::PolicyKind::vllm_v1, 64, 2, 2), transfer);
  s.kv.blocks = 6;
  const RunResult result = run(s);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(0).end), 19);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(1).first_token), 29);
  transfer.load_failure = load::LoadFailure::fail;
  s = with_pools(known_answer(sched::PolicyKind::vllm_v1, 64, 2, 2), transfer);
  s.kv.blocks = 6;
  EXPECT_EQ(run(s).metrics.requests_rejected, 1);
}

// A prompt below the threshold never leaves the decode replica: 10 ms there, no transfer.
TEST(PoolsTest, ShortPromptsMayStayOnTheDecodeReplica) {
  Scenario s = with_pools(known_answer(sched::PolicyKind::vllm_v1, 32, 3, 1), five_ms());
  load::Pools pools = *s.pools;
  pools.local = {.policy = load::LocalPrefill::Policy::uncached, .tokens = 32};
  s.pools = std::make_shared<const load::Pools>(pools);
  const RunResult result = run(s);
  EXPECT_DOUBLE_EQ(ms(result.requests.at(0).first_token), 10);
  EXPECT_DOUBLE_EQ(result.metrics.pools->local_prefill_share, 1);
  EXPECT_FALSE(result.metrics.pools->transfer_mean);
}

// A step of a script takes its time, 2 ms, whatever it holds, and transfers take theirs. A is prefilled until 2, sent
// until 7, and emits at 9 and 11. B appears before step 3, at 4: prefilled until 6, sent until 11.
TEST(PoolsTest, AScriptDrivesPoolsOnItsOwnClock) {
  Scenario s = known_answer(sched::PolicyKind::vllm_v1, 32, 3, 1);
  s.engine = constant_engine(1, 1);
  s.workload.load = load::Script{load::parse_script("A:32+2 B:20+1@3"), 2'000'000};
  const RunResult result = run(with_pools(s, five_ms()));
  ASSERT_EQ(result.requests.size(), 2U);
  EXPECT_EQ(result.requests[0].name, "A");
  EXPECT_DOUBLE_EQ(ms(result.requests[0].first_token), 9);
  EXPECT_DOUBLE_EQ(ms(result.requests[0].end), 11);
  EXPECT_DOUBLE_EQ(ms(result.requests[1].stages->transfer_start), 6);
  EXPECT_DOUBLE_EQ(ms(result.requests[1].end), 13);
}

// ---- random scenarios ---------------------------------------------------------------------------------------

// No token before its KV, E2E >= TTFT >= end of the prefill + exposed transfer, each stage after the one before, and
// the parts of the latency sum to it. Every request that is not local was transferred once (a lost load has no
// transfer).
void expect_invariants(const Scenario& s, const RunResult& result) {
  std::int64_t completed = 0;
  double latency = 0;
  for (const RequestRow& row : result.requests) {
    if (row.outcome != sched::Outcome::completed) continue;
    ++completed;
    latency += 1e-9 * static_cast<double>(row.end - row.arrival);
    ASSERT_TRUE(row.stages);
    const sched::Stages& stages = *row.stages;
    EXPECT_GE(row.end, row.first_token);
    EXPECT_EQ(row.generated, row.output);
    if (stages.local()) continue;
    EXPECT_LE(stages.prefill_arrived, stages.prefill_start);
    EXPECT_LT(stages.prefill_start, stages.prefill_end);
    EXPECT_LE(stages.prefill_end, stages.transfer_end);
    EXPECT_LE(stages.transfer_start, stages.transfer_end);
    EXPECT_GE(row.first_token, stages.transfer_end);
    EXPECT_LT(stages.prefill_replica, s.pools->prefill->replicas);
    EXPECT_GT(stages.transferred, 0);
    EXPECT_LE(stages.transferred, row.input);
  }
  if (s.warmup.count() > 0 || completed == 0 || result.metrics.steady.grows) return;
  const sched::PoolMetrics& pools = result.metrics.pools.value();
  const double sum =
      pools.time_queue_prefill + pools.time_prefill + pools.time_transfer + pools.time_queue_decode + pools.time_decode;
  EXPECT_NEAR(sum, latency / static_cast<double>(completed), 1e-9 * (1 + sum));
}

// The pools never mix roles: a prefill replica decodes nothing; a decode replica computes prompts only if they are
// local, lost, or preempted.
void expect_roles(const Scenario& s, const RunResult& result) {
  for (const StepRow& step : result.steps) {
    if (step.replica >= s.replicas) {
      EXPECT_EQ(step.decode_rows, 0);
    }
  }
}

TEST(PoolsTest, InvariantsHoldInRandomScenarios) {
  for (std::uint64_t seed = 1; seed <= 250; ++seed) {
    Scenario s = random_pools(seed);
    if (seed % 5 == 0) add_failures(s);
    const RunResult result = run(s);
    expect_invariants(s, result);
    expect_roles(s, result);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

/// Compares a run with leaps and one that makes every step.
void expect_leaps_equal_steps(Scenario s) {
  const RunResult leaping = run(s);
  s.stepwise = true;
  const RunResult stepping = run(s);
  EXPECT_EQ(leaping.logs, stepping.logs);
  EXPECT_EQ(leaping.steps_run, stepping.steps_run);
  ASSERT_EQ(leaping.requests.size(), stepping.requests.size());
  for (std::size_t i = 0; i < leaping.requests.size(); ++i) {
    EXPECT_NEAR(ms(leaping.requests[i].first_token), ms(stepping.requests[i].first_token), 3e-6);
    EXPECT_NEAR(ms(leaping.requests[i].end), ms(stepping.requests[i].end), 3e-6);
    EXPECT_EQ(leaping.requests[i].outcome, stepping.requests[i].outcome);
  }
  EXPECT_NEAR(leaping.metrics.kv_used_mean, stepping.metrics.kv_used_mean, 1e-8);
  EXPECT_NEAR(leaping.metrics.batch_mean, stepping.metrics.batch_mean, 1e-7);
}

// PLIMSOLL_POOL_SEEDS draws more of all random scenarios.
std::uint64_t seeds(std::uint64_t usual) {
  const char* const stated = std::getenv("PLIMSOLL_POOL_SEEDS");
  return stated != nullptr ? std::stoull(stated) : usual;
}

TEST(PoolsTest, LeapsEqualSteps) {
  for (std::uint64_t seed = 1001; seed < 1001 + seeds(120); ++seed) {
    Scenario s = random_pools(seed);
    if (seed % 5 == 0) add_failures(s);
    expect_leaps_equal_steps(s);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// A preempted request that needs blocks is queued before those whose KV has arrived, and these hold all blocks. Nothing
// can run, so all requests fail. A regression: such a run with pools that scale never ended.
TEST(PoolsTest, RequestsThatWaitForEachOtherFail) {
  Scenario s = random_routed(6106);
  add_scaling(s, 6106);
  const RunResult result = run(s);
  EXPECT_GT(result.metrics.requests_rejected, 0);
  EXPECT_EQ(result.metrics.requests_completed + result.metrics.requests_rejected, 80);
}

// A local prefill depends on what is cached. Inside a leap, decodes take blocks, whose content is lost.
TEST(PoolsTest, LocalPrefillsSeeWhatALeapHasTaken) { expect_leaps_equal_steps(random_routed(6948)); }

// The same for one pool, whose router compares what the replicas have cached.
TEST(PoolsTest, OnePoolsRoutersSeeWhatALeapHasTaken) {
  for (std::uint64_t seed = 1; seed <= seeds(40); ++seed) {
    Scenario s = random_routed(40'000 + seed);
    s.pools = nullptr;
    s.policy.role = sched::Role::whole;
    s.router = seed % 2 == 0 ? sched::RouterKind::dynamo : sched::RouterKind::kv_aware;
    s.kv.blocks = 3000 / s.kv.block_tokens;  // so that cached content is evicted
    s.engine = base_scenario().engine;
    s.limits = {};
    s.workload.requests = 300;
    expect_leaps_equal_steps(s);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Routers that look at caches, queues or prompts, and sessions whose next turn follows the answer.
TEST(PoolsTest, InvariantsAndLeapsHoldWithRoutersAndSessions) {
  const std::uint64_t first = 5001, last = first + seeds(100);
  for (std::uint64_t seed = first; seed < last; ++seed) {
    Scenario s = random_routed(seed);
    if (seed % 5 == 0) add_failures(s);
    if (seed % 5 == 1) add_scaling(s, seed);
    const RunResult result = run(s);
    expect_invariants(s, result);
    expect_roles(s, result);
    expect_leaps_equal_steps(s);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Without hops and with free transfers the prefill pool does exactly what it does for outputs of one token. (With push
// it would start when the decode side has decided to take its blocks, at the end of a step there.)
TEST(PoolsTest, ThePrefillSideEqualsAPurePrefillRun) {
  Scenario s = base_scenario();
  s.kv.blocks = 60000;
  s.workload.load = load::Poisson{20};
  load::TransferConfig transfer = five_ms();
  transfer.launch_s = 0;
  const RunResult pooled = run(with_pools(s, transfer));
  Scenario alone = s;
  std::get<load::IndependentLengths>(alone.workload.lengths).output = load::FixedLength{1};
  const RunResult pure = run(alone);
  ASSERT_EQ(pooled.requests.size(), pure.requests.size());
  for (std::size_t i = 0; i < pure.requests.size(); ++i)
    EXPECT_EQ(pooled.requests[i].stages->prefill_end, pure.requests[i].end) << i;
}

// A decode pool that gets all prompts at one instant, at no cost, decodes like one pool whose prompts take no time: all
// rows decode together. The recomputed last token is the first decode step.
TEST(PoolsTest, ADecodePoolFedAtOnceEqualsOnePoolWithoutPrefill) {
  Scenario s = known_answer(sched::PolicyKind::vllm_v1, 64, 50, 30);
  s.policy.step_token_budget = 100'000;
  load::TransferConfig transfer = five_ms();
  transfer.launch_s = 0;
  const RunResult pooled = run(with_pools(s, transfer));
  Scenario alone = s;
  alone.engine = constant_engine(0, 0.002);
  const RunResult pure = run(alone);
  ASSERT_EQ(pooled.requests.size(), 30U);
  for (std::size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(pooled.requests[i].first_token - pooled.requests[i].stages->prefill_end, pure.requests[i].first_token);
    EXPECT_EQ(pooled.requests[i].end - pooled.requests[i].stages->prefill_end, pure.requests[i].end);
  }
}

}  // namespace
}  // namespace plimsoll::sim
