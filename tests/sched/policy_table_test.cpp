// SPDX-License-Identifier: Apache-2.0
#include "sched/policy_table.h"

#include <set>

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

constexpr std::size_t kPolicies = 12;

std::vector<PolicyKind> every_policy() {
  std::vector<PolicyKind> all;
  for (std::size_t i = 0; i < policy_names().size(); ++i) all.push_back(static_cast<PolicyKind>(i));
  return all;
}

std::vector<PolicyVariant> variants_of(PolicyKind kind) {
  std::vector<PolicyVariant> all;
  for (const VariantName& v : policy_info(kind).variants) all.push_back(v.variant);
  if (all.empty()) all.push_back(PolicyVariant::standard);
  return all;
}

TEST(PolicyTable, GivesEveryPolicyANameOfItsOwnThatReadsBack) {
  std::set<std::string_view> names;
  for (const PolicyKind kind : every_policy()) {
    names.insert(name(kind));
    EXPECT_EQ(policy_from_name(name(kind)), kind);
    EXPECT_FALSE(policy_info(kind).description.empty());
    EXPECT_NE(make_policy(config(kind)), nullptr);
  }
  EXPECT_EQ(names.size(), kPolicies);
  EXPECT_FALSE(policy_from_name("statik").has_value());
}

// none, static and dynamic are one class that runs a batch to its end; all other policies batch continuously.
TEST(PolicyTable, SaysWhichPoliciesReturnWholeBatches) {
  std::set<std::string_view> whole;
  for (const PolicyKind kind : every_policy())
    if (traits_of(config(kind)).returns_at_batch_end) whole.insert(name(kind));
  EXPECT_EQ(whole, (std::set<std::string_view>{"none", "static", "dynamic"}));
}

TEST(PolicyTable, KnowsContiguousReservationsByVariant) {
  EXPECT_FALSE(traits_of(config(PolicyKind::rolling)).contiguous);
  EXPECT_TRUE(traits_of(config(PolicyKind::rolling, [](PolicyConfig& c) {
                c.variant = PolicyVariant::contiguous;
              })).contiguous);
  EXPECT_TRUE(traits_of(config(PolicyKind::orca)).contiguous);
  EXPECT_FALSE(traits_of(config(PolicyKind::vllm_v1)).contiguous);
}

// The defaults that docs/policies.md lists.
TEST(PolicyTable, ResolvesTheProductsDefaults) {
  const auto of = [](PolicyKind kind) { return resolve_limits(config(kind), 1000); };
  EXPECT_EQ(of(PolicyKind::none).max_running, 1);
  EXPECT_EQ(of(PolicyKind::static_batch).max_running, 1);
  EXPECT_EQ(of(PolicyKind::rolling).max_running, 32);
  EXPECT_EQ(of(PolicyKind::orca).max_running, 128);
  EXPECT_EQ(of(PolicyKind::tgi).max_running, kForever);
  EXPECT_EQ(of(PolicyKind::tgi).prefill_tokens, 4096);
  EXPECT_EQ(of(PolicyKind::vllm_v0).max_running, 256);
  EXPECT_EQ(of(PolicyKind::vllm_v0).step_tokens, 2048);  // more than the context of 1000
  EXPECT_EQ(of(PolicyKind::vllm_v1).step_tokens, 2048);
  EXPECT_EQ(of(PolicyKind::sarathi).step_tokens, 512);
  EXPECT_EQ(of(PolicyKind::trtllm).max_running, 2048);
  EXPECT_EQ(of(PolicyKind::trtllm).step_tokens, 8192);
  EXPECT_EQ(of(PolicyKind::sglang).max_running, 4096);
  EXPECT_EQ(of(PolicyKind::sglang).chunk_tokens, 8192);
  EXPECT_EQ(of(PolicyKind::llama_cpp).max_running, 4);
  EXPECT_EQ(of(PolicyKind::llama_cpp).step_tokens, 2048);
  EXPECT_EQ(of(PolicyKind::llama_cpp).forward_tokens, 512);
}

