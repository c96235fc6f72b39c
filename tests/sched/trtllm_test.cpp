// SPDX-License-Identifier: Apache-2.0
#include "sched/trtllm.h"

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

template <class Edit>
PolicyConfig trt(CapacityPolicy capacity, Edit edit) {
  return config(PolicyKind::trtllm, [&](PolicyConfig& c) {
    c.capacity_policy = capacity;
    edit(c);
  });
}
PolicyConfig trt(CapacityPolicy capacity) {
  return trt(capacity, [](PolicyConfig&) {});
}
PolicyConfig chunking(std::int64_t budget, CapacityPolicy capacity = CapacityPolicy::guaranteed_no_evict) {
  return trt(capacity, [=](PolicyConfig& c) {
    c.chunked = true;
    c.step_token_budget = budget;
  });
}
constexpr auto kNoEvict = CapacityPolicy::guaranteed_no_evict;
constexpr auto kUtilization = CapacityPolicy::max_utilization;
constexpr auto kStatic = CapacityPolicy::static_batch;

TEST(TrtLlm, MixesContextsAndGenerations) {  // S1
  for (const CapacityPolicy capacity : {kNoEvict, kUtilization})
    EXPECT_EQ(steps_of(trt(capacity), ample(), "A:6+3 B:5+4 C:4+2@3"), "P[A:6 B:5] | D[A B] | P[C:4] D[A B] | D[B C]");
}

TEST(TrtLlm, EndsAStepAtTheFirstContextOverTheBudget) {  // S2
  const auto budget = [](PolicyConfig& c) { c.step_token_budget = 16; };
  for (const CapacityPolicy capacity : {kNoEvict, kUtilization})
    EXPECT_EQ(steps_of(trt(capacity, budget), ample(), "A:10+2 B:10+2 C:3+2"), "P[A:10] | P[B:10 C:3] D[A] | D[B C]");
}

TEST(TrtLlm, KeepsToItsBatchSize) {  // S3
  const auto two = [](PolicyConfig& c) { c.max_running = 2; };
  for (const CapacityPolicy capacity : {kNoEvict, kUtilization})
    EXPECT_EQ(steps_of(trt(capacity, two), ample(), "A:4+3 B:4+2 C:4+2 D:4+1"),
              "P[A:4 B:4] | D[A B] | P[C:4] D[A] | P[D:4] D[C]");
}

TEST(TrtLlm, SetsTheWholeCapAside) {  // S4 and S5
  EXPECT_EQ(steps_of(trt(kNoEvict), pool(6), "A:8+4 B:20+2 C:4+2"),
            "P[A:8] | D[A] | D[A] | D[A] | P[B:20] | D[B] | P[C:4] | D[C]");
  EXPECT_EQ(steps_of(trt(kNoEvict), pool(4), "A:4+6 B:4+6"),
            "P[A:4] | D[A] | D[A] | D[A] | D[A] | D[A] | P[B:4] | D[B] | D[B] | D[B] | D[B] | D[B]");
}

TEST(TrtLlm, PausesTheLastStarted) {  // S4 and S5
  EXPECT_EQ(steps_of(trt(kUtilization), pool(6), "A:8+4 B:20+2 C:4+2"),
            "P[A:8] | D[A] | D[A] | D[A] | P[B:20 C:4] | D[B] !C | P[C:5]");
  EXPECT_EQ(steps_of(trt(kUtilization), pool(4), "A:4+6 B:4+6"),
            "P[A:4 B:4] | D[A B] | D[A B] | D[A B] | D[A B] | D[A] !B | P[B:9]");
}

// Step 6 needs three blocks, but one is free: C is paused first, then B itself, the one that did not fit. D would fit
// but has to wait behind them.
TEST(TrtLlm, PausedRequestsKeepTheirPlace) {
  EXPECT_EQ(steps_of(trt(kUtilization), pool(7), "A:4+6 B:8+6 C:4+6 D:1+1@6"),
            "P[A:4 B:8 C:4] | D[A B C] | D[A B C] | D[A B C] | D[A B C] | D[A B] !C | P[C:9 D:1]");
}

PolicyConfig waiting(std::int64_t steps, double share, std::int64_t budget = 20,
                     CapacityPolicy capacity = CapacityPolicy::guaranteed_no_evict) {
  return trt(capacity, [=](PolicyConfig& c) {
    c.step_token_budget = budget;
    c.batch_wait_timeout_iters = steps;
    c.batch_wait_max_tokens_ratio = share;
  });
}

