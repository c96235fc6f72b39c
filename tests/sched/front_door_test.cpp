// SPDX-License-Identifier: Apache-2.0
// Which requests the front door refuses, and with which HTTP status.
#include "model/error.h"
#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

// S12: at most 2 requests in the system, prompts up to 8, prompt + cap up to 12 (checked first).
TEST(FrontDoor, TakesThePermitThenChecksTheTotalThenTheInput) {
  const PolicyConfig policy = config(PolicyKind::tgi, [](PolicyConfig& c) {
    c.max_concurrent = 2;
    c.max_input = 8;
    c.max_total = 12;
  });
  Replica::Config setup;
  setup.policy = policy;
  setup.kv = ample(16);
  Replica replica(setup);
  std::uint64_t serial = 0;
  const auto send = [&](Tok prompt, Tok cap) {
    NewRequest request;
    request.serial = ++serial;
    request.input = prompt;
    request.output = request.max_new = cap;
    const bool taken = replica.arrive(request, 0).has_value();
    return taken ? std::string("ok") : fmt::format("{} {}", replica.ended().back().http, replica.ended().back().code);
  };
  EXPECT_EQ(send(8, 4), "ok");
  EXPECT_EQ(send(9, 2), "422 input_length");
  EXPECT_EQ(send(8, 5), "422 max_total_tokens");
  EXPECT_EQ(send(9, 4), "422 max_total_tokens");
  EXPECT_EQ(send(4, 4), "ok");
  EXPECT_EQ(send(4, 4), "429 overloaded");
  EXPECT_EQ(send(9, 4), "429 overloaded");
  ASSERT_TRUE(replica.is_live(0, 1));
  replica.cancel(0, Outcome::cancelled, 0);
  EXPECT_EQ(send(4, 4), "ok");
}

TEST(FrontDoor, RefusesWhatWouldBlockTgiForEver) {
  const PolicyConfig policy = config(PolicyKind::tgi, [](PolicyConfig& c) { c.prefill_token_budget = 6; });
  const KvConfig kv{.blocks = 6, .block_tokens = 4, .prefix_caching = false};
  // The budget is rounded up to 8; A needs 12. B is charged 8 + 20 of 24 tokens; C exactly 8 + 16.
  EXPECT_EQ(steps_of(policy, kv, "A:9+1 B:8+1/17 C:8+1/16"), "P[C:8] rejected(A 422, B 422)");
}

// A refusal is logged in the line of the next step, even if the arrival does not affect the running batch.
TEST(FrontDoor, LogsARefusalWithTheNextStepOfALeap) {
  const PolicyConfig policy = config(PolicyKind::static_batch, [](PolicyConfig& c) { c.max_total = 12; });
  const std::vector<TimedRequest> requests{{.name = "a", .output = 6, .cap = 6},
                                           {.name = "b", .prompt = 10, .cap = 3, .at = 2 * kMs + 1}};
  for (const Mode mode : {Mode::steps, Mode::leaps})
    EXPECT_EQ(run_timed(policy, ample(), requests, {kMs, mode}).log,
              "1: P[a:1]\n2: D[a]\n3: D[a]\n4: D[a] rejected(b 422)\n5: D[a]\n6: D[a]\n");
}

// The router refuses to start with these settings, each of which is between two values that the study states.
TEST(FrontDoor, ChecksTgiSettingsAsTheRouterDoes) {
  const auto starts = [](auto edit) {
    try {
      (void)make_policy(config(PolicyKind::tgi, edit));
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  EXPECT_TRUE(starts([](PolicyConfig& c) {
    c.max_input = 4095;
    c.max_total = 4096;
    c.prefill_token_budget = 4096;
  }));
  EXPECT_FALSE(starts([](PolicyConfig& c) {
    c.max_input = 4096;
    c.max_total = 4096;
  }));
  EXPECT_FALSE(starts([](PolicyConfig& c) {
    c.max_input = 4095;
    c.prefill_token_budget = 4094;
  }));
  EXPECT_TRUE(starts([](PolicyConfig& c) {
    c.max_input = 4095;
    c.prefill_token_budget = 512;
    c.variant = PolicyVariant::tgi_v3;
  }));
  EXPECT_FALSE(starts([](PolicyConfig& c) {
    c.prefill_token_budget = 4097;
    c.kv_token_budget = 4096;
  }));
  EXPECT_TRUE(starts([](PolicyConfig& c) {
    c.prefill_token_budget = 4096;
    c.kv_token_budget = 4096;
  }));
  EXPECT_FALSE(starts([](PolicyConfig& c) {
    c.max_total = 4097;
    c.kv_token_budget = 4096;
  }));
  EXPECT_TRUE(starts([](PolicyConfig& c) { c.max_input = 100000; }));
}

}  // namespace
}  // namespace plimsoll::sched::testing
