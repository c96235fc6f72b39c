// SPDX-License-Identifier: Apache-2.0
// Weights from a seed. An element is a function of its unsharded index alone, so each rank can draw its part
// independently.
#include <memory>

#include "exec/weights/splitmix.h"
#include "exec/weights/weights.h"

namespace plimsoll::exec {

namespace {

// The sum of four uniform 16-bit numbers is close to normal (Irwin and Hall). Its mean is 131070, its standard
// deviation sqrt(4 (65536^2 - 1) / 12) = 37837.2. Models are usually initialised with a deviation of 0.02.
float draw(std::uint64_t key, std::uint64_t index) {
  constexpr float kScale = 0.02F / 37837.2F;
  const std::uint64_t bits = mix(key + index * kSplitMixStep);
  const auto sum =
      static_cast<std::int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
  return static_cast<float>(sum - 131070) * kScale;
}

class RandomWeights final : public WeightSource {
 public:
  RandomWeights(const model::Architecture& architecture, std::uint64_t seed)
      : architecture_(architecture), seed_(mix(seed)) {}

  void read(const TensorRef& tensor, const TensorSlice& slice, float* out) const override {
    const std::int64_t width = shape_of(architecture_, tensor).columns;
    const std::uint64_t key = key_of(tensor);
    const float centre = is_norm(tensor.kind) && !architecture_.norm_from_one ? 1.0F : 0.0F;
    for (std::int64_t r = 0; r < slice.rows; ++r) {
      const auto first = static_cast<std::uint64_t>((slice.row + r) * width + slice.column);
      for (std::int64_t c = 0; c < slice.columns; ++c)
        *out++ = centre + draw(key, first + static_cast<std::uint64_t>(c));
    }
  }

  void check(const model::Architecture&) const override {}

 private:
  [[nodiscard]] std::uint64_t key_of(const TensorRef& tensor) const {
    std::uint64_t key = mix(seed_ ^ static_cast<std::uint64_t>(tensor.kind));
    key = mix(key ^ static_cast<std::uint64_t>(tensor.layer + 1));
    return mix(key ^ static_cast<std::uint64_t>(tensor.expert + 1));
  }

  model::Architecture architecture_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<WeightSource> random_weights(const model::Architecture& architecture, std::uint64_t seed) {
  return std::make_unique<RandomWeights>(architecture, seed);
}

}  // namespace plimsoll::exec
