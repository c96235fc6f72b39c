// SPDX-License-Identifier: Apache-2.0
#include "sched/request_table.h"

#include <algorithm>
#include <utility>

#include "model/error.h"

namespace plimsoll::sched {

ReqId RequestTable::add(const Request& request, const RareFields& rare) {
  ReqId id = free_;
  if (id == kNoRequest) {
    id = static_cast<ReqId>(slots_.size());
    slots_.emplace_back();
    if (window_ > 0) growths_.emplace_back();
  } else {
    free_ = slots_[id].request.serial;
  }
  slots_[id] = {.request = request};
  // A column is empty until a request needs it; then it is as long as the table.
  const auto keep = [this, id](auto& column, auto value) {
    if (value == 0 && column.empty()) return;
    column.resize(slots_.size());
    column[id] = value;
  };
  keep(reserves_, rare.reserve_tokens);
  keep(priorities_, rare.priority);
  keep(remotes_, rare.remote);
  ++live_;
  return id;
}

// The slot that was freed last is used first: its memory is warm.
void RequestTable::remove(ReqId id) {
  if (decoding(id)) leave_group(id);
  slots_[id].request.serial = std::exchange(free_, id);
  --live_;
}

void RequestTable::join_group(ReqId id) {
  Slot& slot = slots_[id];
  PLIMSOLL_CHECK(!slot.request.decoding, "a request joins the decode group once");
  group_computed_ += slot.computed;
  slot.request.decoding = true;
  slot.generated -= static_cast<std::uint32_t>(clock_);
  slot.computed -= static_cast<std::uint32_t>(clock_);
  ++group_size_;
  if (window_ > 0) window_join(id);
}

// From here on the counters are the request's own again, with the progress of the group added.
void RequestTable::leave_group(ReqId id) {
  Slot& slot = slots_[id];
  PLIMSOLL_CHECK(slot.request.decoding, "only members leave the decode group");
  if (window_ > 0) window_leave(id);
  slot.generated += static_cast<std::uint32_t>(clock_);
  slot.computed += static_cast<std::uint32_t>(clock_);
  slot.request.decoding = false;
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
  // The windowed sum advances with the group's clock, so the member leaves it and joins again.
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
  Growth& growth = growths_[id];
  const Tok context = computed(id) + 1;
  growth.saturated = context >= window_;
  if (growth.saturated) return;
  ++growing_;
  growing_context_ += context;
  ++growth.epoch;
  saturations_.push_back({clock_ + (window_ - context), id, growth.epoch});
  std::push_heap(saturations_.begin(), saturations_.end(), kLater);
}

void RequestTable::window_leave(ReqId id) {
  if (growths_[id].saturated) return;
  --growing_;
  growing_context_ -= computed(id) + 1;
  ++growths_[id].epoch;
}

// Entries of requests that have left the group stay in the heap, because removing them would cost a search. Their epoch
// identifies them when they reach the top.
void RequestTable::drop_stale() {
  while (!saturations_.empty()) {
    const Saturation& next = saturations_.front();
    if (decoding(next.id) && growths_[next.id].epoch == next.epoch) return;
    std::pop_heap(saturations_.begin(), saturations_.end(), kLater);
    saturations_.pop_back();
  }
}

// Members that reached the window stop growing. A leap passes such a point at most with its last step.
void RequestTable::window_advance() {
  for (drop_stale(); !saturations_.empty() && saturations_.front().clock <= clock_; drop_stale()) {
    const Saturation next = saturations_.front();
    std::pop_heap(saturations_.begin(), saturations_.end(), kLater);
    saturations_.pop_back();
    growths_[next.id].saturated = true;
    --growing_;
    growing_context_ -= computed(next.id) + 1;
  }
}

}  // namespace plimsoll::sched
