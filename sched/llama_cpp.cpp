// SPDX-License-Identifier: Apache-2.0
#include "sched/llama_cpp.h"

#include <algorithm>
#include <utility>

#include "sched/rows.h"

namespace plimsoll::sched {

std::unique_ptr<Policy> make_llama_cpp(const PolicyConfig& config) { return std::make_unique<LlamaCpp>(config); }

namespace {
constexpr double kSimilarity = 0.1;  // --slot-prompt-similarity
}

LlamaCpp::LlamaCpp(const PolicyConfig& config)
    : unified_(config.variant == PolicyVariant::unified),
      step_tokens_(resolve_limits(config).step_tokens),
      forward_tokens_(resolve_limits(config).forward_tokens),
      max_len_(config.max_len()),
      similarity_(static_cast<float>(config.slot_prompt_similarity.value_or(kSimilarity))),
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

// A task that finds no free slot is deferred. Each slot that becomes free takes one deferred task back.
void LlamaCpp::on_arrival(ReqId id, const View&, Nanos) {
  (queue_.size() < free_slots() ? queue_ : deferred_).push_back(id);
}

void LlamaCpp::on_cancel(ReqId id, const View& view, Nanos) {
  purge(view.kv, 0);
  if (remove_one(deferred_, id)) return;
  if (remove_one(queue_, id)) {
    if (deferred_.empty()) return;
    queue_.push_back(deferred_.front());
    deferred_.pop_front();
    return;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].id == id) release(i, view.requests.computed(id));
}

// A deferred task goes to the front of the queue. So if several slots end in one step, the deferred tasks end up in
// reverse order.
void LlamaCpp::release(std::size_t slot, std::int64_t stored) {
  remove_one(running_, slots_[slot].id);
  slots_[slot].id = kNoRequest;
  slots_[slot].released = ++releases_;
  slots_[slot].stored = stored;
  if (deferred_.empty()) return;
  queue_.push_front(deferred_.front());
  deferred_.pop_front();
}

void LlamaCpp::on_steps_done(const StepsDone& done, const View& view, Nanos) {
  if (done.finished.empty()) return;
  purge(view.kv, 0);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const ReqId id = slots_[i].id;
    if (id == kNoRequest || view.requests.generated(id) == 0 || view.requests.decoding(id)) continue;
    release(i, view.requests.computed(id));
  }
}

// Returns how many tokens of the request's prompt the slot stores. A hash covers all blocks before it, too.
Tok LlamaCpp::common(const Slot& slot, ReqId id, const View& view) {
  const std::span<const std::uint64_t> wanted = view.kv.prompt_hashes(id);
  const std::int64_t size = view.kv.block_tokens();
  const std::size_t most = std::min({slot.prompt.size(), wanted.size(), static_cast<std::size_t>(slot.stored / size)});
  std::size_t low = 0, high = most;
  while (low < high) {
    const std::size_t middle = (low + high + 1) / 2;
    slot.prompt[middle - 1] == wanted[middle - 1] ? low = middle : high = middle - 1;
  }
  return static_cast<Tok>(static_cast<std::int64_t>(low) * size);
}

// Returns the free slot with the longest common prefix, the first of several; none if that prefix is too short.
std::size_t LlamaCpp::most_similar(ReqId id, const View& view) const {
  std::size_t best = slots_.size();
  float most = similarity_;
  if (view.kv.prompt_hashes(id).empty() || !(similarity_ > 0)) return best;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].id != kNoRequest) continue;
    const float part = static_cast<float>(common(slots_[i], id, view)) / static_cast<float>(view.requests[id].prompt);
    if (!(part > most)) continue;
    most = part;
    best = i;
  }
  return best;
}

// Returns the free slot that was used longest ago; if several were never used, the last of them.
std::size_t LlamaCpp::least_recent() const {
  std::size_t best = slots_.size();
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].id != kNoRequest) continue;
    if (best == slots_.size() || slots_[i].released <= slots_[best].released) best = i;
  }
  return best;
}

// However the slot was chosen, the common prefix of its prompt and the new one is not computed again. If the slot
// stores the whole new prompt, its last token is computed again: otherwise there would be nothing to sample from.
void LlamaCpp::assign(ReqId id, const View& view) {
  std::size_t best = most_similar(id, view);
  if (best == slots_.size()) best = least_recent();
  Slot& slot = slots_[best];
  slot.kept = std::min(common(slot, id, view), view.requests[id].prompt - 1);
  const std::span<const std::uint64_t> prompt = view.kv.prompt_hashes(id);
  slot.prompt.assign(prompt.begin(), prompt.end());
  slot.stored = 0;
  slot.id = id;
  running_.clear();
  for (const Slot& each : slots_)
    if (each.id != kNoRequest) running_.push_back(each.id);
}

// Collects one token of every generating slot, then prompts while the step has room, both in the order of the slots.
void LlamaCpp::collect_parts(const View& view) {
  parts_.clear();
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const ReqId id = slots_[i].id;
    if (id == kNoRequest || !view.requests.decoding(id)) continue;
    parts_.push_back({i, id, view.requests.computed(id), 1, true, false});
    ++tokens;
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const ReqId id = slots_[i].id;
    if (id == kNoRequest || view.requests.decoding(id)) continue;
    // A prompt whose beginning is in its slot takes its room at once, even if this step computes none of its other
    // tokens.
    if (tokens >= step_tokens_ && slots_[i].kept == 0) continue;
    const Tok context = view.requests.computed(id) + slots_[i].kept, missing = view.requests.length(id) - context;
    const auto taken = static_cast<Tok>(std::clamp<std::int64_t>(step_tokens_ - tokens, 0, missing));
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
    slots_[i].kept = 0;
    release(i, 0);
  }
  if (!queue_.empty()) out.wake_at = now + 1;
}

// Keeps the prefixes that newly assigned requests find in their slots, once there is room for them.
void LlamaCpp::keep_prompts(Decision& out) {
  for (Slot& slot : slots_)
    if (const Tok kept = std::exchange(slot.kept, 0); kept > 0) out.kv.push_back({KvOp::Kind::keep, slot.id, kept});
}

// With one pool, the contents of free slots are dropped, slot by slot, until the wanted cells are free. The ledger has
// counted those cells as free all along.
void LlamaCpp::purge(const KvLedger& kv, std::int64_t wanted) {
  if (!unified_) return;
  std::int64_t used = kv.in_use() + wanted;
  for (const Slot& slot : slots_) used += slot.id == kNoRequest ? kv.blocks_for(slot.stored) : 0;
  for (std::size_t i = 0; i < slots_.size() && used > kv.total(); ++i) {
    if (slots_[i].id != kNoRequest) continue;
    used -= kv.blocks_for(slots_[i].stored);
    slots_[i].stored = 0;
  }
}

void LlamaCpp::decide(Nanos now, const View& view, Decision& out) {
  purge(view.kv, 0);
  for (; !queue_.empty() && free_slots() > 0; queue_.pop_front()) {
    assign(queue_.front(), view);
    if (!unified_) out.kv.push_back({KvOp::Kind::reserve, queue_.front(), slot_cells(view.kv)});
  }
  if (running_.empty()) return;
  collect_parts(view);
  if (unified_) {
    const Blk growth = grow_prompts(view, out);
    purge(view.kv, growth);
    if (growth > view.kv.free()) return fail_all(now, out);
  }
  keep_prompts(out);
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

// With one pool, the tokens of the step are cut where a forward is full.
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
