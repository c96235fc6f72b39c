// SPDX-License-Identifier: Apache-2.0
#include "load/sessions.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "model/error.h"

namespace plimsoll::load {
namespace {

constexpr Nanos kSecond = 1'000'000'000;

WorkloadSpec five_turns() {
  Sessions load{.talk = {}, .concurrency = 2};
  load.talk.turns = FixedLength{5};
  load.talk.added = FixedLength{60};
  load.talk.think = {.mean = 20};
  WorkloadSpec spec;
  spec.load = load;
  spec.lengths = IndependentLengths{FixedLength{800}, FixedLength{40}};
  return spec;
}

// context(i + 1) = context(i) + answer + new: 800, 900, 1000, 1100, 1200; each turn 20 s after the answer.
TEST(Sessions, EveryPromptContainsTheHistory) {
  SessionBook book(five_turns(), 0, true);
  const SessionSlot slot = book.begin(0, 0);
  for (std::int32_t turn = 0; turn < 5; ++turn) {
    const RequestBody body = book.turn(slot);
    EXPECT_EQ(body.input_tokens, 800 + 100 * turn);
    EXPECT_EQ(body.output_tokens, 40);
    const std::optional<Nanos> next = book.answered(slot, turn * kSecond);
    EXPECT_EQ(next, turn < 4 ? std::optional<Nanos>((turn + 20) * kSecond) : std::nullopt);
  }
}

// The blocks of a prompt and its answer are the first blocks of the next prompt; two sessions share nothing.
TEST(Sessions, TheNextPromptBeginsWithThePromptAndItsAnswer) {
  SessionBook book(five_turns(), 0, true);
  const SessionSlot slot = book.begin(0, 0), other = book.begin(0, 0);
  std::vector<std::uint64_t> before;
  for (int turn = 0; turn < 5; ++turn) {
    const RequestBody body = book.turn(slot);
    EXPECT_EQ(body.content_tokens, body.input_tokens + body.output_tokens);
    EXPECT_EQ(std::ssize(body.prefix_hashes), (body.content_tokens + 15) / 16);
    ASSERT_LE(before.size(), body.prefix_hashes.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), body.prefix_hashes.begin()));
    before.assign(body.prefix_hashes.begin(), body.prefix_hashes.end());
    std::set<std::uint64_t> distinct(before.begin(), before.end());
    EXPECT_EQ(distinct.size(), before.size());
    (void)book.answered(slot, 0);
  }
  for (const std::uint64_t hash : book.turn(other).prefix_hashes)
    EXPECT_EQ(std::count(before.begin(), before.end(), hash), 0);
}

// With prefix groups, all sessions of a group share the beginning of their prompts: 512 tokens are 32 blocks.
TEST(Sessions, GroupsShareTheirBeginning) {
  WorkloadSpec spec = five_turns();
  spec.prefix = {.groups = 1, .tokens = 512};
  SessionBook book(spec, 0, true);
  const SessionSlot a = book.begin(0, 0), b = book.begin(0, 0);
  const auto blocks = book.turn(a).prefix_hashes;
  const std::vector<std::uint64_t> of_a(blocks.begin(), blocks.end());
  const auto of_b = book.turn(b).prefix_hashes;
  for (std::size_t i = 0; i < of_a.size(); ++i) EXPECT_EQ(of_a[i] == of_b[i], i < 32) << i;
}

// Prompts of 800, 900 and 1000 tokens with answers of 40 stay within 1040.
TEST(Sessions, EndBeforeATurnThatIsTooLong) {
  WorkloadSpec spec = five_turns();
  std::get<Sessions>(spec.load).talk.longest = 1040;
  SessionBook book(spec, 0, false);
  const SessionSlot slot = book.begin(0, 0);
  int turns = 1;
  while (book.answered(slot, 0)) ++turns;
  EXPECT_EQ(turns, 3);
}

