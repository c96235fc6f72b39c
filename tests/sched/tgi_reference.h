// SPDX-License-Identifier: Apache-2.0
// An independent second implementation of TGI's router loop, structured as in the product: it calls PREFILL and DECODE
// and examines the queue between them. Shares only the settings. Not for scripts whose requests can never run.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "tests/sched/policy_checks.h"

namespace plimsoll::sched::testing {

class TgiReference {
 public:
  TgiReference(const PolicyConfig& policy, const KvConfig& kv, std::vector<Draw> script)
      : script_(std::move(script)),
        block_(kv.block_tokens),
        pool_(kv.blocks * kv.block_tokens),
        prefill_budget_(policy.prefill_token_budget.value_or(4096)),
        budget_(policy.kv_token_budget.value_or(pool_)),
        max_waiting_(policy.force_after.value_or(20)),
        ratio_(policy.served_ratio.value_or(1.2)),
        max_size_(policy.max_running),
        overshoots_(policy.tgi_batch_size_bug),
        left_(script_.size()) {
    for (const Draw& d : script_) left_[static_cast<std::size_t>(&d - script_.data())] = d.output;
  }

  std::string run() {
    while (next_ < script_.size() || !queue_.empty()) {
      arrive();
      if (queue_.empty()) {
        step_ = std::max(step_, script_[next_].step);
        continue;
      }
      std::vector<std::size_t> current = forward('P', next_batch({}, max_size_, prefill_budget_, budget_));
      std::int64_t waiting = 1;
      while (!current.empty()) {
        arrive();
        const auto size = std::ssize(current);
        std::optional<std::int64_t> least;
        if (waiting < max_waiting_) least = static_cast<std::int64_t>(std::floor(static_cast<double>(size) * ratio_));
        std::optional<std::int64_t> room;
        if (max_size_ && overshoots_)
          room = size < *max_size_ ? *max_size_ - size : 0;  // 0 cannot occur
        else if (max_size_)
          room = *max_size_ - size;
        std::int64_t held = 0;
        for (const std::size_t i : current) held += up(script_[i].prompt + script_[i].cap - 1);
        std::vector<std::size_t> joined;
        if (overshoots_ || !room || *room > 0)
          joined = next_batch(least, room, prefill_budget_, std::max<std::int64_t>(0, budget_ - held));
        if (!joined.empty()) {
          for (const std::size_t i : forward('P', joined)) current.push_back(i);
          waiting = 1;
        }
        current = forward('D', current);
        ++waiting;
      }
    }
    return log_;
  }

 private:
  [[nodiscard]] std::int64_t up(std::int64_t tokens) const { return (tokens + block_ - 1) / block_ * block_; }

  void arrive() {
    for (; next_ < script_.size() && script_[next_].step <= step_; ++next_) queue_.push_back(next_);
  }

  std::vector<std::size_t> next_batch(std::optional<std::int64_t> min, std::optional<std::int64_t> max, std::int64_t pb,
                                      std::int64_t tb) {
    std::vector<std::size_t> batch;
    if (queue_.empty() || (min && std::ssize(queue_) < *min)) return batch;
    pb = up(pb);
    std::int64_t prefill = 0, decode = 0;
    while (!queue_.empty()) {
      const Draw& d = script_[queue_.front()];
      prefill += up(d.prompt);
      decode += up(d.cap);
      if (prefill > pb || prefill + decode > tb) break;
      batch.push_back(queue_.front());
      queue_.pop_front();
      if (max && std::ssize(batch) == *max) break;
    }
    if (min && std::ssize(batch) < *min) {
      queue_.insert(queue_.begin(), batch.begin(), batch.end());
      batch.clear();
    }
    return batch;
  }

  // Runs a forward over the rows and returns those that are not finished.
  std::vector<std::size_t> forward(char kind, const std::vector<std::size_t>& rows) {
    std::string names;
    for (const std::size_t i : rows) {
      names += (names.empty() ? "" : " ") + name_of(i);
      if (kind == 'P') names += fmt::format(":{}", script_[i].prompt);
    }
    log_ += fmt::format("{}: {}[{}]\n", step_, kind, names);
    ++step_;
    std::vector<std::size_t> rest;
    for (const std::size_t i : rows)
      if (--left_[i] > 0) rest.push_back(i);
    return rest;
  }

  std::vector<Draw> script_;
  std::int64_t block_, pool_, prefill_budget_, budget_, max_waiting_;
  double ratio_;
  std::optional<std::int64_t> max_size_;
  bool overshoots_;
  std::vector<Tok> left_;
  std::deque<std::size_t> queue_;
  std::size_t next_ = 0;
  std::int64_t step_ = 1;
  std::string log_;
};

}  // namespace plimsoll::sched::testing
