// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/exec/reference_model.h"

namespace plimsoll::exec {
namespace {

std::vector<float> read(const WeightSource& source, const TensorRef& tensor, const TensorSlice& slice) {
  std::vector<float> out(static_cast<std::size_t>(slice.rows * slice.columns));
  source.read(tensor, slice, out.data());
  return out;
}

// Ranks read slices of rows and of columns.
TEST(RandomWeights, an_element_depends_on_its_unsharded_index_only) {
  const model::Architecture a = tiny_model("llama");
  const auto source = random_weights(a, 3);
  const TensorRef down{TensorKind::down, 1, -1};
  const std::vector<float> whole = read(*source, down, {0, 64, 0, 176});
  const std::vector<float> part = read(*source, down, {5, 2, 44, 44});
  for (std::size_t r = 0; r < 2; ++r)
    for (std::size_t c = 0; c < 44; ++c) EXPECT_EQ(part[r * 44 + c], whole[(5 + r) * 176 + 44 + c]);
}

TEST(RandomWeights, tensors_layers_experts_and_seeds_differ) {
  const model::Architecture a = tiny_model("mixtral");
  std::set<float> first;
  for (const std::uint64_t seed : {1, 2}) {
    const auto source = random_weights(a, seed);
    for (const TensorRef& tensor :
         {TensorRef{TensorKind::q, 0, -1}, TensorRef{TensorKind::k, 0, -1}, TensorRef{TensorKind::q, 1, -1},
          TensorRef{TensorKind::expert_up, 0, 0}, TensorRef{TensorKind::expert_up, 0, 1}})
      first.insert(read(*source, tensor, {0, 1, 0, 1})[0]);
  }
  EXPECT_EQ(first.size(), 10U);
}

// 17 408 draws of N(0, 0.02): standard errors are 1.5e-4 (mean) and 1.1e-4 (deviation); five of them are allowed.
TEST(RandomWeights, are_spread_like_a_normal_distribution_of_0_02) {
  const model::Architecture a = tiny_model("llama");
  double sum = 0, square = 0;
  std::int64_t far = 0;
  const std::vector<float> values = read(*random_weights(a, 1), {TensorKind::down, 0, -1}, {0, 64, 0, 176});
  for (const float value : values) {
    sum += static_cast<double>(value);
    square += static_cast<double>(value) * static_cast<double>(value);
    far += std::abs(value) > 0.04F ? 1 : 0;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 1e-3);
  EXPECT_NEAR(std::sqrt(square / n), 0.02, 7e-4);
  EXPECT_NEAR(static_cast<double>(far) / n, 0.0455, 0.01);  // beyond two deviations
}

TEST(RandomWeights, norms_are_around_one) {
  const model::Architecture a = tiny_model("llama");
  for (const float value : read(*random_weights(a, 1), {TensorKind::mlp_norm, 0, -1}, {0, 64, 0, 1}))
    EXPECT_NEAR(value, 1, 0.1);
}

}  // namespace
}  // namespace plimsoll::exec
