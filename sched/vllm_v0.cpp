// SPDX-License-Identifier: Apache-2.0
#include "sched/vllm_v0.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::sched {

namespace {
constexpr double kDefaultWatermark = 0.01;
}  // namespace

std::unique_ptr<Policy> make_vllm_v0(const PolicyConfig& config) { return std::make_unique<VllmV0>(config); }

VllmV0::VllmV0(const PolicyConfig& config)
    : variant_(variant_of(config)),
      max_running_(resolve_limits(config).max_running),
      budget_(resolve_limits(config).step_tokens),
      watermark_(config.watermark.value_or(kDefaultWatermark)),
      delay_factor_(config.delay_factor.value_or(0)),
      swaps_(config.preemption.value_or(Preemption::recompute) == Preemption::swap),
      swap_blocks_(config.swap_blocks),
      max_len_(config.max_len()) {}

// Refuses requests that would outgrow the model's context. A prompt too long for any step is ignored later.
std::optional<Reject> VllmV0::admit(const Request& request, const View&) const {
  if (max_len_ > 0 && std::int64_t{request.prompt} + request.max_new > max_len_)
    return Reject{kNoRequest, 400, "max_model_len"};
  return {};
}

void VllmV0::on_cancel(ReqId id, const View& view, Nanos now) {
  if (!remove_one(swapped_, id)) QueuePolicy::on_cancel(id, view, now);
}

void VllmV0::on_steps_done(const StepsDone& done, const View& view, Nanos now) {
  // The delay factor waits a multiple of the time that the last step with prompts took.
  if (prompt_started_ >= 0) prompt_latency_ = now - prompt_started_;
  prompt_started_ = -1;
  QueuePolicy::on_steps_done(done, view, now);
}

// A reserve that admissions must leave free, so that the running requests are not preempted in the next steps.
Blk VllmV0::watermark(const View& view) const {
  return static_cast<Blk>(watermark_ * static_cast<double>(view.kv.total()));
}

void VllmV0::decide(Nanos now, const View& view, Decision& out) {
  Forward& forward = out.add_forward();
  Step step{.now = now,
            .view = view,
            .out = out,
            .forward = forward,
            .budget = budget_,
            .free = view.kv.free(),
            .members = view.requests.group_size()};
  if (variant_ == PolicyVariant::standard) {
    decide_default(step);
  } else {
    schedule_running(step);
    if (!step.preempted) swap_in(step);
    // 0.1 admits no request while any is swapped out, nor in a step that preempts. With chunked prefill, preempted
    // requests join the queue only when the step is complete.
    const bool admits = variant_ == PolicyVariant::vllm_chunked || (swapped_.empty() && !step.preempted);
    if (admits) schedule_waiting(step);
  }
  for (const ReqId id : step.requeued) waiting_.push_front(id);
  // If all remaining members decode, the step is one of the whole group, which costs O(1).
  if (!forward.listed.empty()) {
    forward.decodes = std::ssize(forward.listed) == step.members ? Decodes::group : Decodes::listed;
    if (forward.decodes == Decodes::group) forward.listed.clear();
  }
  if (forward.prefill.empty() && forward.decodes == Decodes::none) {
    out.drop_forward();
    // After a step that only preempted or refused, the next one follows at once.
    if (step.preempted || !out.rejects.empty()) out.wake_at = now + 1;
    return;
  }
  if (!forward.prefill.empty()) prompt_started_ = now;
  const bool pure = forward.prefill.empty() && forward.decodes == Decodes::group && out.kv.empty();
  // After a preemption the next step may admit what this one could not.
  if (pure && !step.preempted) set_repeat(now, view, out);
}

// Schedules only prefills if there are any, else decodes.
void VllmV0::decide_default(Step& step) {
  if (swapped_.empty()) schedule_waiting(step);
  if (!step.forward.prefill.empty()) return;
  schedule_running(step);
  if (!step.preempted) swap_in(step);
}

void VllmV0::schedule_running(Step& step) {
  const bool limited = variant_ == PolicyVariant::vllm_chunked;  // the other variants decode regardless of the budget
  const Blk growth = step.view.kv.group_growth(1);
  const bool all_decode = step.members == std::ssize(running_) && (!limited || step.members <= step.budget);
  if (all_decode && growth + 1 <= step.free) {
    // Even the last request finds a free block: all decode, in O(1) whatever the batch size.
    step.budget -= step.members;
    step.free -= growth;
    if (step.members > 0) step.forward.decodes = Decodes::group;
    return;
  }
  // The pool is nearly empty or a prompt is unfinished: requests are looked at one by one, oldest first.
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (limited && step.budget <= 0) break;
    if (!schedule_one(running_[i], step)) break;
  }
}

// Returns false if the request itself was the last one left and was preempted or refused.
bool VllmV0::schedule_one(ReqId id, Step& step) {
  const View& view = step.view;
  while (step.free < 1) {
    const ReqId last = running_.back();
    running_.pop_back();
    if (running_.empty() && !view.requests.decoding(last)) {
      // The request runs alone and its unfinished prompt fills the pool: the next chunk would wait for a free block for
      // ever.
      step.out.rejects.push_back({last, 500, "kv_capacity"});
      step.free += view.kv.held(last);
      step.preempted = true;
      return false;
    }
    preempt(last, step);
    if (last == id) return false;
  }
  if (view.requests.decoding(id)) {
    step.free -= view.kv.need(id, view.requests.computed(id) + 1);
    --step.budget;
    step.forward.listed.push_back(id);
    return true;
  }
  const Tok computed = view.requests.computed(id), length = view.requests.length(id);
  const auto tokens = static_cast<Tok>(std::min<std::int64_t>(length - computed, step.budget));
  step.budget -= tokens;
  step.forward.prefill.push_back({id, tokens, computed, computed + tokens == length});
  return true;
}

