// SPDX-License-Identifier: Apache-2.0
// A real model under KV pressure: requests that were preempted, by recompute or by swapping, produce the tokens that
// they would have produced undisturbed. In f32, where another batch size changes logits too little to affect greedy
// sampling.
#include <gtest/gtest.h>

#include <map>

#include "exec/live/live_engines.h"
#include "exec/live/live_replica.h"
#include "exec/live/step_builder.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"
#include "tests/sim/scenarios.h"

namespace plimsoll::exec {
namespace {

struct Run {
  std::map<std::uint64_t, std::vector<std::int32_t>> tokens;  // by serial
  std::int64_t preemptions = 0;
};

load::Scenario scenario(const model::Architecture& architecture, sched::PolicyKind policy, sched::Preemption preemption,
                        sched::Blk blocks) {
  load::Scenario s = sim::testing::base_scenario();
  s.shape = std::make_shared<const model::LlmShape>(architecture.shape);
  s.policy = {};
  s.policy.policy = policy;
  s.policy.preemption = preemption;
  s.policy.swap_blocks = 100;
  s.policy.model_max_len = 128;
  s.kv = {.blocks = blocks, .block_tokens = 4, .prefix_caching = false};
  return s;
}

Run run_requests(const model::Architecture& architecture, const load::Scenario& s) {
  EngineConfig config;
  config.architecture = architecture;
  config.weight_dtype = config.kv_dtype = model::DType::fp32;
  config.kv_blocks = s.kv.blocks;
  config.block_tokens = s.kv.block_tokens;
  config.sequences = 16;
  config.threads = 1;
  config.poison = true;
  LiveEngines engines(config, 1, *random_weights(architecture, 3));
  const PromptSource prompts(3, architecture.shape.vocab);
  StepBuilder builder({.kv = s.kv, .sequences = 16, .sampling = {}}, prompts, *engines.replicas().devices[0]);
  Run run;
  builder.on_token = [&](std::uint64_t serial, std::int32_t token) { run.tokens[serial].push_back(token); };
  load::EventLog events(false);
  LiveReplica live(s, 0, {}, events);
  for (std::uint64_t serial = 0; serial < 6; ++serial) {
    sched::NewRequest request;
    request.serial = serial;
    request.input = static_cast<Tok>(5 + 3 * serial);
    request.output = request.max_new = 20;
    EXPECT_TRUE(live.arrive(request, 0).has_value());
  }
  run_steps(live, builder);
  run.preemptions = live.replica().preemptions();
  return run;
}

void expect_undisturbed(const char* family, sched::PolicyKind policy, sched::Preemption preemption) {
  const model::Architecture architecture = tiny_model(family);
  // The six requests end at 25 to 40 tokens, about 50 blocks of 4 in total; 22 blocks hold two or three requests.
  const Run ample = run_requests(architecture, scenario(architecture, policy, preemption, 100));
  const Run pressed = run_requests(architecture, scenario(architecture, policy, preemption, 22));
  EXPECT_EQ(ample.preemptions, 0);
  EXPECT_GT(pressed.preemptions, 0);
  EXPECT_EQ(pressed.tokens, ample.tokens);
  ASSERT_EQ(ample.tokens.size(), 6U);
  for (const auto& [serial, tokens] : ample.tokens) EXPECT_EQ(tokens.size(), 20U) << serial;
}

TEST(Preemption, RecomputedRequestsGoOnAsIfUndisturbed) {
  for (const char* family : {"llama", "mistral", "falcon_groups", "opt"})
    expect_undisturbed(family, sched::PolicyKind::vllm_v1, sched::Preemption::recompute);
}

TEST(Preemption, SwappedRequestsGoOnAsIfUndisturbed) {
  for (const char* family : {"llama", "gptj"})
    expect_undisturbed(family, sched::PolicyKind::vllm_v0, sched::Preemption::swap);
}

}  // namespace
}  // namespace plimsoll::exec
