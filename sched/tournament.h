// SPDX-License-Identifier: Apache-2.0
// Keeps the best of many candidates while they change one at a time. It is a tree of matches; a change replays only the
// matches on the path from its candidate to the final. A change costs O(log n), reading the winner O(1).
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plimsoll::sched {

class Tournament {
 public:
  [[nodiscard]] bool empty() const { return winners_.empty(); }
  /// Returns the best candidate; call start() with at least one candidate first. Ties go to the lowest index.
  [[nodiscard]] std::size_t winner() const { return winners_[1]; }

  /// Plays all matches between candidates 0 … count-1. `beats(a, b)`: whether a is better than b; a strict weak order.
  template <class Beats>
  void start(std::size_t count, Beats beats) {
    seats_ = std::bit_ceil(count);
    winners_.assign(2 * seats_, 0);
    for (std::size_t i = 0; i < seats_; ++i) winners_[seats_ + i] = static_cast<std::uint32_t>(std::min(i, count - 1));
    for (std::size_t match = seats_; --match > 0;) play(match, beats);
    if (seats_ == 1) winners_[1] = 0;
  }
  /// Replays the matches of a candidate that has become better or worse.
  template <class Beats>
  void changed(std::size_t index, Beats beats) {
    for (std::size_t match = (seats_ + index) / 2; match > 0; match /= 2) {
      const bool won = winners_[match] == index;
      play(match, beats);
      if (!won && winners_[match] != index) return;  // it lost before and loses again
    }
  }

 private:
  // Ties go to the left side, which has the lower index.
  template <class Beats>
  void play(std::size_t match, Beats beats) {
    const std::uint32_t left = winners_[2 * match], right = winners_[2 * match + 1];
    winners_[match] = beats(right, left) ? right : left;
  }

  std::size_t seats_ = 0;
  std::vector<std::uint32_t> winners_;  // winner of each match, the final at 1; then the candidates themselves
};

}  // namespace plimsoll::sched
