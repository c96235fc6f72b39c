// SPDX-License-Identifier: Apache-2.0
// Norms, activations, rotations and searches over a single row.
#pragma once

#include <cstdint>

#include "exec/cpu/kernels.h"

namespace plimsoll::exec {

// Calls visit(offset, lanes) over n elements, whole vectors first.
template <class V, class Visit>
[[gnu::always_inline]] inline void for_vectors(std::int64_t n, const Visit& visit) {
  std::int64_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) visit(i, V::kWidth);
  if (i < n) visit(i, static_cast<int>(n - i));
}

template <class V>
[[gnu::always_inline]] inline typename V::F load_lanes(const float* p, int lanes) {
  return lanes == V::kWidth ? V::load(p) : V::load_first(p, lanes);
}
template <class V>
[[gnu::always_inline]] inline void store_lanes(float* p, typename V::F value, int lanes) {
  if (lanes == V::kWidth)
    V::store(p, value);
  else
    V::store_first(p, value, lanes);
}

// e^x with a relative error below 3e-7; 0 below -87, where e^x leaves the normal range. x = n ln 2 + r with an integer
// n. The Taylor series of e^r goes to r^7 / 7! on |r| <= ln 2 / 2. ln 2 is split in two parts; n times the first is
// exact.
template <class V>
[[gnu::always_inline]] inline typename V::F exp(typename V::F x) {
  using F = typename V::F;
  const F low = V::set(-87.0F), magic = V::set(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  F clamped = V::select_less(x, low, low, x);
  clamped = V::select_less(V::set(88.0F), clamped, V::set(88.0F), clamped);
  const F n = V::fma(clamped, V::set(1.44269504F), magic) - magic;
  F r = V::fma(n, V::set(-0.693359375F), clamped);
  r = V::fma(n, V::set(2.12194440e-4F), r);
  F p = V::set(1.0F / 5040);
  const float coefficients[] = {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F};
#pragma GCC unroll 8
  for (const float c : coefficients) p = V::fma(p, r, V::set(c));
  return V::select_less(x, low, V::zero(), p * V::pow2(n));
}

// Abramowitz and Stegun, 7.1.26: |error| <= 1.5e-7, about what 1 + erf(x) loses in f32 anyway.
template <class V>
[[gnu::always_inline]] inline typename V::F erf(typename V::F x) {
  using F = typename V::F;
  const F magnitude = V::max(x, V::zero() - x);
  const F t = V::set(1) / V::fma(V::set(0.3275911F), magnitude, V::set(1));
  F p = V::set(1.061405429F);
  const float coefficients[] = {-1.453152027F, 1.421413741F, -0.284496736F, 0.254829592F, 0.0F};
#pragma GCC unroll 8
  for (const float c : coefficients) p = V::fma(p, t, V::set(c));
  const F positive = V::set(1) - p * exp<V>(V::zero() - magnitude * magnitude);
  return V::select_less(x, V::zero(), V::zero() - positive, positive);
}

template <class V>
[[gnu::always_inline]] inline typename V::F activated(Pointwise kind, typename V::F x) {
  using F = typename V::F;
  const F one = V::set(1);
  switch (kind) {
    case Pointwise::silu: return x / (one + exp<V>(V::zero() - x));
    case Pointwise::gelu: return V::set(0.5F) * x * (one + erf<V>(x * V::set(0.70710678F)));
    case Pointwise::gelu_tanh: {
      // 0.5 x (1 + tanh u) = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
      const F u = V::set(0.79788456F) * V::fma(V::set(0.044715F) * x * x, x, x);
      return x / (one + exp<V>(V::set(-2) * u));
    }
    case Pointwise::relu: return V::select_less(x, V::zero(), V::zero(), x);
    case Pointwise::relu2: {
      const F positive = V::select_less(x, V::zero(), V::zero(), x);
      return positive * positive;
    }
  }
  return x;
}

template <class V>
void activate(Pointwise kind, const float* x, std::int64_t n, float* y) {
  for_vectors<V>(n, [&](std::int64_t i, int lanes) {
    store_lanes<V>(y + i, activated<V>(kind, load_lanes<V>(x + i, lanes)), lanes);
  });
}

template <class V>
void activate_gated(Pointwise kind, const float* gate, const float* up, std::int64_t n, float* y) {
  for_vectors<V>(n, [&](std::int64_t i, int lanes) {
    store_lanes<V>(y + i, activated<V>(kind, load_lanes<V>(gate + i, lanes)) * load_lanes<V>(up + i, lanes), lanes);
  });
}

template <class V>
void clamped_swiglu(const SwigluClamps& clamps, const float* gate, const float* up, std::int64_t n, float* y) {
  using F = typename V::F;
  const F one = V::set(1), high = V::set(clamps.limit), low = V::set(-clamps.limit), alpha = V::set(-clamps.alpha);
  for_vectors<V>(n, [&](std::int64_t i, int lanes) {
    const F raw = load_lanes<V>(gate + i, lanes), linear = load_lanes<V>(up + i, lanes);
    const F g = V::select_less(high, raw, high, raw);
    const F below = V::select_less(high, linear, high, linear), u = V::select_less(below, low, low, below);
    store_lanes<V>(y + i, (u + one) * g / (one + exp<V>(alpha * g)), lanes);
  });
}

// tanh u = 1 - 2 / (1 + e^(2u)). Its absolute error of 1e-7 is what matters: the result is an exponent.
template <class V>
void cap(float limit, std::int64_t n, float* x) {
  using F = typename V::F;
  const F one = V::set(1), two = V::set(2), high = V::set(limit), scale = V::set(2 / limit);
  for_vectors<V>(n, [&](std::int64_t i, int lanes) {
    const F e = exp<V>(load_lanes<V>(x + i, lanes) * scale);
    store_lanes<V>(x + i, high * (one - two / (one + e)), lanes);
  });
}

template <class V>
void add(const float* x, std::int64_t n, float* y) {
  for_vectors<V>(n, [&](std::int64_t i, int lanes) {
    store_lanes<V>(y + i, load_lanes<V>(y + i, lanes) + load_lanes<V>(x + i, lanes), lanes);
  });
}

template <class V>
void add_scaled(const float* x, float scale, std::int64_t n, float* y) {
  const typename V::F factor = V::set(scale);
  for_vectors<V>(n, [&](std::int64_t i, int lanes) {
    store_lanes<V>(y + i, V::fma(factor, load_lanes<V>(x + i, lanes), load_lanes<V>(y + i, lanes)), lanes);
  });
}

template <class V>
float sum_of_squares(const float* x, float centre, std::int64_t n) {
  using F = typename V::F;
  const F c = V::set(centre);
  F sums[2] = {V::zero(), V::zero()};
  std::int64_t i = 0;
  for (; i + 2 * V::kWidth <= n; i += 2 * V::kWidth) {
    const F a = V::load(x + i) - c, b = V::load(x + i + V::kWidth) - c;
    sums[0] = V::fma(a, a, sums[0]);
    sums[1] = V::fma(b, b, sums[1]);
  }
  float sum = V::sum(sums[0] + sums[1]);
  for (; i < n; ++i) sum += (x[i] - centre) * (x[i] - centre);
  return sum;
}

template <class V>
float sum_of(const float* x, std::int64_t n) {
  typename V::F sum = V::zero();
  for_vectors<V>(n, [&](std::int64_t i, int lanes) { sum = sum + load_lanes<V>(x + i, lanes); });
  return V::sum(sum);
}

template <class V>
void norm(const NormRow& spec, const float* x, std::int64_t n, float* y) {
  using F = typename V::F;
  const auto count = static_cast<float>(n);
  const float mean = spec.mean ? sum_of<V>(x, n) / count : 0.0F;
  const float variance = sum_of_squares<V>(x, mean, n) / count;
  const F scale = V::set(1.0F / __builtin_sqrtf(variance + spec.epsilon)), centre = V::set(mean);
  for_vectors<V>(n, [&](std::int64_t i, int lanes) {
    F value = (load_lanes<V>(x + i, lanes) - centre) * scale;
    if (spec.weight != nullptr) value = value * load_lanes<V>(spec.weight + i, lanes);
    if (spec.bias != nullptr) value = value + load_lanes<V>(spec.bias + i, lanes);
    store_lanes<V>(y + i, value, lanes);
  });
}

template <class V>
void rope(const HeadRope& spec, const float* cosines, const float* sines, std::int64_t head_dim, float* head) {
  if (spec.norm != nullptr)
    norm<V>({.mean = false, .epsilon = spec.epsilon, .weight = spec.norm, .bias = nullptr}, head, head_dim, head);
  const std::int64_t half = spec.rotary_dim / 2;
  // Interleaved: a pair is two adjacent elements. Otherwise, a pair has one element in each half.
  if (spec.interleaved) {
    for (std::int64_t i = 0; i < half; ++i) {
      const float a = head[2 * i], b = head[2 * i + 1];
      head[2 * i] = a * cosines[i] - b * sines[i];
      head[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
    return;
  }
  for_vectors<V>(half, [&](std::int64_t i, int lanes) {
    const auto a = load_lanes<V>(head + i, lanes), b = load_lanes<V>(head + half + i, lanes);
    const auto c = load_lanes<V>(cosines + i, lanes), s = load_lanes<V>(sines + i, lanes);
    store_lanes<V>(head + i, a * c - b * s, lanes);
    store_lanes<V>(head + half + i, b * c + a * s, lanes);
  });
}

template <class V>
void to_bf16(const float* x, std::int64_t n, std::uint16_t* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, x + i, sizeof bits);
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16, nan = (bits >> 16) | 0x40U;
    y[i] = static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
  }
}

template <class V>
std::int64_t argmax(const float* x, std::int64_t n, float* value) {
  typename V::F best = V::set(-__builtin_inff());
  std::int64_t i = 0;
  for (; i + V::kWidth <= n; i += V::kWidth) {
    const typename V::F v = V::load(x + i);
    best = V::select_less(best, v, v, best);
  }
  float highest = V::highest(best);
  for (; i < n; ++i) highest = x[i] > highest ? x[i] : highest;
  *value = highest;
  for (std::int64_t j = 0; j < n; ++j) {
    if (x[j] == highest) return j;
  }
  return 0;
}

template <class V>
double multiply_add(std::int64_t rounds, float* sink) {
  constexpr int kChains = 12;  // at least the latency (4 or 5 cycles) times the number of units (2)
  typename V::F sums[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) sums[i] = V::set(static_cast<float>(i));
  const typename V::F a = V::set(sink[0]), b = V::set(sink[1]);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = V::fma(sums[i], a, b);
  }
  typename V::F total = V::zero();
  for (int i = 0; i < kChains; ++i) total = total + sums[i];
  sink[2] = V::sum(total);
  return 2.0 * kChains * V::kWidth * static_cast<double>(rounds);
}

template <class V>
float read(const void* data, std::size_t bytes) {
  constexpr int kChains = 8;
  typename V::F sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = V::zero();
  constexpr int kLine = 64 / sizeof(float), kAhead = 4096 / sizeof(float);  // on a Zen 4, any up to 16384 reads as fast
  const float* p = static_cast<const float*>(data);
  const auto words = static_cast<std::int64_t>(bytes / sizeof(float));
  for (std::int64_t i = 0; i + kChains * V::kWidth <= words; i += kChains * V::kWidth) {
    for (int j = 0; j < kChains * V::kWidth; j += kLine) __builtin_prefetch(p + i + kAhead + j);
#pragma GCC unroll 8
    for (int j = 0; j < kChains; ++j) sums[j] = sums[j] + V::load(p + i + j * V::kWidth);
  }
  typename V::F total = V::zero();
  for (int i = 0; i < kChains; ++i) total = total + sums[i];
  return V::sum(total);
}

}  // namespace plimsoll::exec
