// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/rope_table.h"

#include <algorithm>
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

// YaRN: dimensions that turn often within the trained length keep their frequency, slow ones are stretched by the
// factor, and those in between are blended linearly.
double yarn(const model::Rope& rope, double frequency, double pair) {
  // Returns the dimension that turns `rotations` times within the trained length.
  const auto dimension = [&](double rotations) {
    return rope.rotary_dim * std::log(rope.original_max_position / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.base));
  };
  double first = dimension(rope.beta_fast), last = dimension(rope.beta_slow);
  if (rope.whole_dimensions) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, rope.rotary_dim - 1.0);
  if (first == last) last += 0.001;  // as in transformers: a step instead of a division by 0
  const double stretched = std::clamp((pair - first) / (last - first), 0.0, 1.0);
  return stretched * frequency / rope.factor + (1 - stretched) * frequency;
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
      case model::RopeScaling::longrope: frequencies[i] = plain / rope.factors[i]; break;
      case model::RopeScaling::yarn: frequencies[i] = yarn(rope, plain, static_cast<double>(i)); break;
    }
  }
  return frequencies;
}

RopeTable::RopeTable(const model::Rope& rope) : rope_(rope), frequencies_(rope_frequencies(rope)) {}

void RopeTable::fill(std::span<const std::int32_t> positions, ThreadPool& pool) {
  // The layers of a forward rotate by the same angles, so only the first layer computes them.
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
        cosines_[static_cast<std::size_t>(row * pairs() + i)] = static_cast<float>(rope_.magnitude * std::cos(angle));
        sines_[static_cast<std::size_t>(row * pairs() + i)] = static_cast<float>(rope_.magnitude * std::sin(angle));
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
