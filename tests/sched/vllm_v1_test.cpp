// SPDX-License-Identifier: Apache-2.0
#include "sched/vllm_v1.h"

#include <deque>

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

template <class Edit>
PolicyConfig v1(Edit edit) {
  return config(PolicyKind::vllm_v1, edit);
}

// vllm_family_test.cpp contains the scenarios of docs/policies.md.

TEST(VllmV1, CutsDecodesAtTheBudget) {  // what is first in the batch goes on first
  EXPECT_EQ(steps_of(v1([](PolicyConfig& c) { c.step_token_budget = 2; }), ample(), "A:1+3 B:1+3 C:1+1"),
            "P[A:1 B:1] | D[A B] | D[A B] | P[C:1]");
  EXPECT_EQ(steps_of(v1([](PolicyConfig& c) { c.step_token_budget = 2; }), ample(), "A:1+2 B:3+2 C:1+1"),
            "P[A:1 B:1] | P[B:1] D[A] | P[B:1 C:1] | D[B]");
}

TEST(VllmV1, TakesBlocksForTheChunkOnly) {  // 3 blocks: A's first 8 tokens leave one for B, which A's next chunk evicts
  EXPECT_EQ(steps_of(v1([](PolicyConfig& c) { c.long_prefill_threshold = 8; }), pool(3), "A:12+1 B:4+2"),
            "P[A:8 B:4] | P[A:4] !B | P[B:5]");
}

TEST(VllmV1, LeavesTheWatermarkFreeBesideOthers) {  // one of 4 blocks; a request alone may use it
  const auto watermark = [](PolicyConfig& c) { c.watermark = 0.25; };
  EXPECT_EQ(steps_of(v1(watermark), pool(4), "A:8+2 B:8+1"), "P[A:8] | D[A] | P[B:8]");
  EXPECT_EQ(steps_of(v1(watermark), pool(4), "A:16+1"), "P[A:16]");
}

TEST(VllmV1, EndsWhatOutgrowsThePool) {
  EXPECT_EQ(steps_of(v1([](PolicyConfig&) {}), pool(2), "A:7+9 B:4+1@3"), "P[A:7] | D[A] | P[B:4] rejected(A 500)");
}

// The step after A's last token is decided before that token is known. A fills the pool and would exceed it if it
// continued to its cap. It must still complete, exactly once.
TEST(VllmV1, DecidingAheadRefusesNothingThatHasEnded) {
  const PolicyConfig ahead = v1([](PolicyConfig& c) { c.async_scheduling = true; });
  const ScriptRun run = run_script(ahead, pool(2), "A:7+2/9 B:4+1@9 C:4+1@9");
  ASSERT_EQ(run.ended.size(), 3U);
  for (const FinishedAttempt& ended : run.ended) EXPECT_EQ(ended.outcome, Outcome::completed) << ended.serial;
}

// ---- an independent second implementation of the scheduler, with plain lists ---------------------------------------
// Tracks every block, because with prefix caching a preempted request may find its own blocks among the free ones.
class NaiveV1 : private NaiveLog {
 public:
  NaiveV1(const PolicyConfig& policy, const KvConfig& kv, const std::vector<Draw>& script)
      : block_(kv.block_tokens),
        total_(kv.blocks),
        caches_(kv.prefix_caching),
        spare_(static_cast<Blk>(policy.watermark.value_or(0) * static_cast<double>(kv.blocks))),
        budget_(*policy.step_token_budget),
        most_(*policy.max_running),
        longest_(policy.long_prefill_threshold.value_or(0)),
        chunked_(policy.chunked.value_or(true)),
        whole_(policy.reserve_full_sequence.value_or(false)) {
    for (const Draw& d : script)
      rows_.push_back({.prompt = d.prompt, .output = d.output, .step = d.step, .blocks = {}});
    free_.resize(static_cast<std::size_t>(kv.blocks));
  }

  std::string run() {
    std::size_t next = 0;
    for (std::int64_t step = 1;;) {
      for (; next < rows_.size() && rows_[next].step <= step; ++next) arrive(next);
      left_ = budget_;
      preempted_ = false;
      back_ = 0;
      running();
      if (!preempted_) admit();
      if (is_empty_step()) {
        if (preempted_) continue;
        if (next == rows_.size()) break;
        step = rows_[next].step;
        continue;
      }
      write_step(step++);
      finish();
    }
    return end();
  }

 private:
  struct Block {
    std::size_t owner = 0, place = 0;
    bool known = false;
  };
  struct Row {
    Tok prompt = 0, output = 0;
    std::int64_t step = 0;
    Tok made = 0, done = 0, doing = 0;  // tokens produced, tokens with KV, tokens in this step
    std::vector<Block> blocks;
    bool ready = false;  // its prompt is completely computed
    [[nodiscard]] Tok lacks() const { return prompt + made - done; }
  };

  [[nodiscard]] Blk up(std::int64_t tokens) const { return (tokens + block_ - 1) / block_; }

  void arrive(std::size_t i) {
    if (!chunked_ && rows_[i].prompt > budget_)
      refuse(i, 400);
    else
      waiting_.push_back(i);
  }

  [[nodiscard]] std::int64_t limit(std::int64_t tokens) const {
    return std::min(longest_ > 0 ? std::min(tokens, longest_) : tokens, left_);
  }

  void running() {
    for (std::size_t at = 0; at < running_.size() && left_ > 0; ++at) {
      const std::size_t i = running_[at];
      Row& row = rows_[i];
      const std::int64_t tokens = limit(row.lacks());
      while (at < running_.size() && up(row.done + tokens) - std::ssize(row.blocks) > std::ssize(free_))
        preempt(up(row.done + tokens) > total_);
      if (at < running_.size()) compute(i, tokens);
    }
  }