// Every further turn is a tool's result: 2 s and 500 tokens instead of 20 s and 60.
TEST(Sessions, ToolsAnswerInTheirOwnTime) {
  WorkloadSpec spec = five_turns();
  Conversation& talk = std::get<Sessions>(spec.load).talk;
  talk.tool_share = 1;
  talk.tool = {.mean = 2};
  talk.result = FixedLength{500};
  SessionBook book(spec, 0, false);
  const SessionSlot slot = book.begin(0, 0);
  EXPECT_EQ(book.answered(slot, kSecond), 3 * kSecond);
  EXPECT_EQ(book.turn(slot).input_tokens, 800 + 40 + 500);
}

// The means of the drawn turns, pauses and lengths are those stated; mean_prompt() is the mean over all turns.
TEST(Sessions, DrawWhatIsStated) {
  WorkloadSpec spec = five_turns();
  Conversation& talk = std::get<Sessions>(spec.load).talk;
  talk.turns = LengthDistribution{LengthFamily::geometric, 4, 1, 1, 0};
  talk.think = {.family = PauseFamily::lognormal, .mean = 20, .cv = 1};
  SessionBook book(spec, 0, false);
  double turns = 0, pauses = 0, prompts = 0, pause = 0;
  constexpr int kSessions = 20'000;
  for (int i = 0; i < kSessions; ++i) {
    const SessionSlot slot = book.begin(0, 0);
    for (std::optional<Nanos> next = 0; next; next = book.answered(slot, 0)) {
      ++turns;
      prompts += book.turn(slot).input_tokens;
      if (*next == 0) continue;
      ++pauses;
      pause += 1e-9 * static_cast<double>(*next);
    }
  }
  EXPECT_NEAR(turns / kSessions, 4, 0.1);
  EXPECT_NEAR(pause / pauses, 20, 0.4);
  const MeanPrompt mean = mean_prompt(talk, std::get<IndependentLengths>(spec.lengths));
  EXPECT_NEAR(prompts / turns, mean.tokens, 0.02 * mean.tokens);
  EXPECT_NEAR(mean.added, (800 + 3 * 60) / 4.0, 1e-9);
}

// A session's draws depend on its number and turn alone: the order in which answers arrive changes nothing.
RC_GTEST_PROP(Sessions, DoNotDependOnTheOrderOfAnswers, ()) {
  WorkloadSpec spec = five_turns();
  Conversation& talk = std::get<Sessions>(spec.load).talk;
  talk.turns = LengthDistribution{LengthFamily::geometric, 3, 1, 1, 0};
  talk.added = LengthDistribution{LengthFamily::lognormal, 60, 1, 1, 0};
  talk.think = {.family = PauseFamily::exponential, .mean = 5};
  talk.tool_share = 0.5;
  spec.seed = *rc::gen::inRange<std::uint64_t>(1, 1000);
  constexpr int kSessions = 6;
  using Seen = std::vector<std::pair<std::int32_t, Nanos>>;
  const auto run = [&](bool backwards) {
    SessionBook book(spec, 0, false);
    std::vector<SessionSlot> slots;
    for (int i = 0; i < kSessions; ++i) slots.push_back(book.begin(0, 0));
    std::vector<Seen> seen(kSessions);
    std::vector<bool> open(kSessions, true);
    for (int round = 0; round < 200; ++round) {
      for (std::size_t k = 0; k < kSessions; ++k) {
        const std::size_t i = backwards ? kSessions - 1 - k : k;
        if (!open[i] || (backwards && round % 2 == 1 && i == 0)) continue;
        const std::int32_t input = book.turn(slots[i]).input_tokens;
        const std::optional<Nanos> next = book.answered(slots[i], 0);
        seen[i].emplace_back(input, next.value_or(-1));
        open[i] = next.has_value();
      }
    }
    return seen;
  };
  RC_ASSERT(run(false) == run(true));
}

// ---- sessions of a trace ------------------------------------------------------------------------------------

std::shared_ptr<traces::Trace> two_turns() {
  auto trace = std::make_shared<traces::Trace>();
  // Session 7: prompts of 100 and 200 tokens, the second 3 s after the first; session 8 has one turn.
  trace->records = {{0, 100, 50, 7}, {kSecond, 30, 10, 8}, {3 * kSecond, 200, 20, 7}};
  return trace;
}

