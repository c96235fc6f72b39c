// SPDX-License-Identifier: Apache-2.0
#include "sched/vllm_v1.h"

#include <algorithm>
#include <utility>

namespace plimsoll::sched {

std::unique_ptr<Policy> make_vllm_v1(const PolicyConfig& config) { return std::make_unique<VllmV1>(config); }

VllmV1::VllmV1(const PolicyConfig& config)
    : max_running_(resolve_limits(config).max_running),
      budget_(resolve_limits(config).step_tokens),
      threshold_(config.long_prefill_threshold.value_or(0)),
      watermark_(config.watermark.value_or(0)),
      chunked_(config.chunked.value_or(true)),
      full_sequence_(config.whole_sequence_must_fit()),
      by_priority_(config.order == Order::priority),
      loses_rows_(loses_preempted_rows(config)),
      ahead_(config.async_scheduling.value_or(false)),
      version_(config.version),
      max_len_(config.max_len()) {}

// Refuses requests that would outgrow the model's context.
std::optional<Reject> VllmV1::admit(const Request& request, const View&) const {
  if (max_len_ > 0 && std::int64_t{request.prompt} + request.max_new > max_len_)
    return Reject{kNoRequest, 400, "max_model_len"};
  if (!chunked_ && request.prompt > budget_) return Reject{kNoRequest, 400, "max_num_batched_tokens"};
  return {};
}

void VllmV1::on_cancel(ReqId id, const View&, Nanos) {
  const auto found = std::find(waiting_.begin(), waiting_.end(), id);
  if (found == waiting_.end()) {
    remove_one(running_, id);
    return;
  }
  if (found - waiting_.begin() < turned_) --turned_;
  waiting_.erase(found);
}

// A request that was preempted while its last token was being computed has returned to the queue. Every repeated step
// would also have reversed the order of the skipped requests.
void VllmV1::on_steps_done(const StepsDone& done, const View&, Nanos) {
  const std::int64_t turns = done.steps - (std::exchange(first_step_, false) ? 1 : 0);
  if (turned_ > 1 && !ahead_ && turns % 2 != 0) std::reverse(waiting_.begin(), waiting_.begin() + turned_);
  for (const ReqId id : done.finished)
    if (!remove_one(running_, id)) remove_one(waiting_, id);
}

// Inserts the request by priority, then by arrival.
void VllmV1::enqueue(ReqId id, const View& view) {
  if (!by_priority_) {
    waiting_.push_back(id);
    return;
  }
  const auto rank = [&view](ReqId r) { return std::pair(view.requests.priority(r), view.requests[r].serial); };
  const auto before = [&rank](ReqId a, ReqId b) { return rank(a) < rank(b); };
  waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), id, before), id);
}

// A lone request takes nothing from others, so from 0.31 on its prompt is not cut.
std::int64_t VllmV1::threshold() const {
  return version_ >= 31 && running_.size() + waiting_.size() <= 1 ? 0 : threshold_;
}

void VllmV1::decide(Nanos now, const View& view, Decision& out) {
  Step step{.budget = budget_, .threshold = threshold(), .kv = KvPreview(view.kv)};
  Forward& forward = out.add_forward();
  first_step_ = true;
  turned_ = 0;
  const std::int64_t decoding = view.requests.group_size();
  const Blk growth = view.kv.group_growth(1);
  if (decoding + view.requests.capped() == std::ssize(running_) && decoding <= step.budget &&
      growth <= step.kv.free()) {
    step.budget -= decoding;  // all decode: the common case, O(1) whatever the batch size
    step.kv.take(growth);
    if (decoding > 0) forward.decodes = Decodes::group;
  } else {
    schedule_running(view, step, out, forward);
  }
  if (!step.preempted) schedule_waiting(view, step, out, forward);
  if (forward.prefill.empty() && forward.decodes == Decodes::none) {
    out.drop_forward();
    if (step.preempted) out.wake_at = now + 1;  // the next step follows at once after one that only made room
    return;
  }
  if (forward.prefill.empty() && forward.decodes == Decodes::group && out.kv.empty()) set_repeat(view, step, out);
}

