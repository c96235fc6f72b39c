// SPDX-License-Identifier: Apache-2.0
// The next event of each replica: a binary heap with one entry a replica. An event costs the logarithm of the number of
// replicas.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "sched/types.h"

namespace plimsoll::sim {

class EventQueue {
 public:
  /// Replicas 0 … count-1, all without an event.
  explicit EventQueue(std::size_t count) : times_(count, sched::kNever), heap_(count), places_(count) {
    std::iota(heap_.begin(), heap_.end(), 0U);
    std::iota(places_.begin(), places_.end(), 0U);
  }

  /// The earliest event; kNever if there is none.
  [[nodiscard]] Nanos next() const { return heap_.empty() ? sched::kNever : times_[heap_.front()]; }
  [[nodiscard]] Nanos at(std::size_t replica) const { return times_[replica]; }
  void set(std::size_t replica, Nanos time) {
    const Nanos before = std::exchange(times_[replica], time);
    if (time < before) rise(places_[replica]);
    if (time > before) sink(places_[replica]);
  }
  /// Replaces `due` by the replicas whose event is at or before `now`, in order of their index.
  void due(Nanos now, std::vector<std::size_t>& due) const {
    due.clear();
    collect(0, now, due);
    std::sort(due.begin(), due.end());
  }

 private:
  void put(std::size_t place, std::uint32_t replica) {
    heap_[place] = replica;
    places_[replica] = static_cast<std::uint32_t>(place);
  }

  void rise(std::size_t place) {
    const std::uint32_t replica = heap_[place];
    for (; place > 0 && times_[heap_[(place - 1) / 2]] > times_[replica]; place = (place - 1) / 2)
      put(place, heap_[(place - 1) / 2]);
    put(place, replica);
  }

  void sink(std::size_t place) {
    const std::uint32_t replica = heap_[place];
    for (std::size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
      if (child + 1 < heap_.size() && times_[heap_[child + 1]] < times_[heap_[child]]) ++child;
      if (times_[heap_[child]] >= times_[replica]) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, replica);
  }

  // Every child of an entry is at least as late, so the walk stops at the first entry after `now`.
  void collect(std::size_t place, Nanos now, std::vector<std::size_t>& due) const {
    if (place >= heap_.size() || times_[heap_[place]] > now) return;
    due.push_back(heap_[place]);
    collect(2 * place + 1, now, due);
    collect(2 * place + 2, now, due);
  }

  std::vector<Nanos> times_;           // by replica
  std::vector<std::uint32_t> heap_;    // replicas
  std::vector<std::uint32_t> places_;  // by replica: its index in the heap
};

}  // namespace plimsoll::sim
