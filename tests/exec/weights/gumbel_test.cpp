// SPDX-License-Identifier: Apache-2.0
// Sampling noise has the right distribution and does not depend on other requests.
#include "exec/weights/gumbel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace plimsoll::exec {
namespace {

// Finds the largest error in units of the last place, over the whole range that the noise uses.
TEST(Gumbel, natural_log_is_within_two_units_in_the_last_place) {
  double worst = 0;
  for (float x = 1e-10F; x < 30; x *= 1.0007F) {
    const double exact = std::log(static_cast<double>(x));
    const double unit = std::max(std::abs(exact) * 0x1p-24, 0x1p-26);
    worst = std::max(worst, std::abs(gumbel_detail::natural_log(x) - exact) / unit);
  }
  EXPECT_LT(worst, 4);  // a unit in the last place is between 2^-24 and 2^-23 of the number
}

TEST(Gumbel, small_complements_keep_their_relative_precision) {
  for (float v = 0x1p-33F; v < 0.9F; v *= 1.01F) {
    const double exact = -std::log1p(-static_cast<double>(v));
    EXPECT_NEAR(gumbel_detail::minus_log_of_complement(v), exact, 4e-7 * exact) << v;
  }
}

// exp(-exp(-g)) of a Gumbel number is uniform. The largest gap between its empirical and its true distribution
// (Kolmogorov, Smirnov) exceeds 1.95 / sqrt(n) in one of 1000 experiments.
TEST(Gumbel, noise_has_the_gumbel_distribution) {
  constexpr int kDraws = 100'000;
  std::vector<double> u;
  const std::uint64_t key = gumbel_key(1, 2, 3);
  for (std::int32_t token = 0; token < kDraws; ++token)
    u.push_back(std::exp(-std::exp(-static_cast<double>(gumbel_noise(key, token)))));
  std::sort(u.begin(), u.end());
  double gap = 0;
  for (int i = 0; i < kDraws; ++i) {
    gap = std::max(gap, std::abs(u[static_cast<std::size_t>(i)] - (i + 0.5) / kDraws));
  }
  EXPECT_LT(gap * std::sqrt(kDraws), 1.95);
}

// The softmax of {0, ln 2, ln 5} is {1, 2, 5} / 8. Chi-square with two degrees of freedom exceeds 13.8 once in 1000.
TEST(Gumbel, the_largest_perturbed_logit_is_a_draw_of_the_softmax) {
  const float logits[] = {0, std::log(2.0F), std::log(5.0F)};
  constexpr int kDraws = 40'000;
  double count[3] = {};
  for (std::uint64_t request = 0; request < kDraws; ++request) {
    const std::uint64_t key = gumbel_key(7, request, 11);
    int best = 0;
    for (int t = 1; t < 3; ++t) {
      if (perturbed_logit(logits[t], 1, key, t) > perturbed_logit(logits[best], 1, key, best)) best = t;
    }
    ++count[best];
  }
  const double expected[] = {kDraws / 8.0, kDraws / 4.0, kDraws * 5 / 8.0};
  double chi_square = 0;
  for (int t = 0; t < 3; ++t) chi_square += (count[t] - expected[t]) * (count[t] - expected[t]) / expected[t];
  EXPECT_LT(chi_square, 13.8);
}

TEST(Gumbel, seed_request_position_and_token_all_matter) {
  const float noise = gumbel_noise(gumbel_key(1, 2, 3), 4);
  EXPECT_EQ(noise, gumbel_noise(gumbel_key(1, 2, 3), 4));
  EXPECT_NE(noise, gumbel_noise(gumbel_key(9, 2, 3), 4));
  EXPECT_NE(noise, gumbel_noise(gumbel_key(1, 9, 3), 4));
  EXPECT_NE(noise, gumbel_noise(gumbel_key(1, 2, 9), 4));
  EXPECT_NE(noise, gumbel_noise(gumbel_key(1, 2, 3), 9));
}

// Part of the contract between devices; the bits were computed from the formulas with Python's integers and doubles.
TEST(Gumbel, a_compiler_or_its_flags_do_not_move_the_bits) {
  const std::uint64_t key = gumbel_key(1, 2, 3);
  EXPECT_EQ(key, 0xd0734750fde362b3U);
  EXPECT_EQ(gumbel_noise(key, 0), 0x1.4ca626p+1F);         // 2.5988206
  EXPECT_EQ(gumbel_noise(key, 1), -0x1.883c46p-4F);        // -0.0957606
  EXPECT_EQ(gumbel_noise(key, 127'999), -0x1.ef607cp-2F);  // -0.4837664
}

}  // namespace
}  // namespace plimsoll::exec
