// SPDX-License-Identifier: Apache-2.0
// Judges runs of queues with a known service rate: c servers, each busy 1 s per request.
#include "sched/steady_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace plimsoll::sched {
namespace {

struct Queue {
  int servers = 1;
  double rho = 0.5;  // load, as a fraction of what the servers can serve
  int requests = 1000;
  double length_cv = 0;
  unsigned seed = 1;
};

struct Ran {
  std::vector<Served> served;
  OfferedLoad load;
  double queue_mean_s = 0;
};

double exponential(std::mt19937_64& random) { return -std::log(1 - static_cast<double>(random() >> 11U) * 0x1p-53); }

// Poisson arrivals, first come first served; service times 1 - cv or 1 + cv with equal probability.
Ran run(const Queue& q) {
  Ran out;
  std::mt19937_64 random(q.seed);
  std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
  for (int i = 0; i < q.servers; ++i) free_at.push(0);
  const double rate = q.rho * q.servers;
  double now = 0;
  for (int i = 0; i < q.requests; ++i) {
    now += exponential(random) / rate;
    const double start = std::max(now, free_at.top()), service = 1 + (random() % 2 == 0 ? -1 : 1) * q.length_cv;
    free_at.pop();
    free_at.push(start + service);
    out.served.push_back(
        {start + service - now, start - now, start + service, static_cast<std::int32_t>(100 * service)});
    out.queue_mean_s += (start - now) / q.requests;
  }
  std::sort(out.served.begin(), out.served.end(), [](const Served& a, const Served& b) { return a.end < b.end; });
  out.load = {.kind = OfferedLoad::Kind::open, .last_sent_s = now, .rate = rate};
  return out;
}

SteadyState judge(const Ran& run, std::int64_t shed = 0) {
  const JudgedRun judged{.load = run.load, .start_s = 0, .served = run.served, .shed = shed, .unfit = 0};
  return judge_steady_state(std::span(&judged, 1), run.queue_mean_s);
}

TEST(SteadyState, AQueueThatKeepsUpIsStable) {
  for (const int servers : {1, 16}) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      EXPECT_EQ(judge(run({.servers = servers, .rho = 0.7, .requests = 3000, .seed = seed})).verdict,
                Steadiness::stable)
          << servers << ' ' << seed;
    }
  }
}

