// SPDX-License-Identifier: Apache-2.0
// Numbers from a seed and a place: weights, prompts and the noise of sampling are drawn so, in any order and on any
// device.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define PLIMSOLL_HOST_DEVICE __host__ __device__
#else
#define PLIMSOLL_HOST_DEVICE
#endif

namespace plimsoll::exec {

/// By how much SplitMix64's state grows from one number to the next.
constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15U;

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators. OOPSLA 2014): every
/// bit of the state reaches every bit of the result.
PLIMSOLL_HOST_DEVICE inline std::uint64_t finalized(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9U;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebU;
  return state ^ (state >> 31);
}

/// The number behind the state x.
PLIMSOLL_HOST_DEVICE inline std::uint64_t mix(std::uint64_t x) { return finalized(x + kSplitMixStep); }

}  // namespace plimsoll::exec
