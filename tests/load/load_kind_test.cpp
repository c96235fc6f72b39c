// SPDX-License-Identifier: Apache-2.0
#include "load/load_kind.h"

#include <gtest/gtest.h>

#include "traces/reader.h"

namespace plimsoll::load {
namespace {

const std::vector<LoadSpec>& every_load() {
  static const auto kTrace = std::make_shared<const traces::Trace>();
  static const std::vector<LoadSpec> kLoads = {ClosedLoop{7, Seconds(0)},
                                               Poisson{2.5},
                                               GammaArrivals{2.5, 3},
                                               ConstantRate{2.5},
                                               Burst{7},
                                               TraceReplay{kTrace, 2.5},
                                               JumpStart{7},
                                               Script{},
                                               Sessions{{}, 7},
                                               SessionArrivals{{}, 2.5}};
  return kLoads;
}

TEST(LoadKinds, EveryLoadHasANameThatFindsItsKindAgain) {
  ASSERT_EQ(every_load().size(), load_kind_names().size());
  for (std::size_t i = 0; i < every_load().size(); ++i) {
    const LoadKind& kind = kind_of(every_load()[i]);
    EXPECT_EQ(kind.name, load_kind_names()[i]);
    EXPECT_EQ(&load_kind_named(kind.name), &kind);
    EXPECT_EQ(load_kind(every_load()[i]), kind.name);
  }
  EXPECT_TRUE(load_kind_named("closed").name.empty());
}

// 7 clients or requests, 2.5 requests/s, or multiples of a trace's rate; a script has no value.
TEST(LoadKinds, TheQuantitySaysWhatTheValueCounts) {
  for (const LoadSpec& load : every_load()) {
    const LoadQuantity quantity = kind_of(load).quantity;
    EXPECT_EQ(load_value(load), quantity == LoadQuantity::none ? 0 : is_whole(quantity) ? 7 : 2.5) << load_kind(load);
  }
}

TEST(LoadKinds, ClosedLoopsAloneWaitForAnswers) {
  for (const LoadSpec& load : every_load()) {
    const bool waits = std::holds_alternative<ClosedLoop>(load) || std::holds_alternative<JumpStart>(load) ||
                       std::holds_alternative<Sessions>(load);
    EXPECT_EQ(kind_of(load).load_class == LoadClass::closed, waits) << load_kind(load);
    EXPECT_EQ(is_closed_loop(load), waits) << load_kind(load);
  }
}

}  // namespace
}  // namespace plimsoll::load
