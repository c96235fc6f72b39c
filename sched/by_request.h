// SPDX-License-Identifier: Apache-2.0
// What only some of the live requests have, by their handle. A request without it costs four bytes at most, since
// millions may wait that have nothing yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sched/types.h"

namespace plimsoll::sched {

/// T is made by T{}. Pointers and references hold until the next make().
template <class T>
class ByRequest {
 public:
  /// Null where the request has none.
  [[nodiscard]] const T* find(ReqId id) const { return has(id) ? &values_[place(id)] : nullptr; }
  [[nodiscard]] T* find(ReqId id) { return has(id) ? &values_[place(id)] : nullptr; }
  /// The request's; a new one, if it has none. A new one may have been another request's: its vectors are as that one
  /// left them, so that their storage is used again.
  T& make(ReqId id) {
    if (has(id)) return values_[place(id)];
    if (id >= places_.size()) places_.resize(id + 1, -1);
    if (free_.empty()) {
      free_.push_back(static_cast<std::int32_t>(values_.size()));
      values_.emplace_back();
    }
    places_[id] = free_.back();
    free_.pop_back();
    return values_[place(id)];
  }
  /// The request has none any more.
  void erase(ReqId id) {
    if (!has(id)) return;
    free_.push_back(places_[id]);
    places_[id] = -1;
  }

 private:
  [[nodiscard]] bool has(ReqId id) const { return id < places_.size() && places_[id] >= 0; }
  [[nodiscard]] std::size_t place(ReqId id) const { return static_cast<std::size_t>(places_[id]); }

  std::vector<std::int32_t> places_;  // in values_ by ReqId; -1: none
  std::vector<T> values_;
  std::vector<std::int32_t> free_;
};

}  // namespace plimsoll::sched