  void preempt(bool hopeless) {
    const std::size_t i = running_.back();
    running_.pop_back();
    Row& row = rows_[i];
    preempted_ = true;
    const bool refused = hopeless && running_.empty();
    const auto before = std::ssize(free_);
    release(i, refused ? back_ : 0);
    back_ += std::ssize(free_) - before;
    if (refused) return refuse(i, 500);
    row.done = 0;
    row.ready = false;
    waiting_.push_front(i);
    add(outs_, name_of(i), ",");
  }

  void compute(std::size_t i, std::int64_t tokens) {
    Row& row = rows_[i];
    while (std::ssize(row.blocks) < up(row.done + tokens)) {
      row.blocks.push_back({i, row.blocks.size(), false});
      free_.pop_front();
    }
    row.doing = static_cast<Tok>(tokens);
    left_ -= tokens;
    if (row.ready)
      add(decode_, name_of(i), " ");
    else
      add(prefill_, fmt::format("{}:{}", name_of(i), tokens), " ");
  }

  void admit() {
    while (!waiting_.empty() && left_ > 0 && std::ssize(running_) < most_) {
      const std::size_t i = waiting_.front();
      const Tok length = rows_[i].lacks(), hit = cached(i), lacks = length - hit;
      const bool cut = !chunked_ && (longest_ > 0 ? std::min<std::int64_t>(lacks, longest_) : lacks) > left_;
      const Blk spare = running_.empty() ? 0 : spare_;
      if (cut || up(whole_ ? length : hit + limit(lacks)) + spare > std::ssize(free_)) {
        if (!running_.empty()) return;
        waiting_.pop_front();  // it has the pool and the budget to itself
        refuse(i, 500);
        continue;
      }
      waiting_.pop_front();
      running_.push_back(i);
      for (Tok at = 0; at < hit; at += static_cast<Tok>(block_)) {
        Row& row = rows_[i];
        const auto found = find(i, row.blocks.size());
        row.blocks.push_back(*found);
        free_.erase(found);
      }
      rows_[i].done = hit;
      compute(i, limit(lacks));
    }
  }

  [[nodiscard]] std::deque<Block>::iterator find(std::size_t i, std::size_t place) {
    return std::find_if(free_.begin(), free_.end(),
                        [&](const Block& b) { return b.known && b.owner == i && b.place == place; });
  }
  // Returns the cached tokens; the last token of a prompt is always computed.
  [[nodiscard]] Tok cached(std::size_t i) {
    Tok hit = 0;
    while (hit + block_ < rows_[i].lacks() && find(i, static_cast<std::size_t>(hit / block_)) != free_.end())
      hit += static_cast<Tok>(block_);
    return hit;
  }
  // Frees the last block first, so that it is reused before the earlier ones. The last `back` free blocks belong to
  // requests preempted in the same step; the blocks of a refused request are inserted before them.
  void release(std::size_t i, std::ptrdiff_t back = 0) {
    Row& row = rows_[i];
    for (; !row.blocks.empty(); row.blocks.pop_back()) {
      const auto end = static_cast<std::int64_t>(row.blocks.size()) * block_;
      free_.insert(free_.end() - back, {i, row.blocks.size() - 1, caches_ && end <= row.done});
    }
  }

  void finish() {
    std::vector<std::size_t> rest;
    for (const std::size_t i : running_) {
      Row& row = rows_[i];
      row.done += row.doing;
      if (row.doing > 0 && row.lacks() == 0) {
        ++row.made;
        row.ready = true;
      }
      row.doing = 0;
      if (row.made < row.output)
        rest.push_back(i);
      else
        release(i);
    }
    running_ = rest;
  }

  std::int64_t block_;
  Blk total_;
  bool caches_;
  Blk spare_;
  std::int64_t budget_, most_, longest_, left_ = 0;
  std::ptrdiff_t back_ = 0;  // blocks that preempted requests freed in this step
  bool chunked_, whole_, preempted_ = false;
  std::vector<Row> rows_;
  std::deque<Block> free_;  // least recently freed first
  std::deque<std::size_t> waiting_;
  std::vector<std::size_t> running_;
};

PolicyConfig draw_v1() {
  return v1([](PolicyConfig& c) {
    c.step_token_budget = *rc::gen::element<std::int64_t>(1, 4, 8, 16, 300);
    c.max_running = *rc::gen::element<std::int64_t>(1, 2, 5, 256);
    c.watermark = *rc::gen::element(0.0, 0.01, 0.25);
    c.long_prefill_threshold = *rc::gen::element<std::int64_t>(0, 0, 3, 10);
    c.chunked = *rc::gen::element(true, true, false);
    c.reserve_full_sequence = *rc::gen::arbitrary<bool>();
  });
}

RC_GTEST_PROP(VllmV1Property, DecidesLikeTheNaiveScheduler, ()) {
  const PolicyConfig policy = draw_v1();
  KvConfig kv = draw_kv();
  kv.prefix_caching = *rc::gen::arbitrary<bool>();
  const std::vector<Draw> draws = draw_long();
  RC_ASSERT(check_script(policy, kv, draws).log == NaiveV1(policy, kv, draws).run());
}

RC_GTEST_PROP(VllmV1Property, LeapsDecideWhatStepsDecide, ()) {
  KvConfig kv = draw_kv();
  kv.prefix_caching = *rc::gen::arbitrary<bool>();
  check_leaps(draw_v1(), kv);
}

}  // namespace
}  // namespace plimsoll::sched::testing
