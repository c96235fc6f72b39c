// SPDX-License-Identifier: Apache-2.0
// Shared by policies: the queue and the rows of a batch, and the contiguous slots that rows may occupy.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "sched/policy.h"

namespace plimsoll::sched {

/// Removes the rows that have produced their last token. Only for policies that never preempt: with them, a row that
/// has produced a token and is not in the decode group has finished.
inline void remove_finished(std::vector<ReqId>& rows, const RequestTable& requests) {
  std::erase_if(rows, [&](ReqId id) { return requests.generated(id) > 0 && !requests.decoding(id); });
}

/// Removes the request from a container if it is there. Returns whether it was.
template <class Line>
bool remove_one(Line& line, ReqId id) {
  const auto found = std::find(line.begin(), line.end(), id);
  if (found == line.end()) return false;
  line.erase(found);
  return true;
}

/// The most tokens the request may hold, if it uses its whole cap.
inline std::int64_t most_tokens(const Request& request) { return std::int64_t{request.prompt} + request.max_new; }

/// Tokens of a contiguous slot: the longest sequence, or prompt + cap if that is not known.
inline std::int64_t slot_tokens(const PolicyConfig& config, const Request& request) {
  return config.max_len() > 0 ? config.max_len() : most_tokens(request);
}

/// Refuses a request that is too long for its slot, or whose slot is larger than the pool: it would block for ever.
inline std::optional<Reject> refuse_slot(const PolicyConfig& config, const Request& request, const KvLedger& kv) {
  const std::int64_t slot = slot_tokens(config, request);
  if (most_tokens(request) > slot || kv.blocks_for(slot) > kv.total())
    return Reject{kNoRequest, 422, "max_total_tokens"};
  return {};
}

/// The common part of most products' policies: a queue, and the running requests in batch order.
class QueuePolicy : public Policy {
 public:
  void on_arrival(ReqId id, const View&, Nanos) override { waiting_.push_back(id); }
  void on_cancel(ReqId id, const View&, Nanos) override {
    if (!remove_one(waiting_, id)) remove_one(running_, id);
  }
  void on_steps_done(const StepsDone& done, const View&, Nanos) override {
    for (const ReqId id : done.finished) remove_one(running_, id);
  }
  [[nodiscard]] std::span<const ReqId> batch_order() const final { return running_; }
  [[nodiscard]] std::int64_t queued() const final { return std::ssize(waiting_); }

 protected:
  std::deque<ReqId> waiting_;
  std::vector<ReqId> running_;
};

}  // namespace plimsoll::sched
