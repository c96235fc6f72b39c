// SPDX-License-Identifier: Apache-2.0
// A leader and its followers, here as threads of one process.
#include "study/run/rank_crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace plimsoll::study {
namespace {

const std::function<bool()> kNever = [] { return false; };

// Answers "7" with "7!".
std::string shout(const std::string& task, const std::function<bool()>&) { return task + "!"; }

std::jthread follower(const RankCrew& crew, const std::string& greeting, std::atomic<int>* welcome = nullptr) {
  return std::jthread([meeting = crew.meeting(), greeting, welcome] {
    const bool in = follow(Meeting::read(meeting.text()), greeting, 1, shout);
    if (welcome != nullptr && in) ++*welcome;
  });
}

TEST(RankCrew, FollowersAnswer) {
  std::atomic<int> welcome{0};
  {
    std::vector<std::jthread> followers;
    {
      RankCrew crew(true);
      crew.open(0, "same", {});        // nobody here: every task must travel
      followers.push_back(follower(crew, "same", &welcome));
      followers.push_back(follower(crew, "same", &welcome));
      std::vector<std::jthread> askers;
      std::atomic<int> right{0};
      for (int i = 0; i < 8; ++i) {
        askers.emplace_back([&crew, &right, i] {
          const std::string task = std::to_string(i);
          if (crew.run(task, kNever, [] { return std::string("here"); }) == task + "!") ++right;
        });
      }
      askers.clear();
      EXPECT_EQ(right, 8);
      EXPECT_EQ(crew.answered(), 8U);
    }
  }                                    // the leader is gone, so are they
  EXPECT_GE(welcome, 1);               // the other may have come too late to be needed
}

TEST(RankCrew, AloneItWorksByItself) {
  RankCrew crew(true);
  crew.open(1, "same", {});
  EXPECT_EQ(crew.run("1", kNever, [] { return std::string("here"); }), "here");
  EXPECT_EQ(crew.answered(), 0U);
}

// One that takes a task and dies: somebody else does it, and the place is gone.
TEST(RankCrew, ATaskOutlivesWhoeverTookIt) {
  std::jthread other;                  // ends with the crew, which ends first
  RankCrew crew(true);
  crew.open(0, "same", {});
  const Meeting meeting = crew.meeting();
  std::atomic<bool> died{false};
  std::jthread dying([&] {
    Socket socket = connect_to("127.0.0.1", meeting.port);
    ASSERT_TRUE(send_text(socket, meeting.token + " same"));
    ASSERT_EQ(receive_text(socket), "welcome");
    ASSERT_EQ(receive_text(socket), "5");
    socket.close();
    died = true;
  });
  std::string answer;
  std::jthread asker([&] { answer = crew.run("5", kNever, [] { return std::string("here"); }); });
  dying.join();
  EXPECT_TRUE(died);
  other = follower(crew, "same");
  asker.join();
  EXPECT_EQ(answer, "5!");
  EXPECT_EQ(crew.lost(), 1U);
}

TEST(RankCrew, WhatAFollowerCannotDoIsDoneHere) {
  std::jthread unable;                 // ends with the crew, which ends first
  RankCrew crew(true);
  crew.open(0, "same", {});
  unable = std::jthread([meeting = crew.meeting()] {
    follow(meeting, "same", 1, [](const std::string&, const std::function<bool()>&) { return std::string(); });
  });
  EXPECT_EQ(crew.run("1", kNever, [] { return std::string("here"); }), "here");
}

// Another study, or no word at all: not let in, and told of once.
TEST(RankCrew, StrangersStayOutside) {
  RankCrew crew(true);
  std::atomic<int> strangers{0};
  crew.open(1, "same", [&](const std::string& greeting) { strangers += greeting == "other" ? 1 : 100; });
  std::atomic<int> welcome{0};
  follower(crew, "other", &welcome).join();
  follower(crew, "other", &welcome).join();
  const Socket rude = connect_to("127.0.0.1", crew.meeting().port);
  EXPECT_TRUE(send_text(rude, "let me in"));
  EXPECT_EQ(receive_text(rude), std::nullopt);
  EXPECT_EQ(welcome, 0);
  EXPECT_EQ(strangers, 1);
}

TEST(RankCrew, GivingUpEndsTheWait) {
  RankCrew crew(true);
  crew.open(0, "same", {});            // nobody will ever come
  int asked = 0;
  EXPECT_EQ(crew.run("1", [&] { return ++asked > 2; }, [] { return std::string("here"); }), "");
}

TEST(Meeting, IsOneLineOfText) {
  const Meeting meeting{"node7", "10.0.0.7 192.168.1.7", 40123, "abc"};
  const Meeting back = Meeting::read(meeting.text());
  EXPECT_EQ(back.host, meeting.host);
  EXPECT_EQ(back.addresses, meeting.addresses);
  EXPECT_EQ(back.port, meeting.port);
  EXPECT_EQ(back.token, meeting.token);
}

}  // namespace
}  // namespace plimsoll::study
