// SPDX-License-Identifier: Apache-2.0
// The mixture of experts' router on the CPU: from logits to experts, and to rows sorted by expert, so that every expert
// is one product.
#pragma once

#include <cstdint>
#include <vector>

namespace plimsoll::exec {

/// Which experts each token goes to, and the order of rows sorted by expert (tokens in order within an expert).
struct ExpertRouting {
  std::int32_t per_token = 0;
  std::vector<std::int64_t> first_row;  // [experts + 1]: rows of expert e are [first_row[e], first_row[e + 1])
  std::vector<std::int64_t> row;        // [tokens * per_token]: the row of a token's j-th expert
  std::vector<float> weight;            // [tokens * per_token]: these sum to 1 over a token's experts

  /// Takes the per_token largest of each token's logits [tokens, experts], the lower index of equals, with their
  /// softmax renormalised over those taken. Logits that are not numbers still give a valid routing.
  void choose(const float* logits, std::int64_t tokens, std::int32_t experts, std::int32_t per_token);
};

}  // namespace plimsoll::exec
