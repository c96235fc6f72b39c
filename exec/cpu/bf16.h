// SPDX-License-Identifier: Apache-2.0
// bf16 on the CPU: the storage type of weights and KV caches. Arithmetic is in f32.
#pragma once

#include <bit>
#include <cstdint>

namespace plimsoll::exec {

/// Returns the upper half of an f32, rounded to nearest with ties to even. A NaN stays a NaN.
[[nodiscard]] inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

[[nodiscard]] inline float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace plimsoll::exec