WorkloadSpec replay(const std::shared_ptr<traces::Trace>& trace) {
  WorkloadSpec spec;
  spec.load = TraceReplay{.trace = trace, .after_answers = true};
  spec.lengths = TracePairs{trace};
  return spec;
}

TEST(RecordedSessions, ATurnFollowsItsAnswerOrItsOwnTime) {
  SessionBook book(replay(two_turns()), 0, true);
  EXPECT_TRUE(book.begins_at(0));
  EXPECT_TRUE(book.begins_at(1));
  EXPECT_FALSE(book.begins_at(2));
  const SessionSlot early = book.begin(0, 0);
  EXPECT_EQ(book.answered(early, kSecond), 3 * kSecond) << "not before its own time";
  EXPECT_EQ(book.turn(early).input_tokens, 200);
  EXPECT_EQ(book.answered(early, 9 * kSecond), std::nullopt);
  const SessionSlot late = book.begin(0, 0);
  EXPECT_EQ(book.answered(late, 5 * kSecond), 5 * kSecond) << "not before the answer";
}

// A stated gap counts from the answer, whatever the recorded time.
TEST(RecordedSessions, AStatedGapCountsFromTheAnswer) {
  const auto trace = two_turns();
  trace->gaps = {-1, -1, 2 * kSecond};
  SessionBook book(replay(trace), 0, true);
  EXPECT_EQ(book.answered(book.begin(0, 0), 10 * kSecond), 12 * kSecond);
}

// Without blocks in the trace, a prompt that is long enough begins with the last prompt and its answer: 150 of 200.
TEST(RecordedSessions, TurnsWithoutBlocksShareTheirHistory) {
  SessionBook book(replay(two_turns()), 0, true);
  const SessionSlot slot = book.begin(0, 0);
  const RequestBody first = book.turn(slot);
  EXPECT_EQ(first.content_tokens, 150);
  const std::vector<std::uint64_t> before(first.prefix_hashes.begin(), first.prefix_hashes.end());
  (void)book.answered(slot, 0);
  const RequestBody second = book.turn(slot);
  EXPECT_EQ(second.content_tokens, 200);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 9, second.prefix_hashes.begin()));
}

// Blocks of 64 tokens. The first prompt of 100 tokens ends inside block 11. In the second prompt, block 12 replaces it:
// that contains the rest of the first prompt and the answer. So the second turn's blocks describe the content of the
// first turn.
TEST(RecordedSessions, TheNextPromptDescribesTheAnswer) {
  const auto trace = two_turns();
  trace->hash_block_tokens = 64;
  trace->hashes = {10, 11, 20, 10, 12, 13, 14};
  trace->hash_ends = {2, 3, 7};
  SessionBook book(replay(trace), 0, true);
  const RequestBody body = book.turn(book.begin(0, 0));
  EXPECT_EQ(body.content_tokens, 150);
  EXPECT_EQ(std::vector<std::uint64_t>(body.prefix_hashes.begin(), body.prefix_hashes.end()),
            (std::vector<std::uint64_t>{10, 12, 13}))
      << "three blocks of 64 hold 150 tokens";
  // Another beginning: the second turn is a new conversation, and nothing is known of the answer.
  trace->hashes[3] = 99;
  SessionBook apart(replay(trace), 0, true);
  EXPECT_EQ(apart.turn(apart.begin(0, 0)).content_tokens, 100);
}

TEST(Sessions, RefuseNumbersThatDescribeNone) {
  for (const auto& change : std::vector<std::function<void(Conversation&)>>{
           [](Conversation& t) { t.turns = FixedLength{0}; }, [](Conversation& t) { t.think.mean = -1; },
           [](Conversation& t) { t.tool_share = 2; }, [](Conversation& t) { t.think = {.min = 2, .max = 1}; }}) {
    WorkloadSpec spec = five_turns();
    change(std::get<Sessions>(spec.load).talk);
    EXPECT_THROW(Workload(spec, 0), InputError);
  }
  WorkloadSpec spec = five_turns();
  spec.lengths = TracePairs{two_turns()};
  EXPECT_THROW(Workload(spec, 0), InputError);
}

}  // namespace
}  // namespace plimsoll::load