// The threshold is 0.5 of 20 tokens. With B alone a step would have 1 + 4, so B waits for two steps. If nothing
// decodes, a context runs alone.
TEST(TrtLlm, ContextsWaitBesideGenerations) {
  for (const CapacityPolicy capacity : {kNoEvict, kUtilization})
    EXPECT_EQ(steps_of(waiting(2, 0.5, 20, capacity), ample(), "A:4+6 B:4+2@2"),
              "P[A:4] | D[A] | D[A] | P[B:4] D[A] | D[A B] | D[A]");
}

// Step 4 has 1 + 4 + 5 tokens, just the threshold, after one step of waiting. Then the count starts anew: D waits three
// steps.
TEST(TrtLlm, ContextsThatFillTheirShareDoNotWait) {
  EXPECT_EQ(steps_of(waiting(3, 0.5), ample(), "A:4+9 B:4+1@3 C:5+1@4 D:4+1@5"),
            "P[A:4] | D[A] | D[A] | P[B:4 C:5] D[A] | D[A] | D[A] | D[A] | P[D:4] D[A] | D[A]");
}

// C comes when the steps already waited for B; both run with the third.
TEST(TrtLlm, CountsStepsAndNotRequests) {
  EXPECT_EQ(steps_of(waiting(3, 1), ample(), "A:4+6 B:4+1@2 C:4+1@4"),
            "P[A:4] | D[A] | D[A] | D[A] | P[B:4 C:4] D[A] | D[A]");
}

TEST(TrtLlm, WaitsOnlyWithBothLimits) {
  for (const PolicyConfig& one : {waiting(0, 1), waiting(5, 0)})
    EXPECT_EQ(steps_of(one, ample(), "A:4+3 B:4+2@2"), "P[A:4] | P[B:4] D[A] | D[A B]");
}

// No blocks are free for B until A ends, so no step counts as one of waiting; then nothing decodes.
TEST(TrtLlm, WaitingForMemoryDoesNotCount) {
  EXPECT_EQ(steps_of(waiting(2, 1), pool(3), "A:4+6 B:4+2@2"),
            "P[A:4] | D[A] | D[A] | D[A] | D[A] | D[A] | P[B:4] | D[B]");
}

TEST(TrtLlm, StaticBatchWaitsForTheLastRow) {  // finished rows leave; none joins
  EXPECT_EQ(steps_of(trt(kStatic), ample(), "A:4+3 B:4+1 C:4+1@2"), "P[A:4 B:4] | D[A] | D[A] | P[C:4]");
}

// 4 tokens per block. Of the 10 tokens, A takes all that it needs; the rest for B is rounded down to one block.
TEST(TrtLlm, RoundsChunksDownToBlocks) {
  EXPECT_EQ(steps_of(chunking(10), ample(), "A:3+3 B:10+1"), "P[A:3 B:4] | P[B:6] D[A] | D[A]");
}

TEST(TrtLlm, ShortContextsPassAChunkOfNothing) {  // 3 tokens are left, less than a block of B
  EXPECT_EQ(steps_of(chunking(8), ample(), "A:5+3 B:9+2 C:2+2"), "P[A:5 C:2] | P[B:4] D[A C] | P[B:5] D[A] | D[B]");
}

TEST(TrtLlm, RefusesWhatItCanNeverRun) {
  const auto budget = [](PolicyConfig& c) { c.step_token_budget = 16; };
  EXPECT_EQ(steps_of(trt(kNoEvict), pool(4), "A:12+5 B:4+1"), "P[B:4] rejected(A 500)");
  EXPECT_EQ(steps_of(trt(kNoEvict, budget), ample(), "A:17+1 B:4+1"), "P[B:4] rejected(A 400)");
  EXPECT_EQ(steps_of(chunking(3), ample(), "A:4+1 B:2+1"), "P[B:2] rejected(A 400)");
  // Nothing is reserved for the cap, so the problem appears only when the pool is full.
  EXPECT_EQ(steps_of(trt(kUtilization), pool(4), "A:17+1 B:4+1"), "P[B:4] rejected(A 500)");
  EXPECT_EQ(steps_of(trt(kUtilization), pool(4), "A:15+5 B:4+1@2"), "P[A:15] | D[A] | P[B:4] rejected(A 500)");
  EXPECT_EQ(steps_of(trt(kUtilization), pool(4), "A:15+2/9"), "P[A:15] | D[A]");
  // The request is paused, and then has one token more than a step may contain.
  EXPECT_EQ(steps_of(trt(kUtilization, [](PolicyConfig& c) { c.step_token_budget = 8; }), pool(4), "A:4+6 B:4+6"),
            "P[A:4 B:4] | D[A B] | D[A B] | D[A B] | D[A B] | D[A] !B | end: rejected(B 500)");
}

