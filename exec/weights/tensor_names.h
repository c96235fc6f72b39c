// SPDX-License-Identifier: Apache-2.0
// Maps a tensor of the model to its name in a transformers checkpoint and, where the file fuses several tensors, to its
// rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exec/weights/weights.h"

namespace plimsoll::exec {

/// Row r of the model's tensor is row base + r / group * stride + r % group of the file's tensor. All dimensions but
/// the last count as rows; the elements of a vector are rows of length one.
struct TensorPlace {
  std::string name;
  std::vector<std::int64_t> shape;  // the shape that the file's tensor must have
  std::int64_t base = 0, group = 0, stride = 0;
  /// The file's matrix is transposed: element (row, column) is in its row base + column, and its column
  /// column_base + row * column_step.
  bool transposed = false;
  std::int64_t column_base = 0, column_step = 1;
  [[nodiscard]] std::int64_t file_row(std::int64_t row) const { return base + row / group * stride + row % group; }
};

/// Returns the possible prefixes: "model." or, for a model saved without its head, an empty one. The name of the token
/// embedding shows which one applies.
[[nodiscard]] std::vector<std::string> name_beginnings(const model::Architecture& architecture);

/// Returns the places where the tensor may be, in the order to try; at least one.
[[nodiscard]] std::vector<TensorPlace> tensor_places(const model::Architecture& architecture,
                                                     const std::string& beginning, const TensorRef& tensor);

/// Whether the model has tensors of a kind, or lacks them although other members of the family have them (biases, norms
/// of heads). A file that contains a `lacking` tensor belongs to another model.
enum class Presence : std::uint8_t { there, lacking };

/// Calls `visit` for every tensor until it returns false. Nothing is collected: a hostile config.json may describe more
/// tensors than fit in memory.
void visit_tensors(const model::Architecture& architecture,
                   const std::function<bool(const TensorRef&, Presence)>& visit);

}  // namespace plimsoll::exec
