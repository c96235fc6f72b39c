// SPDX-License-Identifier: Apache-2.0
// Values that only some of the live requests have. A request without one costs at most four bytes, because millions of
// them may wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sched/types.h"

namespace plimsoll::sched {

/// A pool of values. A value that is reused is as its last user left it, so its vectors keep their storage. References
/// are valid until the next take().
template <class T>
class Pool {
 public:
  [[nodiscard]] std::int32_t take() {
    if (free_.empty()) {
      values_.emplace_back();
      return static_cast<std::int32_t>(values_.size()) - 1;
    }
    const std::int32_t place = free_.back();
    free_.pop_back();
    return place;
  }
  void give(std::int32_t place) { free_.push_back(place); }
  [[nodiscard]] T& operator[](std::int32_t place) { return values_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] const T& operator[](std::int32_t place) const { return values_[static_cast<std::size_t>(place)]; }

 private:
  std::vector<T> values_;
  std::vector<std::int32_t> free_;
};

/// Values by the handle of a request. Pointers and references are valid until the next make().
template <class T>
class ByRequest {
 public:
  /// Returns null if the request has no value.
  [[nodiscard]] const T* find(ReqId id) const { return has(id) ? &values_[places_[id]] : nullptr; }
  [[nodiscard]] T* find(ReqId id) { return has(id) ? &values_[places_[id]] : nullptr; }
  /// Returns the request's value; takes one from the pool if it has none.
  T& make(ReqId id) {
    if (has(id)) return values_[places_[id]];
    if (id >= places_.size()) places_.resize(id + 1, -1);
    places_[id] = values_.take();
    return values_[places_[id]];
  }
  /// Removes the request's value, if it has one.
  void erase(ReqId id) {
    if (!has(id)) return;
    values_.give(places_[id]);
    places_[id] = -1;
  }

 private:
  [[nodiscard]] bool has(ReqId id) const { return id < places_.size() && places_[id] >= 0; }

  std::vector<std::int32_t> places_;  // index into values_ by ReqId; -1: no value
  Pool<T> values_;
};

}  // namespace plimsoll::sched
