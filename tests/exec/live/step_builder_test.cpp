// SPDX-License-Identifier: Apache-2.0
// Whatever a policy decides, the worker's blocks are those that the ledger counts, and every request gets the tokens
// that it would get alone. This holds under KV pressure, with preemption by recompute and by swapping, shared prefixes,
// cancels and static padding.
#include "exec/live/step_builder.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <random>

#include "exec/live/live_replica.h"
#include "tests/exec/chain_device.h"
#include "tests/sim/random_scenarios.h"

namespace plimsoll::exec {
namespace {

using sim::testing::PolicyCase;

constexpr std::int32_t kSlots = 20;  // fewer than rows, so some rows have no slot
constexpr Nanos kStep = 1'000'000;

// One replica driven by hand: requests arrive at random steps, share prefixes, and some are cancelled.
class Drive {
 public:
  Drive(const load::Scenario& scenario, std::uint64_t seed)
      : random_(seed),
        live_(scenario, 0, {}, events_),
        prompts_(seed, testing::kVocabulary),
        device_(scenario.kv.blocks, scenario.kv.block_tokens, kSlots),
        builder_(builder_config(scenario, kSlots), prompts_, device_) {
    builder_.on_token = [this](std::uint64_t serial, std::int32_t token) { produced_[serial].push_back(token); };
  }

  void run(int requests) {
    for (int calm = 0; calm < 3 || next_ < static_cast<std::uint64_t>(requests);) {
      while (next_ < static_cast<std::uint64_t>(requests) && random_() % 3 == 0) arrive();
      if (random_() % 40 == 0) cancel();
      const bool step = live_.decide(now_);
      collect();
      if (step)
        run_order();
      else
        now_ = std::max(now_ + kStep, std::min(live_.replica().wake_at(), now_ + 100 * kStep));
      calm = step || live_.replica().wake_at() != sched::kNever ? 0 : calm + 1;
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(live_.replica().requests().size(), 0);
  }

  [[nodiscard]] std::int64_t preemptions() const { return live_.replica().preemptions(); }
  std::int64_t hits = 0, swaps = 0, completed = 0;

 private:
  void arrive() {
    const auto pick = [this](std::uint64_t n) { return random_() % n; };
    hashes_.clear();
    if (pick(2) == 0) {
      // One of three groups. Every hash represents 8 tokens, and the first one also all earlier tokens.
      const std::uint64_t group = pick(3) + 1, blocks = 1 + pick(12);
      for (std::uint64_t i = 0; i < blocks; ++i) hashes_.push_back(group * 1000 + i);
    }
    sched::NewRequest request;
    request.serial = next_++;
    request.input = static_cast<Tok>(1 + pick(120));
    request.output = static_cast<Tok>(1 + pick(60));
    request.max_new = request.output + static_cast<Tok>(pick(2) == 0 ? 0 : pick(40));
    request.sent = now_;
    request.prefix_hashes = hashes_;
    request.hash_block_tokens = hashes_.empty() ? 0 : 8;
    if (const auto id = live_.arrive(request, now_)) alive_[request.serial] = *id;
    std::vector<std::int32_t> prompt;
    prompts_.append({.serial = request.serial,
                     .input = request.input,
                     .prefix_hashes = hashes_,
                     .hash_block_tokens = request.hash_block_tokens},
                    prompt);
    expected_[request.serial] = testing::continuation(prompt, static_cast<std::size_t>(request.output));
    collect();
  }

  void cancel() {
    if (alive_.empty()) return;
    auto victim = alive_.begin();
    std::advance(victim, static_cast<std::ptrdiff_t>(random_() % alive_.size()));
    live_.cancel(victim->second, victim->first, now_);
    collect();
  }

  void run_order() {
    StepOrder order = live_.make_order();
    for (const sched::KvOp& op : order.kv) {
      if (op.kind == sched::KvOp::Kind::attach_prefix && op.tokens > 0) ++hits;
      if (op.kind == sched::KvOp::Kind::swap_in) ++swaps;
    }
    builder_.begin(order);
    expect_same_blocks(order);
    const std::int64_t steps = 1 + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(order.steps));
    for (std::int64_t step = 0; step < steps; ++step) {
      for (std::size_t f = 0; f < order.forwards.size(); ++f) {
        builder_.start(order, step, f);
        builder_.finish();
      }
      builder_.end_step();
      live_.complete({now_, now_ + kStep});
      now_ += kStep;
      collect();
    }
  }

