// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/mxfp4_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "model/error.h"

namespace plimsoll::exec {

namespace {

// Twice the value of each 4-bit float: a sign, two bits of exponent and one of mantissa.
constexpr std::array<std::int8_t, 16> kTwice = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

const FileTensor& bytes_of(const TensorFiles& files, const std::string& name, const std::vector<std::int64_t>& shape) {
  const FileTensor* const tensor = files.find(name);
  if (tensor == nullptr) throw InputError(fmt::format("tensor {} is missing", quoted_name(name)));
  if (tensor->type_name != "U8")
    throw InputError(fmt::format("tensor {} has dtype {}, expected U8", quoted_name(name), tensor->type_name));
  if (tensor->shape != shape)
    throw InputError(fmt::format("tensor {} has shape {}, expected {}", quoted_name(name), shape_text(tensor->shape),
                                 shape_text(shape)));
  return *tensor;
}

}  // namespace

std::unique_ptr<Mxfp4Tensor> Mxfp4Tensor::find(const TensorFiles& files, const std::string& name,
                                               const std::vector<std::int64_t>& shape) {
  if (files.find(name + "_blocks") == nullptr) return nullptr;
  if (shape.back() % kGroup != 0)
    throw InputError(fmt::format("tensor {} has rows of {} weights, expected a multiple of {}",
                                 quoted_name(name + "_blocks"), shape.back(), kGroup));
  std::unique_ptr<Mxfp4Tensor> found(new Mxfp4Tensor);
  found->groups_ = shape.back() / kGroup;
  std::vector<std::int64_t> scales = shape;
  scales.back() = found->groups_;
  found->scales_ = &bytes_of(files, name + "_scales", scales);
  scales.push_back(kGroup / 2);
  found->blocks_ = &bytes_of(files, name + "_blocks", scales);
  return found;
}

std::int8_t Mxfp4Tensor::twice(std::int64_t row, std::int64_t column) const {
  const auto at = static_cast<std::size_t>(row * groups_ * (kGroup / 2) + column / 2);
  const auto byte = std::to_integer<unsigned>(blocks_->bytes[at]);
  return kTwice[column % 2 == 0 ? byte & 0xfU : byte >> 4U];
}

// A byte of all ones is NaN in the standard; transformers and vLLM read it as a power of two, as here.
float Mxfp4Tensor::half_scale(std::int64_t row, std::int64_t group) const {
  const auto exponent = std::to_integer<int>(scales_->bytes[static_cast<std::size_t>(row * groups_ + group)]);
  return std::ldexp(1.0F, exponent - 128);
}

void Mxfp4Tensor::read(std::int64_t row, std::int64_t column, std::int64_t columns, float* out) const {
  for (std::int64_t c = column; c < column + columns;) {
    const std::int64_t group = c / kGroup, end = std::min((group + 1) * kGroup, column + columns);
    for (const float scale = half_scale(row, group); c < end; ++c) *out++ = static_cast<float>(twice(row, c)) * scale;
  }
}

void Mxfp4Tensor::read_integers(std::int64_t row, std::int64_t column, std::int64_t columns,
                                const IntegerRows& out) const {
  PLIMSOLL_CHECK(column % kGroup == 0, "a slice begins with a group");
  for (std::int64_t c = 0; c < columns; ++c) out.q[c] = twice(row, column + c);
  for (std::int64_t g = 0; g < format().groups(columns); ++g) {
    out.scale[g] = half_scale(row, column / kGroup + g);
    out.zero[g] = 0;
  }
}

}  // namespace plimsoll::exec
