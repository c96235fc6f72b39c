// SPDX-License-Identifier: Apache-2.0
// Static batching (none, static, dynamic): a batch starts when the engine is idle and runs until its last row is
// finished. Rows that finish earlier are still computed (dead rows) and prompts are padded to the longest one. Every
// row occupies a contiguous slot for the whole batch, and all rows return together (FasterTransformer, Hugging Face
// generate).
//
//   none     one request at a time
//   static   all waiting requests when the engine becomes idle, at most batch_size
//   dynamic  the batch aggregator of DJL Serving: a worker takes the first job, drains the queue and waits for more
//            until the batch is full or max_batch_delay is over. The delay counts from when the worker took the first
//            job, so a job that waited behind a running batch waits for another whole delay (delay_origin:
//            worker_free). Triton counts it from the arrival of the oldest job (oldest_arrival).
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sched/policy.h"

namespace plimsoll::sched {

class StaticBatch final : public Policy {
 public:
  explicit StaticBatch(const PolicyConfig& config);
  [[nodiscard]] std::optional<Reject> admit(const Request& request, const View& view) const override;
  void on_arrival(ReqId id, const View& view, Nanos now) override;
  void on_cancel(ReqId id, const View& view, Nanos now) override;
  void on_steps_done(const StepsDone& done, const View& view, Nanos now) override;
  void decide(Nanos now, const View& view, Decision& out) override;
  [[nodiscard]] std::span<const ReqId> batch_order() const override { return rows_; }
  [[nodiscard]] std::int64_t queued() const override {
    return static_cast<std::int64_t>(queue_.size() + gathered_.size());
  }

 private:
  /// When the waiting requests become a batch.
  enum class Start : std::uint8_t { when_idle, worker_delay, oldest_delay };
  [[nodiscard]] bool queue_is_full() const;
  [[nodiscard]] Blk slot_blocks(ReqId id, const View& view) const;
  void gather(const View& view, Nanos now);
  void launch(const View& view, Decision& out);
  void decode(Decision& out) const;

  PolicyConfig config_;
  std::int64_t batch_size_;
  Start start_ = Start::when_idle;
  Nanos delay_ = 0;
  std::deque<ReqId> queue_;
  // The batch that is being gathered.
  std::vector<ReqId> gathered_;
  Blk gathered_blocks_ = 0;
  Nanos deadline_ = kNever;
  bool closed_ = false;
  // The batch that is running.
  std::vector<ReqId> rows_, dead_;
  std::int64_t alive_ = 0;
  Tok padded_ = 0;          // the longest prompt
  std::int64_t steps_ = 0;  // steps of this batch, including the prefill
};

}  // namespace plimsoll::sched