// ---- an independent second implementation of the scheduler, with one plain list ------------------------------------
class NaiveTrtLlm : private NaiveLog {
 public:
  NaiveTrtLlm(const PolicyConfig& policy, const KvConfig& kv, const std::vector<Draw>& script)
      : capacity_(policy.capacity_policy),
        block_(kv.block_tokens),
        total_(kv.blocks),
        free_(kv.blocks),
        budget_(*policy.step_token_budget),
        most_(*policy.max_running),
        wait_(policy.batch_wait_timeout_iters.value_or(0)),
        full_(policy.batch_wait_max_tokens_ratio.value_or(0) * static_cast<double>(budget_)),
        chunked_(*policy.chunked) {
    for (const Draw& d : script)
      rows_.push_back({.prompt = d.prompt, .output = d.output, .cap = d.cap, .step = d.step});
  }

  std::string run() {
    std::size_t next = 0;
    for (std::int64_t step = 1;;) {
      for (; next < rows_.size() && rows_[next].step <= step; ++next) arrive(next);
      paused_ = "";
      again_ = false;
      const std::string text = schedule();
      if (!paused_.empty()) add(outs_, paused_, ",");
      if (text.empty()) {
        if (again_) continue;
        if (next == rows_.size()) break;
        step = rows_[next].step;
        continue;
      }
      write_step(step++, text);
    }
    return end();
  }

 private:
  struct Row {
    Tok prompt = 0, output = 0, cap = 0;
    std::int64_t step = 0;
    Tok made = 0, done = 0;
    Blk held = 0;
    bool generates = false;
    [[nodiscard]] Tok length() const { return prompt + made; }
    [[nodiscard]] bool started() const { return done > 0; }
  };

  [[nodiscard]] Blk blocks(Tok tokens) const { return (tokens + block_ - 1) / block_; }

  void arrive(std::size_t id) {
    const Row& r = rows_[id];
    const bool chunks = chunked_ && budget_ >= block_;
    if (!chunks && r.prompt > budget_) return reject(id, 400);
    if (blocks(capacity_ == kUtilization ? r.prompt : r.prompt + r.cap) > total_) return reject(id, 500);
    list_.push_back(id);
  }
  void reject(std::size_t id, int code) {
    refuse(id, code);
    std::erase(list_, id);
  }

  // Returns the requests that may run, in batch order.
  std::vector<std::size_t> fitting() {
    std::vector<std::size_t> chosen;
    if (capacity_ == kUtilization) {
      pause(chosen);
      return chosen;
    }
    Blk left = total_;
    bool anybody = false;
    for (const std::size_t id : list_) {
      if (rows_[id].started()) anybody = true;
      if (!rows_[id].generates) continue;
      chosen.push_back(id);
      left -= blocks(rows_[id].prompt + rows_[id].cap);
    }
    for (const std::size_t id : list_) {
      if (rows_[id].generates || (capacity_ == kStatic && anybody && !rows_[id].started())) continue;
      left -= blocks(rows_[id].prompt + rows_[id].cap);
      if (left < 0 || std::ssize(chosen) >= most_) break;
      chosen.push_back(id);
    }
    return chosen;
  }

  void pause(std::vector<std::size_t>& chosen) {
    Blk left = free_;
    auto end = list_.size();
    for (std::size_t at = 0; at < end && std::ssize(chosen) < most_;) {
      const Row& r = rows_[list_[at]];
      const Blk need = blocks(r.generates ? r.done + 1 : r.length()) - r.held;
      if (need <= left) {
        left -= need;
        chosen.push_back(list_[at++]);
        continue;
      }
      // No room: pause the newest request that has started.
      std::size_t last = end;
      while (last > at && !rows_[list_[last - 1]].started()) --last;
      if (last == at) return;
      Row& gone = rows_[list_[last - 1]];
      // It does not fit even with the whole pool to itself.
      const bool alone = chosen.empty() && last - 1 == at && need + gone.held > total_;
      left += gone.held;
      free_ += gone.held;
      gone.held = gone.done = 0;
      gone.generates = false;
      if (alone) {
        reject(list_[at], 500);
        if (!paused_.empty()) {
          again_ = true;
          return;
        }
        end = list_.size();
        continue;
      }
      add(paused_, name_of(list_[last - 1]), ",");
      again_ = true;
      end = last - 1;
    }
  }

