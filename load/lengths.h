// SPDX-License-Identifier: Apache-2.0
// Draws the lengths, pauses and priorities of requests by index. Internal to load/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "load/random.h"
#include "load/workload.h"

namespace plimsoll::load {

/// Throws InputError if the numbers do not describe a distribution; `what` is "input" or "output".
void check_lengths(const LengthMarginal& lengths, std::string_view what);

/// Draws from one of the two marginals, with a stream of its own.
class LengthSampler {
 public:
  LengthSampler(const LengthMarginal& lengths, RandomStream stream);
  /// Returns a whole number of tokens, at least 1. Depends only on the index.
  [[nodiscard]] std::int32_t draw(std::uint64_t index) const;

 private:
  [[nodiscard]] double draw_real(const RandomBlock& bits) const;

  RandomStream stream_;
  LengthDistribution distribution_;
  std::int32_t fixed_ = 0;  // > 0: always this length, nothing is drawn
  double low_ = 1, high_ = 0;
  double mu_ = 0, sigma_ = 0;  // of the logarithm of the length
  double log_failure_ = 0;     // ln(1 - p) of the geometric distribution, p = 1/mean
};

/// Throws InputError if the numbers do not describe a pause; `what` is "think" or "tools".
void check_pause(const Pause& pause, std::string_view what);
/// Returns the pause in nanoseconds for these random bits.
[[nodiscard]] Nanos draw_pause(const Pause& pause, const RandomBlock& bits);
/// Returns the priority of one of the classes, which must not be empty, for these random bits.
[[nodiscard]] std::int32_t draw_priority(std::span<const PriorityClass> classes, std::uint64_t bits);
/// Maps ids of a trace's repetition to ids of its own, so that a prompt of one tile does not hit the cached blocks of
/// another.
[[nodiscard]] std::uint64_t id_of_tile(std::uint64_t id, std::uint64_t tile);

}  // namespace plimsoll::load
