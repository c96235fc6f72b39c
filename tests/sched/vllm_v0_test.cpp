// SPDX-License-Identifier: Apache-2.0
#include "sched/vllm_v0.h"

#include <deque>

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {
namespace {

template <class Edit>
PolicyConfig v0(PolicyVariant variant, Edit edit) {
  return config(PolicyKind::vllm_v0, [&](PolicyConfig& c) {
    c.variant = variant;
    edit(c);
  });
}
PolicyConfig v0(PolicyVariant variant = PolicyVariant::standard) {
  return v0(variant, [](PolicyConfig&) {});
}

PolicyConfig swapping(PolicyVariant variant = PolicyVariant::standard, Blk host_blocks = 100) {
  return v0(variant, [&](PolicyConfig& c) {
    c.preemption = Preemption::swap;
    c.swap_blocks = host_blocks;
  });
}

// ---- scripts with decisions derived by hand ------------------------------------------------------------------------
TEST(VllmV0, TakesSwappedRequestsBackBeforeNewOnes) {
  EXPECT_EQ(steps_of(swapping(), pool(4), "A:4+6 B:4+6 C:4+1@3"),
            "P[A:4 B:4] | D[A B] | D[A] !B | D[A] | D[A] | D[A] | D[B] +B | P[C:4] | D[B] | D[B] | D[B]");
}

TEST(VllmV0, RefusesWhomTheHostCannotHold) {
  EXPECT_EQ(steps_of(swapping(PolicyVariant::standard, 1), pool(4), "A:4+6 B:4+6 C:4+1@3"),
            "P[A:4 B:4] | D[A B] | D[A] rejected(B 500) | P[C:4] | D[A] | D[A] | D[A]");
}

// C was swapped out first, so it returns first; version 0.1 goes by arrival.
TEST(VllmV0, OrdersSwappedRequestsByVersion) {
  const std::string script = "A:4+5 B:4+5 C:4+5";
  EXPECT_EQ(
      steps_of(swapping(), pool(3), script),
      "P[A:4 B:4 C:4] | D[A] !C,B | D[A] | D[A] | D[A] | D[C] +C | D[C] | D[C] | D[C] | D[B] +B | D[B] | D[B] | D[B]");
  EXPECT_EQ(
      steps_of(swapping(PolicyVariant::vllm_01), pool(3), script),
      "P[A:4 B:4 C:4] | D[A] !C,B | D[A] | D[A] | D[A] | D[B] +B | D[B] | D[B] | D[B] | D[C] +C | D[C] | D[C] | D[C]");
}

TEST(VllmV0, IgnoresWhatNoStepCanTake) {
  const auto budget = [](PolicyConfig& c) { c.step_token_budget = 16; };
  EXPECT_EQ(steps_of(v0(PolicyVariant::standard, budget), ample(), "A:4+2 B:20+1 C:4+1"),
            "P[A:4 C:4] rejected(B 400) | D[A]");
  EXPECT_EQ(steps_of(v0(PolicyVariant::vllm_chunked, budget), ample(), "A:4+2 B:20+1 C:4+1"),
            "P[A:4 B:12] | P[B:8 C:4] D[A]");
}

// A is alone in a pool of four blocks, whose last free block it must not use. From the 13th token on it starts again
// with every token, and it is ignored when it no longer fits.
TEST(VllmV0, EndsWhatOutgrowsThePool) {
  EXPECT_EQ(steps_of(v0(), pool(4), "A:12+9 B:4+1@4"),
            "P[A:12] | D[A] | P[A:14] !A | P[A:15] !A | P[A:16] !A | P[B:4] !A rejected(A 400)");
}

TEST(VllmV0Variant01, RecomputesBesideTheDecodes) {
  EXPECT_EQ(steps_of(v0(PolicyVariant::vllm_01), pool(4), "A:4+6 B:4+6"),
            "P[A:4 B:4] | D[A B] | D[A] !B | P[B:6] D[A] | D[A] !B | D[A] | P[B:7] | D[B] | D[B]");
}

// The preempted B is not in the queue before the step is complete, so C is admitted with A.
TEST(VllmV0Chunked, AdmitsOthersThanThePreempted) {
  EXPECT_EQ(steps_of(v0(PolicyVariant::vllm_chunked), pool(4), "A:4+6 B:4+6 C:4+1@3"),
            "P[A:4 B:4] | D[A B] | P[C:4] D[A] !B | P[B:6] D[A] | D[A] !B | D[A] | P[B:7] | D[B] | D[B]");
}

// The first prefill took 1 ms. So a request has to wait until a step begins more than 2 ms after its arrival: B, which
// arrived at 2 ms, until 5 ms. C, which arrived at 4 ms, is tested separately and does not start together with B.
TEST(VllmV0, LetsTheQueueFillWhileTheDelayLasts) {
  const PolicyConfig policy = v0(PolicyVariant::standard, [](PolicyConfig& c) { c.delay_factor = 2; });
  const std::vector<TimedRequest> requests = {{"A", 4, 8, 8, 0}, {"B", 4, 1, 1, 2 * kMs}, {"C", 4, 1, 1, 4 * kMs}};
  for (const Mode mode : {Mode::steps, Mode::leaps, Mode::silent_leaps}) {
    const TimedRun run = run_timed(policy, ample(), requests, {kMs, mode});
    EXPECT_EQ(run.launches, (std::vector<std::string>{"A @0", "B @5", "C @7"}));
  }
}

// ---- an independent second implementation of the scheduler, with plain lists ---------------------------------------
// Written from the rules of docs/policies.md; it shares only the settings with the policy. Covers the default, 0.1 and
// chunked variants, with recompute or swapping.
class NaiveV0 : private NaiveLog {
 public:
  NaiveV0(const PolicyConfig& policy, const KvConfig& kv, const std::vector<Draw>& script)
      : variant_(policy.variant),
        block_(kv.block_tokens),
        total_(kv.blocks),
        free_(kv.blocks),
        spare_(static_cast<Blk>(policy.watermark.value_or(0.01) * static_cast<double>(kv.blocks))),
        budget_(*policy.step_token_budget),
        most_(*policy.max_running),
        swaps_(policy.preemption == Preemption::swap),
        host_(policy.swap_blocks) {
    for (const Draw& d : script) rows_.push_back({.prompt = d.prompt, .output = d.output, .step = d.step});
  }

  std::string run() {
    std::size_t next = 0;
    for (step_ = 1;;) {
      for (; next < rows_.size() && rows_[next].step <= step_; ++next) waiting_.push_back(next);
      changed_ = false;
      schedule();
      if (is_empty_step()) {
        if (changed_) continue;
        if (next == rows_.size()) break;
        step_ = rows_[next].step;
        continue;
      }
      write_step(step_++);
      finish_rows(rows_, running_, free_);
    }
    return end();
  }

 private:
  struct Row {
    Tok prompt = 0, output = 0;
    std::int64_t step = 0;
    Tok made = 0, done = 0, doing = 0;  // tokens produced, tokens with KV, tokens in this step
    Blk held = 0, outside = 0;
    bool ready = false;  // its prompt is completely computed
    [[nodiscard]] Tok length() const { return prompt + made; }
  };

  [[nodiscard]] Blk up(Tok tokens) const { return (tokens + block_ - 1) / block_; }

  void schedule() {
    used_ = 0;
    preempted_ = false;
    if (variant_ == PolicyVariant::standard) {
      if (swapped_.empty()) prefills();
      if (!prefill_.empty()) return;
      go_on();
      if (!preempted_) swap_in();
      settle();
    } else if (variant_ == PolicyVariant::vllm_01) {
      go_on();
      settle();
      if (!preempted_) swap_in();
      if (!preempted_ && swapped_.empty()) prefills();
    } else {
      go_on();
      if (!preempted_) swap_in();
      prefills();
      settle();
    }
  }

  // Puts the preempted requests back at the front of the queue.
  void settle() {
    for (const std::size_t i : back_) waiting_.push_front(i);
    back_.clear();
  }

  void refuse(std::size_t i, int http) {
    changed_ = true;
    free_ += rows_[i].held;
    rows_[i].held = 0;
    add(refused_, fmt::format("{} {}", name_of(i), http), ", ");
  }

  void prefills() {
    while (!waiting_.empty()) {
      const std::size_t i = waiting_.front();
      Row& row = rows_[i];
      const bool chunked = variant_ == PolicyVariant::vllm_chunked;
      const Blk need = up(row.length());
      if ((!chunked && row.length() > budget_) || total_ - need < spare_) {
        waiting_.pop_front();
        refuse(i, 400);
        continue;
      }
      const std::int64_t tokens = chunked ? std::min<std::int64_t>(row.length(), budget_ - used_) : row.length();
      if (free_ - need < spare_ || tokens == 0 || used_ + tokens > budget_ || std::ssize(running_) + 1 > most_) return;
      waiting_.pop_front();
      running_.push_back(i);
      free_ -= need;
      row.held = need;
      compute(i, static_cast<Tok>(tokens));
    }
  }

  void compute(std::size_t i, Tok tokens) {
    used_ += tokens;
    rows_[i].doing = tokens;
    add(prefill_, fmt::format("{}:{}", name_of(i), tokens), " ");
  }

  void decode(std::size_t i) {
    Row& row = rows_[i];
    const Blk missing = up(row.done + 1) - row.held;
    free_ -= missing;
    row.held += missing;
    row.doing = 1;
    ++used_;
    add(decode_, name_of(i), " ");
  }

  void go_on() {
    std::deque<std::size_t> left(running_.begin(), running_.end());
    running_.clear();
    while (!left.empty()) {
      if (variant_ == PolicyVariant::vllm_chunked && used_ >= budget_) break;
      const std::size_t i = left.front();
      left.pop_front();
      bool stays = true;
      while (stays && free_ < 1) {
        stays = !left.empty();
        const std::size_t victim = stays ? left.back() : i;
        if (stays) left.pop_back();
        preempt(victim, !stays && running_.empty());
      }
      if (!stays) continue;
      running_.push_back(i);
      Row& row = rows_[i];
      if (row.ready)
        decode(i);
      else
        compute(i, static_cast<Tok>(std::min<std::int64_t>(row.length() - row.done, budget_ - used_)));
    }
    running_.insert(running_.end(), left.begin(), left.end());
  }

  void preempt(std::size_t i, bool alone) {
    preempted_ = changed_ = true;
    Row& row = rows_[i];
    if (alone && !row.ready) return refuse(i, 500);
    if (swaps_ && row.ready) {
      Blk there = 0;
      for (const std::size_t s : swapped_) there += rows_[s].outside;
      if (there + row.held > host_) return refuse(i, 500);
      row.outside = row.held;
      const auto later = [&](std::size_t other) { return variant_ == PolicyVariant::vllm_01 && other > i; };
      swapped_.insert(std::find_if(swapped_.begin(), swapped_.end(), later), i);
    } else {
      row.done = 0;
      row.ready = false;
      back_.push_back(i);
    }
    free_ += row.held;
    row.held = 0;
    add(outs_, name_of(i), ",");
  }

  void swap_in() {
    while (!swapped_.empty()) {
      const std::size_t i = swapped_.front();
      Row& row = rows_[i];
      if (row.outside + 1 > total_) {
        swapped_.pop_front();
        refuse(i, 500);
        continue;
      }
      const bool empty = free_ == total_ && running_.empty();
      if ((free_ - row.outside - 1 < spare_ && !empty) || used_ + 1 > budget_ || std::ssize(running_) + 1 > most_)
        return;
      swapped_.pop_front();
      running_.push_back(i);
      free_ -= row.outside;
      row.held = row.outside;
      ins_ += " +" + name_of(i);
      decode(i);
    }
  }

  PolicyVariant variant_;
  std::int64_t block_;
  Blk total_, free_, spare_;
  std::int64_t budget_, most_, used_ = 0, step_ = 1;
  bool swaps_, preempted_ = false, changed_ = false;
  Blk host_;
  std::vector<Row> rows_;
  std::deque<std::size_t> waiting_, swapped_;
  std::vector<std::size_t> running_, back_;
};

PolicyConfig draw_v0(PolicyVariant variant) {
  PolicyConfig policy = v0(variant);
  policy.step_token_budget = *rc::gen::element<std::int64_t>(8, 16, 40, 300);
  policy.max_running = *rc::gen::element<std::int64_t>(1, 2, 5, 8, 256);
  policy.watermark = *rc::gen::element(0.0, 0.01, 0.1, 0.25);
  if (*rc::gen::arbitrary<bool>()) {
    policy.preemption = Preemption::swap;
    policy.swap_blocks = *rc::gen::element<Blk>(0, 3, 6, 1000);
  }
  return policy;
}

constexpr PolicyVariant kVariants[] = {PolicyVariant::standard, PolicyVariant::vllm_01, PolicyVariant::vllm_chunked};

RC_GTEST_PROP(VllmV0Property, DecidesLikeTheNaiveScheduler, ()) {
  for (const PolicyVariant variant : kVariants) {
    const PolicyConfig policy = draw_v0(variant);
    const KvConfig kv = draw_kv();
    const std::vector<Draw> draws = draw_long();
    RC_ASSERT(check_script(policy, kv, draws).log == NaiveV0(policy, kv, draws).run());
  }
}

RC_GTEST_PROP(VllmV0Property, LeapsDecideWhatStepsDecide, ()) {
  for (const PolicyVariant variant : kVariants) {
    PolicyConfig policy = draw_v0(variant);
    policy.delay_factor = sometimes(rc::gen::element(0.5, 1.0, 3.0, 10.0));
    check_leaps(policy, draw_kv());
  }
}

}  // namespace
}  // namespace plimsoll::sched::testing
