// SPDX-License-Identifier: Apache-2.0
// Runs a `script` load (docs/study-file.md) through a Replica, every step lasting 1 ms, and returns the decision log:
// the conformance mini-language of the tests. Checks conservation on the way.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "load/workload.h"
#include "sched/replica.h"

namespace plimsoll::sched::testing {

struct ScriptRun {
  std::string log;                     // decisions.txt
  std::vector<FinishedAttempt> ended;  // in order of leaving
  std::int64_t preemptions = 0;
  Nanos end = 0;
};

/// `leap`: take whole plans instead of single steps; the log must not differ.
inline ScriptRun run_script(const PolicyConfig& policy, const KvConfig& kv, const std::string& script,
                            bool leap = false, std::int64_t most_steps = 100000) {
  const std::vector<load::ScriptRequest> requests = load::parse_script(script);
  Replica replica({.policy = policy, .kv = kv, .window = 0, .keep_log = true});
  constexpr Nanos kStep = 1'000'000;
  ScriptRun run;
  std::size_t next = 0, done = 0;
  std::int64_t k = 1;  // the step about to be decided
  Nanos now = 0;
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return requests[a].visible_before_step < requests[b].visible_before_step;
  });
  const auto deliver = [&] {
    for (; next < order.size() && requests[order[next]].visible_before_step <= k; ++next) {
      const load::ScriptRequest& r = requests[order[next]];
      (void)replica.arrive({.serial = next,
                            .input = r.prompt,
                            .output = std::min(r.output, r.cap),
                            .max_new = r.cap,
                            .sent = now,
                            .session = 0,
                            .priority = 0,
                            .prefix_hashes = {},
                            .hash_block_tokens = 0,
                            .name = r.name},
                           now);
    }
  };
  while (k <= most_steps) {
    deliver();
    const bool step = replica.decide(now);
    done += replica.ended().size();
    run.ended.insert(run.ended.end(), replica.ended().begin(), replica.ended().end());
    replica.ended().clear();
    if (!step) {
      if (replica.wake_at() != kNever) {
        now = std::max(now, replica.wake_at());
        continue;
      }
      if (next == order.size()) break;
      k = std::max(k, requests[order[next]].visible_before_step);  // nothing to do: jump to the next arrival
      replica.log().jump_to(k);
      continue;
    }
    std::int64_t steps = 1;
    if (leap) {
      steps = replica.plan_steps();
      if (next < order.size()) steps = std::min(steps, requests[order[next]].visible_before_step - k);
      steps = std::max<std::int64_t>(steps, 1);
    }
    StepsTime time;
    time.steps = steps;
    time.start = 1e-9 * static_cast<double>(now);
    time.first = 1e-3;
    const auto n = static_cast<double>(steps);
    time.total = 1e-3 * n;
    time.moment1 = 1e-3 * n * (n - 1) / 2;
    time.moment2 = 1e-3 * n * (n - 1) * (2 * n - 1) / 6;
    now += kStep * steps;
    time.end = 1e-9 * static_cast<double>(now);
    time.end_stamp = now;
    replica.complete(time);
    k += steps;
  }
  done += replica.ended().size();
  run.ended.insert(run.ended.end(), replica.ended().begin(), replica.ended().end());
  replica.log().finish();
  run.log = replica.log().text();
  run.preemptions = replica.preemptions();
  run.end = now;
  EXPECT_EQ(done, requests.size()) << "every request ends exactly once\n" << run.log;
  EXPECT_EQ(replica.kv().free(), replica.kv().total()) << "nothing is held at the end";
  return run;
}

/// Ample KV unless a scenario says otherwise.
inline KvConfig ample(Tok block_tokens = 4) {
  return {.blocks = 100000, .block_tokens = block_tokens, .prefix_caching = false};
}

}  // namespace plimsoll::sched::testing
