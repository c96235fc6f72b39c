// SPDX-License-Identifier: Apache-2.0
#include "sched/sglang_decode.h"

#include <algorithm>

#include "sched/rows.h"
#include "sched/sglang.h"

namespace plimsoll::sched {

namespace {
constexpr std::int64_t kMostNew = 4096;  // CLIP_MAX_NEW_TOKENS: longer caps are cut to this in estimates
constexpr std::int64_t kReserve = 512;   // num_reserved_decode_tokens

std::int64_t whole_life(const Request& request) {
  return request.prompt + std::min<std::int64_t>(request.max_new, kMostNew);
}
}  // namespace

SgLangDecode::SgLangDecode(const PolicyConfig& config)
    : max_running_(resolve_limits(config).max_running),
      reserve_(config.reserved_decode_tokens.value_or(kReserve)),
      max_len_(config.max_len()) {}

// Refuses a request that even an empty pool would never take: it would block the queue for ever.
std::optional<Reject> SgLangDecode::admit(const Request& request, const View& view) const {
  if (max_len_ > 0 && most_tokens(request) > max_len_) return Reject{kNoRequest, 400, "context_length"};
  const std::int64_t pool = view.kv.total() * view.kv.block_tokens();
  if (std::max(request.prompt + reserve_, whole_life(request)) > pool) return Reject{kNoRequest, 500, "kv_capacity"};
  return {};
}

void SgLangDecode::on_cancel(ReqId id, const View&, Nanos) {
  if (remove_one(queue_, id) || remove_one(loading_, id) || remove_one(ready_, id)) return;
  if (!remove_one(retracted_, id)) remove_one(running_, id);
}

void SgLangDecode::on_transfer_done(ReqId id, const View&, Nanos) {
  remove_one(loading_, id);
  ready_.push_back(id);
}

void SgLangDecode::on_steps_done(const StepsDone& done, const View&, Nanos) {
  for (const ReqId id : done.finished) remove_one(running_, id);
}

std::int64_t SgLangDecode::Room::allocatable() const { return free - std::max(reserved, alone) - retracted; }

SgLangDecode::Room SgLangDecode::room(const View& view) const {
  Room room;
  room.free = view.kv.free() * view.kv.block_tokens();
  room.left = view.kv.free() - view.kv.group_growth(1);
  room.reserved = reserve_ * (std::ssize(running_) + std::ssize(loading_) + std::ssize(ready_));
  for (const ReqId id : running_) room.running += view.requests.length(id);
  for (const ReqId id : running_) room.alone = std::max(room.alone, whole_life(view.requests[id]) - room.running);
  for (const ReqId id : retracted_) room.retracted += view.requests.length(id) + reserve_;
  return room;
}

// Memory is taken in whole pages, and each request keeps a reserve for its output.
void SgLangDecode::take(Blk blocks, const View& view, Room& room) const {
  room.left -= blocks;
  room.free -= blocks * view.kv.block_tokens();
  room.reserved += reserve_;
}

// Brings retracted requests back, in order. Returns whether the rest must wait until another request leaves.
bool SgLangDecode::resume(const View& view, Room& room, Decision& out) {
  room.retracted = 0;  // retracted requests do not compete with themselves
  while (!retracted_.empty() && std::ssize(running_) < max_running_) {
    const ReqId id = retracted_.front();
    const std::int64_t required = view.requests.length(id) + reserve_;
    const Blk blocks = view.kv.blocks_for(view.requests.computed(id) + 1);
    if (required > room.allocatable() || blocks > room.left) return room.stays_blocked(required);
    out.kv.push_back({KvOp::Kind::swap_in, id, 0});
    out.swapped_in.push_back(id);
    running_.push_back(id);
    retracted_.pop_front();
    take(blocks, view, room);
  }
  return true;
}

// Takes the blocks of waiting prompts, in order. Returns whether the rest stays blocked until a request leaves.
bool SgLangDecode::preallocate(const View& view, Room& room, Decision& out) {
  if (!retracted_.empty()) return true;
  while (!queue_.empty()) {
    const ReqId id = queue_.front();
    const Request& request = view.requests[id];
    const std::int64_t required = request.prompt + reserve_;
    const Blk blocks = view.kv.blocks_for(request.prompt);
    if (std::max(required, whole_life(request) - room.running) > room.allocatable() || blocks > room.left)
      return room.stays_blocked(required);
    out.kv.push_back({KvOp::Kind::load, id, request.prompt});
    loading_.push_back(id);
    queue_.pop_front();
    take(blocks, view, room);
  }
  return true;
}

// A request enters without a forward of its own: its first token came with its KV.
void SgLangDecode::join(const View& view, Room& room, Decision& out) {
  while (!ready_.empty() && std::ssize(running_) < max_running_) {
    const ReqId id = ready_.front();
    const Blk blocks = view.kv.need(id, view.requests.computed(id) + 1);
    if (blocks > room.left) return;
    room.left -= blocks;
    ready_.pop_front();
    running_.push_back(id);
    out.joined.push_back(id);
  }
}

void SgLangDecode::decide(Nanos now, const View& view, Decision& out) {
  const bool short_of_memory = view.kv.group_growth(1) > view.kv.free();
  if (short_of_memory) retract(view, out);
  bool blocked = true;
  if (out.preempted.empty() && out.rejects.empty()) {
    Room space = room(view);
    const bool stay_away = resume(view, space, out);
    const bool stay_blocked = preallocate(view, space, out);
    if (out.swapped_in.empty()) join(view, space, out);
    blocked = stay_away && stay_blocked;
  }
  std::int64_t members = view.requests.group_size() + std::ssize(out.joined) + std::ssize(out.swapped_in);
  for (const ReqId id : out.preempted) members -= view.requests.decoding(id) ? 1 : 0;
  for (const Reject& refusal : out.rejects) members -= view.requests.decoding(refusal.id) ? 1 : 0;
  if (members == 0) {
    if (!out.preempted.empty() || !out.rejects.empty()) out.wake_at = now + 1;
    return;
  }
  out.add_forward().decodes = Decodes::group;
  if (!blocked || !out.kv.empty() || !out.joined.empty() || !out.rejects.empty()) return;
  out.repeat = std::max<std::int64_t>(0, view.kv.group_steps(view.kv.free()) - 1);
  out.arrival_breaks = queue_.empty() && retracted_.empty();
}

// Retracts requests until the others can decode one more token.
void SgLangDecode::retract(const View& view, Decision& out) {
  std::vector<ReqId> order = running_;
  sort_for_retraction(order, view);
  Blk need = view.kv.group_growth(1), free = view.kv.free();
  while (need > free && order.size() > 1) {
    const ReqId id = order.back();
    order.pop_back();
    need -= view.kv.need(id, view.requests.computed(id) + 1);
    free += view.kv.held(id);
    out.preempted.push_back(id);
    out.kv.push_back({KvOp::Kind::swap_out, id, 0});
    remove_one(running_, id);
    retracted_.push_back(id);
  }
  if (need <= free || order.empty()) return;
  // Only one running request is left. The KV of the others is on its way, and those cannot be retracted.
  out.rejects.push_back({order.front(), 500, "kv_capacity"});
  remove_one(running_, order.front());
}

}  // namespace plimsoll::sched
