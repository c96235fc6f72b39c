// SPDX-License-Identifier: Apache-2.0
#include "sched/trtllm.h"

#include <algorithm>

#include "sched/policies.h"
#include "sched/rows.h"

namespace plimsoll::sched {

namespace {
constexpr std::int64_t kMaxRunning = 2048;    // max_batch_size of trtllm-build 1.0
constexpr std::int64_t kStepTokens = 8192;    // max_num_tokens
}  // namespace

std::unique_ptr<Policy> make_trtllm(const PolicyConfig& config) { return std::make_unique<TrtLlm>(config); }

TrtLlm::TrtLlm(const PolicyConfig& config)
    : capacity_(config.capacity_policy), max_running_(config.max_running.value_or(kMaxRunning)),
      budget_(config.step_token_budget.value_or(kStepTokens)), chunked_(config.chunked.value_or(false)),
      max_len_(config.max_len()) {}

// Refused at once: what is longer than a sequence may be, than a step without chunks, or than the whole pool.
std::optional<Reject> TrtLlm::admit(const Request& request, const View& view) const {
  if (max_len_ > 0 && most_tokens(request) > max_len_) return Reject{kNoRequest, 400, "max_seq_len"};
  if (!chunked_ && request.prompt > budget_) return Reject{kNoRequest, 400, "max_num_tokens"};
  if (view.kv.blocks_for(most_tokens(request)) > view.kv.total()) return Reject{kNoRequest, 500, "kv_capacity"};
  return {};
}

void TrtLlm::on_cancel(ReqId id, const View&, Nanos) {
  if (!remove_one(pending_, id)) remove_one(started_, id);
}

void TrtLlm::on_steps_done(const StepsDone& done, const View&, Nanos) {
  for (const ReqId id : done.finished) remove_one(started_, id);
}

Blk TrtLlm::lifetime_blocks(ReqId id, const View& view) const {
  return view.kv.blocks_for(most_tokens(view.requests[id]));
}

void TrtLlm::decide(Nanos now, const View& view, Decision& out) {
  Step step;
  step.members = view.requests.group_size();
  if (capacity_ == CapacityPolicy::max_utilization) capacity_utilization(view, step, out);
  else if (capacity_ == CapacityPolicy::guaranteed_no_evict || started_.empty()) capacity_no_evict(view, step);
  Forward& forward = out.add_forward();
  micro_batch(view, step, out, forward);
  start_admitted(forward);
  if (forward.prefill.empty() && forward.decodes == Decodes::none) {
    out.drop_forward();
    if (step.paused) out.wake_at = now + 1;  // a step that only made room is followed by the next one at once
    return;
  }
  if (!forward.prefill.empty() || forward.decodes != Decodes::group || !out.kv.empty() ||
      std::ssize(started_) > step.members)
    return;
  // Nothing but a finished request makes room.
  out.repeat = capacity_ == CapacityPolicy::max_utilization
                   ? std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free()) - 1)
                   : kForever;
  const bool closed = capacity_ == CapacityPolicy::static_batch || std::ssize(started_) >= max_running_;
  out.arrival_breaks = pending_.empty() && !closed;
}

// Blocks for everybody's cap: what started requests may still take is set aside, then pending ones in order.
void TrtLlm::capacity_no_evict(const View& view, Step& step) const {
  Blk left = view.kv.total();
  if (!pending_.empty())
    for (const ReqId id : started_) left -= lifetime_blocks(id, view);
  std::int64_t room = max_running_ - std::ssize(started_);
  for (const ReqId id : pending_) {
    if (room-- <= 0) return;
    left -= lifetime_blocks(id, view);
    if (left < 0) return;
    ++step.admitted;
  }
}

// Whoever fits this step, in order; a request that does not makes the last started one behind it, or itself, pause.
void TrtLlm::capacity_utilization(const View& view, Step& step, Decision& out) {
  Blk left = view.kv.free();
  const Blk growth = view.kv.group_growth(1);
  if (step.members == std::ssize(started_) && growth <= left) {
    left -= growth;
  } else {
    for (std::size_t i = 0; i < started_.size(); ++i) {
      const ReqId id = started_[i];
      const Tok computed = view.requests.computed(id);
      const std::int64_t tokens = view.requests.decoding(id) ? computed + 1 : view.requests.length(id);
      if (!make_room(id, view.kv.need(id, tokens), left, view, step, out)) break;
    }
  }
  if (step.paused) return;               // the list ends where somebody was paused
  for (const ReqId id : pending_) {
    if (std::ssize(started_) + step.admitted >= max_running_) return;
    left -= view.kv.blocks_for(view.requests.length(id));
    if (left < 0) return;
    ++step.admitted;
  }
}