// Everything else relies on this: a queue that serves less than 97 % in the long run is never called stable. That holds
// however short the run is and however many servers must first fill. At rho 1.05, 95 % are served.
TEST(SteadyState, WhatServesTooLittleIsNeverStable) {
  for (const int servers : {1, 8, 128, 1000}) {
    for (const int requests : {30, 100, 300, 1000, 3000, 10'000}) {
      for (const double rho : {1.05, 1.3, 2.0, 5.0}) {
        for (const double cv : {0.0, 0.5}) {
          for (unsigned seed = 1; seed <= 4; ++seed) {
            EXPECT_NE(judge(run({servers, rho, requests, cv, seed})).verdict, Steadiness::stable)
                << servers << " servers, " << requests << " requests, rho " << rho << ", cv " << cv << ", seed "
                << seed;
          }
        }
      }
    }
  }
}

// The converse: a queue that keeps up is never called unstable, neither while its servers fill nor later.
TEST(SteadyState, WhatKeepsUpIsNeverUnstable) {
  for (const int servers : {1, 8, 128, 1000}) {
    for (const int requests : {30, 300, 3000, 10'000}) {
      for (const double rho : {0.5, 0.95}) {
        for (unsigned seed = 1; seed <= 8; ++seed) {
          EXPECT_NE(judge(run({servers, rho, requests, 0.5, seed})).verdict, Steadiness::unstable)
              << servers << ' ' << requests << ' ' << rho << ' ' << seed;
        }
      }
    }
  }
}

// A load of 8 times what 100 servers can serve, for 1.25 s: hardly one service time. Still, the 1000 requests take 10
// s, and half of those left take 4 s. Acceptable would be 0.6 s of arrivals and three services of 1 s.
TEST(SteadyState, ABacklogThatDrainsTooSlowlyTellsOfTheShortestLoad) {
  const SteadyState short_load = judge(run({.servers = 100, .rho = 8, .requests = 1000}));
  EXPECT_EQ(short_load.verdict, Steadiness::unstable);
  EXPECT_TRUE(short_load.grows);
  EXPECT_NE(judge(run({.servers = 1000, .rho = 0.9, .requests = 1000})).verdict, Steadiness::unstable)
      << "all are left when the load ends after 1.1 s, and gone within a service time";
}

TEST(SteadyState, ARunThatIsTooShortSaysHowLongOneWouldTell) {
  for (const double rho : {0.5, 1.5}) {
    Queue queue{.servers = 1000, .rho = rho, .requests = 1000};
    SteadyState found = judge(run(queue));
    ASSERT_EQ(found.verdict, Steadiness::too_short);
    EXPECT_GT(found.requests_needed, 5000) << "ten lives of 1 s at " << rho * 1000 << " a second";
    for (int i = 0; i < 4 && found.verdict == Steadiness::too_short; ++i) {
      queue.requests = static_cast<int>(found.requests_needed);
      found = judge(run(queue));
    }
    EXPECT_EQ(found.verdict, rho < 1 ? Steadiness::stable : Steadiness::unstable);
    EXPECT_LE(queue.requests, 60'000);
  }
}

// Refused requests do not queue, but they are not served either: 5 % of 4000 is more than 3 % and more than chance.
TEST(SteadyState, WhatIsRefusedIsNotServed) {
  const Ran light = run({.servers = 4, .rho = 0.5, .requests = 3800});
  EXPECT_EQ(judge(light, 200).verdict, Steadiness::unstable);
  EXPECT_FALSE(judge(light, 200).grows) << "its latency is that of a steady state";
  EXPECT_EQ(judge(light, 40).verdict, Steadiness::stable);
}

// 80 of 4000 requests (2 %) are below 3 % beyond chance. If they were lost in only three failures of a fleet, they say
// little about the long-run rate.
TEST(SteadyState, WhatIsLostByEpisodesTellsLess) {
  Ran fleet = run({.servers = 4, .rho = 0.5, .requests = 3920});  // 1960 s
  EXPECT_EQ(judge(fleet, 80).verdict, Steadiness::stable);
  fleet.load.settles_s = 600;
  EXPECT_EQ(judge(fleet, 80).verdict, Steadiness::too_short);
  fleet.load.settles_s = 10;
  EXPECT_EQ(judge(fleet, 80).verdict, Steadiness::stable) << "196 failures";
}

TEST(SteadyState, ClientsOfAClosedLoopNeedRounds) {
  Ran closed = run({.servers = 8, .rho = 0.9, .requests = 800});
  closed.load = {.kind = OfferedLoad::Kind::closed, .last_sent_s = closed.load.last_sent_s, .clients = 100};
  const SteadyState found = judge(closed);
  EXPECT_EQ(found.verdict, Steadiness::too_short);
  EXPECT_EQ(found.requests_needed, 1200) << "10 rounds of 100 are 1000, and at least half as many again as there were";
  closed.load.clients = 80;
  EXPECT_EQ(judge(closed).verdict, Steadiness::stable);
}

// The rate of a replay is not known, so it is judged by the requests left at its end.
TEST(SteadyState, AReplayIsJudgedByWhatIsLeft) {
  for (const double rho : {0.8, 1.3}) {
    Ran replay = run({.servers = 4, .rho = rho, .requests = 4000});
    replay.load.rate = 0;
    EXPECT_EQ(judge(replay).verdict, rho < 1 ? Steadiness::stable : Steadiness::unstable);
  }
  Ran brief = run({.servers = 1000, .rho = 1.3, .requests = 1000});
  brief.load.rate = 0;
  EXPECT_EQ(judge(brief).verdict, Steadiness::too_short);
}

// At 1.01 of capacity 99 % are served in time, until the backlog has grown to the time-out: 1 % of 40 s of load are
// 0.4 s here, and 8 s in a run that is twenty times as long.
TEST(SteadyState, ALoadJustBeyondCapacityIsNotStableIfClientsGiveUp) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Ran beyond = run({.servers = 100, .rho = 1.01, .requests = 4000, .seed = seed});
    beyond.load.timeout_s = 8;
    EXPECT_NE(judge(beyond).verdict, Steadiness::stable) << seed;
  }
  Ran patient = run({.servers = 100, .rho = 1.01, .requests = 40'000});
  EXPECT_EQ(judge(patient).verdict, Steadiness::stable) << "99 % are served";
}

// Waits of a queue at 0.9 of capacity come close to 12 s now and then: with retries, a run without such waits is no
// evidence for a longer one.
TEST(SteadyState, RetriesNeedDistanceFromTheTimeOut) {
  Ran below = run({.servers = 1, .rho = 0.9, .requests = 5000});
  EXPECT_EQ(judge(below).verdict, Steadiness::stable);
  below.load.timeout_s = 30;
  EXPECT_EQ(judge(below).verdict, Steadiness::stable) << "what times out is not tried again";
  below.load.tries_again = true;
  const SteadyState near = judge(below);
  EXPECT_EQ(near.verdict, Steadiness::too_short);
  EXPECT_GT(near.requests_needed, 5000);
  below.load.timeout_s = 300;
  EXPECT_EQ(judge(below).verdict, Steadiness::stable);
}

// A second of time-outs every 100 s, after which a new request is served at once: it recovers each time.
TEST(SteadyState, EpisodesOfTimeOutsThatPassAreNoCollapse) {
  for (const int period : {100, 1000}) {
    Ran bumpy = run({.servers = 8, .rho = 0.5, .requests = 20'000});
    bumpy.load.timeout_s = 4;
    bumpy.load.tries_again = true;
    for (Served& request : bumpy.served) {
      const double sent = request.end - request.latency;
      if (std::fmod(sent, period) > 1) continue;
      request.ttft += 5;
      request.latency += 5;
      request.end += 5;
    }
    EXPECT_EQ(judge(bumpy).verdict, period == 100 ? Steadiness::stable : Steadiness::too_short)
        << "5000 s of load: " << 5000 / period << " episodes";
  }
}

// One request in a hundred loses its replica after 28 s and starts anew. It takes longer than the time-out, but no
// attempt of it waited, and no load was added by clients that gave up.
TEST(SteadyState, WhatIsLostWithAReplicaIsNoTimeOut) {
  Ran lost = run({.servers = 8, .rho = 0.5, .requests = 20'000});
  lost.load.timeout_s = 30;
  lost.load.tries_again = true;
  for (std::size_t i = 0; i < lost.served.size(); i += 100) {
    lost.served[i].latency += 30;
    lost.served[i].end += 30;
  }
  EXPECT_EQ(judge(lost).verdict, Steadiness::stable);
  for (std::size_t i = 0; i < lost.served.size(); i += 100) lost.served[i].ttft += 30;
  EXPECT_EQ(judge(lost).verdict, Steadiness::too_short) << "the same by time-outs, all the time";
}

TEST(SteadyState, AFleetThatScalesNeedsTimeToFollow) {
  Ran slow = run({.servers = 4, .rho = 0.5, .requests = 4000});  // 2000 s
  slow.load.settles_s = 900;
  EXPECT_EQ(judge(slow).verdict, Steadiness::too_short);
  slow.load.settles_s = 600;
  EXPECT_EQ(judge(slow).verdict, Steadiness::stable);
}

TEST(SteadyState, BurstsAndScriptsHaveNone) {
  Ran burst = run({.requests = 50});
  burst.load = {};
  EXPECT_EQ(judge(burst), SteadyState{});
}

}  // namespace
}  // namespace plimsoll::sched
