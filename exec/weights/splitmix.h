// SPDX-License-Identifier: Apache-2.0
// Numbers drawn from a seed and a position. Weights, prompts and sampling noise use them, so they can be drawn in any
// order and on any device.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define PLIMSOLL_HOST_DEVICE __host__ __device__
#else
#define PLIMSOLL_HOST_DEVICE
#endif

namespace plimsoll::exec {

/// The increment of SplitMix64's state.
constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15U;

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators. OOPSLA 2014). Every
/// bit of the state affects every bit of the result.
PLIMSOLL_HOST_DEVICE inline std::uint64_t finalized(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
  return state ^ (state >> 31);
}

/// Returns the number that SplitMix64 draws after state x.
PLIMSOLL_HOST_DEVICE inline std::uint64_t mix(std::uint64_t x) { return finalized(x + kSplitMixStep); }

}  // namespace plimsoll::exec
