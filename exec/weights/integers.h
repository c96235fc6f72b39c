// SPDX-License-Identifier: Apache-2.0
// Weights that are stored as integers: w[r, c] = scale[r, g] (q[r, c] - zero[r, g]), where g is the group of column c.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/memory_plan.h"

namespace plimsoll::exec {

/// How the integers of a matrix are stored.
struct IntegerFormat {
  int bits = 4;            // 4: q in [-8, 7]; 8: q in [-128, 127]
  std::int64_t group = 0;  // columns that share a scale; the last group of a row may be shorter; 0: a whole row
  bool zeros = false;      // whether any zero differs from 0
  /// Null: a group's columns are adjacent. Else the matrix is read with its columns in this order, which makes them so:
  /// column i is column (*order)[i] of the tensor.
  std::shared_ptr<const std::vector<std::int32_t>> order = nullptr;

  [[nodiscard]] std::int64_t groups(std::int64_t columns) const {
    return group == 0 ? 1 : (columns + group - 1) / group;
  }
  /// Returns whether two matrices can be stacked: all is equal but perhaps `zeros`.
  [[nodiscard]] bool stacks_with(const IntegerFormat& other) const {
    const bool ordered = order != nullptr && other.order != nullptr ? *order == *other.order : order == other.order;
    return bits == other.bits && group == other.group && ordered;
  }
};

/// Room for rows of integers, row-major without gaps: q [rows, columns], scale and zero [rows, groups].
struct IntegerRows {
  std::int8_t* q = nullptr;
  float* scale = nullptr;
  std::int16_t* zero = nullptr;
};

/// Rounds a group of at most model::kLoadGroup weights to integers. Returns the scale, which is exact in f16 relative
/// to `unit`, a power of two not below the largest weight. The squared error is the least of a few scales.
[[nodiscard]] float quantise_group(const float* weights, std::int64_t count, int bits, float unit, std::int8_t* q);

/// Returns the nearest f16, ties to even; infinity from 65520 on. NaN stays NaN.
[[nodiscard]] std::uint16_t to_f16(float value);
[[nodiscard]] float from_f16(std::uint16_t bits);

}  // namespace plimsoll::exec