// Schedules running requests in order: a decode needs one token, an unfinished prefill its next chunk. A request whose
// last token is being computed needs nothing.
void VllmV1::schedule_running(const View& view, Step& step, Decision& out, Forward& forward) {
  given_.clear();
  for (step.turn = 0; step.turn < running_.size() && step.budget > 0; ++step.turn) {
    const ReqId id = running_[step.turn];
    if (view.requests.generated(id) >= view.requests[id].max_new) continue;
    const Tok computed = view.requests.computed(id);
    std::int64_t tokens = view.requests.length(id) - computed;
    if (step.threshold > 0) tokens = std::min(tokens, step.threshold);
    tokens = std::min(tokens, step.budget);
    if (max_len_ > 0) tokens = std::min<std::int64_t>(tokens, max_len_ - 1 - computed);
    if (tokens <= 0) continue;
    const std::int64_t end = computed + tokens;
    const Blk need = view.kv.need(id, end);
    if (need > step.kv.free() && !make_room(id, end, view, step, out)) break;
    step.kv.take(need);
    if (!view.requests.decoding(id)) {
      out.kv.push_back({KvOp::Kind::grow, id, end});
      step.kv.publish(id, end);
    }
    given_.push_back({id, tokens, computed, need});
    step.budget -= tokens;
  }
  fill(view, out, forward);
}

