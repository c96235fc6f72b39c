// SPDX-License-Identifier: Apache-2.0
#include "sched/request_table.h"

#include <algorithm>

#include "model/error.h"

namespace plimsoll::sched {

ReqId RequestTable::add(const Request& request) {
  ReqId id;
  if (free_slots_.empty()) {
    id = static_cast<ReqId>(slots_.size());
    slots_.emplace_back();
  } else {
    id = free_slots_.back();
    free_slots_.pop_back();
  }
  Slot slot;
  slot.request = request;
  slot.epoch = slots_[id].epoch;
  ++slot.epoch;
  slots_[id] = slot;
  ++live_;
  return id;
}

void RequestTable::remove(ReqId id) {
  if (slots_[id].in_group) leave_group(id);
  ++slots_[id].epoch;
  free_slots_.push_back(id);
  --live_;
}

void RequestTable::join_group(ReqId id) {
  Slot& slot = slots_[id];
  PLIMSOLL_CHECK(!slot.in_group, "a request joins the decode group once");
  slot.joined = static_cast<std::uint32_t>(clock_);
  slot.in_group = true;
  ++group_size_;
  group_computed_ += slot.computed;
  if (window_ > 0) window_join(id);
}

// From here on the counters are the request's own again: what the group's clock added is written down.
void RequestTable::leave_group(ReqId id) {
  Slot& slot = slots_[id];
  PLIMSOLL_CHECK(slot.in_group, "only members leave the decode group");
  if (window_ > 0) window_leave(id);
  const Tok run = run_of(id);
  slot.generated += run;
  slot.computed += run;
  slot.in_group = false;
  --group_size_;
  group_computed_ -= slot.computed;
}

void RequestTable::advance_group(std::int64_t steps) {
  clock_ += steps;
  group_computed_ += steps * group_size_;
  if (window_ > 0) {
    growing_context_ += steps * growing_;
    window_advance();
  }
}

void RequestTable::advance_member(ReqId id) {
  Slot& slot = slots_[id];
  if (window_ > 0) window_leave(id);
  ++slot.generated;
  ++slot.computed;
  ++group_computed_;
  if (window_ > 0) window_join(id);
}

std::int64_t RequestTable::group_context_windowed() const {
  if (window_ == 0) return group_context();
  return growing_context_ + (group_size_ - growing_) * window_;
}

std::int64_t RequestTable::steps_to_window_kink() {
  if (window_ == 0) return kForever;
  drop_stale();
  return saturations_.empty() ? kForever : saturations_.front().clock - clock_;
}

// A member's share of the windowed sum is min(computed + 1, window).
void RequestTable::window_join(ReqId id) {
  Slot& slot = slots_[id];
  const Tok context = computed(id) + 1;
  slot.saturated = context >= window_;
  if (slot.saturated) return;
  ++growing_;
  growing_context_ += context;
  ++slot.epoch;
  saturations_.push_back({clock_ + (window_ - context), id, slot.epoch});
  std::push_heap(saturations_.begin(), saturations_.end(), kLater);
}

void RequestTable::window_leave(ReqId id) {
  Slot& slot = slots_[id];
  if (!slot.saturated) {
    --growing_;
    growing_context_ -= computed(id) + 1;
    ++slot.epoch;
  }
}

// Entries of requests that have left the group stay in the heap, where removing them would cost a search; their epoch
// tells them apart when they reach the top.
void RequestTable::drop_stale() {
  while (!saturations_.empty()) {
    const Saturation& next = saturations_.front();
    if (slots_[next.id].in_group && slots_[next.id].epoch == next.epoch) return;
    std::pop_heap(saturations_.begin(), saturations_.end(), kLater);
    saturations_.pop_back();
  }
}

// Members that reached the window stop growing; leaps never pass such a point by more than the step that reaches it.
void RequestTable::window_advance() {
  for (drop_stale(); !saturations_.empty() && saturations_.front().clock <= clock_; drop_stale()) {
    const Saturation next = saturations_.front();
    std::pop_heap(saturations_.begin(), saturations_.end(), kLater);
    saturations_.pop_back();
    slots_[next.id].saturated = true;
    --growing_;
    growing_context_ -= computed(next.id) + 1;
  }
}

}  // namespace plimsoll::sched
