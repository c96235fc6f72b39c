// SPDX-License-Identifier: Apache-2.0
#include "sched/llama_cpp.h"

#include <algorithm>

#include "sched/rows.h"

namespace plimsoll::sched {

std::unique_ptr<Policy> make_llama_cpp(const PolicyConfig& config) { return std::make_unique<LlamaCpp>(config); }

LlamaCpp::LlamaCpp(const PolicyConfig& config)
    : unified_(config.variant == PolicyVariant::unified),
      step_tokens_(resolve_limits(config).step_tokens),
      forward_tokens_(resolve_limits(config).forward_tokens),
      max_len_(config.max_len()),
      slots_(static_cast<std::size_t>(resolve_limits(config).max_running)) {}

std::int64_t LlamaCpp::slot_cells(const KvLedger& kv) const {
  const Blk blocks = unified_ ? kv.total() : kv.total() / std::ssize(slots_);
  const std::int64_t cells = blocks * kv.block_tokens();
  return max_len_ > 0 ? std::min(cells, max_len_) : cells;
}

std::optional<Reject> LlamaCpp::admit(const Request& request, const View& view) const {
  if (most_tokens(request) > slot_cells(view.kv)) return Reject{kNoRequest, 400, "exceed_context_size"};
  return {};
}

// A task that finds no free slot is deferred. It does not come back by itself: each slot that becomes free takes one.
void LlamaCpp::on_arrival(ReqId id, const View&, Nanos) {
  (queue_.size() < free_slots() ? queue_ : deferred_).push_back(id);
}

void LlamaCpp::on_cancel(ReqId id, const View&, Nanos) {
  if (remove_one(deferred_, id)) return;
  if (remove_one(queue_, id)) {
    if (deferred_.empty()) return;
    queue_.push_back(deferred_.front());
    deferred_.pop_front();
    return;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].id == id) release(i);
}

// A deferred task goes to the front of the queue. So if several slots end in one step, the deferred tasks end up in
// reverse order.
void LlamaCpp::release(std::size_t slot) {
  remove_one(running_, slots_[slot].id);
  slots_[slot] = {kNoRequest, ++releases_};
  if (deferred_.empty()) return;
  queue_.push_front(deferred_.front());
  deferred_.pop_front();
}

void LlamaCpp::on_steps_done(const StepsDone& done, const View& view, Nanos) {
  if (done.finished.empty()) return;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const ReqId id = slots_[i].id;
    if (id != kNoRequest && view.requests.generated(id) > 0 && !view.requests.decoding(id)) release(i);
  }
}

// Takes the free slot that was used longest ago; if several were never used, the last of them.
void LlamaCpp::assign(ReqId id) {
  std::size_t best = slots_.size();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].id != kNoRequest) continue;
    if (best == slots_.size() || slots_[i].released <= slots_[best].released) best = i;
  }
  slots_[best].id = id;
  running_.clear();
  for (const Slot& slot : slots_)
    if (slot.id != kNoRequest) running_.push_back(slot.id);
}

// One token of every generating slot, then prompts while the step has room, both in the order of the slots.
void LlamaCpp::collect_parts(const View& view) {
  parts_.clear();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const ReqId id = slots_[i].id;
    if (id == kNoRequest || !view.requests.decoding(id)) continue;
    parts_.push_back({i, id, view.requests.computed(id), 1, true, false});
    ++tokens;
  }
  for (std::size_t i = 0; i < slots_.size() && tokens < step_tokens_; ++i) {
    const ReqId id = slots_[i].id;
    if (id == kNoRequest || view.requests.decoding(id)) continue;
    const Tok context = view.requests.computed(id), missing = view.requests.length(id) - context;
    const auto taken = static_cast<Tok>(std::min<std::int64_t>(missing, step_tokens_ - tokens));
    parts_.push_back({i, id, context, taken, false, taken == missing});
    tokens += taken;
  }
}

Blk LlamaCpp::grow_prompts(const View& view, Decision& out) const {
  Blk blocks = view.kv.group_growth(1);
  for (const Part& part : parts_) {
    if (part.decodes) continue;
    const std::int64_t covered = std::int64_t{part.context} + part.left;
    blocks += view.kv.need(part.id, covered);
    out.kv.push_back({KvOp::Kind::grow, part.id, covered});
  }
  return blocks;
}

// "Context size has been exceeded": when the pool has no room for a step, every slot loses its request.
void LlamaCpp::fail_all(Nanos now, Decision& out) {
  out.kv.clear();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const ReqId id = slots_[i].id;
    if (id == kNoRequest) continue;
    out.rejects.push_back({id, 500, "context_size", true});
    release(i);
  }
  if (!queue_.empty()) out.wake_at = now + 1;
}

void LlamaCpp::decide(Nanos now, const View& view, Decision& out) {
  for (; !queue_.empty() && free_slots() > 0; queue_.pop_front()) {
    assign(queue_.front());
    if (!unified_) out.kv.push_back({KvOp::Kind::reserve, queue_.front(), slot_cells(view.kv)});
  }
  if (running_.empty()) return;
  collect_parts(view);
  if (unified_ && grow_prompts(view, out) > view.kv.free()) return fail_all(now, out);
  add_forwards(view, out);
  if (!parts_.back().decodes || out.forwards().size() > 1) return;
  out.repeat = unified_ ? std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free()) - 1) : kForever;
  out.arrival_breaks = free_slots() > 0;
}

void LlamaCpp::take(Part& part, Tok tokens, Forward& forward) {
  part.left -= tokens;
  if (part.decodes) {
    forward.decodes = Decodes::listed;
    forward.listed.push_back(part.id);
  } else {
    forward.prefill.push_back({part.id, tokens, part.context, part.completes && part.left == 0});
  }
  part.context += tokens;
}

// One pool: the tokens of the step are cut where a forward is full.
void LlamaCpp::take_in_order(Forward& forward) {
  std::int64_t room = forward_tokens_;
  for (Part& part : parts_) {
    const auto tokens = static_cast<Tok>(std::min<std::int64_t>(part.left, room));
    if (tokens > 0) take(part, tokens, forward);
    room -= tokens;
  }
}

// If slots have their own cells, a forward takes equally many tokens of each of its slots, which must be consecutive.
void LlamaCpp::take_equally(Forward& forward) {
  together_.clear();
  for (std::size_t i = 0; i < parts_.size() && std::ssize(together_) < forward_tokens_; ++i)
    if (parts_[i].left > 0 && (together_.empty() || parts_[i].slot == parts_[together_.back()].slot + 1))
      together_.push_back(i);
  std::int64_t tokens = std::max<std::int64_t>(1, forward_tokens_ / std::ssize(together_));
  for (const std::size_t i : together_) tokens = std::min<std::int64_t>(tokens, parts_[i].left);
  for (const std::size_t i : together_) take(parts_[i], static_cast<Tok>(tokens), forward);
}

void LlamaCpp::add_forwards(const View& view, Decision& out) {
  const auto is_left = [](const Part& part) { return part.left > 0; };
  while (std::any_of(parts_.begin(), parts_.end(), is_left)) {
    Forward& forward = out.add_forward();
    unified_ ? take_in_order(forward) : take_equally(forward);
    if (std::ssize(forward.listed) < view.requests.group_size() || forward.listed.empty()) continue;
    forward.decodes = Decodes::group;
    forward.listed.clear();
  }
}

}  // namespace plimsoll::sched
