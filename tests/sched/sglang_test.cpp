// SPDX-License-Identifier: Apache-2.0
#include "sched/sglang.h"

#include <deque>

#include "tests/sched/policy_checks.h"
#include "tests/sched/vllm_cases.h"

namespace plimsoll::sched::testing {
namespace {

template <class Edit>
PolicyConfig sgl(Edit edit) {
  return config(PolicyKind::sglang, edit);
}
PolicyConfig sgl() { return config(PolicyKind::sglang); }
PolicyConfig budget(std::int64_t tokens, bool chunked = true) {
  return sgl([=](PolicyConfig& c) {
    c.step_token_budget = tokens;
    c.chunked = chunked;
  });
}

// Returns a pool with pages of one token, as in the product.
KvConfig tokens(Blk count) { return {.blocks = count, .block_tokens = 1, .prefix_caching = false}; }

TEST(SgLang, PrefillsFirst) {  // S1
  EXPECT_EQ(steps_of(sgl(), ample(1), "A:6+3 B:5+4 C:4+2@3"), "P[A:6 B:5] | D[A B] | P[C:4] | D[A B C] | D[B]");
}

TEST(SgLang, CutsTheLastPromptOrAdmitsItWhole) {  // S2
  EXPECT_EQ(steps_of(budget(16), ample(1), "A:10+2 B:10+2 C:3+2"), "P[A:10 B:6] | P[B:4 C:3] | D[A B C]");
  EXPECT_EQ(steps_of(budget(16, false), ample(1), "A:10+2 B:10+2 C:3+2"), "P[A:10] | P[B:10 C:3] | D[A B C]");
  EXPECT_EQ(steps_of(budget(16, false), ample(1), "A:20+1 B:3+1"), "P[A:20] | P[B:3]");  // the first is always admitted
}

TEST(SgLang, KeepsToItsBatchSize) {  // S3
  EXPECT_EQ(steps_of(sgl([](PolicyConfig& c) { c.max_running = 2; }), ample(1), "A:4+3 B:4+2 C:4+2 D:4+1"),
            "P[A:4 B:4] | D[A B] | P[C:4] | D[A C] | P[D:4]");
}

// The scheduler looks for requests before step 1 (idle), step 2 (after a prefill) and after every third decode from
// then on. So B, which arrives at step 3, enters at step 5. C enters right after B's prefill if it is there at step 6.
// At step 7 it is too late for that and waits for three decodes. An idle server sees B at once.
TEST(SgLang, LooksForRequestsAtIntervals) {
  const PolicyConfig every_third = sgl([](PolicyConfig& c) { c.scheduler_recv_interval = 3; });
  EXPECT_EQ(steps_of(every_third, ample(1), "A:6+8 B:5+3@3"),
            "P[A:6] | D[A] | D[A] | D[A] | P[B:5] | D[A B] | D[A B] | D[A] | D[A]");
  EXPECT_EQ(steps_of(every_third, ample(1), "A:6+8 B:5+2@3 C:4+2@6"),
            "P[A:6] | D[A] | D[A] | D[A] | P[B:5] | P[C:4] | D[A B C] | D[A] | D[A] | D[A]");
  EXPECT_EQ(steps_of(every_third, ample(1), "A:6+8 B:5+2@3 C:4+2@7"),
            "P[A:6] | D[A] | D[A] | D[A] | P[B:5] | D[A B] | D[A] | D[A] | P[C:4] | D[A C]");
  EXPECT_EQ(steps_of(every_third, ample(1), "A:6+1 B:5+1@9"), "P[A:6] | 9: P[B:5]");
}

TEST(SgLang, AdmitsWhatFitsBesideTheEstimate) {  // S4 and S5
  EXPECT_EQ(steps_of(sgl(), tokens(24), "A:8+4 B:20+2 C:4+2"),
            "P[A:8] | D[A] | D[A] | D[A] | P[B:20] | D[B] | P[C:4] | D[C]");
  EXPECT_EQ(steps_of(sgl(), tokens(16), "A:4+6 B:4+6"),
            "P[A:4] | D[A] | D[A] | D[A] | D[A] | D[A] | P[B:4] | D[B] | D[B] | D[B] | D[B] | D[B]");
}

TEST(SgLang, ContinuesAChunkFirst) {  // S7
  EXPECT_EQ(steps_of(budget(12), ample(1), "A:20+2 B:3+3 C:3+2@2"),
            "P[A:12] | P[A:8 B:3 C:1] | P[C:2] | D[A B C] | D[B]");
}

TEST(SgLang, CutsChunksToPages) {  // 16 - 10 tokens are one page of 4
  EXPECT_EQ(steps_of(budget(16), ample(4), "A:10+1 B:10+1"), "P[A:10 B:4] | P[B:6]");
}

// A pool of 20 tokens. After A's first token, B is compared with 20 - 4 - 0.7 * 9 = 9.7: 4 + 5 < 9.7 is admitted, 4 + 6
// is not. Once refused, it waits for A to leave, although C would fit.
TEST(SgLang, IsFullUntilSomebodyLeaves) {
  EXPECT_EQ(steps_of(sgl(), tokens(20), "A:4+3/10 B:4+5@2"), "P[A:4] | P[B:4] | D[A B] | D[A B] | D[B] | D[B]");
  EXPECT_EQ(steps_of(sgl(), tokens(20), "A:4+3/10 B:4+6@2 C:1+1@3"),
            "P[A:4] | D[A] | D[A] | P[B:4 C:1] | D[B] | D[B] | D[B] | D[B] | D[B]");
}

// Nothing was reserved. In step 6 all have produced three tokens, and B has the longest prompt, so B is retracted. Now
// the whole caps are reserved, so B has to wait for both others.
TEST(SgLang, RetractsTheLeastOutputOfTheLongestInput) {
  const PolicyConfig trusting = sgl([](PolicyConfig& c) { c.conservativeness = 0; });
  EXPECT_EQ(steps_of(trusting, tokens(20), "A:4+8 B:6+5@2 C:4+5@3"),
            "P[A:4] | P[B:6] | P[C:4] | D[A B C] | D[A B C] | D[A C] !B | D[A C] | D[A] | D[A] | D[A] | P[B:9] | D[B]");
}

// Nothing is reserved until F, the last of six equals, is retracted. The others then have 15 tokens of 60 each, so the
// ratio is (5 * 15 + 5 * 20) / (5 * 60 + 1) = 0.581. With D and E there is no room for the 56 tokens that F needs with
// a cap of 54. When D leaves, there are 81 - 0.581 * 42 = 56.6. With a cap of 55, F waits for E, too.
TEST(SgLang, SetsTheRatioByWhatStays) {
  const PolicyConfig trusting = sgl([](PolicyConfig& c) { c.conservativeness = 0; });
  const std::string others = "A:2+16/60 B:2+16/60@2 C:2+16/60@3 D:2+18/60@4 E:2+20/60@5 ";
  const std::string retracts = "D[A B C D E F] | D[A B C D E] !F | D[D E] | D[D E] | ";
  const std::string soon = steps_of(trusting, tokens(100), others + "F:2+20/54@6");
  EXPECT_NE(soon.find(retracts + "P[F:17]"), std::string::npos) << soon;
  const std::string late = steps_of(trusting, tokens(100), others + "F:2+20/55@6");
  EXPECT_NE(late.find(retracts + "D[E] | D[E] | P[F:17]"), std::string::npos) << late;
}

// The ratio after n steps must not depend on how the steps are taken.
TEST(SgLang, DecaysTheRatioOverSixHundredSteps) {
  const auto after = [](std::int64_t steps, std::int64_t leap) {
    SgLang policy(sgl());
    RequestTable requests;
    KvLedger kv(ample(1));
    const View view{requests, kv};
    const ReqId id = requests.add({.prompt = 1, .max_new = 1000});
    kv.open(id, {});
    policy.on_arrival(id, view, 0);
    Decision decision;
    policy.decide(0, view, decision);
    kv.grow(id, 1);
    requests.prefill(id, 1);
    requests.emit(id);
    requests.join_group(id);
    kv.join_group(id, 1);
    policy.on_steps_done({1, {}}, view, 0);
    for (std::int64_t done = 0; done < steps; done += leap) {
      decision.clear();
      policy.decide(0, view, decision);
      requests.advance_group(leap);
      kv.advance_group(leap);
      policy.on_steps_done({leap, {}}, view, 0);
    }
    return policy.ratio();
  };
  EXPECT_DOUBLE_EQ(after(0, 1), 0.7);
  EXPECT_NEAR(after(1, 1), 0.6990, 5e-5);
  EXPECT_NEAR(after(2, 1), 0.6980, 5e-5);
  EXPECT_NEAR(after(3, 1), 0.6970, 5e-5);
  EXPECT_NEAR(after(600, 1), 0.098, 1e-12);
  EXPECT_DOUBLE_EQ(after(700, 1), 0.7 * 0.14);
  EXPECT_EQ(after(360, 1), after(360, 360));
}

TEST(SgLang, RefusesWhatItCanNeverAdmit) {  // the test is strict: 12 + 4 tokens do not go into 16
  EXPECT_EQ(steps_of(sgl(), tokens(16), "A:12+4 B:4+1"), "P[B:4] rejected(A 500)");
  EXPECT_EQ(steps_of(sgl(), tokens(16), "A:12+3"), "P[A:12] | D[A] | D[A]");
  EXPECT_EQ(steps_of(budget(3), ample(4), "A:4+1 B:3+1"), "P[B:3] rejected(A 500)");  // a chunk smaller than a page
}

TEST(SgLang, FindsWhatIsLeftOfARetractedRequest) {  // 7 of B's 8 tokens have been overwritten meanwhile
  const PolicyConfig trusting = sgl([](PolicyConfig& c) { c.conservativeness = 0; });
  KvConfig kv = tokens(20);
  kv.prefix_caching = true;
  EXPECT_EQ(steps_of(trusting, kv, "A:4+8 B:6+5@2 C:4+5@3"),
            "P[A:4] | P[B:6] | P[C:4] | D[A B C] | D[A B C] | D[A C] !B | D[A C] | D[A] | D[A] | D[A] | P[B:8] | D[B]");
}

// ---- an independent second implementation of the scheduler, with plain lists ---------------------------------------
class NaiveSgLang : private NaiveLog {
 public:
  NaiveSgLang(const PolicyConfig& policy, const KvConfig& kv, const std::vector<Draw>& script)
      : page_(kv.block_tokens),
        total_(kv.blocks),
        free_(kv.blocks),
        most_(*policy.max_running),
        chunked_(*policy.chunked),
        budget_(*policy.step_token_budget),
        first_ratio_(std::min(1.0, 0.7 * policy.conservativeness.value_or(1))),
        ratio_(first_ratio_) {
    for (const Draw& d : script)
      rows_.push_back({.prompt = d.prompt, .output = d.output, .cap = d.cap, .step = d.step});
  }

