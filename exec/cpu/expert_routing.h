// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts on the CPU: from logits to experts, and to rows sorted by expert, so that each
// expert needs one product.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::exec {

/// The experts of each token, and the order of rows sorted by expert (in order of tokens within an expert).
struct ExpertRouting {
  std::int32_t per_token = 0;
  std::vector<std::int64_t> first_row;  // [experts + 1]: rows of expert e are [first_row[e], first_row[e + 1])
  std::vector<std::int64_t> row;        // [tokens * per_token]: the row of a token's j-th expert
  std::vector<float> weight;            // [tokens * per_token]: weights of a token's experts, which sum to 1

  /// Chooses the per_token largest of each token's logits [tokens, experts]; among equal logits the lower index wins.
  /// The weights are the softmax over the chosen experts. NaN logits still give a valid routing.
  void choose(const float* logits, std::int64_t tokens, std::int32_t experts, std::int32_t per_token);
};

}  // namespace plimsoll::exec