void VllmV1::fill(const View& view, Decision& out, Forward& forward) const {
  for (const Given& given : given_) {
    if (given.lost) {
      forward.prefill.push_back({given.id, static_cast<Tok>(given.tokens), 0, false});
      continue;
    }
    if (view.requests.decoding(given.id)) {
      forward.listed.push_back(given.id);
      continue;
    }
    const std::int64_t end = given.computed + given.tokens;
    forward.prefill.push_back(
        {given.id, static_cast<Tok>(given.tokens), given.computed, end == view.requests.length(given.id)});
  }
  // If all remaining members decode, the step is one of the group and costs O(1). A list is needed only in rare cases.
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

// Preempts requests until the blocks are free that request `id` needs for its first `end` tokens. Returns false if the
// request itself had to go.
bool VllmV1::make_room(ReqId id, std::int64_t end, const View& view, Step& step, Decision& out) {
  const Blk need = view.kv.need(id, end);
  while (need > step.kv.free()) {
    const std::size_t index = victim(view);
    const ReqId last = running_[index];
    step.preempted = true;
    if (running_.size() == 1 && view.kv.blocks_for(end) > view.kv.total()) {
      running_.clear();
      step.kv.release(last);
      out.rejects.push_back({last, 500, "kv_capacity"});  // alone, and too large for the pool: it would never end
      return false;
    }
    preempt(index, view, step, out);
    if (last == id) return false;
  }
  return true;
}

// Returns the index of the request to preempt: the last admitted one, or by priority the least urgent one.
std::size_t VllmV1::victim(const View& view) const {
  if (!by_priority_) return running_.size() - 1;
  const auto rank = [&view](ReqId r) { return std::pair(view.requests.priority(r), view.requests[r].serial); };
  const auto less = [&rank](ReqId a, ReqId b) { return rank(a) < rank(b); };
  return static_cast<std::size_t>(std::max_element(running_.begin(), running_.end(), less) - running_.begin());
}

// If this step has already given tokens to the victim, they are returned to the budget; up to 0.11 they stay a row of
// the step. This happens only with priorities. Removing the victim shifts the running requests. Up to 0.11, and up to
// 0.27 for a victim without tokens in this step, the turn is not adjusted, so the step skips a request.
void VllmV1::preempt(std::size_t index, const View& view, Step& step, Decision& out) {
  const ReqId id = running_[index];
  cover_decodes(view, out);
  running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
  Given given;
  const auto found = std::find_if(given_.begin(), given_.end(), [id](const Given& g) { return g.id == id && !g.lost; });
  const bool was_given = found != given_.end();
  if (was_given) {
    given = *found;
    if (loses_rows_) {
      found->lost = true;
    } else {
      given_.erase(found);
      step.budget += given.tokens;
    }
  }
  if (index < step.turn && (version_ >= 28 || (!loses_rows_ && was_given))) --step.turn;
  step.kv.release(id, given.blocks);
  out.preempted.push_back(id);
  out.kv.push_back({KvOp::Kind::free_all, id, given.tokens > 0 ? given.computed + given.tokens : 0});
  if (by_priority_)
    enqueue(id, view);
  else
    waiting_.push_front(id);
}

// Decodes take their blocks when the step runs. Those before a preemption take them before it gives blocks back, which
// may be reused first.
void VllmV1::cover_decodes(const View& view, Decision& out) {
  if (!view.kv.prefix_caching()) return;
  for (Given& given : given_) {
    if (given.covered || given.blocks == 0 || !view.requests.decoding(given.id)) continue;
    given.covered = true;
    out.kv.push_back({KvOp::Kind::grow, given.id, given.computed + given.tokens});
  }
}

void VllmV1::schedule_waiting(const View& view, Step& step, Decision& out, Forward& forward) {
  while (!waiting_.empty() && step.budget > 0 && std::ssize(running_) < max_running_) {
    const Admission admission = admit_head(view, step, out, forward);
    if (admission == Admission::admitted) continue;
    if (admission == Admission::passed) {
      skipped_.push_back(waiting_.front());
    } else {
      if (!running_.empty() || step.kv.free() < view.kv.total()) break;
      out.rejects.push_back({waiting_.front(), 500, "kv_capacity"});  // it does not fit even an empty pool
    }
    waiting_.pop_front();
  }
  for (const ReqId id : skipped_) {
    if (by_priority_)
      enqueue(id, view);
    else
      waiting_.push_front(id);  // reverses their order: the last one skipped comes first next time
  }
  if (!by_priority_) turned_ = std::ssize(skipped_);
  skipped_.clear();
}

// The KV of the prompt comes from a prefill replica. All its blocks are taken now. Meanwhile the request has no place
// among the running ones and no tokens of the step, and requests behind it may pass.
VllmV1::Admission VllmV1::load_head(const View& view, Step& step, Decision& out) const {
  const ReqId id = waiting_.front();
  if (view.kv.held(id) > 0) return Admission::passed;  // on its way
  const Tok length = view.requests.length(id);
  const PrefixHit hit = step.kv.prefix_hit(id, length - 1);
  const Blk spared = running_.empty() ? 0 : static_cast<Blk>(watermark_ * static_cast<double>(view.kv.total()));
  const Blk fresh = view.kv.blocks_for(length) - hit.tokens / view.kv.block_tokens();
  if (fresh + hit.idle_blocks + spared > step.kv.free()) return Admission::blocked;
  if (hit.tokens > 0) {
    step.kv.attach_prefix(id, hit.tokens);
    out.kv.push_back({KvOp::Kind::attach_prefix, id, hit.tokens});
  }
  step.kv.take(fresh);
  out.kv.push_back({KvOp::Kind::load, id, length});
  return Admission::passed;
}

VllmV1::Admission VllmV1::admit_head(const View& view, Step& step, Decision& out, Forward& forward) {
  const ReqId id = waiting_.front();
  if (view.requests.remote(id) > 0) return load_head(view, step, out);
  const Tok length = view.requests.length(id);
  const Tok lost = view.requests.computed(id);  // tokens of a row that was lost: 0.11 counts them as computed
  // A request that waited for KV from a prefill replica already has its blocks and may need no more.
  const Blk held = view.kv.held(id);
  const PrefixHit hit = lost > 0 || held > 0 ? PrefixHit{} : step.kv.prefix_hit(id, length - 1);
  const Tok computed = lost + hit.tokens;
  std::int64_t tokens = length - computed;
  if (step.threshold > 0) tokens = std::min(tokens, step.threshold);
  // Up to 0.11, shorter prompts may overtake one that exceeds the rest of the budget.
  if (!chunked_ && tokens > step.budget) return version_ <= 11 ? Admission::passed : Admission::blocked;
  tokens = std::min(tokens, step.budget);
  // The watermark protects requests that already run.
  const Blk spared = running_.empty() ? 0 : static_cast<Blk>(watermark_ * static_cast<double>(view.kv.total()));
  // Idle cached blocks count as free until they are attached, so they are needed on top of fresh ones.
  const Blk attached = hit.tokens / view.kv.block_tokens() + held;
  const auto lacks = [&](Blk blocks) { return blocks > 0 && blocks + spared > step.kv.free(); };
  if (full_sequence_ && lacks(view.kv.blocks_for(length) - attached + hit.idle_blocks)) return Admission::blocked;
  const Blk fresh = std::max<Blk>(0, view.kv.blocks_for(computed + tokens) - attached);
  if (lacks(fresh + hit.idle_blocks)) return Admission::blocked;
  step.budget -= tokens;
  if (hit.tokens > 0) {
    step.kv.attach_prefix(id, hit.tokens);
    out.kv.push_back({KvOp::Kind::attach_prefix, id, hit.tokens});
  }
  step.kv.take(fresh);
  step.kv.publish(id, computed + tokens);
  out.kv.push_back({KvOp::Kind::grow, id, computed + tokens});
  forward.prefill.push_back({id, static_cast<Tok>(tokens), computed, computed + tokens == length});
  running_.push_back(id);
  waiting_.pop_front();
  return Admission::admitted;
}

// Until a request finishes, the number of free blocks only shrinks, so a blocked queue stays blocked.
void VllmV1::set_repeat(const View& view, const Step& step, Decision& out) const {
  const bool may_pass = by_priority_ || (version_ <= 11 && !chunked_);
  // Each step reverses the order of the skipped requests; on_steps_done() makes up for those that wait for KV.
  if ((!may_pass && (turned_ < 2 || !ahead_)) || by_priority_ || waiting_.size() < 2)
    out.repeat = std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free()) - 1);
  out.arrival_breaks =
      (std::ssize(waiting_) == turned_ || may_pass) && step.budget > 0 && std::ssize(running_) < max_running_;
}

}  // namespace plimsoll::sched
