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
    throw InputError(fmt::format("{} length: {} is {}, allowed: {}", what, name, value, allowed));
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
      throw InputError(fmt::format("{} length is {}, allowed: 1 or more tokens", what, fixed->tokens));
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

void check_pause(const Pause& pause, std::string_view what) {
  const auto require = [&](bool good, std::string_view name, double value, std::string_view allowed) {
    if (!good) throw InputError(fmt::format("{}: {} is {}, allowed: {}", what, name, value, allowed));
  };
  require(pause.mean >= 0 && std::isfinite(pause.mean), "mean", pause.mean, "0 s or more");
  require(pause.cv >= 0 && std::isfinite(pause.cv), "cv", pause.cv, "0 or more");
  require(pause.min >= 0 && std::isfinite(pause.min), "min", pause.min, "0 s or more");
  require(pause.max == 0 || pause.max >= pause.min, "max", pause.max, "0 s (no limit) or min and more");
}

Nanos draw_pause(const Pause& pause, const RandomBlock& bits) {
  constexpr double kMost = 3e9;  // seconds, about a century, as long as any run
  double seconds = pause.mean;
  switch (pause.family) {
    case PauseFamily::fixed: break;
    case PauseFamily::uniform: seconds = pause.min + (pause.max - pause.min) * uniform01(bits[0]); break;
    case PauseFamily::exponential: seconds = pause.mean * standard_exponential(bits[0]); break;
    case PauseFamily::lognormal: {
      const double variance = std::log1p(pause.cv * pause.cv);
      seconds = pause.mean * std::exp(std::sqrt(variance) * standard_normal(bits[0], bits[1]) - variance / 2);
      break;
    }
  }
  return std::llround(1e9 * std::clamp(seconds, pause.min, pause.max > 0 ? std::min(pause.max, kMost) : kMost));
}

std::int32_t draw_priority(std::span<const PriorityClass> classes, std::uint64_t bits) {
  double sum = 0;
  for (const PriorityClass& c : classes) sum += c.share;
  double left = uniform01(bits) * sum;
  for (const PriorityClass& c : classes) {
    if (left < c.share) return c.priority;
    left -= c.share;
  }
  return classes.back().priority;  // by rounding
}

std::uint64_t id_of_tile(std::uint64_t id, std::uint64_t tile) {
  if (tile == 0) return id;
  const std::uint64_t mixed = RandomStream(id, tile, Purpose::prefix_group).block(0)[0];
  return mixed == 0 ? 1 : mixed;  // 0 means no session
}

}  // namespace plimsoll::load
