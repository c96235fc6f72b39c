// SPDX-License-Identifier: Apache-2.0
#include "sched/sarathi.h"

#include <deque>

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

template <class Edit>
PolicyConfig sarathi(Edit edit) {
  return config(PolicyKind::sarathi, edit);
}

PolicyConfig chunks_of(std::int64_t tokens) {
  return sarathi([&](PolicyConfig& c) { c.step_token_budget = tokens; });
}

// vllm_family_test.cpp contains the scenarios of docs/policies.md.

TEST(Sarathi, ReservesTheWholePromptAtItsFirstChunk) {  // of 5 blocks A's prompt takes 4, which leaves one for B
  EXPECT_EQ(steps_of(chunks_of(8), pool(5), "A:16+1 B:4+1 C:4+1"), "P[A:8] | P[A:8] | P[B:4 C:4]");
  EXPECT_EQ(steps_of(chunks_of(12), pool(5), "A:16+1 B:4+1 C:4+1"), "P[A:12] | P[A:4 B:4] | P[C:4]");
}

TEST(Sarathi, GivesPromptsNothingWhileDecodesFillTheChunk) {
  EXPECT_EQ(steps_of(chunks_of(2), ample(), "A:1+4 B:1+3 C:2+1@2"),
            "P[A:1 B:1] | D[A B] | D[A B] | P[C:1] D[A] | P[C:1]");
}

// Chunks of 6. When A finds no free block, B loses its incomplete prompt and starts again; no other is admitted.
TEST(Sarathi, PreemptsUnfinishedPromptsToo) {
  EXPECT_EQ(steps_of(chunks_of(6), pool(4), "A:4+3 B:12+1 C:4+1@3"),
            "P[A:4 B:2] | D[A] !B | D[A] | P[B:6] | P[B:6] | P[C:4]");
}

TEST(Sarathi, KeepsOnePercentFreeWhenItAdmits) {  // 2 of 200 blocks
  const std::string script = "A:396+1 B:396+1 C:8+1";
  EXPECT_EQ(steps_of(chunks_of(1000), pool(200), script), "P[A:396 B:396] | P[C:8]");
  EXPECT_EQ(steps_of(sarathi([](PolicyConfig& c) {
                       c.step_token_budget = 1000;
                       c.watermark = 0;
                     }),
                     pool(200), script),
            "P[A:396 B:396 C:8]");
}

// ---- an independent second implementation of the scheduler, with plain lists ---------------------------------------
class NaiveSarathi : private NaiveLog {
 public:
  NaiveSarathi(const PolicyConfig& policy, const KvConfig& kv, const std::vector<Draw>& script)
      : block_(kv.block_tokens),
        total_(kv.blocks),
        free_(kv.blocks),
        spare_(static_cast<Blk>(policy.watermark.value_or(0.01) * static_cast<double>(kv.blocks))),
        chunk_(*policy.step_token_budget),
        most_(*policy.max_running) {
    for (const Draw& d : script) rows_.push_back({.prompt = d.prompt, .output = d.output, .step = d.step});
  }

  std::string run() {
    std::size_t next = 0;
    for (std::int64_t step = 1;;) {
      for (; next < rows_.size() && rows_[next].step <= step; ++next) waiting_.push_back(next);
      used_ = 0;
      changed_ = preempted_ = false;
      decodes();
      prompts();
      if (!preempted_) admit();
      if (is_empty_step()) {
        if (changed_) continue;
        if (next == rows_.size()) break;
        step = rows_[next].step;
        continue;
      }
      write_step(step++);
      finish_rows(rows_, running_, free_);
    }
    return end();
  }

 private:
  struct Row {
    Tok prompt = 0, output = 0;
    std::int64_t step = 0;
    Tok made = 0, done = 0, doing = 0;  // tokens produced, tokens with KV, tokens in this step
    Blk held = 0;
    bool ready = false;  // its prompt is completely computed
    [[nodiscard]] Tok length() const { return prompt + made; }
  };

  [[nodiscard]] Blk up(Tok tokens) const { return (tokens + block_ - 1) / block_; }

  void decodes() {
    for (std::size_t at = 0; at < running_.size(); ++at) {
      const std::size_t i = running_[at];
      if (!rows_[i].ready) continue;
      while (free_ == 0 && at < running_.size()) preempt();
      if (at == running_.size()) return;
      Row& row = rows_[i];
      const Blk missing = up(row.done + 1) - row.held;
      free_ -= missing;
      row.held += missing;
      row.doing = 1;
      ++used_;
      add(decode_, name_of(i), " ");
    }
  }

  void preempt() {
    const std::size_t i = running_.back();
    running_.pop_back();
    Row& row = rows_[i];
    free_ += row.held;
    row.held = 0;
    row.done = 0;
    row.ready = false;
    waiting_.push_front(i);
    add(outs_, name_of(i), ",");
    preempted_ = changed_ = true;
  }

  void prompts() {
    for (const std::size_t i : running_)
      if (!rows_[i].ready && used_ < chunk_) compute(i);
  }

  void compute(std::size_t i) {
    Row& row = rows_[i];
    row.doing = static_cast<Tok>(std::min<std::int64_t>(row.length() - row.done, chunk_ - used_));
    used_ += row.doing;
    add(prefill_, fmt::format("{}:{}", name_of(i), row.doing), " ");
  }

  void admit() {
    while (!waiting_.empty()) {
      const std::size_t i = waiting_.front();
      const Blk need = up(rows_[i].length());
      if (total_ - need < spare_) {
        waiting_.pop_front();
        refuse(i, 500);
        changed_ = true;
        continue;
      }
      if (free_ - need < spare_ || std::ssize(running_) == most_ || used_ >= chunk_) return;
      waiting_.pop_front();
      free_ -= need;
      rows_[i].held = need;
      compute(i);
      running_.push_back(i);
      std::sort(running_.begin(), running_.end());
    }
  }

  std::int64_t block_;
  Blk total_, free_, spare_;
  std::int64_t chunk_, most_, used_ = 0;
  bool preempted_ = false, changed_ = false;
  std::vector<Row> rows_;
  std::deque<std::size_t> waiting_;
  std::vector<std::size_t> running_;
};

PolicyConfig draw_sarathi() {
  return sarathi([](PolicyConfig& c) {
    c.step_token_budget = *rc::gen::element<std::int64_t>(1, 4, 8, 16, 300);
    c.max_running = *rc::gen::element<std::int64_t>(1, 2, 5, 128);
    c.watermark = *rc::gen::element(0.0, 0.01, 0.25);
  });
}

RC_GTEST_PROP(SarathiProperty, DecidesLikeTheNaiveScheduler, ()) {
  const PolicyConfig policy = draw_sarathi();
  const KvConfig kv = draw_kv();
  const std::vector<Draw> draws = draw_long();
  RC_ASSERT(check_script(policy, kv, draws).log == NaiveSarathi(policy, kv, draws).run());
}

RC_GTEST_PROP(SarathiProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_sarathi(), draw_kv()); }

}  // namespace
}  // namespace plimsoll::sched::testing
