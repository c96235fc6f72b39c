// SPDX-License-Identifier: Apache-2.0
// Lengths of requests, drawn by index. Internal to load/.
#pragma once

#include <cstdint>

#include "load/random.h"
#include "load/workload.h"

namespace plimsoll::load {

/// Throws InputError when the numbers do not describe a distribution; `what` is "input" or "output".
void check_lengths(const LengthMarginal& lengths, std::string_view what);

/// One of the two marginals with its own stream.
class LengthSampler {
 public:
  LengthSampler(const LengthMarginal& lengths, RandomStream stream);
  /// Whole tokens, at least 1. Depends on the index only.
  [[nodiscard]] std::int32_t draw(std::uint64_t index) const;

 private:
  [[nodiscard]] double draw_real(const RandomBlock& bits) const;

  RandomStream stream_;
  LengthDistribution distribution_;
  std::int32_t fixed_ = 0;  // > 0: no draw is needed
  double low_ = 1, high_ = 0;
  double mu_ = 0, sigma_ = 0;  // of the logarithm
  double log_failure_ = 0;     // ln(1 - p) of the geometric distribution, p = 1/mean
};

}  // namespace plimsoll::load
