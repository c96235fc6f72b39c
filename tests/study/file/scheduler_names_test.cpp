// SPDX-License-Identifier: Apache-2.0
// The names that every product uses for scheduler settings are mapped to ours.
#include "study/file/scheduler_names.h"

#include "model/error.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

struct Spelling {
  const char* spelling;
  const char* ours;
};

class SchedulerNames : public ::testing::TestWithParam<Spelling> {};

TEST_P(SchedulerNames, MeanOurs) {
  const auto alias = scheduler_alias(GetParam().spelling, false);
  ASSERT_TRUE(alias.has_value());
  EXPECT_EQ(alias->ours, GetParam().ours);
}

INSTANTIATE_TEST_SUITE_P(
    All, SchedulerNames,
    ::testing::Values(
        Spelling{"option.max_rolling_batch_size", "max_running"},
        Spelling{"OPTION_MAX_ROLLING_BATCH_SIZE", "max_running"}, Spelling{"MAX_BATCH_SIZE", "max_running"},
        Spelling{"--max-num-seqs", "max_running"}, Spelling{"max_num_seqs", "max_running"},
        Spelling{"max_batch_size", "max_running"}, Spelling{"--max-running-requests", "max_running"},
        Spelling{"option.max_rolling_batch_prefill_tokens", "step_token_budget"},
        Spelling{"--max-num-batched-tokens", "step_token_budget"}, Spelling{"max_num_tokens", "step_token_budget"},
        Spelling{"--chunked-prefill-size", "step_token_budget"},
        Spelling{"MAX_BATCH_PREFILL_TOKENS", "prefill_token_budget"},
        Spelling{"max_batch_prefill_tokens", "prefill_token_budget"},
        Spelling{"--max-batch-prefill-tokens", "prefill_token_budget"},
        Spelling{"MAX_BATCH_TOTAL_TOKENS", "kv_token_budget"}, Spelling{"--num-gpu-blocks-override", "kv_blocks"},
        Spelling{"option.gpu_memory_utilization", "mem_fraction"}, Spelling{"CUDA_MEMORY_FRACTION", "mem_fraction"},
        Spelling{"--gpu-memory-utilization", "mem_fraction"}, Spelling{"--mem-fraction-static", "mem_fraction"},
        Spelling{"--block-size", "block_size"}, Spelling{"tokens_per_block", "block_size"},
        Spelling{"--page-size", "block_size"}, Spelling{"max_dynamic_batch_size", "batch_size"},
        Spelling{"preferred_batch_size", "batch_size"}, Spelling{"max_queue_delay_microseconds", "max_batch_delay"},
        Spelling{"job_queue_size", "queue_limit"}, Spelling{"SERVING_JOB_QUEUE_SIZE", "queue_limit"},
        Spelling{"max_queue_size", "queue_limit"}, Spelling{"MAX_CONCURRENT_REQUESTS", "max_concurrent"},
        Spelling{"MAX_INPUT_LENGTH", "max_input"}, Spelling{"MAX_INPUT_TOKENS", "max_input"},
        Spelling{"MAX_TOTAL_TOKENS", "max_total"}, Spelling{"option.max_model_len", "max_total"},
        Spelling{"--max-model-len", "max_total"}, Spelling{"--context-length", "max_total"},
        Spelling{"WAITING_SERVED_RATIO", "served_ratio"}, Spelling{"MAX_WAITING_TOKENS", "force_after"},
        Spelling{"option.waiting_steps", "force_after"}, Spelling{"--scheduler-delay-factor", "delay_factor"},
        Spelling{"PREFILL_CHUNKING", "chunked"}, Spelling{"--enable-chunked-prefill", "chunked"},
        Spelling{"context_chunking_policy", "chunked"},
        Spelling{"--long-prefill-token-threshold", "long_prefill_threshold"},
        Spelling{"--preemption-mode", "preemption"}, Spelling{"--swap-space", "swap_space"},
        Spelling{"capacity_scheduler_policy", "capacity_policy"},
        Spelling{"--batch-wait-timeout-iters", "batch_wait_timeout_iters"},
        Spelling{"batch_wait_max_tokens_ratio", "batch_wait_max_tokens_ratio"},
        Spelling{"--schedule-conservativeness", "conservativeness"},
        Spelling{"--scheduler-recv-interval", "scheduler_recv_interval"},
        Spelling{"--enable-prefix-caching", "prefix_caching"}, Spelling{"option.tensor_parallel_degree", "tp"},
        Spelling{"SM_NUM_GPUS", "tp"}, Spelling{"NUM_SHARD", "tp"}, Spelling{"--tensor-parallel-size", "tp"},
        Spelling{"--tp-size", "tp"}, Spelling{"--parallel", "max_running"},
        Spelling{"--ubatch-size", "forward_token_budget"}, Spelling{"--ctx-size", "kv_token_budget"},
        Spelling{"--cache-prompt", "prefix_caching"}, Spelling{"--slot-prompt-similarity", "slot_prompt_similarity"}));

