// SPDX-License-Identifier: Apache-2.0
// Runs requests with given arrival times through a Replica whose steps all take the same time, one by one or in leaps.
// Leaps go as far as the policy allows: past arrivals that it calls harmless, and to the first step boundary at or
// after wake_at.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sched/replica.h"

namespace plimsoll::sched::testing {

/// silent_leaps: no decision log is kept, because a log makes leaps end at arrivals.
enum class Mode : std::uint8_t { steps, leaps, silent_leaps };

inline constexpr Nanos kMs = 1'000'000;

/// The duration of every step, and how the replica runs them: one by one or in leaps.
struct Pace {
  Nanos step = kMs;
  Mode mode = Mode::steps;
};

struct TimedRequest {
  std::string name;
  Tok prompt = 1, output = 1, cap = 1;
  Nanos at = 0;
  Nanos cancel_at = kNever;
};

struct TimedRun {
  std::string log;
  std::vector<FinishedAttempt> ended;
  std::vector<std::string> launches;  // "a b@100": the requests whose first step is at this time, in ms
  std::int64_t decisions = 0;
};

class TimedDriver {
 public:
  TimedDriver(const PolicyConfig& policy, const KvConfig& kv, std::vector<TimedRequest> requests, const Pace& pace)
      : replica_({.policy = policy, .kv = kv, .window = 0, .keep_log = pace.mode != Mode::silent_leaps}),
        requests_(std::move(requests)),
        step_(pace.step),
        leap_(pace.mode != Mode::steps),
        ids_(requests_.size(), kNoRequest) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      cancels_.push_back({requests_[i].cancel_at, i});
      arrivals_.push_back({requests_[i].at, i});
    }
    std::stable_sort(cancels_.begin(), cancels_.end(), [](auto a, auto b) { return a.first < b.first; });
    std::stable_sort(arrivals_.begin(), arrivals_.end(), [](auto a, auto b) { return a.first < b.first; });
  }

  TimedRun run() {
    for (Nanos now = 0; now < kNever;) {
      deliver_cancels(now);
      deliver_arrivals(now + 1);
      ++run_.decisions;
      now = replica_.decide(now) ? run_steps(now) : std::min({next(cancels_), next(arrivals_), replica_.wake_at()});
    }
    replica_.log().finish();
    run_.log = replica_.log().text();
    run_.ended = replica_.ended();
    EXPECT_EQ(run_.ended.size(), requests_.size()) << "every request ends exactly once\n" << run_.log;
    EXPECT_EQ(replica_.kv().free(), replica_.kv().total()) << "nothing is held at the end\n" << run_.log;
    EXPECT_EQ(replica_.requests().size(), 0);
    return run_;
  }

 private:
  using Event = std::pair<Nanos, std::size_t>;
  [[nodiscard]] static Nanos next(const std::vector<Event>& events) {
    return events.empty() ? kNever : events.front().first;
  }

  void deliver_cancels(Nanos now) {
    for (; next(cancels_) <= now && next(cancels_) < kNever; cancels_.erase(cancels_.begin())) {
      const std::size_t i = cancels_.front().second;
      if (ids_[i] != kNoRequest && replica_.is_live(ids_[i], i)) replica_.cancel(ids_[i], Outcome::cancelled, now);
    }
  }

  void deliver_arrivals(Nanos before) {
    for (; next(arrivals_) < before; arrivals_.erase(arrivals_.begin())) {
      const auto [at, i] = arrivals_.front();
      const TimedRequest& r = requests_[i];
      ids_[i] = replica_
                    .arrive({.serial = i,
                             .input = r.prompt,
                             .output = std::min(r.output, r.cap),
                             .max_new = r.cap,
                             .sent = at,
                             .session = 0,
                             .priority = 0,
                             .prefix_hashes = {},
                             .hash_block_tokens = 0,
                             .name = r.name},
                            at)
                    .value_or(kNoRequest);
    }
  }

  // Returns the number of steps until the first boundary at or after `time`.
  [[nodiscard]] std::int64_t until(Nanos time, Nanos now) const {
    return time == kNever ? kForever : std::max<std::int64_t>((time - now + step_ - 1) / step_, 1);
  }

  Nanos run_steps(Nanos now) {
    std::string launched;
    for (const Forward& forward : replica_.decision().forwards())
      for (const Segment& s : forward.prefill)
        if (s.context == 0) launched += requests_[replica_.requests()[s.id].serial].name + " ";
    if (!launched.empty()) run_.launches.push_back(launched + "@" + std::to_string(now / kMs));
    std::int64_t steps = 1;
    if (leap_) {
      steps = std::min({replica_.plan_steps(), until(next(cancels_), now), until(replica_.wake_at(), now)});
      if (replica_.decision().arrival_breaks) steps = std::min(steps, until(next(arrivals_), now));
    }
    StepsTime time;
    time.steps = steps;
    const auto n = static_cast<double>(steps), seconds = 1e-9 * static_cast<double>(step_);
    time.start = 1e-9 * static_cast<double>(now);
    time.first = seconds;
    time.total = seconds * n;
    time.moment1 = seconds * n * (n - 1) / 2;
    time.moment2 = seconds * n * (n - 1) * (2 * n - 1) / 6;
    now += step_ * steps;
    time.end = 1e-9 * static_cast<double>(now);
    time.end_stamp = now;
    deliver_arrivals(now);
    replica_.complete(time);
    return now;
  }

  Replica replica_;
  std::vector<TimedRequest> requests_;
  Nanos step_;
  bool leap_;
  std::vector<ReqId> ids_;
  std::vector<Event> cancels_, arrivals_;
  TimedRun run_;
};

inline TimedRun run_timed(const PolicyConfig& policy, const KvConfig& kv, const std::vector<TimedRequest>& requests,
                          const Pace& pace) {
  return TimedDriver(policy, kv, requests, pace).run();
}

}  // namespace plimsoll::sched::testing
