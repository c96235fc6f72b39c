// SPDX-License-Identifier: Apache-2.0
#include "sched/trtllm.h"

#include <algorithm>

#include "sched/rows.h"

namespace plimsoll::sched {

std::unique_ptr<Policy> make_trtllm(const PolicyConfig& config) { return std::make_unique<TrtLlm>(config); }

TrtLlm::TrtLlm(const PolicyConfig& config)
    : policy_(config.capacity_policy),
      max_running_(resolve_limits(config).max_running),
      budget_(resolve_limits(config).step_tokens),
      chunked_(config.chunked.value_or(false)),
      decodes_only_(config.role == Role::decode),
      keeps_ended_(config.role == Role::prefill),
      max_len_(config.max_len()),
      wait_steps_(config.batch_wait_timeout_iters.value_or(0)),
      wait_tokens_(config.batch_wait_max_tokens_ratio.value_or(0) * static_cast<double>(budget_)) {}

// Refuses at once a request that exceeds the longest sequence or the whole pool, or that no step could make progress
// with. max_utilization sets nothing aside for the cap, so only the prompt has to fit.
std::optional<Reject> TrtLlm::admit(const Request& request, const View& view) const {
  if (max_len_ > 0 && most_tokens(request) > max_len_) return Reject{kNoRequest, 400, "max_seq_len"};
  // Chunks are whole blocks, so a budget below one block could never make progress.
  const bool chunks = chunked_ && budget_ >= view.kv.block_tokens();
  if (!chunks && request.prompt > budget_) return Reject{kNoRequest, 400, "max_num_tokens"};
  const std::int64_t tokens = policy_ == CapacityPolicy::max_utilization ? request.prompt : most_tokens(request);
  if (view.kv.blocks_for(tokens) > view.kv.total()) return Reject{kNoRequest, 500, "kv_capacity"};
  return {};
}

void TrtLlm::on_arrival(ReqId id, const View& view, Nanos) {
  if (id >= arrival_.size()) arrival_.resize(id + 1);
  arrival_[id] = ++arrivals_;
  (view.requests.remote(id) > 0 ? offered_ : pending_).push_back(id);
}

void TrtLlm::on_cancel(ReqId id, const View& view, Nanos) {
  if (remove_one(pending_, id) || remove_one(offered_, id)) return;
  remove_one(loading_, id);
  remove_one(ready_, id);
  leave(id, view);
}

// A prompt whose KV was lost is computed here.
void TrtLlm::on_transfer_done(ReqId id, const View& view, Nanos) {
  remove_one(loading_, id);
  if (view.requests.generated(id) > 0) {
    ready_.push_back(id);
    return;
  }
  set_aside_ -= lifetime_blocks(id, view);
  pending_.push_front(id);
}

void TrtLlm::on_steps_done(const StepsDone& done, const View& view, Nanos) {
  if (holding_) waited_ += done.steps - 1;  // the first one was counted when it was decided
  for (const ReqId id : done.finished) leave(id, view);
}

void TrtLlm::leave(ReqId id, const View& view) {
  remove_one(started_, id);
  set_aside_ -= lifetime_blocks(id, view);
}

Blk TrtLlm::lifetime_blocks(ReqId id, const View& view) const {
  return view.kv.blocks_for(most_tokens(view.requests[id]));
}

void TrtLlm::decide(Nanos now, const View& view, Decision& out) {
  hand_over(view, out);
  Capacity result = capacity(view, out);
  Forward& forward = out.add_forward();
  if (result.members > 0 || !out.joined.empty()) forward.decodes = Decodes::group;
  // Two stages as in the product: the first decides by memory which requests may run, the second by tokens which of
  // them do in this step.
  const std::size_t kv_before = out.kv.size();
  std::int64_t room = micro_batch(view, result, out, forward);
  // If an empty engine cannot run the first request, it never will: the request would block the others for ever.
  while (is_idle(view) && forward.prefill.empty() && out.preempted.empty() && !pending_.empty()) {
    const bool memory = result.admitted == 0;
    out.rejects.push_back({pending_.front(), 500, memory ? "kv_capacity" : "max_num_tokens"});
    pending_.pop_front();
    result = capacity(view, out);
    room = micro_batch(view, result, out, forward);
  }
  holding_ = hold_prompts(view, result, kv_before, out);
  start(forward, view);
  if (forward.prefill.empty() && forward.decodes == Decodes::none) {
    out.drop_forward();
    if (!out.preempted.empty())
      out.wake_at = now + 1;  // a step that only made room is followed by the next one at once
    return;
  }
  if (!forward.prefill.empty() || !out.kv.empty() || std::ssize(started_) > result.members) return;
  // Only a leaving request makes room. (A pending request that others have overtaken may still pause them.)
  out.repeat = kForever;
  if (policy_ == CapacityPolicy::max_utilization)
    out.repeat = result.in_order ? std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free()) - 1) : 0;
  // Whole contexts never overtake each other. A chunk may be rounded down to nothing while a short arrival still fits.
  out.arrival_breaks = result.all && room > 0 && (pending_.empty() || chunked_);
  if (decodes_only_ && offered_.empty()) out.arrival_breaks = true;  // its KV may come from a prefill replica
  if (!holding_) return;
  // Decodes that grow may leave no room for the waiting prompts, and then the steps do not count.
  out.repeat = policy_ == CapacityPolicy::max_utilization ? 0 : wait_steps_ - waited_;
  out.arrival_breaks = true;  // it may fill the step
}

