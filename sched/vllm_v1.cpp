// SPDX-License-Identifier: Apache-2.0
#include "sched/vllm_v1.h"

#include <algorithm>

#include "sched/rows.h"

namespace plimsoll::sched {

std::unique_ptr<Policy> make_vllm_v1(const PolicyConfig& config) { return std::make_unique<VllmV1>(config); }

VllmV1::VllmV1(const PolicyConfig& config)
    : max_running_(resolve_limits(config).max_running),
      budget_(resolve_limits(config).step_tokens),
      threshold_(config.long_prefill_threshold.value_or(0)),
      watermark_(config.watermark.value_or(0)),
      chunked_(config.chunked.value_or(true)),
      full_sequence_(config.reserve_full_sequence.value_or(false)),
      max_len_(config.max_len()) {}

// The server refuses what would outgrow the model's context.
std::optional<Reject> VllmV1::admit(const Request& request, const View&) const {
  if (max_len_ > 0 && std::int64_t{request.prompt} + request.max_new > max_len_)
    return Reject{kNoRequest, 400, "max_model_len"};
  if (!chunked_ && request.prompt > budget_) return Reject{kNoRequest, 400, "max_num_batched_tokens"};
  return {};
}

void VllmV1::on_cancel(ReqId id, const View&, Nanos) {
  if (!remove_one(waiting_, id)) remove_one(running_, id);
}

void VllmV1::on_steps_done(const StepsDone& done, const View&, Nanos) {
  for (const ReqId id : done.finished) remove_one(running_, id);
}

std::int64_t VllmV1::chunk(std::int64_t tokens, std::int64_t budget) const {
  if (threshold_ > 0) tokens = std::min(tokens, threshold_);
  return std::min(tokens, budget);
}

void VllmV1::decide(Nanos now, const View& view, Decision& out) {
  Step step{.budget = budget_, .kv = KvPreview(view.kv)};
  Forward& forward = out.add_forward();
  const std::int64_t decoding = view.requests.group_size();
  const Blk growth = view.kv.group_growth(1);
  if (decoding == std::ssize(running_) && decoding <= step.budget && growth <= step.kv.free()) {
    step.budget -= decoding;  // all decode: the common case, whatever the batch size
    step.kv.take(growth);
    if (decoding > 0) forward.decodes = Decodes::group;
  } else {
    schedule_running(view, step, out, forward);
  }
  if (!step.preempted) schedule_waiting(view, step, out, forward);
  if (forward.prefill.empty() && forward.decodes == Decodes::none) {
    out.drop_forward();
    if (step.preempted) out.wake_at = now + 1;  // a step that only made room is followed by the next one at once
    return;
  }
  if (forward.prefill.empty() && forward.decodes == Decodes::group && out.kv.empty()) set_repeat(view, step, out);
}

// Running requests in order: a decode needs one token, an unfinished prefill its next chunk.
void VllmV1::schedule_running(const View& view, Step& step, Decision& out, Forward& forward) {
  for (std::size_t i = 0; i < running_.size() && step.budget > 0; ++i) {
    const ReqId id = running_[i];
    const Tok computed = view.requests.computed(id);
    std::int64_t tokens = chunk(view.requests.length(id) - computed, step.budget);
    if (max_len_ > 0) tokens = std::min<std::int64_t>(tokens, max_len_ - 1 - computed);
    if (tokens <= 0) continue;
    if (!make_room(id, computed + tokens, view, step, out)) break;
    step.budget -= tokens;
    if (view.requests.decoding(id)) {
      forward.listed.push_back(id);
    } else {
      const bool emits = computed + tokens == view.requests.length(id);
      out.kv.push_back({KvOp::Kind::grow, id, computed + tokens});
      forward.prefill.push_back({id, static_cast<Tok>(tokens), computed, emits});
    }
  }
  // If all members that are left decode, the step is one of the group and costs O(1); a list is for the rare others.
  std::int64_t members = view.requests.group_size();
  for (const ReqId id : out.preempted) members -= view.requests.decoding(id) ? 1 : 0;
  for (const Reject& refusal : out.rejects) members -= view.requests.decoding(refusal.id) ? 1 : 0;
  if (forward.listed.empty()) return;
  if (std::ssize(forward.listed) == members) {
    forward.decodes = Decodes::group;
    forward.listed.clear();
  } else {
    forward.decodes = Decodes::listed;
  }
}

// Takes the blocks for `tokens` tokens, preempting from the tail while they are not there. False: the request itself
// was the last one left and had to go.
bool VllmV1::make_room(ReqId id, std::int64_t tokens, const View& view, Step& step, Decision& out) {
  const Blk need = view.kv.need(id, tokens);
  while (need > step.kv.free()) {
    const ReqId last = running_.back();
    running_.pop_back();
    step.kv.release(last);
    step.preempted = true;
    if (running_.empty() && view.kv.blocks_for(tokens) > view.kv.total()) {
      out.rejects.push_back({last, 500, "kv_capacity"});  // alone, and still too large: it would never end
      return false;
    }
    out.preempted.push_back(last);
    out.kv.push_back({KvOp::Kind::free_all, last, 0});
    waiting_.push_front(last);
    if (last == id) return false;
  }
  step.kv.take(need);
  return true;
}

void VllmV1::schedule_waiting(const View& view, Step& step, Decision& out, Forward& forward) {
  while (!waiting_.empty() && step.budget > 0 && std::ssize(running_) < max_running_) {
    if (admit_head(view, step, out, forward)) continue;
    if (!running_.empty() || step.kv.free() < view.kv.total()) return;
    out.rejects.push_back({waiting_.front(), 500, "kv_capacity"});  // it does not fit an empty pool: it never will
    waiting_.pop_front();
  }
}

bool VllmV1::admit_head(const View& view, Step& step, Decision& out, Forward& forward) {
  const ReqId id = waiting_.front();
  const Tok length = view.requests.length(id);
  const PrefixHit hit = step.kv.prefix_hit(id, length - 1);
  std::int64_t tokens = length - hit.tokens;
  if (threshold_ > 0) tokens = std::min(tokens, threshold_);
  if (!chunked_ && tokens > step.budget) return false;
  tokens = std::min(tokens, step.budget);
  // The watermark protects those that run already.
  const Blk spared = running_.empty() ? 0 : static_cast<Blk>(watermark_ * static_cast<double>(view.kv.total()));
  // Idle cached blocks count as free until they are attached, so they are needed on top of fresh ones.
  const Blk attached = hit.tokens / view.kv.block_tokens();
  if (full_sequence_ && view.kv.blocks_for(length) - attached + hit.idle_blocks + spared > step.kv.free()) return false;
  const Blk fresh = view.kv.blocks_for(hit.tokens + tokens) - attached;
  if (fresh + hit.idle_blocks + spared > step.kv.free()) return false;
  step.budget -= tokens;
  if (hit.tokens > 0) {
    step.kv.attach_prefix(id, hit.tokens);
    out.kv.push_back({KvOp::Kind::attach_prefix, id, hit.tokens});
  }
  step.kv.take(fresh);
  out.kv.push_back({KvOp::Kind::grow, id, hit.tokens + tokens});
  forward.prefill.push_back({id, static_cast<Tok>(tokens), hit.tokens, hit.tokens + tokens == length});
  running_.push_back(id);
  waiting_.pop_front();
  return true;
}

// Until a request finishes, the free blocks only shrink and a blocked queue stays blocked.
void VllmV1::set_repeat(const View& view, const Step& step, Decision& out) const {
  out.repeat = std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free()) - 1);
  out.arrival_breaks = waiting_.empty() && step.budget > 0 && std::ssize(running_) < max_running_;
}

void VllmV1::digest(std::string& out) const {
  append_line(out, "waiting", waiting_);
  append_line(out, "running", running_);
}

}  // namespace plimsoll::sched
