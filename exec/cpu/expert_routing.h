// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts on the CPU: from logits to experts, and to rows sorted by expert, so that each
// expert needs one product.
#pragma once

#include <cstdint>
#include <vector>

#include "model/architecture.h"

namespace plimsoll::exec {

/// What ExpertRouting::choose() needs besides the logits.
struct ExpertChoice {
  model::Routing routing;
  std::int32_t experts = 0, per_token = 0;
  const float* choice_bias = nullptr;  // [experts], added to the scores for the choice; null if none
};

/// The experts of each token, and the order of rows sorted by expert (in order of tokens within an expert).
struct ExpertRouting {
  std::int32_t per_token = 0;
  std::vector<std::int64_t> first_row;  // [experts + 1]: rows of expert e are [first_row[e], first_row[e + 1])
  std::vector<std::int64_t> row;        // [tokens * per_token]: the row of a token's j-th expert
  std::vector<float> weight;            // [tokens * per_token]: weights of a token's experts
  std::vector<float> margin;            // [tokens]: RowExperts::margin

  /// Chooses the per_token experts with the largest scores of each token from its logits [tokens, experts]; among equal
  /// scores the lower index wins. NaN logits still give a valid routing.
  void choose(const ExpertChoice& choice, const float* logits, std::int64_t tokens);

 private:
  void weigh(const ExpertChoice& choice, const float* logits, const std::int64_t* chosen, float* weights);
  [[nodiscard]] const float* scores_for_choice(const ExpertChoice& choice, const float* logits);
  [[nodiscard]] float close_groups(const ExpertChoice& choice);

  std::vector<float> scores_, group_;  // of one token
  float range_ = 0;                    // of its scores
  float group_margin_ = 0;             // between the worst open group and the best closed one
};

}  // namespace plimsoll::exec
