// SPDX-License-Identifier: Apache-2.0
// Runs a `script` load (docs/study-file.md) through a Replica, with steps of 1 ms each, and returns the decision log:
// the mini-language of the conformance tests. Also checks that blocks are conserved.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "load/workload.h"
#include "sched/replica.h"

namespace plimsoll::sched::testing {

struct ScriptRun {
  std::string log;                     // content of decisions.txt
  std::vector<FinishedAttempt> ended;  // in the order in which requests left
  std::int64_t preemptions = 0;
  Nanos end = 0;
  double peak_used = 0;  // tokens stored at once
};

/// The prompts of a script's requests by name, a letter for each token; those of others are like no other.
using Prompts = std::map<std::string, std::string>;

class ScriptRunner {
 public:
  ScriptRunner(const PolicyConfig& policy, const KvConfig& kv, const std::string& script, Prompts prompts = {})
      : requests_(load::parse_script(script)),
        prompts_(std::move(prompts)),
        replica_({.policy = policy, .kv = kv, .window = 0, .keep_log = true}),
        order_(requests_.size()) {
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
    std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      return requests_[a].visible_before_step < requests_[b].visible_before_step;
    });
  }

  ScriptRun run(bool leap, std::int64_t most_steps) {
    while (k_ <= most_steps) {
      deliver();
      const bool step = replica_.decide(now_);
      collect();
      if (step) {
        run_steps(leap ? plan() : 1);
      } else if (replica_.wake_at() != kNever) {
        now_ = std::max(now_, replica_.wake_at());
      } else if (next_ < order_.size()) {
        k_ = std::max(k_, next_step());  // nothing to do: jump to the next arrival
        replica_.log().jump_to(k_);
      } else {
        break;
      }
    }
    collect();
    replica_.log().finish();
    run_.log = replica_.log().text();
    run_.peak_used = replica_.peak_used_tokens();
    run_.preemptions = replica_.preemptions();
    run_.end = now_;
    EXPECT_EQ(run_.ended.size(), requests_.size()) << "every request ends exactly once\n" << run_.log;
    EXPECT_EQ(replica_.kv().free(), replica_.kv().total()) << "nothing is held at the end";
    return std::move(run_);
  }

 private:
  [[nodiscard]] std::int64_t next_step() const { return requests_[order_[next_]].visible_before_step; }

  void deliver() {
    for (; next_ < order_.size() && next_step() <= k_; ++next_) {
      const load::ScriptRequest& r = requests_[order_[next_]];
      NewRequest request;
      request.serial = next_;
      request.input = r.prompt;
      request.output = std::min(r.output, r.cap);
      request.max_new = r.cap;
      request.sent = now_;
      request.name = r.name;
      std::vector<std::uint64_t> letters;
      if (const auto prompt = prompts_.find(r.name); prompt != prompts_.end())
        letters.assign(prompt->second.begin(), prompt->second.end());
      request.prefix_hashes = letters;
      request.hash_block_tokens = letters.empty() ? 0 : 1;
      (void)replica_.arrive(request, now_);
    }
  }

  void collect() {
    run_.ended.insert(run_.ended.end(), replica_.ended().begin(), replica_.ended().end());
    replica_.ended().clear();
  }

  [[nodiscard]] std::int64_t plan() {
    std::int64_t steps = replica_.plan_steps();
    if (next_ < order_.size()) steps = std::min(steps, next_step() - k_);
    return std::max<std::int64_t>(steps, 1);
  }

  void run_steps(std::int64_t steps) {
    const auto n = static_cast<double>(steps);
    StepsTime time;
    time.steps = steps;
    time.start = 1e-9 * static_cast<double>(now_);
    time.first = 1e-3;
    time.total = 1e-3 * n;
    time.moment1 = 1e-3 * n * (n - 1) / 2;
    time.moment2 = 1e-3 * n * (n - 1) * (2 * n - 1) / 6;
    now_ += 1'000'000 * steps;
    time.end = 1e-9 * static_cast<double>(now_);
    time.end_stamp = now_;
    replica_.complete(time);
    k_ += steps;
  }

  std::vector<load::ScriptRequest> requests_;
  Prompts prompts_;
  Replica replica_;
  std::vector<std::size_t> order_;  // of requests, by the step they appear before
  std::size_t next_ = 0;
  std::int64_t k_ = 1;  // the step to be decided next
  Nanos now_ = 0;
  ScriptRun run_;
};

/// With `leap`, takes whole plans instead of single steps; the log must not differ.
inline ScriptRun run_script(const PolicyConfig& policy, const KvConfig& kv, const std::string& script,
                            bool leap = false, const Prompts& prompts = {}) {
  constexpr std::int64_t kMostSteps = 100000;
  return ScriptRunner(policy, kv, script, prompts).run(leap, kMostSteps);
}

inline KvConfig pool(Blk blocks, Tok block_tokens = 4) {
  return {.blocks = blocks, .block_tokens = block_tokens, .prefix_caching = false};
}
/// Returns a pool that is large enough, for scenarios that do not state one.
inline KvConfig ample(Tok block_tokens = 4) {
  return {.blocks = 100000, .block_tokens = block_tokens, .prefix_caching = false};
}

}  // namespace plimsoll::sched::testing
