// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/integers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace plimsoll::exec {

namespace {

// Rounds to nearest, ties to even, without a library call: |value| < 2^22.
float nearest(float value) {
  constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23
  return (value + kMagic) - kMagic;
}

struct Rounded {
  std::array<float, model::kLoadGroup> q{};
  float scale = 0, gain = 0;  // gain: by how much the squared error is below that of all-zero weights
};

// Rounds with a step, then takes the scale that fits these integers best.
Rounded rounded(const float* weights, std::int64_t count, float step, float most) {
  Rounded r;
  const float inverse = 1 / step;
  float wq = 0, qq = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const float q = std::clamp(nearest(weights[i] * inverse), -most - 1, most);
    r.q[static_cast<std::size_t>(i)] = q;
    wq += weights[i] * q;
    qq += q * q;
  }
  r.scale = qq > 0 ? wq / qq : 0;
  r.gain = qq > 0 ? wq * wq / qq : 0;
  return r;
}

}  // namespace

std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const float size = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size >= 65520) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds to infinity
  if (size < 0x1p-14F)
    return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(std::nearbyint(size * 0x1p24F)));
  const std::uint32_t rest = (bits & 0x7fffffffU) - (112U << 23U);
  return static_cast<std::uint16_t>(sign | ((rest + 0xfffU + ((rest >> 13) & 1U)) >> 13));
}

// Sign, five exponent bits with a bias of 15, ten fraction bits. Avoids arithmetic on subnormal f32, which the CPU may
// flush to zero.
float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U, rest = bits & 0x7fffU;
  const float small = static_cast<float>(rest) * 0x1p-24F;
  const std::uint32_t high = (rest << 13U) + (rest >= 0x7c00U ? 224U << 23U : 112U << 23U);
  return std::bit_cast<float>(sign | (rest < 0x400U ? std::bit_cast<std::uint32_t>(small) : high));
}

float quantise_group(const float* weights, std::int64_t count, int bits, float unit, std::int8_t* q) {
  const float most = bits == 4 ? 7 : 127;
  std::fill_n(q, count, std::int8_t{0});
  float extreme = 0;  // the weight of the largest size, with its sign
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(weights[i])) return std::numeric_limits<float>::quiet_NaN();
    if (std::fabs(weights[i]) > std::fabs(extreme)) extreme = weights[i];
  }
  // Zero in f16, or so small that the reciprocal of the step would be infinite, and infinity times zero is NaN.
  if (std::fabs(extreme) <= std::max(unit * 0x1p-20F, 0x1p-120F)) return 0;
  // With 4 bits, the extreme weight becomes the lowest integer, of which there is one more, or lies a little beyond it.
  const std::array<float, 4> places = {most + 1, most + 0.6F, most + 1.5F, most + 2.2F};
  Rounded best = rounded(weights, count, -extreme / (bits == 4 ? places[0] : most), most);
  for (std::size_t i = 1; bits == 4 && i < places.size(); ++i) {
    const Rounded r = rounded(weights, count, -extreme / places[i], most);
    if (r.gain > best.gain) best = r;
  }
  for (std::int64_t i = 0; i < count; ++i) q[i] = static_cast<std::int8_t>(best.q[static_cast<std::size_t>(i)]);
  return from_f16(to_f16(best.scale / unit)) * unit;
}

}  // namespace plimsoll::exec
