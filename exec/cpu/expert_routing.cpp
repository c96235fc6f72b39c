// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/expert_routing.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::exec {

namespace {

// Returns the best expert that is not in chosen[0, taken).
std::int32_t best_of_rest(const float* logits, std::int32_t experts, const std::int64_t* chosen, std::int32_t taken) {
  std::int32_t best = -1;
  for (std::int32_t e = 0; e < experts; ++e) {
    if (std::find(chosen, chosen + taken, e) != chosen + taken) continue;
    if (best < 0 || logits[e] > logits[best]) best = e;
  }
  return best;
}

}  // namespace

void ExpertRouting::choose(const float* logits, std::int64_t tokens, std::int32_t experts, std::int32_t count) {
  per_token = count;
  row.resize(static_cast<std::size_t>(tokens * count));
  weight.resize(row.size());
  first_row.assign(static_cast<std::size_t>(experts) + 1, 0);
  for (std::int64_t token = 0; token < tokens; ++token, logits += experts) {
    std::int64_t* chosen = row.data() + token * count;  // holds experts here, and rows once they are sorted
    float* w = weight.data() + token * count;
    float sum = 0;
    for (std::int32_t j = 0; j < count; ++j) {
      chosen[j] = best_of_rest(logits, experts, chosen, j);
      ++first_row[static_cast<std::size_t>(chosen[j]) + 1];
      w[j] = std::exp(logits[chosen[j]] - logits[chosen[0]]);
      sum += w[j];
    }
    for (std::int32_t j = 0; j < count; ++j) w[j] /= sum;
  }
  for (std::size_t e = 1; e < first_row.size(); ++e) first_row[e] += first_row[e - 1];
  std::vector<std::int64_t> next(first_row.begin(), first_row.end() - 1);
  for (std::int64_t& place : row) place = next[static_cast<std::size_t>(place)]++;
}

}  // namespace plimsoll::exec
