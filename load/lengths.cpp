// SPDX-License-Identifier: Apache-2.0
#include "load/lengths.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "model/error.h"

namespace plimsoll::load {
namespace {

constexpr std::int32_t kMaxLength = std::numeric_limits<std::int32_t>::max();

void check_distribution(const LengthDistribution& d, std::string_view what) {
  const auto fail = [&](std::string_view name, double value, std::string_view allowed) {
    throw InputError(fmt::format("{} length: {} is {}, allowed is {}", what, name, value, allowed));
  };
  if (d.min < 1) fail("min", d.min, "1 or more tokens");
  if (d.max < 0 || (d.max > 0 && d.max < d.min)) fail("max", d.max, "0 (no limit) or min and more");
  if (d.family == LengthFamily::uniform) {
    if (d.max == 0) fail("max", d.max, "an upper limit, which the uniform distribution needs");
    return;
  }
  if (!(d.mean >= 1.0) || !(d.mean <= kMaxLength)) fail("mean", d.mean, "1 to 2147483647 tokens");
  if (d.family == LengthFamily::lognormal && (!(d.cv >= 0.0) || !std::isfinite(d.cv))) fail("cv", d.cv, "0 or more");
}

}  // namespace

void check_lengths(const LengthMarginal& lengths, std::string_view what) {
  if (const auto* fixed = std::get_if<FixedLength>(&lengths)) {
    if (fixed->tokens < 1)
      throw InputError(fmt::format("{} length is {}, allowed is 1 or more tokens", what, fixed->tokens));
  } else {
    check_distribution(std::get<LengthDistribution>(lengths), what);
  }
}

LengthSampler::LengthSampler(const LengthMarginal& lengths, RandomStream stream) : stream_(stream) {
  if (const auto* fixed = std::get_if<FixedLength>(&lengths)) {
    fixed_ = fixed->tokens;
    return;
  }
  distribution_ = std::get<LengthDistribution>(lengths);
  // A length outside the limits is moved to the nearest one instead of drawn again. So each request uses exactly one
  // draw, which its number identifies.
  low_ = distribution_.min;
  high_ = distribution_.max > 0 ? distribution_.max : kMaxLength;
  if (distribution_.family == LengthFamily::lognormal) {
    // Mean m and coefficient of variation c of X = exp(N(mu, sigma)): sigma^2 = ln(1 + c^2), mu = ln m - sigma^2/2.
    const double variance = std::log1p(distribution_.cv * distribution_.cv);
    sigma_ = std::sqrt(variance);
    mu_ = std::log(distribution_.mean) - variance / 2.0;
  }
  if (distribution_.family == LengthFamily::geometric) log_failure_ = std::log1p(-1.0 / distribution_.mean);
}

double LengthSampler::draw_real(const RandomBlock& bits) const {
  switch (distribution_.family) {
    case LengthFamily::uniform:
      return low_ + static_cast<double>(uniform_below(bits[0], static_cast<std::uint64_t>(high_ - low_) + 1));
    case LengthFamily::lognormal: return std::round(std::exp(mu_ + sigma_ * standard_normal(bits[0], bits[1])));
    case LengthFamily::geometric:
      // The inverse of 1 - (1-p)^k on {1, 2, ...}. For mean 1, ln(1-p) = -inf and the quotient is 0, as required.
      return 1.0 + std::floor(std::log(uniform01_open(bits[0])) / log_failure_);
  }
  return low_;
}

std::int32_t LengthSampler::draw(std::uint64_t index) const {
  if (fixed_ > 0) return fixed_;
  return static_cast<std::int32_t>(std::clamp(draw_real(stream_.block(index)), low_, high_));
}

}  // namespace plimsoll::load
