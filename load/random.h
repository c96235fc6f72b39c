// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: the i-th draw of a stream depends only on (seed, replication, purpose, i). Runs that
// differ in load or deployment therefore share their random numbers, and draws can be made in any order.
//
// Philox4x64-10 of Random123 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011). The
// distributions are implemented here, because those of <random> differ between libraries. Internal to load/.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace plimsoll::load {

/// The purpose of a stream. The values affect the reproducibility of results: never renumber them.
enum class Purpose : std::uint64_t {
  gap = 1,
  input_length = 2,
  output_length = 3,
  pair = 4,
  prefix_group = 5,
  failure = 6,
  drift = 7,
  priority = 8,
  turns = 9,
  added_length = 10,
  result_length = 11,
  pause = 12
};

using RandomBlock = std::array<std::uint64_t, 4>;

/// One stream of random numbers: each draw is a function of its index.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::uint64_t replication, Purpose purpose)
      : seed_(seed), replication_(replication), purpose_(static_cast<std::uint64_t>(purpose)) {}

  /// Returns 256 random bits for draw `index`; `attempt` counts the trials of a rejection method.
  [[nodiscard]] RandomBlock block(std::uint64_t index, std::uint64_t attempt = 0) const;

 private:
  std::uint64_t seed_, replication_, purpose_;
};

/// Returns a double with 53 random bits, uniform on [0, 1).
[[nodiscard]] inline double uniform01(std::uint64_t bits) { return static_cast<double>(bits >> 11U) * 0x1p-53; }
/// Uniform on (0, 1], so that its logarithm is finite.
[[nodiscard]] inline double uniform01_open(std::uint64_t bits) { return 1.0 - uniform01(bits); }

/// Uniform on 0 … count-1; the bias is below count / 2^64.
[[nodiscard]] inline std::uint64_t uniform_below(std::uint64_t bits, std::uint64_t count) {
  // The high half of the 128-bit product bits x count, computed without a 128-bit type for count < 2^32.
  const std::uint64_t high = (bits >> 32U) * count, low = (bits & 0xFFFFFFFFU) * count;
  return (high + (low >> 32U)) >> 32U;
}

/// Standard normal (Box and Muller, Ann. Math. Stat. 29, 1958); uses both words.
[[nodiscard]] inline double standard_normal(std::uint64_t a, std::uint64_t b) {
  return std::sqrt(-2.0 * std::log(uniform01_open(a))) * std::cos(2.0 * std::numbers::pi * uniform01(b));
}

/// Exponential of mean 1, not truncated: -ln(1 - u).
[[nodiscard]] inline double standard_exponential(std::uint64_t bits) { return -std::log(uniform01_open(bits)); }

/// Gamma of the given shape > 0 and scale 1 (Marsaglia and Tsang, ACM TOMS 26(3), 2000).
[[nodiscard]] double standard_gamma(const RandomStream& stream, std::uint64_t index, double shape);

}  // namespace plimsoll::load
