// SPDX-License-Identifier: Apache-2.0
// (value, token) as one number: rises with the value; the lower token wins among equal values; 0 is below all.
#pragma once

#include <cstdint>
#include <cstring>

#include "exec/cuda/bf16.h"

namespace plimsoll::exec::cuda {

/// IEEE 754 numbers order like the integers of their bits once negative ones are inverted; -0 equals 0. A NaN, which a
/// broken model might produce, counts as the lowest value.
PLIMSOLL_CUDA_BOTH inline std::uint64_t ordered(float value, std::int32_t token) {
  std::uint32_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffU) > 0x7f800000U) bits = 0xffffffffU;
  if (bits == 0x80000000U) bits = 0;
  const std::uint32_t rank = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<std::uint64_t>(rank) << 32 | (0xffffffffU - static_cast<std::uint32_t>(token));
}

PLIMSOLL_CUDA_BOTH inline std::int32_t token_of(std::uint64_t best) {
  return static_cast<std::int32_t>(0xffffffffU - static_cast<std::uint32_t>(best));
}

}  // namespace plimsoll::exec::cuda
