// SPDX-License-Identifier: Apache-2.0
#include "sim/event_queue.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace plimsoll::sim {
namespace {

// Compares with a list that is searched from end to end.
RC_GTEST_PROP(EventQueue, FindsWhatASearchFinds, ()) {
  const auto count = *rc::gen::inRange<std::size_t>(1, 40);
  EventQueue queue(count);
  std::vector<Nanos> times(count, sched::kNever);
  std::vector<std::size_t> due;
  for (int change = 0; change < 200; ++change) {
    const auto replica = *rc::gen::inRange<std::size_t>(0, count);
    times[replica] =
        *rc::gen::weightedOneOf<Nanos>({{1, rc::gen::just(sched::kNever)}, {4, rc::gen::inRange<Nanos>(0, 20)}});
    queue.set(replica, times[replica]);
    RC_ASSERT(queue.at(replica) == times[replica]);
    RC_ASSERT(queue.next() == *std::min_element(times.begin(), times.end()));
    const auto now = *rc::gen::inRange<Nanos>(0, 20);
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < count; ++i)
      if (times[i] <= now) expected.push_back(i);
    queue.due(now, due);
    RC_ASSERT(due == expected);
  }
}

}  // namespace
}  // namespace plimsoll::sim
