// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/expert_routing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace plimsoll::exec {
namespace {

// Returns the experts of the only token, in the order of rows: row i belongs to the i-th expert that has a row.
std::set<std::size_t> experts_of(const ExpertRouting& routing) {
  std::set<std::size_t> chosen;
  for (std::size_t e = 0; e + 1 < routing.first_row.size(); ++e)
    if (routing.first_row[e + 1] > routing.first_row[e]) chosen.insert(e);
  return chosen;
}

ExpertChoice choice_of(std::int32_t experts, std::int32_t per_token) {
  ExpertChoice choice;
  choice.experts = experts;
  choice.per_token = per_token;
  return choice;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Softmax over 0, 1, 2: e^2 / (1 + e + e^2) and e / (1 + e + e^2); normalised: e / (1 + e) and 1 / (1 + e).
TEST(ExpertRouting, WeightsAreOfAllExpertsOrOfTheChosenOnes) {
  const float logits[] = {0, 1, 2};
  ExpertRouting routing;
  ExpertChoice choice = choice_of(3, 2);
  routing.choose(choice, logits, 1);
  EXPECT_NEAR(routing.weight[0], std::exp(1) / (1 + std::exp(1)), 1e-6);
  EXPECT_NEAR(routing.weight[0] + routing.weight[1], 1, 1e-6);
  choice.routing.normalised = false;
  choice.routing.scale = 3;
  routing.choose(choice, logits, 1);
  const double all = 1 + std::exp(1) + std::exp(2);
  EXPECT_NEAR(routing.weight[0], 3 * std::exp(2) / all, 1e-6);
  EXPECT_NEAR(routing.weight[1], 3 * std::exp(1) / all, 1e-6);
}

// The bias lifts expert 0 from the last place to the first, but its weight is that of its own logit.
TEST(ExpertRouting, ABiasChoosesWithoutWeighing) {
  const float logits[] = {-1, 0, 1}, bias[] = {5, 0, 0};
  ExpertRouting routing;
  ExpertChoice choice = choice_of(3, 2);
  choice.routing = {.sigmoid = true, .normalised = false, .choice_bias = true};
  choice.choice_bias = bias;
  routing.choose(choice, logits, 1);
  EXPECT_EQ(experts_of(routing), (std::set<std::size_t>{0, 2}));
  EXPECT_NEAR(routing.weight[0], sigmoid(-1), 1e-6);
  EXPECT_NEAR(routing.weight[1], sigmoid(1), 1e-6);
}

// Groups {0, 1}, {2, 3}, {4, 5}. By the best score the last group wins with expert 5, by the sum of two the middle one
// does; its experts are then taken although expert 5 has the highest score.
TEST(ExpertRouting, OnlyOpenGroupsAreEligible) {
  const float logits[] = {-9, -9, 1, 1, -9, 3};
  ExpertRouting routing;
  ExpertChoice choice = choice_of(6, 2);
  choice.routing = {.sigmoid = true, .groups = 3, .open_groups = 1, .group_best = 1};
  routing.choose(choice, logits, 1);
  EXPECT_EQ(experts_of(routing), (std::set<std::size_t>{4, 5}));
  choice.routing.group_best = 2;  // 2 sigmoid(1) = 1.46 is more than sigmoid(3) = 0.95
  routing.choose(choice, logits, 1);
  EXPECT_EQ(experts_of(routing), (std::set<std::size_t>{2, 3}));
}

// Of scores from 0 to 4, the second of two chosen experts has 3 and the best other one 2: a quarter of the range. All
// experts chosen: none is near.
TEST(ExpertRouting, TheMarginIsThatOfTheLastChoice) {
  const float logits[] = {0, 4, 3, 2};
  ExpertRouting routing;
  routing.choose(choice_of(4, 2), logits, 1);
  EXPECT_FLOAT_EQ(routing.margin[0], 0.25F);
  routing.choose(choice_of(4, 4), logits, 1);
  EXPECT_GT(routing.margin[0], 1);
}

// Expert 3 is far above expert 2, but its group is hardly better than the other one: by 0.0002 of sigmoids from 0.05
// to 0.73.
TEST(ExpertRouting, TheMarginCountsGroups) {
  const float logits[] = {1, -3, -3, 1.001F};
  ExpertRouting routing;
  ExpertChoice choice = choice_of(4, 1);
  choice.routing = {.sigmoid = true, .groups = 2, .open_groups = 1, .group_best = 1};
  routing.choose(choice, logits, 1);
  EXPECT_NEAR(routing.margin[0], (sigmoid(1.001) - sigmoid(1)) / (sigmoid(1.001) - sigmoid(-3)), 1e-5);
  EXPECT_EQ(experts_of(routing), (std::set<std::size_t>{3}));
}

TEST(ExpertRouting, NanLogitsGiveAValidRouting) {
  const float logits[] = {NAN, NAN, NAN, NAN};
  ExpertRouting routing;
  ExpertChoice choice = choice_of(4, 2);
  choice.routing = {.groups = 2, .open_groups = 1};
  routing.choose(choice, logits, 1);
  EXPECT_EQ(experts_of(routing).size(), 2U);
}

}  // namespace
}  // namespace plimsoll::exec
