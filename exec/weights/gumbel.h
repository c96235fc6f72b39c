// SPDX-License-Identifier: Apache-2.0
// Noise for sampling. The largest of logit / temperature + Gumbel noise is an exact draw from the softmax (Gumbel 1954;
// "Gumbel-max"). The noise is a function of (seed, request, position, token) only, so every TP degree, batch and device
// draws the same token from the same logits. The code is compiled for the host and for GPUs. It uses only operations
// whose rounding IEEE 754 fixes, and none may be fused, so both give the same bits.
#pragma once

#include <cstdint>
#include <cstring>

#include "exec/weights/splitmix.h"

namespace plimsoll::exec {

namespace gumbel_detail {

// nvcc fuses a * b + c unless told not to; the host is compiled with -ffp-contract=off.
PLIMSOLL_HOST_DEVICE inline float times(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
PLIMSOLL_HOST_DEVICE inline float plus(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
PLIMSOLL_HOST_DEVICE inline float over(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

/// ln of a positive normal number, to about one unit in the last place: x = 2^e (1 + f) with 1 + f in [sqrt(1/2),
/// sqrt(2)) and ln(1 + f) = 2 artanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...), s = f / (2 + f), |s| < 0.172: s^11 / 11 is
/// below 4e-10.
PLIMSOLL_HOST_DEVICE inline float natural_log(float x) {
  std::int32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  const std::int32_t exponent = (bits - 0x3f3504f3) >> 23;  // 0x3f3504f3: sqrt(1/2)
  bits -= exponent * (1 << 23);
  float mantissa = 0;
  memcpy(&mantissa, &bits, sizeof mantissa);
  const float f = plus(mantissa, -1.0F);
  const float s = over(f, plus(2.0F, f)), z = times(s, s);
  float series = plus(1.0F / 7.0F, times(z, 1.0F / 9.0F));
  series = plus(1.0F / 5.0F, times(z, series));
  series = plus(1.0F / 3.0F, times(z, series));
  const float twice = plus(s, s);
  const float log_mantissa = plus(twice, times(twice, times(z, series)));
  return plus(times(static_cast<float>(exponent), 0.693147182F), log_mantissa);
}

/// -ln(1 - v) for v in (0, 1), accurate for small v: the factor v / (1 - w) corrects the rounding of w = 1 - v (Kahan).
PLIMSOLL_HOST_DEVICE inline float minus_log_of_complement(float v) {
  const float w = plus(1.0F, -v);
  if (w == 1.0F) return v;
  if (w <= 0.0F) return 18.3F;  // v rounded to 1: the mean of the values beyond, ln(2^25) + 1
  return times(-natural_log(w), over(v, plus(1.0F, -w)));
}

}  // namespace gumbel_detail

/// The part of a row's noise that does not depend on the token: compute it once per row. `position` is that of the
/// sampled token.
PLIMSOLL_HOST_DEVICE inline std::uint64_t gumbel_key(std::uint64_t seed, std::uint64_t request, std::int32_t position) {
  return mix(mix(mix(seed) ^ request) ^ static_cast<std::uint64_t>(static_cast<std::uint32_t>(position)));
}

/// Standard Gumbel noise -ln(-ln u) for a token of the unsharded vocabulary. Lies between -2.9 and 22.9.
PLIMSOLL_HOST_DEVICE inline float gumbel_noise(std::uint64_t key, std::int32_t token) {
  using namespace gumbel_detail;
  const std::uint64_t bits = mix(key ^ (static_cast<std::uint64_t>(static_cast<std::uint32_t>(token)) << 32));
  // Draw 1 - u instead of u: large noise comes from u near 1, where 1 - u has more bits than u.
  const float v = times(plus(static_cast<float>(static_cast<std::uint32_t>(bits >> 32)), 0.5F), 0x1p-32F);
  return -natural_log(minus_log_of_complement(v));
}

/// The token with the largest value is sampled. temperature > 0.
PLIMSOLL_HOST_DEVICE inline float perturbed_logit(float logit, float temperature, std::uint64_t key,
                                                  std::int32_t token) {
  return gumbel_detail::plus(gumbel_detail::over(logit, temperature), gumbel_noise(key, token));
}

}  // namespace plimsoll::exec
