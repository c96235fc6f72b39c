// SPDX-License-Identifier: Apache-2.0
// The next event of each replica: a tree with a leaf for each replica, whose nodes hold the earliest time below them.
// An event takes time logarithmic in the number of replicas.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "sched/types.h"

namespace plimsoll::sim {

class EventQueue {
 public:
  /// Makes a queue for replicas 0 … count-1, all without an event.
  explicit EventQueue(std::size_t count) : leaves_(std::bit_ceil(count)), earliest_(2 * leaves_, sched::kNever) {}

  /// Returns the time of the earliest event; kNever if there is none.
  [[nodiscard]] Nanos next() const { return earliest_[1]; }
  [[nodiscard]] Nanos at(std::size_t replica) const { return earliest_[leaves_ + replica]; }
  /// Sets the time of the replica's event; kNever removes it.
  void set(std::size_t replica, Nanos time) {
    std::size_t node = leaves_ + replica;
    earliest_[node] = time;
    while ((node /= 2) > 0) {
      const Nanos earliest = std::min(earliest_[2 * node], earliest_[2 * node + 1]);
      if (earliest_[node] == earliest) return;  // nor does anything change above
      earliest_[node] = earliest;
    }
  }
  /// Fills `due` with the replicas whose event is at or before `now`, in order of their index.
  void due(Nanos now, std::vector<std::size_t>& due) const {
    due.clear();
    if (earliest_[1] > now) return;
    for (std::size_t node = 1;; ++node) {
      while (node < leaves_) {  // to the first leaf below
        node *= 2;
        if (earliest_[node] > now) ++node;
      }
      due.push_back(node - leaves_);
      // up to the first node whose right neighbour holds another one; node 1 is odd and has none
      while (node % 2 == 1 || earliest_[node + 1] > now)
        if ((node /= 2) == 0) return;
    }
  }

 private:
  std::size_t leaves_;
  std::vector<Nanos> earliest_;  // the root in 1, the children of node n in 2n and 2n + 1; replicas from leaves_ on
};

}  // namespace plimsoll::sim
