// SPDX-License-Identifier: Apache-2.0
// A leader and its followers, which are threads of one process here.
#include "study/run/rank_crew.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "model/error.h"
#include "net/endpoint.h"
#include "study/run/digest.h"

namespace plimsoll::study {
namespace {

const std::function<bool()> kNever = [] { return false; };

// Answers "7" with "7!".
std::string shout(const std::string& task, const std::function<bool()>&) { return task + "!"; }

using End = RankLeader::End;
const std::vector<std::string> kHere = {std::string(net::kLoopback)};
constexpr std::size_t kRoom = 1U << 16U;

std::string here() { return "here"; }

End follow(const RankCrew& crew, const std::string& greeting, const RankLeader::Answer& answer = shout) {
  return RankLeader(net::Meeting::read(crew.meeting().text()), RankName::own(1)).follow(greeting, 1, answer);
}

std::jthread follower(const RankCrew& crew, const std::string& greeting, std::atomic<int>* done = nullptr) {
  const Pulse pulse{.beat = std::chrono::milliseconds(10)};
  return std::jthread([leader = RankLeader(net::Meeting::read(crew.meeting().text()), RankName::own(1), pulse),
                       greeting, done]() mutable {
    if (leader.follow(greeting, 1, shout) == End::done && done != nullptr) ++*done;
  });
}

// Connects a peer that knows the token and takes one task; the test decides what it does then.
net::Link taker(const RankCrew& crew, const std::string& task) {
  net::Link link = net::reach(crew.meeting());
  EXPECT_TRUE(link.send(crew.meeting().token + " 7 0 elsewhere"));
  EXPECT_TRUE(link.send("same"));
  EXPECT_EQ(link.receive_text(kRoom), "welcome");
  EXPECT_EQ(link.receive_text(kRoom), task);
  return link;
}

TEST(RankCrew, FollowersAnswer) {
  std::atomic<int> done{0};
  {
    std::vector<std::jthread> followers;
    {
      RankCrew crew(kHere);
      crew.open(0, "same", {});  // no place in this process, so every task must be sent
      followers.push_back(follower(crew, "same", &done));
      followers.push_back(follower(crew, "same", &done));
      std::vector<std::jthread> askers;
      std::atomic<int> right{0};
      for (int i = 0; i < 8; ++i) {
        askers.emplace_back([&crew, &right, i] {
          const std::string task = std::to_string(i);
          if (crew.run(task, kNever, here) == task + "!") ++right;
        });
      }
      askers.clear();
      EXPECT_EQ(right, 8);
      EXPECT_EQ(crew.answered(), 8U);
    }
  }
  EXPECT_EQ(done, 2);
}

TEST(RankCrew, AloneItWorksByItself) {
  RankCrew crew(kHere);
  crew.open(1, "same", {});
  EXPECT_EQ(crew.run("1", kNever, here), "here");
  EXPECT_EQ(crew.answered(), 0U);
}

// A leader without tasks, for example one that prints a help text, ends its followers with success.
TEST(RankCrew, TheEndIsToldThoughItNeverOpened) {
  std::atomic<int> done{0};
  std::jthread waiting;
  {
    const RankCrew crew(kHere);
    waiting = follower(crew, "same", &done);
  }
  waiting.join();
  EXPECT_EQ(done, 1);
}

// If the leader does not say goodbye, it has failed or died, and its followers must not end with success.
TEST(RankCrew, AnEndByAFailureIsSeenAsOne) {
  for (const bool opened : {false, true}) {
    std::atomic<int> done{0};
    std::jthread waiting;
    try {
      RankCrew crew(kHere);
      if (opened) crew.open(1, "same", {});
      waiting = follower(crew, "same", &done);
      throw InputError("bad input");
    } catch (const InputError&) {}
    waiting.join();
    EXPECT_EQ(done, 0);
  }
}

class LossTest : public ::testing::Test {
 protected:
  // Runs a task that a peer takes; the peer then misbehaves as specified, and another follower answers.
  void lose(const std::function<void(net::Link& link)>& misbehave, RankCrew::Loss loss) {
    std::jthread other;  // joined last: the crew, which ends it, is destroyed first
    Pulse pulse;         // long enough for a busy machine; nothing waits for it to end
    if (loss == RankCrew::Loss::silent) pulse.silence = std::chrono::milliseconds(250);
    RankCrew crew(kHere, pulse);
    crew.open(0, "same", {});
    std::string answer;
    std::jthread asker(
        [&] { answer = crew.run("5", kNever, here, [](const std::string& text) { return text == "5!"; }); });
    net::Link link = taker(crew, "5");
    misbehave(link);
    other = follower(crew, "same");
    asker.join();
    EXPECT_EQ(answer, "5!");
    ASSERT_FALSE(crew.lost().empty());
    EXPECT_EQ(crew.lost().front().loss, loss);
    EXPECT_EQ(crew.lost().front().rank, (RankName{7, 0, "elsewhere"}));
    EXPECT_EQ(crew.lost().front().tasks, 1U);
  }
};

TEST_F(LossTest, AFollowerThatDies) {
  lose([](net::Link& link) { link = net::Link(); }, RankCrew::Loss::died);
}

TEST_F(LossTest, AFollowerThatIsStopped) {
  lose([](net::Link&) {}, RankCrew::Loss::silent);
}

// As if stopped in the middle of a message: the length has arrived, the rest has not.
TEST_F(LossTest, AFollowerThatIsStoppedInTheMiddleOfAnAnswer) {
  lose(
      [](net::Link& link) {
        const std::string head("\0\0\0\x30 a", 6);
        const std::array parts{std::as_bytes(std::span(head))};
        EXPECT_TRUE(link.socket().send(parts));
      },
      RankCrew::Loss::silent);
}

TEST_F(LossTest, AnAnswerWithoutItsDigest) {
  lose([](net::Link& link) { EXPECT_TRUE(link.send("5!")); }, RankCrew::Loss::unreadable);
}

TEST_F(LossTest, AnAnswerThatSaysSomethingElse) {
  lose([](net::Link& link) { EXPECT_TRUE(link.send(hex(digest_of("6!")) + "6!")); }, RankCrew::Loss::unreadable);
}

TEST_F(LossTest, AnAnswerThatIsTooLong) {
  lose(
      [](net::Link& link) {
        const std::string head("\xff\xff\xff\xff", 4);
        const std::array parts{std::as_bytes(std::span(head))};
        EXPECT_TRUE(link.socket().send(parts));
      },
      RankCrew::Loss::died);
}

TEST(RankCrew, ASignOfLifeIsNoAnswer) {
  RankCrew crew(kHere);
  crew.open(0, "same", {});
  std::string answer;
  std::jthread asker([&] { answer = crew.run("5", kNever, here); });
  const net::Link link = taker(crew, "5");
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(link.send(""));
  EXPECT_TRUE(link.send(hex(digest_of("5!")) + "5!"));
  asker.join();
  EXPECT_EQ(answer, "5!");
  EXPECT_TRUE(crew.lost().empty());
}

TEST(RankCrew, AFollowerSaysThatItIsAlive) {
  std::atomic<bool> over{false};
  net::Lobby lobby(kHere);
  std::jthread working([&] {
    RankLeader leader(lobby.meeting(), RankName::own(1), {.beat = std::chrono::milliseconds(1)});
    static_cast<void>(leader.follow("same", 1, [&over](const std::string&, const std::function<bool()>&) {
      over.wait(false);
      return std::string("done at last");
    }));
  });
  auto guest = lobby.next(net::within(std::chrono::minutes(5)));
  ASSERT_TRUE(guest);
  EXPECT_EQ(guest->link.receive_text(kRoom), "same");
  ASSERT_TRUE(guest->link.send("welcome"));
  ASSERT_TRUE(guest->link.send("1"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(guest->link.receive_text(kRoom), "");
  over = true;
  over.notify_all();
  std::optional<std::string> answer = "";
  while (answer == "") answer = guest->link.receive_text(kRoom);
  EXPECT_EQ(answer, hex(digest_of("done at last")) + "done at last");
  guest->link = net::Link();
}

TEST(RankCrew, WhatAFollowerCannotDoIsDoneHere) {
  std::jthread unable;  // joined last: the crew, which ends it, is destroyed first
  RankCrew crew(kHere);
  crew.open(0, "same", {});
  unable = std::jthread([leader = RankLeader(crew.meeting(), RankName::own(1))]() mutable {
    static_cast<void>(
        leader.follow("same", 1, [](const std::string&, const std::function<bool()>&) { return std::string(); }));
  });
  EXPECT_EQ(crew.run("1", kNever, here), "here");
}

// A follower with another study or without the token is not admitted, and is reported once.
TEST(RankCrew, StrangersStayOutside) {
  RankCrew crew(kHere);
  std::atomic<int> strangers{0};
  crew.open(1, "same", [&](const std::string& greeting) { strangers += greeting == "other" ? 1 : 100; });
  EXPECT_EQ(follow(crew, "other"), End::refused);
  EXPECT_EQ(follow(crew, "other"), End::refused);
  const net::Link rude = net::reach(crew.meeting());
  EXPECT_TRUE(rude.send("let me in"));
  EXPECT_EQ(rude.receive(), std::nullopt);
  EXPECT_EQ(strangers, 1);
}

// Each would block a leader that listens to one connection at a time.
TEST(RankCrew, StrangersThatSayNothingKeepNoFollowerOut) {
  std::atomic<int> done{0};
  std::jthread late;
  std::vector<net::Link> strangers;
  {
    RankCrew crew(kHere);
    crew.open(0, "same", {});
    for (int i = 0; i < 20; ++i) strangers.push_back(net::reach(crew.meeting()));
    late = follower(crew, "same", &done);
    EXPECT_EQ(crew.run("1", kNever, here), "1!");
  }
  late.join();
  EXPECT_EQ(done, 1);
}

TEST(RankCrew, GivingUpEndsTheWait) {
  RankCrew crew(kHere);
  crew.open(0, "same", {});  // no place will ever become free
  int asked = 0;
  EXPECT_EQ(crew.run(
                "1", [&] { return ++asked > 2; }, here),
            "");
}

TEST(RankLeader, ALeaderThatIsNotThereIsAnError) {
  net::Meeting nowhere{"node7", "abc", {{"127.0.0.1", net::port_of(net::listen_at(net::kLoopback))}}};  // closed again
  EXPECT_THROW(RankLeader(nowhere, RankName::own(1)), DeviceError);
}

TEST(RankName, IsOneLineOfText) {
  const RankName name{3, 4711, "node7"};
  EXPECT_EQ(RankName::read(name.text()), name);
}

}  // namespace
}  // namespace plimsoll::study
