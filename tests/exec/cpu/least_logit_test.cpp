// SPDX-License-Identifier: Apache-2.0
// top_k, top_p and min_p against a definition that sorts everything, in f64.
#include "exec/cpu/least_logit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace plimsoll::exec {
namespace {

using ::testing::ElementsAre;

// Returns the tokens that stay, by the words of least_logit.h: one filter after the other, on a sorted list.
std::set<std::size_t> kept_by_definition(const std::vector<float>& logits, const Sampling& s) {
  std::vector<std::size_t> order(logits.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  const double largest = logits[order.front()], temperature = s.temperature;
  const auto share = [&](std::size_t i) { return std::exp((logits[i] - largest) / temperature); };
  if (s.min_p > 0) std::erase_if(order, [&](std::size_t i) { return share(i) < static_cast<double>(s.min_p); });
  const auto cut_after = [&](std::size_t count) {
    const float last = logits[order[count - 1]];
    std::erase_if(order, [&](std::size_t i) { return logits[i] < last; });
  };
  if (s.top_k > 0 && static_cast<std::size_t>(s.top_k) < order.size()) cut_after(static_cast<std::size_t>(s.top_k));
  if (s.top_p < 1) {
    double total = 0, sum = 0;
    for (const std::size_t i : order) total += share(i);
    std::size_t count = 0;
    while (count < order.size() && sum < static_cast<double>(s.top_p) * total) sum += share(order[count++]);
    cut_after(std::max<std::size_t>(count, 1));
  }
  return {order.begin(), order.end()};
}

std::set<std::size_t> kept(const std::vector<float>& logits, const Sampling& s) {
  const float least = least_logit(logits, s);
  std::set<std::size_t> out;
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (logits[i] >= least) out.insert(i);
  return out;
}

// Logits are eighths, so that many are equal, and the shares differ by 13 % or nothing: no rounding decides.
RC_GTEST_PROP(LeastLogit, KeepsWhatTheDefinitionKeeps, ()) {
  const auto eighths = *rc::gen::container<std::vector<int>>(1'500, rc::gen::inRange(-80, 81));
  const auto size = *rc::gen::inRange<std::size_t>(1, eighths.size());
  std::vector<float> logits;
  for (std::size_t i = 0; i < size; ++i) logits.push_back(static_cast<float>(eighths[i]) / 8);
  Sampling s{.temperature = *rc::gen::element(0.5F, 1.0F, 2.0F)};
  s.top_k = *rc::gen::element(0, 1, 5, 40, 1000);
  s.top_p = *rc::gen::element(1.0F, 0.0001F, 0.313F, 0.911F, 0.9999F);
  s.min_p = *rc::gen::element(0.0F, 0.0123F, 0.457F, 1.0F);
  RC_ASSERT(kept(logits, s) == kept_by_definition(logits, s));
}

// p is 8/15, 4/15, 2/15, 1/15 at temperature 1: the first two have 0.8 together.
TEST(LeastLogit, EachFilterHasItsMeaning) {
  const float two = std::log(2.0F);
  const std::vector<float> logits = {0, two, 3 * two, 2 * two};
  const auto with = [&](Sampling s) {
    s.temperature = 1;
    return kept(logits, s);
  };
  EXPECT_THAT(with({}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(with({.top_k = 3}), ElementsAre(1, 2, 3));
  EXPECT_THAT(with({.top_p = 0.79F}), ElementsAre(2, 3));
  EXPECT_THAT(with({.top_p = 0.82F}), ElementsAre(1, 2, 3));
  EXPECT_THAT(with({.min_p = 0.26F}), ElementsAre(2, 3));
  EXPECT_THAT(with({.top_p = 0}), ElementsAre(2));                  // the most probable token always stays
  EXPECT_THAT(with({.top_k = 2, .top_p = 0.66F}), ElementsAre(2));  // 8/12 of what top_k leaves
}

// Equal logits stay together: which of them is first must not depend on the order of the tokens.
TEST(LeastLogit, EqualLogitsStayTogether) {
  EXPECT_THAT(kept({1, 3, 3, 2, 3}, {.temperature = 1, .top_k = 2}), ElementsAre(1, 2, 4));
  EXPECT_THAT(kept({1, 3, 3, 2, 3}, {.temperature = 1, .top_p = 0.1F}), ElementsAre(1, 2, 4));
}

}  // namespace
}  // namespace plimsoll::exec
