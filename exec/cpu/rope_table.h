// SPDX-License-Identifier: Apache-2.0
// Rotary position embeddings: a model's frequencies, also used by the GPU, and the sines and cosines of a forward.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/cpu/thread_pool.h"
#include "model/architecture.h"

namespace plimsoll::exec {

/// Returns radians per position for each of the rotary_dim / 2 pairs of dimensions: base^(-2 i / rotary_dim), rescaled
/// according to `scaling` (transformers, modeling_rope_utils.py; YaRN: arXiv 2309.00071).
[[nodiscard]] std::vector<double> rope_frequencies(const model::Rope& rope);

/// Sines and cosines for the positions of a forward; all layers with the same rotation share them.
class RopeTable {
 public:
  explicit RopeTable(const model::Rope& rope);
  [[nodiscard]] const model::Rope& rope() const { return rope_; }
  /// Discards the positions of the last forward.
  void reset() { filled_ = false; }
  /// Computes the table unless this forward already has it.
  void fill(std::span<const std::int32_t> positions, ThreadPool& pool);

  /// Return rotary_dim / 2 values for the position of a row.
  [[nodiscard]] const float* cosines(std::int64_t row) const { return cosines_.data() + row * pairs(); }
  [[nodiscard]] const float* sines(std::int64_t row) const { return sines_.data() + row * pairs(); }

 private:
  [[nodiscard]] std::int64_t pairs() const { return static_cast<std::int64_t>(frequencies_.size()); }

  bool filled_ = false;
  model::Rope rope_;
  std::vector<double> frequencies_;
  std::vector<float> cosines_, sines_;
};

}  // namespace plimsoll::exec