  std::string schedule() {
    std::vector<std::size_t> chosen = fitting();
    std::string decodes, prefills;
    std::vector<std::pair<std::size_t, Tok>> work;
    while (true) {
      work.clear();
      std::int64_t room = budget_;
      for (const std::size_t id : chosen)
        if (rows_[id].generates) --room, work.emplace_back(id, 0);
      for (const std::size_t id : chosen) {
        Row& r = rows_[id];
        if (r.generates) continue;
        Tok tokens = r.length() - r.done;
        if (tokens > room && !chunked_) break;
        if (tokens > room) tokens = static_cast<Tok>(room) / block_ * block_;
        room -= tokens;
        if (tokens > 0) work.emplace_back(id, tokens);
      }
      if (!work.empty() || list_.empty() || !paused_.empty()) break;
      reject(list_.front(), 500);
      chosen = fitting();
    }
    hold(work);
    for (const auto& [id, tokens] : work) advance(id, tokens, prefills, decodes);
    if (prefills.empty() && decodes.empty()) return "";
    return (prefills.empty() ? "" : "P[" + prefills + "]") + (prefills.empty() || decodes.empty() ? "" : " ") +
           (decodes.empty() ? "" : "D[" + decodes + "]");
  }

  // Contexts beside generations wait until they fill their share of a step, or have waited long enough.
  void hold(std::vector<std::pair<std::size_t, Tok>>& work) {
    std::int64_t total = 0, contexts = 0;
    for (const auto& [id, tokens] : work) {
      total += tokens > 0 ? rows_[id].length() : 1;
      contexts += tokens > 0 ? 1 : 0;
    }
    if (contexts == 0 || contexts == std::ssize(work)) return;
    if (waited_ >= wait_ || static_cast<double>(total) >= full_) {
      waited_ = 0;
      return;
    }
    ++waited_;
    std::erase_if(work, [](const auto& one) { return one.second > 0; });
  }

  void advance(std::size_t id, Tok tokens, std::string& prefills, std::string& decodes) {
    Row& r = rows_[id];
    const Blk cover = blocks(tokens > 0 ? r.length() : r.done + 1);
    if (tokens > 0)
      prefills += fmt::format("{}{}:{}", prefills.empty() ? "" : " ", name_of(id), tokens);
    else
      decodes += (decodes.empty() ? "" : " ") + name_of(id);
    r.done += std::max<Tok>(tokens, 1);
    free_ -= std::max<Blk>(cover - r.held, 0);
    RC_ASSERT(free_ >= 0);
    r.held = std::max(cover, r.held);
    if (r.done == r.length()) {
      ++r.made;
      r.generates = true;
    }
    if (r.made < r.output) return;
    free_ += r.held;
    std::erase(list_, id);
  }

  CapacityPolicy capacity_;
  Tok block_;
  Blk total_, free_;
  std::int64_t budget_, most_, wait_, waited_ = 0;
  double full_;
  bool chunked_, again_ = false;
  std::vector<Row> rows_;
  std::vector<std::size_t> list_;  // in order of arrival
  std::string paused_;
};

PolicyConfig draw_trtllm() {
  return trt(*rc::gen::element(kNoEvict, kUtilization, kUtilization, kStatic), [](PolicyConfig& c) {
    c.max_running = *rc::gen::element<std::int64_t>(1, 2, 4, 100);
    c.step_token_budget = *rc::gen::element<std::int64_t>(3, 6, 10, 24, 1000);
    c.chunked = *rc::gen::arbitrary<bool>();
    c.batch_wait_timeout_iters = *rc::gen::element<std::int64_t>(0, 0, 1, 3, 20);
    c.batch_wait_max_tokens_ratio = *rc::gen::element(0.3, 0.9, 1.0);
  });
}

RC_GTEST_PROP(TrtLlmProperty, DecidesLikeTheNaiveScheduler, ()) {
  const PolicyConfig policy = draw_trtllm();
  const KvConfig kv = draw_kv();
  const std::vector<Draw> draws = draw_requests();
  RC_ASSERT(check_script(policy, kv, draws).log == NaiveTrtLlm(policy, kv, draws).run());
}

RC_GTEST_PROP(TrtLlmProperty, LeapsDecideWhatStepsDecide, ()) { check_leaps(draw_trtllm(), draw_kv()); }

}  // namespace
}  // namespace plimsoll::sched::testing
