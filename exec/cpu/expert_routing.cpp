// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/expert_routing.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace plimsoll::exec {

namespace {

// Returns the best expert that is not in chosen[0, taken).
std::int32_t best_of_rest(const float* scores, std::int32_t experts, const std::int64_t* chosen, std::int32_t taken) {
  std::int32_t best = -1;
  for (std::int32_t e = 0; e < experts; ++e) {
    if (std::find(chosen, chosen + taken, e) != chosen + taken) continue;
    if (best < 0 || scores[e] > scores[best]) best = e;
  }
  return best;
}

// Returns by how much the worst chosen score exceeds the best other one.
float distance(const float* scores, std::int32_t count, const std::int64_t* chosen, std::int32_t taken) {
  const std::int32_t next = best_of_rest(scores, count, chosen, taken);
  if (next < 0) return std::numeric_limits<float>::infinity();
  float worst = scores[chosen[0]];
  for (std::int32_t j = 1; j < taken; ++j) worst = std::min(worst, scores[chosen[j]]);
  return worst - scores[next];
}

// Returns the distance between the largest and the smallest score; at least the smallest positive number.
float range_of(const float* scores, std::int32_t count) {
  const auto [low, high] = std::minmax_element(scores, scores + count);
  return std::max(*high - *low, std::numeric_limits<float>::min());
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

// Without groups and biases, scores and logits have the same order, so the logits suffice.
const float* ExpertRouting::scores_for_choice(const ExpertChoice& choice, const float* logits) {
  group_margin_ = std::numeric_limits<float>::infinity();
  range_ = range_of(logits, choice.experts);
  if (choice.choice_bias == nullptr && choice.routing.groups == 1) return logits;
  scores_.resize(static_cast<std::size_t>(choice.experts));
  const float highest = *std::max_element(logits, logits + choice.experts);
  float sum = 0;
  for (std::int32_t e = 0; e < choice.experts; ++e) {
    float& score = scores_[static_cast<std::size_t>(e)];
    score = choice.routing.sigmoid ? sigmoid(logits[e]) : std::exp(logits[e] - highest);
    sum += score;
  }
  for (std::int32_t e = 0; e < choice.experts; ++e) {
    float& score = scores_[static_cast<std::size_t>(e)];
    if (!choice.routing.sigmoid) score /= sum;
    if (choice.choice_bias != nullptr) score += choice.choice_bias[e];
  }
  range_ = range_of(scores_.data(), choice.experts);
  if (choice.routing.groups > 1) group_margin_ = close_groups(choice);
  return scores_.data();
}

// Excludes the experts outside the best groups. Returns the margin of the groups.
float ExpertRouting::close_groups(const ExpertChoice& choice) {
  const std::int32_t groups = choice.routing.groups, size = choice.experts / groups;
  std::vector<float> of_group(static_cast<std::size_t>(groups));
  for (std::int32_t g = 0; g < groups; ++g) {
    group_.assign(scores_.begin() + g * size, scores_.begin() + (g + 1) * size);
    const auto best = group_.begin() + choice.routing.group_best;
    std::partial_sort(group_.begin(), best, group_.end(), std::greater<>());
    for (auto score = group_.begin(); score != best; ++score) of_group[static_cast<std::size_t>(g)] += *score;
  }
  std::vector<std::int64_t> open;
  for (std::int32_t i = 0; i < choice.routing.open_groups; ++i)
    open.push_back(best_of_rest(of_group.data(), groups, open.data(), i));
  const float lowest = *std::min_element(scores_.begin(), scores_.end());
  for (std::int32_t e = 0; e < choice.experts; ++e) {
    if (std::find(open.begin(), open.end(), e / size) == open.end())
      scores_[static_cast<std::size_t>(e)] = lowest - 1;  // below all scores of experts that may be chosen
  }
  return distance(of_group.data(), groups, open.data(), choice.routing.open_groups) / range_;
}

// Computes weights relative to the highest logit; the common factor cancels in the division.
void ExpertRouting::weigh(const ExpertChoice& choice, const float* logits, const std::int64_t* chosen, float* weights) {
  const model::Routing& routing = choice.routing;
  const bool over_all = !routing.sigmoid && !routing.normalised;
  const float highest = over_all ? *std::max_element(logits, logits + choice.experts) : logits[chosen[0]];
  float sum = 0;
  for (std::int32_t j = 0; j < choice.per_token; ++j) {
    weights[j] = routing.sigmoid ? sigmoid(logits[chosen[j]]) : std::exp(logits[chosen[j]] - highest);
    sum += weights[j];
  }
  if (over_all) {
    sum = 0;
    for (std::int32_t e = 0; e < choice.experts; ++e) sum += std::exp(logits[e] - highest);
  }
  const bool divided = over_all || routing.normalised;
  for (std::int32_t j = 0; j < choice.per_token; ++j) {
    if (divided) weights[j] /= sum;
    if (routing.scale != 1) weights[j] *= static_cast<float>(routing.scale);
  }
}

void ExpertRouting::choose(const ExpertChoice& choice, const float* logits, std::int64_t tokens) {
  const std::int32_t count = choice.per_token, experts = choice.experts;
  per_token = count;
  row.resize(static_cast<std::size_t>(tokens * count));
  weight.resize(row.size());
  margin.resize(static_cast<std::size_t>(tokens));
  first_row.assign(static_cast<std::size_t>(experts) + 1, 0);
  for (std::int64_t token = 0; token < tokens; ++token, logits += experts) {
    std::int64_t* chosen = row.data() + token * count;  // holds experts here, and rows once they are sorted
    const float* const scores = scores_for_choice(choice, logits);
    for (std::int32_t j = 0; j < count; ++j) {
      chosen[j] = best_of_rest(scores, experts, chosen, j);
      ++first_row[static_cast<std::size_t>(chosen[j]) + 1];
    }
    weigh(choice, logits, chosen, weight.data() + token * count);
    margin[static_cast<std::size_t>(token)] =
        std::min(group_margin_, distance(scores, experts, chosen, count) / range_);
  }
  for (std::size_t e = 1; e < first_row.size(); ++e) first_row[e] += first_row[e - 1];
  std::vector<std::int64_t> next(first_row.begin(), first_row.end() - 1);
  for (std::int64_t& place : row) place = next[static_cast<std::size_t>(place)]++;
}

}  // namespace plimsoll::exec
