// SPDX-License-Identifier: Apache-2.0
// The decode side of vLLM 0.12 with prompts that are computed elsewhere, decision by decision. The expected orders are
// those that vLLM's own scheduler gave for four prompts of 64 tokens in a pool of ten blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sched/replica.h"

namespace plimsoll::sched {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DecodeSide {
 public:
  explicit DecodeSide(std::int64_t max_running = 64) : replica_(config(max_running)) {}

  /// Four prompts of 64 tokens, all computed elsewhere, with answers of two tokens.
  void arrive_all() {
    for (std::uint64_t serial = 0; serial < 4; ++serial) {
      NewRequest request;
      request.serial = serial;
      request.input = request.remote = 64;
      request.output = request.max_new = 2;
      ids_.push_back(replica_.arrive(request, 0).value());
    }
  }
  /// Decides, and returns the requests whose transfers start.
  std::vector<std::string> decide() {
    step_ = replica_.decide(now_);
    std::vector<std::string> started;
    for (const Load& load : replica_.loads()) started.push_back(name(load.id));
    replica_.loads().clear();
    return started;
  }
  void land(std::uint64_t serial) { replica_.land({.id = ids_[serial], .serial = serial, .arrived = true}, now_); }
  void end_step() {
    now_ += 1'000'000;
    StepsTime time;
    time.start = 1e-9 * static_cast<double>(now_ - 1'000'000);
    time.first = time.total = 1e-3;
    time.end = 1e-9 * static_cast<double>(now_);
    time.end_stamp = now_;
    replica_.complete(time);
  }
  [[nodiscard]] std::vector<std::string> batch() const {
    std::vector<std::string> names;
    for (const ReqId id : replica_.policy().batch_order()) names.push_back(name(id));
    return names;
  }
  [[nodiscard]] bool has_step() const { return step_; }
  [[nodiscard]] Blk free_blocks() const { return replica_.kv().free(); }

 private:
  static Replica::Config config(std::int64_t max_running) {
    Replica::Config config;
    config.policy.policy = PolicyKind::vllm_v1;
    config.policy.role = Role::decode;
    config.policy.model_max_len = 256;
    config.policy.max_running = max_running;
    config.kv.blocks = 10;
    config.kv.block_tokens = 16;
    return config;
  }
  [[nodiscard]] std::string name(ReqId id) const {
    for (std::size_t serial = 0; serial < ids_.size(); ++serial)
      if (ids_[serial] == id) return std::string(1, static_cast<char>('A' + serial));
    return "?";
  }

  Replica replica_;
  std::vector<ReqId> ids_;
  Nanos now_ = 0;
  bool step_ = false;
};

// Two prompts of four blocks fit; the third waits for room although nothing runs. Requests that wait for KV go back to
// the head of the queue in an order that each call reverses: after one call B stands before A, after two A before B.
TEST(RemotePrompts, SkippedRequestsChangeTheirOrderInEveryCall) {
  for (const bool twice : {false, true}) {
    DecodeSide side;
    side.arrive_all();
    EXPECT_THAT(side.decide(), ElementsAre("A", "B"));
    EXPECT_FALSE(side.has_step());
    EXPECT_EQ(side.free_blocks(), 2);
    if (twice) {
      EXPECT_THAT(side.decide(), IsEmpty());
    }
    side.land(0);
    side.land(1);
    EXPECT_THAT(side.decide(), IsEmpty());
    EXPECT_TRUE(side.has_step());
    EXPECT_THAT(side.batch(), twice ? ElementsAre("A", "B") : ElementsAre("B", "A"));
    EXPECT_EQ(side.free_blocks(), 2) << "the last token of a prompt is computed in the blocks that came";
    side.end_step();
    EXPECT_THAT(side.decide(), IsEmpty()) << "the second tokens take the last two blocks";
    side.end_step();
    EXPECT_THAT(side.decide(), ElementsAre("C", "D"));
    EXPECT_EQ(side.free_blocks(), 2);
  }
}

// With one place, which is taken, no transfer starts: the loop over waiting requests does not run. A has left when B
// takes its place; C and D still wait, although blocks are free.
TEST(RemotePrompts, NoTransferStartsWithoutAPlace) {
  DecodeSide side(1);
  side.arrive_all();
  EXPECT_THAT(side.decide(), ElementsAre("A", "B"));
  side.land(0);
  EXPECT_THAT(side.decide(), IsEmpty());
  EXPECT_THAT(side.batch(), ElementsAre("A"));
  side.end_step();
  EXPECT_THAT(side.decide(), IsEmpty());  // A's second token
  side.land(1);
  side.end_step();
  EXPECT_THAT(side.decide(), IsEmpty());
  EXPECT_THAT(side.batch(), ElementsAre("B"));
  EXPECT_EQ(side.free_blocks(), 6);
}

}  // namespace
}  // namespace plimsoll::sched