// The last request of the list is preempted first: it was admitted last.
void VllmV0::preempt(ReqId id, Step& step) {
  const View& view = step.view;
  Decision& out = step.out;
  step.preempted = true;
  step.members -= view.requests.decoding(id) ? 1 : 0;
  const Blk held = view.kv.held(id);
  step.free += held;
  // The product also swaps unfinished prompts, and restores the whole rest in one later step; here they are recomputed.
  if (!swaps_ || !view.requests.decoding(id)) {
    out.preempted.push_back(id);
    out.kv.push_back({KvOp::Kind::free_all, id, 0});
    step.requeued.push_back(id);
    return;
  }
  Blk in_use = view.kv.swapped();
  for (const KvOp& op : out.kv)
    if (op.kind == KvOp::Kind::swap_out) in_use += view.kv.held(op.id);
  if (in_use + held > swap_blocks_) {
    out.rejects.push_back({id, 500, "swap_space"});  // here the product stops with an error
    return;
  }
  out.preempted.push_back(id);
  out.kv.push_back({KvOp::Kind::swap_out, id, 0});
  // 0.1 sorts them by arrival; later versions restore them in the order of their swap-out.
  const auto place = variant_ != PolicyVariant::vllm_01
                         ? swapped_.end()
                         : std::find_if(swapped_.begin(), swapped_.end(), [&](ReqId other) {
                             return view.requests[other].serial > view.requests[id].serial;
                           });
  swapped_.insert(place, id);
}

// Swapped-out requests return strictly before new ones, and only if one more block stays free for each.
void VllmV0::swap_in(Step& step) {
  const View& view = step.view;
  Decision& out = step.out;
  Forward& forward = step.forward;
  while (!swapped_.empty()) {
    const ReqId id = swapped_.front();
    const Blk blocks = view.kv.swapped(id);
    if (blocks + 1 > view.kv.total()) {
      out.rejects.push_back({id, 500, "kv_capacity"});
      swapped_.pop_front();
      continue;
    }
    // Keeps the watermark and one more block free, unless the pool is empty: then waiting would not help.
    if (step.free - blocks - 1 < watermark(view) && !(running_.empty() && step.free == view.kv.total())) return;
    if (step.budget < 1 || std::ssize(running_) >= max_running_) return;
    const Blk growth = view.kv.blocks_for(view.requests.computed(id) + 1) - blocks;
    step.free -= blocks + growth;
    --step.budget;
    ++step.members;
    out.kv.push_back({KvOp::Kind::swap_in, id, 0});
    out.swapped_in.push_back(id);
    running_.push_back(id);
    swapped_.pop_front();
    if (forward.decodes != Decodes::group) forward.listed.push_back(id);
  }
  if (forward.decodes == Decodes::none && !forward.listed.empty() && std::ssize(forward.listed) == step.members) {
    forward.decodes = Decodes::group;
    forward.listed.clear();
  }
}

void VllmV0::schedule_waiting(Step& step) {
  const View& view = step.view;
  Decision& out = step.out;
  const bool chunked = variant_ == PolicyVariant::vllm_chunked;
  std::int64_t limit = chunked ? kForever : budget_;
  if (max_len_ > 0) limit = std::min<std::int64_t>(limit, max_len_);
  const bool delays = variant_ == PolicyVariant::standard && !running_.empty();
  while (!waiting_.empty()) {
    if (delays && step.now < delay_ends(view)) return;  // checked again for each request
    const ReqId id = waiting_.front();
    const Tok length = view.requests.length(id);
    const Blk need = view.kv.blocks_for(length);
    // Ignores a prompt that no step can take, or that would never leave the watermark free.
    if (length > limit || view.kv.total() - need < watermark(view)) {
      out.rejects.push_back({id, 400, "ignored"});
      waiting_.pop_front();
      continue;
    }
    if (step.free - need < watermark(view)) return;
    const auto tokens = static_cast<Tok>(chunked ? std::min<std::int64_t>(length, step.budget) : length);
    if (tokens < 1 || tokens > step.budget || std::ssize(running_) >= max_running_) return;
    step.free -= need;
    step.budget -= tokens;
    out.kv.push_back({KvOp::Kind::grow, id, length});
    step.forward.prefill.push_back({id, tokens, 0, tokens == length});
    running_.push_back(id);
    waiting_.pop_front();
  }
}

// scheduler_delay_factor: while a request runs, new ones are held back until the head of the queue, the oldest, has
// waited long enough: this factor times the duration of the last prefill step.
Nanos VllmV0::delay_ends(const View& view) const {
  if (delay_factor_ <= 0 || waiting_.empty()) return 0;
  const Nanos delay = static_cast<Nanos>(std::floor(delay_factor_ * static_cast<double>(prompt_latency_)));
  return view.requests[waiting_.front()].arrival + delay + 1;
}

// Until a request finishes, the number of free blocks only shrinks, so a blocked queue stays blocked; only the delay
// can end. An arrival at the head of an empty queue may be refused there even if there is no room for it.
void VllmV0::set_repeat(Nanos now, const View& view, Decision& out) const {
  out.repeat = std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free() - 1) - 1);
  out.arrival_breaks = waiting_.empty() && (swapped_.empty() || variant_ == PolicyVariant::vllm_chunked);
  if (variant_ == PolicyVariant::standard && swapped_.empty() && now < delay_ends(view)) out.wake_at = delay_ends(view);
}

}  // namespace plimsoll::sched