  std::string run() {
    std::size_t next = 0;
    for (std::int64_t step = 1;;) {
      for (; next < rows_.size() && rows_[next].step <= step; ++next) arrive(next);
      std::string text = prefill();
      if (text.empty() && running_.empty() && !waiting_.empty()) {
        refuse(waiting_.front(), 500);
        waiting_.pop_front();
        full_ = false;
        continue;
      }
      if (text.empty() && !running_.empty()) text = decode();
      if (text.empty()) {
        ratio_ = first_ratio_;
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
    [[nodiscard]] Tok length() const { return prompt + made; }
  };

  void arrive(std::size_t id) {
    if (rows_[id].prompt + rows_[id].cap >= total_ * page_)
      refuse(id, 500);
    else
      waiting_.push_back(id);
  }
  [[nodiscard]] Tok paged(Tok tokens) const { return (tokens + page_ - 1) / page_ * page_; }

  void cover(Row& r, Tok tokens) {
    const Blk need = std::max<Blk>((tokens + page_ - 1) / page_ - r.held, 0);
    RC_ASSERT(need <= free_);
    free_ -= need;
    r.held += need;
    r.done = tokens;
  }
  // Produces one more token; returns true if it was the last one.
  bool emit(std::size_t id) {
    Row& r = rows_[id];
    if (++r.made < r.output) return false;
    free_ += r.held;
    full_ = false;
    return true;
  }

  // What a prefill may still take: tokens of memory for whole lives and for now, and tokens of the step.
  struct Left {
    double memory = 0, present = 0;
    std::int64_t input = 0, chunk = 0;
  };

  void charge(Left& left, Tok tokens, Tok cap) const {
    left.memory -= paged(tokens) + cap;
    left.present -= paged(tokens);
    left.input -= paged(tokens);
    left.chunk -= paged(tokens);
  }

  std::string prefill() {
    if (chunk_ < 0) {
      if (full_ || waiting_.empty()) return "";
      if (std::ssize(running_) >= most_) {
        full_ = true;
        return "";
      }
    }
    const double free = static_cast<double>(free_ * page_);
    Left left{free, free, chunked_ ? 16384 : budget_, chunked_ ? budget_ : 1 << 20};
    double aside = 0;
    for (const std::size_t id : running_) aside += (rows_[id].cap - rows_[id].made) * ratio_;
    left.memory -= aside;
    std::vector<std::pair<std::size_t, Tok>> batch;
    bool open = true;
    // The request whose prompt is in chunks goes on before any new one.
    if (chunk_ >= 0) {
      full_ = false;
      const auto id = static_cast<std::size_t>(chunk_);
      const Tok rest = rows_[id].length() - rows_[id].done,
                now = static_cast<Tok>(std::min<std::int64_t>(rest, left.chunk));
      batch.emplace_back(id, now);
      charge(left, now, now == rest ? rows_[id].cap : 0);
      if (now == rest)
        chunk_ = -1;
      else
        open = false;
    }
    if (open) take_waiting(left, batch);
    return launch(batch);
  }

  void take_waiting(Left& left, std::vector<std::pair<std::size_t, Tok>>& batch) {
    while (!waiting_.empty()) {
      const std::size_t id = waiting_.front();
      const Row& r = rows_[id];
      Tok now = r.length();
      if (std::ssize(running_) + std::ssize(batch) >= most_ || now + r.cap - r.made >= left.memory ||
          left.present < paged(now)) {
        full_ = true;
        return;
      }
      if (!chunked_ && now >= left.input && !batch.empty()) return;
      if (now > left.chunk) {
        now = static_cast<Tok>(left.chunk / page_ * page_);
        if (now <= 0) return;
        chunk_ = static_cast<std::int64_t>(id);
      }
      waiting_.pop_front();
      batch.emplace_back(id, now);
      charge(left, now, r.cap);
      if (chunk_ >= 0) return;  // no other request beside one that is cut
      if (left.memory <= 0 || left.present <= 0) {
        full_ = true;
        return;
      }
      if (left.input <= 0 || left.chunk <= 0) return;
    }
  }

  std::string launch(const std::vector<std::pair<std::size_t, Tok>>& batch) {
    std::string text;
    for (const auto& [id, count] : batch) {
      text += fmt::format("{}{}:{}", text.empty() ? "" : " ", name_of(id), count);
      cover(rows_[id], rows_[id].done + count);
      if (static_cast<std::int64_t>(id) != chunk_ && !emit(id)) running_.push_back(id);
    }
    return text.empty() ? "" : "P[" + text + "]";
  }

  std::string decode() {
    const auto growth = [&] {
      return std::count_if(running_.begin(), running_.end(),
                           [&](std::size_t id) { return rows_[id].done % page_ == 0; });
    };
    if (growth() > free_) {
      while (growth() > free_ && running_.size() > 1) {
        auto worst = running_.begin();  // among equals, the last one is retracted
        for (auto it = running_.begin(); it != running_.end(); ++it)
          if (std::pair(rows_[*it].made, -rows_[*it].prompt) <= std::pair(rows_[*worst].made, -rows_[*worst].prompt))
            worst = it;
        Row& r = rows_[*worst];
        free_ += r.held;
        r.held = r.done = 0;
        full_ = false;
        add(outs_, name_of(*worst), ",");
        waiting_.push_back(*worst);
        running_.erase(worst);
      }
      double made = 0, caps = 1;
      for (const std::size_t id : running_) {
        made += rows_[id].made + 20;
        caps += rows_[id].cap;
      }
      ratio_ = std::min(1.0, made / caps);
    } else {
      ratio_ = std::max(ratio_ - first_ratio_ * 0.86 / 600, first_ratio_ * 0.14);
    }
    std::string text;
    std::vector<std::size_t> stay;
    for (const std::size_t id : running_) {
      text += (text.empty() ? "" : " ") + name_of(id);
      cover(rows_[id], rows_[id].done + 1);
      if (!emit(id)) stay.push_back(id);
    }
    running_ = stay;
    return "D[" + text + "]";
  }

  Tok page_;
  Blk total_, free_;
  std::int64_t most_;
  bool chunked_, full_ = false;
  std::int64_t budget_, chunk_ = -1;  // chunk_: the request whose prompt is incomplete
  double first_ratio_, ratio_;
  std::vector<Row> rows_;
  std::deque<std::size_t> waiting_;
  std::vector<std::size_t> running_;
};

PolicyConfig draw_sglang() {
  return sgl([](PolicyConfig& c) {
    c.max_running = *rc::gen::element<std::int64_t>(1, 2, 4, 100);
    c.step_token_budget = *rc::gen::element<std::int64_t>(3, 6, 10, 24, 1000);
    c.chunked = *rc::gen::arbitrary<bool>();
    c.conservativeness = *rc::gen::element(0.0, 0.0, 0.1, 0.37, 1.0, 1.3);
  });
}
KvConfig draw_pool() {
  KvConfig kv = draw_kv();
  kv.blocks = *rc::gen::element<Blk>(24, 28, 34, 44, 60, 100) / kv.block_tokens;
  return kv;
}

RC_GTEST_PROP(SgLangProperty, DecidesLikeTheNaiveScheduler, ()) {
  const PolicyConfig policy = draw_sglang();
  const KvConfig kv = draw_pool();
  const std::vector<Draw> script = draw_requests(*rc::gen::element<Tok>(6, 24));
  NaiveSgLang naive(policy, kv, script);
  const ScriptRun run = run_script(policy, kv, script_of(script));
  check_tokens(run.ended);
  RC_ASSERT(run.log == naive.run());
  RC_ASSERT(run.log == run_script(policy, kv, script_of(script), true).log);
}

RC_GTEST_PROP(SgLangProperty, LeapsDecideWhatStepsDecide, ()) {
  KvConfig kv = draw_pool();
  kv.prefix_caching = *rc::gen::arbitrary<bool>();
  PolicyConfig policy = draw_sglang();
  policy.version = *rc::gen::element(4, 5);
  policy.scheduler_recv_interval = *rc::gen::element(1, 2, 3, 10);
  check_leaps(policy, kv);
}

// What SGLang 0.5.5 decided on random cases without a radix cache: Scheduler.get_next_batch_to_run of the package of
// PyPI (Apache-2.0), unmodified, as tests/golden/record_sglang_scheduler.py recorded it on 2026-11-22.
TEST(SgLangDecisions, AreThoseOfTheRealScheduler) {
  const std::vector<std::string> cases = recorded_lines("sglang_decisions/plain.cases");
  const std::vector<std::string> answers = recorded_lines("sglang_decisions/plain-0.5.answers");
  ASSERT_EQ(cases.size(), answers.size());
  ASSERT_FALSE(cases.empty());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const VllmCase c = parse_vllm_case(cases[i]);
    const PolicyConfig policy = config(PolicyKind::sglang, [&](PolicyConfig& p) {
      p.version = 5;
      p.max_running = c.max_running;
      p.step_token_budget = c.budget;
      p.chunked = c.chunked;
    });
    ASSERT_EQ(VllmCaseRun(c, policy, {.blocks = c.blocks, .block_tokens = 1}).run(), answers[i])
        << "case " << i << ": " << cases[i];
  }
}

// From 0.5 on, a full batch decodes once more after a request has left before the next one is admitted.
TEST(SgLang, DropsTheRowsOfFinishedRequestsLate) {
  const auto version = [](std::int32_t minor) {
    return config(PolicyKind::sglang, [&](PolicyConfig& c) {
      c.version = minor;
      c.max_running = 2;
    });
  };
  const std::string script = "A:4+3 B:4+2 C:4+2 D:4+1";
  EXPECT_EQ(steps_of(version(4), ample(1), script), "P[A:4 B:4] | D[A B] | P[C:4] | D[A C] | P[D:4]");
  EXPECT_EQ(steps_of(version(5), ample(1), script), "P[A:4 B:4] | D[A B] | D[A] | P[C:4] | D[C] | P[D:4]");
}

// After A's three tokens nothing runs, but its departed row still sets aside 0.7 of the 7 tokens that it did not use: B
// with 19 does not fit into the other 15. No decode follows that would drop the row, so B must not wait for one.
TEST(SgLang, ADepartedRowHoldsNobodyBackForEver) {
  const PolicyConfig policy = config(PolicyKind::sglang, [](PolicyConfig& c) { c.version = 5; });
  EXPECT_EQ(steps_of(policy, tokens(20), "A:4+3/10 B:12+7@4"),
            "P[A:4] | D[A] | D[A] | P[B:12] | D[B] | D[B] | D[B] | D[B] | D[B] | D[B]");
}

}  // namespace
}  // namespace plimsoll::sched::testing