class SchedulerSettingsTest : public StudyFolder {
 protected:
  [[nodiscard]] PointSpec spec(const std::string& scheduler, const std::string& engine = "ideal") const {
    return read("model: llama-2-7b\nhardware: ml.p4d.24xlarge\nengine: " + engine + "\nscheduler: " + scheduler +
                "\nworkload: {load: {burst: {count: 1}}, lengths: {input: 8, output: 8}}\n")
        .point(0);
  }
};

TEST_F(SchedulerSettingsTest, ABareDelayIsMilliseconds) {
  EXPECT_EQ(spec("{policy: dynamic, max_batch_delay: 100}").policy.max_batch_delay, 100'000'000);
  EXPECT_EQ(spec("{policy: dynamic, max_batch_delay: 0.1 s}").policy.max_batch_delay, 100'000'000);
}

TEST_F(SchedulerSettingsTest, TritonCountsMicrosecondsFromTheOldestArrival) {
  const auto policy = spec("{policy: dynamic, preferred_batch_size: 8, max_queue_delay_microseconds: 500}").policy;
  EXPECT_EQ(policy.batch_size, 8);
  EXPECT_EQ(policy.max_batch_delay, 500'000);
  EXPECT_EQ(policy.delay_origin, sched::DelayOrigin::oldest_arrival);
}

TEST_F(SchedulerSettingsTest, RollingBatchNamesAPolicy) {
  EXPECT_EQ(spec("{option.rolling_batch: lmi-dist}").policy.policy, sched::PolicyKind::rolling);
  EXPECT_EQ(spec("{OPTION_ROLLING_BATCH: auto}").policy.policy, sched::PolicyKind::rolling);
  EXPECT_EQ(spec("{option.rolling_batch: disable, batch_size: 4}").policy.policy, sched::PolicyKind::dynamic);
  EXPECT_EQ(spec("{option.rolling_batch: trtllm}").policy.policy, sched::PolicyKind::trtllm);
}

TEST_F(SchedulerSettingsTest, PagedAttentionFalseIsContiguous) {
  EXPECT_EQ(spec("{policy: rolling, option.paged_attention: false}").policy.variant, sched::PolicyVariant::contiguous);
  EXPECT_EQ(spec("{policy: rolling, option.paged_attention: true}").policy.variant, sched::PolicyVariant::standard);
}

TEST_F(SchedulerSettingsTest, SwapSpaceOfVllmIsGibibytes) {
  EXPECT_EQ(spec("{policy: vllm_v0, --swap-space: 4}").policy.swap_space_bytes, 4.0 * 1073741824.0);
  EXPECT_EQ(spec("{policy: vllm_v0, swap_space: 4 GB}").policy.swap_space_bytes, 4e9);
}

TEST_F(SchedulerSettingsTest, ChunkingChoosesTheVariant) {
  EXPECT_EQ(spec("{policy: tgi, PREFILL_CHUNKING: 1}").policy.variant, sched::PolicyVariant::tgi_v3);
  EXPECT_EQ(spec("{policy: vllm_v0, --enable-chunked-prefill: true}").policy.variant,
            sched::PolicyVariant::vllm_chunked);
  EXPECT_EQ(spec("{policy: sglang, --chunked-prefill-size: 2048}").policy.step_token_budget, 2048);
  EXPECT_EQ(spec("{policy: sglang, --chunked-prefill-size: -1}").policy.chunked, false);
}

TEST_F(SchedulerSettingsTest, MaxTotalTokensIsALimitOrAPool) {
  EXPECT_EQ(spec("{policy: tgi, --max-total-tokens: 2048}").policy.max_total, 2048);
  EXPECT_EQ(spec("{policy: sglang, --max-total-tokens: 2048}").policy.kv_token_budget, 2048);
}

TEST_F(SchedulerSettingsTest, TheStudyWinsOverTheEngine) {
  EXPECT_EQ(spec("{}", "tgi-1.1").policy.policy, sched::PolicyKind::tgi);
  EXPECT_EQ(spec("{}", "tgi-1.1").policy.max_concurrent, 128);
  EXPECT_EQ(spec("{MAX_CONCURRENT_REQUESTS: 512}", "tgi-1.1").policy.max_concurrent, 512);
}

TEST_F(SchedulerSettingsTest, ABudgetUnderTheOtherNameWinsOverTheEngineToo) {
  EXPECT_EQ(spec("{step_token_budget: 1024}", "tgi-1.1").policy.prefill_token_budget, 1024);
  EXPECT_EQ(spec("{MAX_BATCH_PREFILL_TOKENS: 1024}", "vllm-0.12").policy.step_token_budget, 1024);
  EXPECT_EQ(spec("{step_token_budget: 1024, prefill_token_budget: 512}", "tgi-1.1").policy.prefill_token_budget, 512);
}

TEST_F(SchedulerSettingsTest, SglangPrefillsWithinBothItsLimits) {
  EXPECT_EQ(spec("{--max-prefill-tokens: 16, chunked: false}", "sglang-0.5").policy.step_token_budget, 16);
  EXPECT_EQ(spec("{--max-prefill-tokens: 1024}", "sglang-0.5").policy.step_token_budget, 1024);
  EXPECT_EQ(spec("{--max-prefill-tokens: 4096, --chunked-prefill-size: 2048}", "sglang-0.5").policy.step_token_budget,
            2048);
}

TEST_F(SchedulerSettingsTest, AnotherPolicyDropsTheEnginesLimits) {
  const auto policy = spec("{policy: vllm_v1}", "tgi-1.1").policy;
  EXPECT_FALSE(policy.max_concurrent.has_value());
  EXPECT_EQ(policy.block_size, 16);
}

TEST_F(SchedulerSettingsTest, WithoutAProfileTheCautiousDefaultsHold) {
  const auto policy = spec("{policy: tgi}").policy;
  EXPECT_EQ(policy.prefix_caching, false);
  EXPECT_EQ(policy.reserve_full_sequence, false);
  EXPECT_EQ(policy.served_ratio, 1.2);
  EXPECT_FALSE(policy.tgi_batch_size_bug);
}

// vLLM 0.16 admits a prompt before all of it fits; from 0.19 on, vLLM does not.
TEST_F(SchedulerSettingsTest, TheVersionOfVllmSetsItsDefaults) {
  const auto bare = spec("{policy: vllm_v1}").policy;
  EXPECT_EQ(bare.version, 16);
  EXPECT_EQ(bare.reserve_full_sequence, false);
  EXPECT_FALSE(bare.async_scheduling.value_or(false));
  EXPECT_EQ(bare.order, sched::Order::fcfs);
  EXPECT_EQ(spec("{policy: vllm_v1, version: '0.19'}").policy.reserve_full_sequence, true);
  EXPECT_EQ(spec("{policy: vllm_v1, version: '0.19', reserve_full_sequence: false}").policy.reserve_full_sequence,
            false);
  EXPECT_EQ(spec("{}", "vllm-0.12").policy.version, 12);
  EXPECT_EQ(spec("{}", "vllm-0.12").policy.reserve_full_sequence, false);
}

TEST_F(SchedulerSettingsTest, TheRulesOfVllmHaveItsFlags) {
  const auto policy = spec("{policy: vllm_v1, --scheduling-policy: priority, --async-scheduling: true}").policy;
  EXPECT_EQ(policy.order, sched::Order::priority);
  EXPECT_EQ(policy.async_scheduling, true);
  EXPECT_EQ(spec("{policy: vllm_v1, --num-gpu-blocks-override: 78}").policy.kv_blocks, 77);  // one is the null block
  for (const char* const bad : {"{policy: vllm_v1, version: '0.33'}", "{policy: vllm_v1, version: '1.0'}",
                                "{policy: vllm_v1, scheduling: lifo}", "{policy: vllm_v1, async_scheduling: 2}",
                                "{policy: tgi, async_scheduling: true}", "{policy: vllm_v0, scheduling: priority}"})
    EXPECT_THROW(static_cast<void>(spec(bad)), InputError) << bad;
}

TEST_F(SchedulerSettingsTest, TheKindOfDjlEngineIsNoted) {
  EXPECT_EQ(spec("{policy: rolling, engine: MPI}").notes.size(), 1U);
  EXPECT_THROW(static_cast<void>(spec("{policy: rolling, engine: Rust}")), InputError);
}

TEST_F(SchedulerSettingsTest, TheDegreeMayStandAmongTheSettings) {
  EXPECT_EQ(spec("{policy: tgi, NUM_SHARD: 4}").deployment.tp, 4);
  EXPECT_TRUE(spec("{policy: rolling, option.tensor_parallel_degree: max}").deployment.tp_is_max);
}

}  // namespace
}  // namespace plimsoll::study