TEST(PolicyTable, TakesStatedLimitsBeforeDefaults) {
  const auto limits = [](PolicyKind kind, auto edit) { return resolve_limits(config(kind, edit), 1000); };
  EXPECT_EQ(limits(PolicyKind::static_batch,
                   [](PolicyConfig& c) {
                     c.batch_size = 7;
                     c.max_running = 9;
                   })
                .max_running,
            7);
  EXPECT_EQ(limits(PolicyKind::dynamic, [](PolicyConfig& c) { c.max_running = 9; }).max_running, 9);
  EXPECT_EQ(limits(PolicyKind::none, [](PolicyConfig& c) { c.max_running = 9; }).max_running, 1);
  EXPECT_EQ(limits(PolicyKind::vllm_v0, [](PolicyConfig& c) { c.max_total = 4000; }).step_tokens, 2048);
  EXPECT_EQ(resolve_limits(config(PolicyKind::vllm_v0, [](PolicyConfig& c) { c.max_total = 4000; })).step_tokens, 4000);
  EXPECT_EQ(limits(PolicyKind::vllm_v0, [](PolicyConfig& c) { c.chunked = true; }).step_tokens, 512);
  EXPECT_EQ(limits(PolicyKind::sglang, [](PolicyConfig& c) { c.chunked = false; }).prefill_tokens, 16384);
  // With its defect, TGI 2.0.0 lets a full batch keep growing.
  EXPECT_EQ(limits(PolicyKind::tgi,
                   [](PolicyConfig& c) {
                     c.max_running = 9;
                     c.tgi_batch_size_bug = true;
                   })
                .max_running,
            kForever);
}

TEST(PolicyTable, JoinsSettingsThatMeanOneThing) {
  PolicyConfig sglang = config(PolicyKind::sglang, [](PolicyConfig& c) { c.prefill_token_budget = 9000; });
  derive_settings(sglang);
  EXPECT_EQ(sglang.step_token_budget, 8192);  // the chunk's default is the smaller one
  PolicyConfig tgi = config(PolicyKind::tgi, [](PolicyConfig& c) { c.chunked = true; });
  derive_settings(tgi);
  EXPECT_EQ(tgi.variant, PolicyVariant::tgi_v3);
}

TEST(PolicyTable, SelectsWithRollingBatchWhatLmiWouldRun) {
  for (std::size_t i = 0; i < rolling_batch_names().size(); ++i) {
    const PolicyKind kind = rolling_batch_policy(i);
    EXPECT_TRUE(runs_on(kind, Server::lmi)) << rolling_batch_names()[i];
    const std::string_view written = policy_info(kind).lmi.rolling_batch;
    const auto names = rolling_batch_names();
    const auto at = std::find(names.begin(), names.end(), written) - names.begin();
    EXPECT_EQ(rolling_batch_policy(static_cast<std::size_t>(at)), kind) << written;
  }
}

/// The most that a single step contained.
struct Most {
  std::int64_t rows = 0, tokens = 0;  // tokens: only in steps with prompts
};

Most most_of(Replica& replica) {
  Most most;
  std::int64_t prompts = 0;
  std::set<ReqId> rows;  // a prompt may be in several forwards of a step
  for (const Forward& forward : replica.decision().forwards()) {
    std::int64_t decodes = 0;
    if (forward.decodes == Decodes::group) decodes = replica.requests().group_size();
    if (forward.decodes == Decodes::listed) decodes = std::ssize(forward.listed);
    most.rows += decodes;
    most.tokens += decodes;
    for (const Segment& s : forward.prefill) {
      prompts += s.new_tokens;
      rows.insert(s.id);
    }
  }
  most.rows += std::ssize(rows);
  most.tokens = prompts > 0 ? most.tokens + prompts : 0;
  return most;
}