// The product compares whole contexts with the threshold, even if only a chunk of them is scheduled. Steps in which no
// prompt can run neither count nor reset the count.
bool TrtLlm::hold_prompts(const View& view, const Capacity& capacity, std::size_t kv_before, Decision& out) {
  Forward& forward = out.edit_forwards().back();
  if (wait_steps_ == 0 || forward.prefill.empty() || forward.decodes == Decodes::none) return false;
  std::int64_t tokens = capacity.members + std::ssize(out.joined);
  for (const Segment& segment : forward.prefill) tokens += view.requests.length(segment.id);
  if (waited_ >= wait_steps_ || static_cast<double>(tokens) >= wait_tokens_) {
    waited_ = 0;
    return false;
  }
  ++waited_;
  forward.prefill.clear();
  out.kv.resize(kv_before);
  return true;
}

// Requests with a prefill replica go first. Their first token came with their KV, so they join the group without a
// forward of their own. While paused requests wait for memory, max_utilization takes no others.
void TrtLlm::hand_over(const View& view, Decision& out) {
  if (offered_.empty() && ready_.empty()) return;
  Blk left = kForever;
  if (policy_ == CapacityPolicy::max_utilization) {
    left = view.kv.free() - view.kv.group_growth(1);
    if (left < 0 || !pending_.empty()) return;
  }
  while (!ready_.empty() && std::ssize(started_) < max_running_) {
    const ReqId id = ready_.front();
    left -= view.kv.need(id, view.requests.computed(id) + 1);
    if (left < 0) return;
    ready_.pop_front();
    start_in_order(id);
    out.joined.push_back(id);
  }
  load_offered(view, left, out);
}

void TrtLlm::load_offered(const View& view, Blk left, Decision& out) {
  while (!offered_.empty()) {
    const ReqId id = offered_.front();
    const Blk life = lifetime_blocks(id, view), blocks = view.kv.blocks_for(view.requests[id].prompt);
    if (policy_ == CapacityPolicy::max_utilization ? blocks > left : set_aside_ + life > view.kv.total()) return;
    left -= blocks;
    set_aside_ += life;
    out.kv.push_back({KvOp::Kind::load, id, view.requests[id].prompt});
    loading_.push_back(id);
    offered_.pop_front();
  }
}

// Returns whether no request holds blocks or waits for KV.
bool TrtLlm::is_idle(const View& view) const {
  return started_.empty() && loading_.empty() && ready_.empty() && (!keeps_ended_ || view.kv.free() == view.kv.total());
}

// The blocks of started requests are set aside up to their caps; only the rest can be promised to others.
Blk TrtLlm::unpromised(const View& view) const {
  if (!keeps_ended_) return view.kv.total() - set_aside_;
  Blk left = view.kv.free();
  for (const ReqId id : started_) left -= std::max<Blk>(0, lifetime_blocks(id, view) - view.kv.held(id));
  return left;
}

void TrtLlm::start_in_order(ReqId id) {
  const auto order = [this](ReqId a, ReqId b) { return earlier(a, b); };
  started_.insert(std::upper_bound(started_.begin(), started_.end(), id, order), id);
}

TrtLlm::Capacity TrtLlm::capacity(const View& view, Decision& out) {
  Capacity result;
  result.members =
      started_.empty() ? 0 : view.requests.group_size();  // one that is refused in this decision still counts
  if (policy_ == CapacityPolicy::max_utilization)
    utilization(view, out, result);
  else if (policy_ == CapacityPolicy::guaranteed_no_evict || started_.empty())
    no_evict(view, result);
  return result;
}

// Admits pending requests in order, if the blocks for their caps fit beside what is set aside for started requests.
void TrtLlm::no_evict(const View& view, Capacity& result) const {
  Blk left = unpromised(view);
  for (const ReqId id : pending_) {
    if (std::ssize(started_) + result.admitted >= max_running_) return;
    left -= lifetime_blocks(id, view);
    if (left < 0) return;
    ++result.admitted;
  }
  result.all = std::ssize(started_) + result.admitted < max_running_;
}

// The walk of utilization() over the requests.
struct TrtLlm::Walk {
  const View& view;
  Decision& out;
  Capacity& result;
  Blk left;                              // blocks that nothing has taken yet
  std::size_t started = 0, pending = 0;  // how many of each may run
};

