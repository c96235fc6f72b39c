// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/rope_table.h"

#include <cmath>
#include <numbers>

namespace plimsoll::exec {

namespace {

// Scaling of Llama 3: stretches long wavelengths, keeps short ones, and interpolates smoothly between them.
double llama3(const model::Rope& rope, double frequency) {
  const double length = 2 * std::numbers::pi / frequency, original = rope.original_max_position;
  if (length > original / rope.low_freq_factor) return frequency / rope.factor;
  if (length < original / rope.high_freq_factor) return frequency;
  const double smooth = (original / length - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

}  // namespace

std::vector<double> rope_frequencies(const model::Rope& rope) {
  std::vector<double> frequencies(static_cast<std::size_t>(rope.rotary_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double plain = std::pow(rope.base, -2.0 * static_cast<double>(i) / rope.rotary_dim);
    switch (rope.scaling) {
      case model::RopeScaling::none: frequencies[i] = plain; break;
      case model::RopeScaling::linear: frequencies[i] = plain / rope.factor; break;
      case model::RopeScaling::llama3: frequencies[i] = llama3(rope, plain); break;
    }
  }
  return frequencies;
}

void RopeTable::fill(const model::Rope& rope, std::span<const std::int32_t> positions, ThreadPool& pool) {
  if (rope != rope_) {
    rope_ = rope;
    frequencies_ = rope_frequencies(rope);
    filled_ = false;
  }
  // All layers of a forward rotate by the same angles, so only the first layer computes them.
  if (filled_) return;
  filled_ = true;
  const std::size_t values = positions.size() * frequencies_.size();
  if (cosines_.size() < values) {
    cosines_.resize(values);
    sines_.resize(values);
  }
  const auto fill_rows = [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const double position = positions[static_cast<std::size_t>(row)];
      for (std::int64_t i = 0; i < pairs(); ++i) {
        const double angle = position * frequencies_[static_cast<std::size_t>(i)];
        cosines_[static_cast<std::size_t>(row * pairs() + i)] = static_cast<float>(std::cos(angle));
        sines_[static_cast<std::size_t>(row * pairs() + i)] = static_cast<float>(std::sin(angle));
      }
    }
  };
  const auto rows = static_cast<std::int64_t>(positions.size());
  // Waking the other threads takes longer than computing a few rows.
  if (rows < 8)
    fill_rows(0, 0, rows);
  else
    pool.parallel_for(rows, fill_rows);
}

}  // namespace plimsoll::exec
