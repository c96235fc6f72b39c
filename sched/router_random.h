// SPDX-License-Identifier: Apache-2.0
// Draws that are the same on every machine and with every library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace plimsoll::sched {

/// Spreads 64 bits over 64 bits (the finaliser of SplitMix64, Steele, Lea and Flood 2014): neighbouring numbers come
/// out unrelated, different ones stay different.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Uniform in [0, n), n < 2^32: off by at most n / 2^32, far below what any run could tell.
[[nodiscard]] inline std::size_t draw_below(std::mt19937_64& engine, std::size_t n) {
  return static_cast<std::size_t>(((engine() >> 32) * n) >> 32);
}

}  // namespace plimsoll::sched