// Selects every request that fits this step, in order of arrival. If one does not fit, the last started request behind
// it is paused, or the request itself. The walk ends at the first pause.
void TrtLlm::utilization(const View& view, Decision& out, Capacity& result) {
  Walk walk{.view = view, .out = out, .result = result, .left = is_idle(view) ? view.kv.total() : view.kv.free()};
  std::size_t &i = walk.started, &j = walk.pending;
  result.in_order = started_.empty() || pending_.empty() || earlier(started_.back(), pending_.front());
  const Blk growth = view.kv.group_growth(1);
  if (result.in_order && result.members == std::ssize(started_) && growth <= walk.left) {
    walk.left -= growth;
    i = started_.size();  // all decode: the common case, O(1)
  }
  // Arrivals after the request that was paused are not looked at: they would overtake it.
  std::uint64_t end = arrivals_ + 1;
  // Merges started and pending requests in order of arrival.
  while (static_cast<std::int64_t>(i + j) < max_running_) {
    const bool some_started = i < started_.size();
    const bool some_pending = j < pending_.size() && arrival_[pending_[j]] < end;
    if (!some_started && !some_pending) {
      result.all = end > arrivals_;
      break;
    }
    const bool next_started = some_started && (!some_pending || earlier(started_[i], pending_[j]));
    const ReqId id = next_started ? started_[i] : pending_[j];
    const std::int64_t tokens = view.requests.decoding(id) ? view.requests.computed(id) + 1 : view.requests.length(id);
    const Blk need = view.kv.need(id, tokens);
    const bool room = make_room(id, need, walk);
    // Requests behind a paused one wait: they do not overtake it.
    if (!out.preempted.empty()) end = arrival_[out.preempted.back()];
    if (next_started && i >= started_.size()) {  // it was removed itself; if it was refused, the pool is empty now
      if (!out.preempted.empty()) break;
      continue;
    }
    if (!room) break;
    walk.left -= need;
    ++(next_started ? i : j);
  }
  result.admitted = static_cast<std::int64_t>(j);
}

// Pauses started requests, the last one first, until `need` blocks are free; those that the walk has passed may run.
bool TrtLlm::make_room(ReqId id, Blk need, Walk& walk) {
  const View& view = walk.view;
  Decision& out = walk.out;
  while (need > walk.left) {
    if (walk.started >= started_.size()) return false;
    const ReqId last = started_.back();
    walk.left += view.kv.held(last);
    walk.result.members -= view.requests.decoding(last) ? 1 : 0;
    leave(last, view);
    if (last == id && started_.empty() && need + view.kv.held(id) > view.kv.total()) {
      out.rejects.push_back({last, 500, "kv_capacity"});  // alone, and too large for the pool: it would never end
      return false;
    }
    out.preempted.push_back(last);
    out.kv.push_back({KvOp::Kind::free_all, last, 0});
    const auto order = [this](ReqId a, ReqId b) { return earlier(a, b); };
    // A paused request returns to its place by arrival, ahead of all that came later.
    pending_.insert(std::lower_bound(pending_.begin(), pending_.end(), last, order), last);
  }
  return true;
}

// All decodes fit: the capacity stage admits at most max_running, and a step never ends with more decodes than its
// budget. With chunks, contexts share the rest in order of arrival; without, the first that does not fit ends the walk.
std::int64_t TrtLlm::micro_batch(const View& view, const Capacity& capacity, Decision& out, Forward& forward) const {
  std::int64_t room = budget_ - capacity.members - std::ssize(out.joined);
  const auto add = [&](ReqId id) {
    const Tok computed = view.requests.computed(id), length = view.requests.length(id);
    const Tok tokens = chunked_ ? chunk(length - computed, room, view) : length - computed;
    if (tokens > room) return false;
    // Nothing is left after rounding to whole blocks, but a shorter context may still fit.
    if (tokens == 0) return room > 0;
    room -= tokens;
    if (computed == 0) out.kv.push_back({KvOp::Kind::grow, id, length});  // all blocks of the context, when it starts
    forward.prefill.push_back({id, tokens, computed, computed + tokens == length});
    return true;
  };
  // Started contexts are unfinished chunks; all of them arrived before the pending requests.
  const auto joins = [&](ReqId id) { return std::find(out.joined.begin(), out.joined.end(), id) != out.joined.end(); };
  if (std::ssize(started_) > capacity.members + std::ssize(out.joined))
    for (const ReqId id : started_)
      if (!view.requests.decoding(id) && !joins(id) && !add(id)) return room;
  for (std::int64_t i = 0; i < capacity.admitted; ++i)
    if (!add(pending_[static_cast<std::size_t>(i)])) return room;
  return room;
}

// A chunk that does not finish the prompt is rounded down to whole blocks.
Tok TrtLlm::chunk(Tok left, std::int64_t room, const View& view) const {
  if (left <= room) return left;
  const Tok unit = view.kv.block_tokens();
  return static_cast<Tok>(room) / unit * unit;
}

void TrtLlm::start(const Forward& forward, const View& view) {
  for (const Segment& segment : forward.prefill) {
    if (view.requests[segment.id].state == State::running) continue;  // a later chunk: it has started already
    remove_one(pending_, segment.id);
    start_in_order(segment.id);
    set_aside_ += lifetime_blocks(segment.id, view);
  }
}

}  // namespace plimsoll::sched
