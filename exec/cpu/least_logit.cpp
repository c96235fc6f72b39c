// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/least_logit.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace plimsoll::exec {

namespace {

constexpr std::size_t kFirstSorted = 64, kMoreSorted = 8;  // how many of the largest are sorted; then times as many

// Returns the least kept logit of `kept`, which it reorders. Almost always few tokens have almost all probability, so
// only the largest are sorted.
float least_of_top_p(std::vector<float>& kept, double largest, const Sampling& sampling) {
  const auto share = [&](float logit) {
    return std::exp((static_cast<double>(logit) - largest) / static_cast<double>(sampling.temperature));
  };
  double total = 0;
  for (const float logit : kept) total += share(logit);
  const double wanted = static_cast<double>(sampling.top_p) * total;
  double sum = 0;
  std::size_t sorted = 0;
  for (std::size_t next = kFirstSorted; sorted < kept.size(); next *= kMoreSorted) {
    const std::size_t end = std::min(next, kept.size());
    const auto from = kept.begin() + static_cast<std::ptrdiff_t>(sorted);
    const auto to = kept.begin() + static_cast<std::ptrdiff_t>(end);
    std::partial_sort(from, to, kept.end(), std::greater<>());
    for (; sorted < end; ++sorted) {
      sum += share(kept[sorted]);
      if (sum >= wanted) return kept[sorted];
    }
  }
  return kept.back();
}

}  // namespace

float least_logit(std::span<const float> logits, const Sampling& sampling) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  float largest = kLowest;
  for (const float logit : logits) largest = std::max(largest, logit);
  float least = kLowest;
  // p_i >= min_p p_max where logit_i >= largest + temperature ln(min_p). Rounding must not lose the largest itself.
  if (sampling.min_p > 0)
    least = std::min(
        largest, static_cast<float>(static_cast<double>(largest) + static_cast<double>(sampling.temperature) *
                                                                       std::log(static_cast<double>(sampling.min_p))));
  std::vector<float> kept;
  const bool has_k = sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < logits.size();
  if (!has_k && sampling.top_p >= 1) return least;
  for (const float logit : logits)
    if (logit >= least) kept.push_back(logit);
  if (kept.empty()) return least;  // no logit is a number
  if (has_k && static_cast<std::size_t>(sampling.top_k) < kept.size()) {
    const auto last = kept.begin() + sampling.top_k - 1;
    std::nth_element(kept.begin(), last, kept.end(), std::greater<>());
    least = *last;
    kept.erase(std::remove_if(kept.begin(), kept.end(), [least](float logit) { return logit < least; }), kept.end());
  }
  return sampling.top_p < 1 ? least_of_top_p(kept, static_cast<double>(largest), sampling) : least;
}

}  // namespace plimsoll::exec
