// SPDX-License-Identifier: Apache-2.0
// Where transformers keeps a tensor of ours in a checkpoint: its name, and which rows where the file fuses several.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "exec/weights/weights.h"

namespace plimsoll::exec {

/// Row r of ours is row base + r / group * stride + r % group of the file's tensor, all but the last dimension taken as
/// rows (a vector's numbers are rows of one).
struct TensorPlace {
  std::string name;
  std::vector<std::int64_t> shape;  // what the file's tensor must have
  std::int64_t base = 0, group = 0, stride = 0;
  [[nodiscard]] std::int64_t file_row(std::int64_t row) const { return base + row / group * stride + row % group; }
};

/// What names begin with: "model." or, where the model was saved without its head, nothing. The token embedding tells.
[[nodiscard]] std::vector<std::string> name_beginnings(const model::Architecture& architecture);

/// The places where the tensor may be, in the order to look: at least one.
[[nodiscard]] std::vector<TensorPlace> tensor_places(const model::Architecture& architecture,
                                                     const std::string& beginning, const TensorRef& tensor);

/// What is asked about a tensor: does the model have it, or lack it though others of the family have it (biases, norms
/// of heads; a file with one of them is of another model)?
enum class Presence : std::uint8_t { there, lacking };

/// Visits every tensor until `visit` returns false. A hostile config.json may ask for more of them than fit in memory.
void visit_tensors(const model::Architecture& architecture,
                   const std::function<bool(const TensorRef&, Presence)>& visit);

}  // namespace plimsoll::exec
