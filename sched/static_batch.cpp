// SPDX-License-Identifier: Apache-2.0
#include "sched/static_batch.h"

#include "sched/rows.h"

namespace plimsoll::sched {

namespace {
constexpr Nanos kDelay = 100'000'000;       // DJL Serving: max_batch_delay 100 ms
constexpr std::int64_t kBatchQueue = 1000;  // DJL Serving: job_queue_size
}  // namespace

std::unique_ptr<Policy> make_static_batch(const PolicyConfig& config) { return std::make_unique<StaticBatch>(config); }

StaticBatch::StaticBatch(const PolicyConfig& config)
    : config_(config), batch_size_(resolve_limits(config).max_running) {
  if (config.policy != PolicyKind::dynamic) return;
  start_ = config.delay_origin == DelayOrigin::worker_free ? Start::worker_delay : Start::oldest_delay;
  delay_ = config.max_batch_delay.value_or(kDelay);
  if (delay_ <= 0) delay_ = kDelay;  // as the product does
}

// DJL Serving keeps the last place of a job queue free while its workers are busy. A worker that gathers is not busy.
bool StaticBatch::queue_is_full() const {
  const auto waiting = static_cast<std::int64_t>(queue_.size());
  if (start_ == Start::when_idle) return config_.queue_limit && waiting >= *config_.queue_limit;
  const std::int64_t limit = config_.queue_limit.value_or(kBatchQueue);
  const bool busy = closed_ || !rows_.empty();
  return waiting >= limit || (busy && waiting == limit - 1);
}

std::optional<Reject> StaticBatch::admit(const Request& request, const View& view) const {
  if (queue_is_full()) return Reject{kNoRequest, 503, "queue_capacity"};
  return refuse_slot(config_, request, view.kv);
}

Blk StaticBatch::slot_blocks(ReqId id, const View& view) const {
  return view.kv.blocks_for(slot_tokens(config_, view.requests[id]));
}

void StaticBatch::on_arrival(ReqId id, const View& view, Nanos now) {
  queue_.push_back(id);
  if (start_ == Start::worker_delay) gather(view, now);
}

void StaticBatch::on_cancel(ReqId id, const View& view, Nanos now) {
  if (remove_one(queue_, id) || !remove_one(gathered_, id)) return;
  gathered_blocks_ -= slot_blocks(id, view);
  if (!gathered_.empty()) return;
  closed_ = false;
  if (start_ == Start::worker_delay) gather(view, now);
}

// Takes waiting requests into the next batch, as many as fit in memory. Requests queued when the first one is taken
// join whatever the time is. Later ones join one by one; one that arrives at the deadline is the last.
void StaticBatch::gather(const View& view, Nanos now) {
  if (!rows_.empty()) return;
  const bool draining = gathered_.empty() || start_ == Start::oldest_delay;
  while (!closed_ && !queue_.empty()) {
    const ReqId id = queue_.front();
    const Blk blocks = slot_blocks(id, view);
    if (gathered_blocks_ + blocks > view.kv.total()) {
      closed_ = true;
      break;
    }
    if (gathered_.empty()) deadline_ = (start_ == Start::oldest_delay ? view.requests[id].arrival : now) + delay_;
    gathered_.push_back(id);
    gathered_blocks_ += blocks;
    queue_.pop_front();
    closed_ = std::ssize(gathered_) >= batch_size_ || (!draining && now >= deadline_);
  }
}

void StaticBatch::decide(Nanos now, const View& view, Decision& out) {
  if (!rows_.empty()) {
    decode(out);
    return;
  }
  gather(view, now);
  if (gathered_.empty()) return;
  if (closed_ || now >= deadline_)
    launch(view, out);
  else
    out.wake_at = deadline_;
}

void StaticBatch::launch(const View& view, Decision& out) {
  // The batch keeps its rows until the last of them ends: rows that finish early stay as padding.
  rows_.swap(gathered_);
  gathered_.clear();
  gathered_blocks_ = 0;
  closed_ = false;
  dead_.clear();
  alive_ = std::ssize(rows_);
  steps_ = 0;
  padded_ = 0;
  Forward& forward = out.add_forward();
  for (const ReqId id : rows_) {
    const Request& request = view.requests[id];
    padded_ = std::max(padded_, request.prompt);
    out.kv.push_back({KvOp::Kind::reserve, id, slot_tokens(config_, request)});
    forward.prefill.push_back({id, request.prompt, 0, true});
  }
  forward.padded = padded_;
}

// The next step differs only if a row has finished.
void StaticBatch::decode(Decision& out) const {
  Forward& forward = out.add_forward();
  forward.decodes = Decodes::group;
  forward.padded = static_cast<Tok>(padded_ + steps_);
  forward.dead = dead_;
  out.repeat = kForever;
  out.arrival_breaks = false;
}

void StaticBatch::on_steps_done(const StepsDone& done, const View& view, Nanos now) {
  steps_ += done.steps;
  if (done.finished.empty()) return;
  alive_ -= std::ssize(done.finished);
  dead_.clear();
  if (alive_ > 0) {
    for (const ReqId id : rows_)
      if (!view.requests.decoding(id)) dead_.push_back(id);
    return;
  }
  rows_.clear();
  if (start_ == Start::worker_delay) gather(view, now);
}

}  // namespace plimsoll::sched
