// SPDX-License-Identifier: Apache-2.0
// Matrices in MXFP4 (OCP Microscaling Formats 1.0): 4-bit floats in groups of 32 along a row with a power of two as
// scale. gpt-oss stores NAME_blocks [..., rows, groups, 16], the lower half of a byte first, and NAME_scales.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/weights/integers.h"
#include "exec/weights/tensor_files.h"

namespace plimsoll::exec {

/// All matrices of one name, as rows of one. Twice a 4-bit float is an integer, so the weights are integers of 8 bits,
/// exactly.
class Mxfp4Tensor {
 public:
  /// Finds the two tensors by their common name; `shape` is that of the floats, rows of [shape.back()] elements.
  /// Returns nullptr if there are none. `files` must outlive it. Throws InputError, naming the tensor, if they do not
  /// fit each other or `shape`.
  [[nodiscard]] static std::unique_ptr<Mxfp4Tensor> find(const TensorFiles& files, const std::string& name,
                                                         const std::vector<std::int64_t>& shape);

  [[nodiscard]] static IntegerFormat format() { return {.bits = 8, .group = kGroup}; }
  /// out[i] = element column + i of a row.
  void read(std::int64_t row, std::int64_t column, std::int64_t columns, float* out) const;
  /// The same as integers; the columns begin with a group.
  void read_integers(std::int64_t row, std::int64_t column, std::int64_t columns, const IntegerRows& out) const;

 private:
  static constexpr std::int64_t kGroup = 32;

  Mxfp4Tensor() = default;
  [[nodiscard]] std::int8_t twice(std::int64_t row, std::int64_t column) const;
  [[nodiscard]] float half_scale(std::int64_t row, std::int64_t group) const;

  std::int64_t groups_ = 0;  // in a row
  const FileTensor* blocks_ = nullptr;
  const FileTensor* scales_ = nullptr;
};

}  // namespace plimsoll::exec