Most run_to_the_end(Replica& replica, const std::vector<Draw>& draws) {
  Most most;
  std::size_t next = 0;
  Nanos now = 0;
  for (std::int64_t step = 1; next < draws.size() || replica.requests().size() > 0; ++step) {
    for (; next < draws.size() && draws[next].step <= step; ++next) {
      const Draw& d = draws[next];
      (void)replica.arrive({.serial = next,
                            .input = d.prompt,
                            .output = d.output,
                            .max_new = d.cap,
                            .sent = now,
                            .prefix_hashes = {},
                            .name = {}},
                           now);
    }
    if (!replica.decide(now)) {
      now = std::max(now + kMs, replica.wake_at() == kNever ? now : replica.wake_at());
      continue;
    }
    const Most one = most_of(replica);
    most = {std::max(most.rows, one.rows), std::max(most.tokens, one.tokens)};
    StepsTime time;
    time.start = 1e-9 * static_cast<double>(now);
    time.first = time.total = 1e-3;
    now += kMs;
    time.end = 1e-9 * static_cast<double>(now);
    time.end_stamp = now;
    replica.complete(time);
  }
  return most;
}

PolicyConfig draw_config(PolicyKind kind, PolicyVariant variant) {
  PolicyConfig policy = config(kind);
  policy.variant = variant;
  policy.max_running = sometimes(rc::gen::inRange<std::int64_t>(1, 9));
  policy.batch_size = sometimes(rc::gen::inRange<std::int64_t>(1, 9));
  policy.step_token_budget = sometimes(rc::gen::inRange<std::int64_t>(4, 60));
  policy.prefill_token_budget = sometimes(rc::gen::inRange<std::int64_t>(24, 60));
  policy.forward_token_budget = sometimes(rc::gen::inRange<std::int64_t>(1, 30));
  policy.chunked = sometimes(rc::gen::arbitrary<bool>());
  policy.tgi_batch_size_bug = *rc::gen::arbitrary<bool>();
  derive_settings(policy);
  return policy;
}

// One study may compare policies under settings of one product, so the others accept vLLM's versions too.
TEST(PolicyTable, KnowsTheVersionsOfTheProducts) {
  for (const PolicyKind kind : every_policy()) {
    const VersionRange versions = versions_of(kind);
    const bool sglang = kind == PolicyKind::sglang;
    EXPECT_EQ(versions.product, sglang ? "SGLang" : "vLLM") << name(kind);
    EXPECT_EQ(std::pair(versions.first, versions.last), sglang ? std::pair(4, 5) : std::pair(11, 32)) << name(kind);
  }
}

TEST(PolicyTable, ListsThePoliciesOfACondition) {
  EXPECT_EQ(policies_that([](const PolicyInfo& p) { return p.can_decide_ahead; }), "vllm_v1");
  EXPECT_EQ(policies_that([](const PolicyInfo& p) { return p.budget == BudgetKey::step && p.lmi.starts_by_mpi; }),
            "rolling, trtllm");
}

// The planner's bounds rely on this: whatever the settings, no step exceeds the limits of the table.
RC_GTEST_PROP(PolicyTable, LimitsHoldInEveryStepOfEveryPolicy, ()) {
  for (const PolicyKind kind : every_policy()) {
    for (const PolicyVariant variant : variants_of(kind)) {
      const PolicyConfig policy = draw_config(kind, variant);
      Replica replica({.policy = policy, .kv = draw_kv(), .window = 0, .keep_log = false});
      const Most most = run_to_the_end(replica, draw_requests());
      const Limits limits = resolve_limits(policy);
      RC_LOG() << name(kind) << '/' << static_cast<int>(variant) << '\n';
      RC_ASSERT(most.rows <= limits.max_running);
      RC_ASSERT(most.tokens <= limits.step_tokens);
    }
  }
}

}  // namespace
}  // namespace plimsoll::sched::testing
