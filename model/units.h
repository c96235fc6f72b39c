// SPDX-License-Identifier: Apache-2.0
// Strong types for the quantities of the domain. Only physically meaningful operators exist: Bytes + Tokens and Bytes =
// 3.0 do not compile. At -O2 the code is the same as for plain numbers.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace plimsoll {

template <class Tag, class Rep>
struct Quantity {
  Rep value{};
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep v) : value(v) {}
  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.value + b.value); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.value - b.value); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.value * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(k * a.value); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.value / k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value) / static_cast<double>(b.value);
  }
};

using Seconds = std::chrono::duration<double>;
using Bytes = Quantity<struct BytesTag, double>;  // GB = 1e9, GiB = 2^30
using Tokens = Quantity<struct TokensTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;  // a multiply-add counts as two
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;
using PerSecond = Quantity<struct PerSecondTag, double>;  // request rates
using Usd = Quantity<struct UsdTag, double>;

constexpr Seconds operator/(Bytes amount, BytesPerSecond rate) { return Seconds(amount.value / rate.value); }
constexpr Seconds operator/(Flops amount, FlopsPerSecond rate) { return Seconds(amount.value / rate.value); }

/// Simulated and live time stamps: integer nanoseconds since the start of the run.
using Nanos = std::int64_t;

}  // namespace plimsoll
