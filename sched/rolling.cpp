// SPDX-License-Identifier: Apache-2.0
#include "sched/rolling.h"

#include "sched/rows.h"

namespace plimsoll::sched {

namespace {
constexpr std::int64_t kJobQueue = 1000;            // DJL Serving: job_queue_size
constexpr Nanos kPredictTimeout = 120'000'000'000;  // DJL Serving: PREDICT_TIMEOUT 120 s
}  // namespace

std::unique_ptr<Policy> make_rolling(const PolicyConfig& config) { return std::make_unique<Rolling>(config); }

Rolling::Rolling(const PolicyConfig& config)
    : config_(config),
      max_running_(resolve_limits(config).max_running),
      queue_limit_(config.queue_limit.value_or(kJobQueue)),
      waiting_steps_(config.force_after.value_or(0)),
      contiguous_(config.variant == PolicyVariant::contiguous) {}

// While the worker is busy, the job queue keeps its last place free; it exists only while it holds a request. Requests
// whose time ran out during the step in flight have already left.
std::optional<Reject> Rolling::admit(const Request& request, const View& view) const {
  auto waiting = std::ssize(queue_);
  bool blocked = held_ != kNoRequest;
  for (Nanos deadline = held_until_; blocked && deadline < request.arrival;) {
    blocked = waiting > 0;
    if (blocked) deadline = next_deadline(deadline, queue_[queue_.size() - static_cast<std::size_t>(waiting--)], view);
  }
  if (blocked && waiting >= queue_limit_ - 1) return Reject{kNoRequest, 503, "queue_capacity"};
  if (contiguous_) return refuse_slot(config_, request, view.kv);
  return {};
}

void Rolling::on_arrival(ReqId id, const View& view, Nanos now) {
  expire(view, now - 1);
  queue_.push_back(id);
  fill(view, now);
}

void Rolling::on_cancel(ReqId id, const View& view, Nanos now) {
  std::erase_if(rejects_, [id](const Reject& refusal) { return refusal.id == id; });
  if (held_ == id) {
    held_ = kNoRequest;
  } else if (!remove_one(queue_, id)) {
    leave(id, view);
  }
  fill(view, now);
}

Blk Rolling::slot_blocks(ReqId id, const View& view) const {
  return contiguous_ ? view.kv.blocks_for(slot_tokens(config_, view.requests[id])) : 0;
}

bool Rolling::has_place(ReqId id, const View& view) const {
  return std::ssize(active_) < max_running_ && slots_ + slot_blocks(id, view) <= view.kv.total();
}

// Returns when a worker that became free at `deadline` gives up the next request, which may arrive only later.
Nanos Rolling::next_deadline(Nanos deadline, ReqId next, const View& view) const {
  return std::max(deadline, view.requests[next].arrival) + kPredictTimeout;
}

// Drops the requests whose time limit for a place has run out by `until`.
void Rolling::expire(const View& view, Nanos until) {
  while (held_ != kNoRequest && held_until_ <= until) {
    rejects_.push_back({held_, 400, "time_out", true});
    held_ = kNoRequest;
    if (queue_.empty()) return;
    held_ = queue_.front();
    queue_.pop_front();
    held_until_ = next_deadline(held_until_, held_, view);
  }
}

// The worker moves requests into the list while there are free places, then blocks with the next one.
void Rolling::fill(const View& view, Nanos now) {
  for (;;) {
    if (held_ == kNoRequest) {
      if (queue_.empty()) return;
      held_ = queue_.front();
      queue_.pop_front();
      held_until_ = now + kPredictTimeout;
    }
    if (!has_place(held_, view)) return;
    active_.push_back(held_);
    slots_ += slot_blocks(held_, view);
    ++fresh_;
    held_ = kNoRequest;
  }
}

void Rolling::leave(ReqId id, const View& view) {
  const auto found = std::find(active_.begin(), active_.end(), id);
  if (found == active_.end()) return;
  // Requests that the engine has not seen are at the end of the list.
  if (active_.end() - found <= fresh_) --fresh_;
  active_.erase(found);
  slots_ -= slot_blocks(id, view);
}

void Rolling::on_steps_done(const StepsDone& done, const View& view, Nanos now) {
  // A step that decoded nothing starts the count of waiting steps again.
  counter_ = restarts_counter_ ? 0 : (counter_ + done.steps) % (waiting_steps_ + 1);
  expire(view, now - 1);  // at equal times the step's end comes first
  if (done.finished.empty()) return;
  for (const ReqId id : done.finished) slots_ -= slot_blocks(id, view);
  // Requests that the engine has not seen yet have produced nothing and stay.
  remove_finished(active_, view.requests);
  fill(view, now);
}

// Returns the blocks for the prompts of the active requests that the engine has not seen.
Blk Rolling::prompt_blocks(const View& view) const {
  Blk blocks = 0;
  for (const ReqId id : unseen()) blocks += contiguous_ ? 0 : view.kv.blocks_for(view.requests[id].prompt);
  return blocks;
}

// DJL fails the whole batch when the engine runs out of memory, not only the request that asked for it.
void Rolling::fail_all(const View& view) {
  for (const ReqId id : active_) {
    rejects_.push_back({id, 424, "generation_failed"});
    slots_ -= slot_blocks(id, view);
  }
  active_.clear();
  fresh_ = 0;
}

void Rolling::decide(Nanos now, const View& view, Decision& out) {
  expire(view, now);
  fill(view, now);
  bool decodes = std::ssize(active_) > fresh_;
  // If no row decodes, the engine's waiting iterations take no time.
  bool takes_new = !decodes || counter_ >= waiting_steps_;
  Blk free = view.kv.free();
  Blk growth = view.kv.group_growth(1);
  // Each failure empties the batch. The next requests of the queue are then tried on the empty pool.
  while (growth + (takes_new ? prompt_blocks(view) : 0) > free) {
    fail_all(view);
    fill(view, now);
    decodes = false;
    takes_new = true;
    free = view.kv.total();
    growth = 0;
  }
  out.rejects.swap(rejects_);
  rejects_.clear();
  if (active_.empty()) return;
  if (held_ != kNoRequest) out.wake_at = held_until_;
  restarts_counter_ = !decodes;
  if (takes_new) prefill(view, out);
  const bool newcomers = out.has_step();
  if (decodes) out.add_forward().decodes = Decodes::group;
  if (!newcomers) repeat(view, out);
}

void Rolling::prefill(const View& view, Decision& out) {
  if (fresh_ == 0) return;
  Forward& forward = out.add_forward();
  for (const ReqId id : unseen()) {
    const Request& request = view.requests[id];
    if (contiguous_)
      out.kv.push_back({KvOp::Kind::reserve, id, slot_tokens(config_, request)});
    else
      out.kv.push_back({KvOp::Kind::grow, id, request.prompt});
    forward.prefill.push_back({id, request.prompt, 0, true});
  }
  fresh_ = 0;
}

// An arrival behind a blocked worker only joins the queue. An arrival that will block the worker starts its time limit.
void Rolling::repeat(const View& view, Decision& out) const {
  out.repeat = contiguous_ ? kForever : view.kv.group_steps(view.kv.free()) - 1;
  if (fresh_ > 0) out.repeat = std::min(out.repeat, waiting_steps_ - 1 - counter_);
  out.arrival_breaks = held_ == kNoRequest;
}

}  // namespace plimsoll::sched
