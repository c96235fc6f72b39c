// SPDX-License-Identifier: Apache-2.0
// SGLang's scheduler of a decode server, whose prompts are computed by prefill servers. Requests wait until their
// prompt and a reserve of tokens fit, in order of arrival; their blocks are taken then, and the prefill begins. When
// the KV has arrived with the first token, the request joins the batch. If a decode step runs out of memory, requests
// are retracted to host memory; nothing new is taken until all of them are back. Source: SGLang 0.5.6,
// disaggregation/decode.py.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/policy.h"

namespace plimsoll::sched {

class SgLangDecode final : public Policy {
 public:
  explicit SgLangDecode(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_arrival(ReqId id, const View&, Nanos) override { queue_.push_back(id); }
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_transfer_done(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;
  [[nodiscard]] std::span<const ReqId> batch_order() const override { return running_; }
  [[nodiscard]] std::int64_t queued() const override { return std::ssize(queue_); }

 private:
  /// The memory that a decision may give out, in tokens.
  struct Room {
    std::int64_t free = 0;       // of the pool
    std::int64_t reserved = 0;   // for requests that run or are on their way
    std::int64_t alone = 0;      // the largest running request needs this much if all others are retracted
    std::int64_t running = 0;    // prompts and outputs of the running requests
    std::int64_t retracted = 0;  // what retracted requests need to come back
    Blk left = 0;                // blocks that the next decode step does not need
    [[nodiscard]] std::int64_t allocatable() const;
    /// Returns whether a request with these needs cannot be taken now or in any later step of the same requests.
    [[nodiscard]] bool stays_blocked(std::int64_t required) const { return required > free - reserved - retracted; }
  };
  [[nodiscard]] Room room(const View& view) const;
  [[nodiscard]] bool resume(const View& view, Room& room, Decision& out);
  [[nodiscard]] bool preallocate(const View& view, Room& room, Decision& out);
  void join(const View& view, Room& room, Decision& out);
  void retract(const View& view, Decision& out);
  void take(Blk blocks, const View& view, Room& room) const;

  std::int64_t max_running_, reserve_;
  Tok max_len_;
  std::deque<ReqId> queue_;      // without blocks
  std::vector<ReqId> loading_;   // their KV is on its way
  std::deque<ReqId> ready_;      // their KV has arrived
  std::vector<ReqId> running_;   // in batch order
  std::deque<ReqId> retracted_;  // in host memory
};

}  // namespace plimsoll::sched