  // The ledger counts the block of a decoding request when its step ends, although the operation takes it at once.
  void expect_same_blocks(const StepOrder& order) {
    const sched::KvLedger& ledger = live_.replica().kv();
    std::map<ReqId, sched::Blk> to_come;
    for (const sched::KvOp& op : order.kv)
      if (op.kind == sched::KvOp::Kind::grow) to_come[op.id] = ledger.need(op.id, op.tokens);
    sched::Blk sum = 0;
    for (const auto& [id, blocks] : to_come) sum += blocks;
    ASSERT_EQ(builder_.pool().free(), ledger.free() - sum);
    for (const auto& [serial, id] : alive_)
      ASSERT_EQ(builder_.pool().held(id), ledger.held(id) + to_come[id]) << "request " << serial;
  }

  void collect() {
    for (const sched::FinishedAttempt& ended : live_.replica().ended()) {
      live_.ended(ended);
      alive_.erase(ended.serial);
      if (ended.outcome != sched::Outcome::completed) continue;
      ++completed;
      EXPECT_EQ(produced_[ended.serial], expected_[ended.serial])
          << "request " << ended.serial << " after " << ended.preemptions << " preemptions";
    }
    live_.replica().ended().clear();
  }

  std::mt19937_64 random_;
  load::EventLog events_{false};
  LiveReplica live_;
  PromptSource prompts_;
  testing::ChainDevice device_;
  StepBuilder builder_;
  std::uint64_t next_ = 0;
  Nanos now_ = 0;
  std::vector<std::uint64_t> hashes_;
  std::map<std::uint64_t, ReqId> alive_;
  std::map<std::uint64_t, std::vector<std::int32_t>> produced_, expected_;
};

load::Scenario small_built_scenario(const PolicyCase& policy, std::uint64_t seed) {
  load::Scenario s = sim::testing::random_scenario(policy, seed);
  std::mt19937_64 random(seed);
  s.kv.block_tokens = std::array<Tok, 4>{1, 8, 16, 64}[random() % 4];
  s.kv.blocks = std::array<Tok, 3>{192, 512, 1024}[random() % 3] / s.kv.block_tokens;
  s.kv.prefix_caching = random() % 2 == 0;
  s.policy.model_max_len = 256;
  s.replicas = 1;
  return s;
}

class StepBuilderTest : public ::testing::TestWithParam<PolicyCase> {};

TEST_P(StepBuilderTest, EveryRequestGetsItsTokensFromTheBlocksOfTheLedger) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Drive drive(small_built_scenario(GetParam(), seed), seed);
    drive.run(60);
    if (HasFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Policies, StepBuilderTest, ::testing::ValuesIn(sim::testing::kPolicyCases),
                         sim::testing::case_name);

// The property above is only meaningful if these events occur.
TEST(StepBuilder, TheRandomRunsPreemptSwapAndShare) {
  std::int64_t preemptions = 0, hits = 0, swaps = 0, completed = 0;
  for (const auto kind : {sched::PolicyKind::vllm_v0, sched::PolicyKind::vllm_v1}) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      Drive drive(small_built_scenario({kind, sched::PolicyVariant::standard}, seed), seed);
      drive.run(60);
      preemptions += drive.preemptions();
      hits += drive.hits;
      swaps += drive.swaps;
      completed += drive.completed;
    }
  }
  EXPECT_GT(preemptions, 500);
  EXPECT_GT(hits, 300);
  EXPECT_GT(swaps, 100);
  EXPECT_GT(completed, 3000);
}

// A finished prompt leaves while the next one is computed. If it had to wait for that forward, this would end only when
// the forward does.
TEST(StepBuilder, WhatLeavesDoesNotWaitForAForward) {
  const PromptSource prompts(1, testing::kVocabulary);
  testing::ChainDevice device(16, 8, 2);
  StepBuilder builder({.kv = {.blocks = 16, .block_tokens = 8}, .sequences = 2, .sampling = {}}, prompts, device);
  const auto prefill = [](ReqId id) {
    StepOrder order;
    Change& change = order.changes.emplace_back();
    change.opens = true;
    change.request.id = id;
    change.request.serial = id;
    change.request.input = 20;
    order.kv.push_back({sched::KvOp::Kind::grow, id, 20});
    order.forwards.emplace_back().prefill = {{.id = id, .new_tokens = 20, .context = 0, .emits = true}};
    return order;
  };
  std::future<StepBuilder::Outgoing> leaves;
  for (const ReqId id : {0U, 1U}) {
    const StepOrder order = prefill(id);
    if (id == 1)
      device.while_it_runs = [&] {
        leaves = std::async(std::launch::async, [&] { return builder.outgoing(0, 0, 20); });
        EXPECT_EQ(leaves.wait_for(std::chrono::seconds(20)), std::future_status::ready);
      };
    builder.begin(order);
    builder.start(order, 0, 0);
    builder.finish();
    builder.end_step();
  }
  const StepBuilder::Outgoing out = leaves.get();
  EXPECT_EQ(out.blocks.size(), 3);
  EXPECT_TRUE(out.token.has_value());
}

}  // namespace
}  // namespace plimsoll::exec
