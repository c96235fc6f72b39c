// SPDX-License-Identifier: Apache-2.0
// bf16, the upper half of an f32: our own type and conversions for both host and device.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define PLIMSOLL_CUDA_BOTH __host__ __device__
#else
#define PLIMSOLL_CUDA_BOTH
#endif

namespace plimsoll::exec::cuda {

struct Bf16 {
  std::uint16_t bits;
};

/// Rounds to nearest, ties to even, as the GPU's own conversion does. Every NaN becomes 0x7fff.
PLIMSOLL_CUDA_BOTH inline std::uint16_t bf16_bits(float x) {
  std::uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fffU;
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

PLIMSOLL_CUDA_BOTH inline float to_float(Bf16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
  float result = 0;
  memcpy(&result, &bits, sizeof result);
  return result;
}
PLIMSOLL_CUDA_BOTH inline float to_float(float x) { return x; }

}  // namespace plimsoll::exec::cuda