bool TrtLlm::make_room(ReqId id, Blk need, Blk& left, const View& view, Step& step, Decision& out) {
  while (need > left) {
    const ReqId last = started_.back();
    started_.pop_back();
    step.paused = true;
    step.members -= view.requests.decoding(last) ? 1 : 0;
    left += view.kv.held(last);
    out.preempted.push_back(last);
    out.kv.push_back({KvOp::Kind::free_all, last, 0});
    pending_.push_front(last);           // started ones are the earlier arrivals: this is its place
    if (last == id) return false;
  }
  left -= need;
  return true;
}

// Chunks come after all decodes; without chunks the requests stand in order, and the first that does not fit ends it.
void TrtLlm::micro_batch(const View& view, Step& step, Decision& out, Forward& forward) {
  const bool contexts_running = std::ssize(started_) > step.members;
  if (step.members > std::min(budget_, max_running_) || (contexts_running && !chunked_)) {
    micro_batch_in_order(view, step, out, forward);
    return;
  }
  if (step.members > 0) forward.decodes = Decodes::group;
  std::int64_t room = budget_ - step.members, rows = step.members;
  const auto add = [&](ReqId id) {
    const Tok left = view.requests.length(id) - view.requests.computed(id);
    const Tok tokens = chunked_ ? chunk(left, room, view) : left;
    if (tokens > room || rows >= max_running_) return false;
    if (tokens == 0) return chunked_ && room > 0;
    room -= tokens;
    ++rows;
    add_context(id, tokens, view, out, forward);
    return true;
  };
  if (contexts_running)
    for (const ReqId id : started_)
      if (!view.requests.decoding(id) && !add(id)) return;
  for (std::int64_t i = 0; i < step.admitted; ++i)
    if (!add(pending_[static_cast<std::size_t>(i)])) return;
}

// The slow way: generations and whole contexts one by one.
void TrtLlm::micro_batch_in_order(const View& view, Step& step, Decision& out, Forward& forward) {
  std::int64_t tokens = 0, rows = 0;
  const auto add = [&](ReqId id) {
    const bool decodes = view.requests.decoding(id);
    const Tok cost = decodes ? 1 : view.requests.length(id) - view.requests.computed(id);
    if (tokens + cost > budget_ || rows >= max_running_) return false;
    tokens += cost;
    ++rows;
    if (decodes) forward.listed.push_back(id);
    else add_context(id, cost, view, out, forward);
    return true;
  };
  bool open = true;
  for (std::size_t i = 0; open && i < started_.size(); ++i) open = add(started_[i]);
  for (std::int64_t i = 0; open && i < step.admitted; ++i) open = add(pending_[static_cast<std::size_t>(i)]);
  if (forward.listed.empty()) return;
  step.whole_group = std::ssize(forward.listed) == step.members;
  forward.decodes = step.whole_group ? Decodes::group : Decodes::listed;
  if (step.whole_group) forward.listed.clear();
}

// A chunk that does not finish the prompt is rounded down to whole blocks.
Tok TrtLlm::chunk(Tok left, std::int64_t room, const View& view) const {
  if (left <= room) return left;
  const Tok unit = view.kv.block_tokens();
  return static_cast<Tok>(room) / unit * unit;
}

void TrtLlm::add_context(ReqId id, Tok tokens, const View& view, Decision& out, Forward& forward) {
  const Tok computed = view.requests.computed(id), length = view.requests.length(id);
  if (computed == 0) out.kv.push_back({KvOp::Kind::grow, id, length});  // the whole context's blocks, when it starts
  forward.prefill.push_back({id, tokens, computed, computed + tokens == length});
}

void TrtLlm::start_admitted(const Forward& forward) {
  for (const Segment& segment : forward.prefill) {
    if (pending_.empty() || pending_.front() != segment.id) continue;
    started_.push_back(segment.id);
    pending_.pop_front();
  }
}

void TrtLlm::digest(std::string& out) const {
  append_line(out, "pending", pending_);
  append_line(out, "started", started_);
}

}  // namespace plimsoll::sched
