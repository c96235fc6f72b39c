// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/integer_linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/error.h"

namespace plimsoll::exec {

namespace {

// Below this many elements, packing rows costs less than waking the team.
constexpr std::int64_t kPackIntegersAlone = 16'384;

// Returns the smallest power of two that is not below `value`; 1 for 0 and for what is not a number.
float power_above(float value) {
  if (!(value > 0) || !std::isfinite(value)) return 1;
  int exponent = 0;
  const float fraction = std::frexp(value, &exponent);
  return std::ldexp(1.0F, fraction == 0.5F ? exponent - 1 : exponent);
}

}  // namespace

std::int64_t integer_block(std::int64_t group, std::int64_t columns) {
  const std::int64_t whole = group == 0 || group >= columns ? columns : group;
  for (const std::int64_t block : {128, 64, 32})
    if (whole % block == 0) return block;
  return group == 0 || group >= columns ? 32 : 0;  // the last block of a row may be padded
}

// The rows of one panel.
struct IntegerLinear::Panel {
  std::vector<float> floats;       // [panel, k], if weights are rounded here
  std::vector<std::int8_t> q;      // [panel, k]
  std::vector<float> scale;        // [panel, groups]
  std::vector<std::int16_t> zero;  // the same
  std::vector<float> unit;         // [panel]
};

IntegerLinear::IntegerLinear(const IntegerKernels& kernels, const LinearSpec& spec, int bits, const FillRows& fill,
                             ThreadPool& pool)
    : kernels_(kernels), spec_(spec) {
  format_ = spec.integers ? spec.integers->format : IntegerFormat{.bits = bits, .group = model::kLoadGroup};
  if (format_.group == 0) format_.group = spec.k;
  order_ = format_.order;
  layout_ = {.bits = format_.bits, .zeros = format_.zeros, .block = integer_block(format_.group, spec.k)};
  PLIMSOLL_CHECK(layout_.block > 0, "the kernels run groups of this size");
  layout_.blocks = (spec.k + layout_.block - 1) / layout_.block;
  panels_ = (spec.n + kernels.panel - 1) / kernels.panel;
  memory_ = HostMemory(static_cast<std::size_t>(panels_ * spec.copies * layout_.panel_bytes(kernels.panel)), "weights");
  factors_.assign(static_cast<std::size_t>(panels_ * kernels.panel * spec.copies), 1.0F);
  pool.parallel_for(panels_ * spec_.copies, [&](int, std::int64_t begin, std::int64_t end) {
    const auto elements = static_cast<std::size_t>(kernels_.panel * spec_.k);
    const auto groups = static_cast<std::size_t>(kernels_.panel * format_.groups(spec_.k));
    Panel panel{.floats = std::vector<float>(spec_.integers ? 0 : elements),
                .q = std::vector<std::int8_t>(elements),
                .scale = std::vector<float>(groups),
                .zero = std::vector<std::int16_t>(groups),
                .unit = std::vector<float>(static_cast<std::size_t>(kernels_.panel), 1.0F)};
    for (std::int64_t i = begin; i < end; ++i) {
      fill_panel(i / panels_, i % panels_ * kernels_.panel, fill, panel);
      pack_panel(i / panels_, i % panels_, panel);
    }
  });
}

void IntegerLinear::fill_panel(std::int64_t copy, std::int64_t first, const FillRows& fill, Panel& panel) const {
  const std::int64_t count = std::min<std::int64_t>(kernels_.panel, spec_.n - first), groups = format_.groups(spec_.k);
  std::fill(panel.scale.begin() + count * groups, panel.scale.end(), 0.0F);
  std::fill(panel.zero.begin(), panel.zero.end(), std::int16_t{0});
  std::fill(panel.unit.begin(), panel.unit.end(), 1.0F);
  if (!spec_.integers) {
    fill(copy, first, count, panel.floats.data());
    quantise(panel, count);
    return;
  }
  spec_.integers->fill(copy, first, count, {panel.q.data(), panel.scale.data(), panel.zero.data()});
  for (std::int64_t row = 0; row < count; ++row) {
    const float* const scales = panel.scale.data() + row * groups;
    float most = 0;
    for (std::int64_t g = 0; g < groups; ++g) most = std::max(most, std::fabs(scales[g]));
    panel.unit[static_cast<std::size_t>(row)] = power_above(most);
  }
}

void IntegerLinear::quantise(Panel& panel, std::int64_t count) const {
  const std::int64_t groups = format_.groups(spec_.k);
  for (std::int64_t row = 0; row < count; ++row) {
    const float* const weights = panel.floats.data() + row * spec_.k;
    float most = 0;
    for (std::int64_t i = 0; i < spec_.k; ++i) most = std::max(most, std::fabs(weights[i]));
    const float unit = panel.unit[static_cast<std::size_t>(row)] = power_above(most);
    for (std::int64_t g = 0; g < groups; ++g) {
      const std::int64_t from = g * format_.group;
      panel.scale[static_cast<std::size_t>(row * groups + g)] =
          quantise_group(weights + from, std::min(format_.group, spec_.k - from), format_.bits, unit,
                         panel.q.data() + row * spec_.k + from);
    }
  }
}

void IntegerLinear::pack_panel(std::int64_t copy, std::int64_t index, const Panel& panel) {
  const std::int64_t groups = format_.groups(spec_.k), width = kernels_.panel;
  const std::int64_t place = copy * panels_ + index;
  std::copy(panel.unit.begin(), panel.unit.end(), factors_.begin() + place * width);
  std::byte* to = memory_.data() + place * layout_.panel_bytes(kernels_.panel);
  for (std::int64_t b = 0; b < layout_.blocks; ++b, to += layout_.block_bytes(kernels_.panel)) {
    const std::int64_t group = b * layout_.block / format_.group;
    for (std::int64_t c = 0; c < width; ++c) {
      const auto at = static_cast<std::size_t>(c * groups + group);
      const std::uint16_t scale = to_f16(panel.scale[at] / panel.unit[static_cast<std::size_t>(c)]);
      std::memcpy(to + 2 * c, &scale, sizeof scale);
      const auto zero = static_cast<std::uint8_t>(panel.zero[at] + layout_.middle());
      if (layout_.zeros) std::memcpy(to + 2 * width + c, &zero, sizeof zero);
    }
    pack_weights(panel, b, to + (layout_.zeros ? 4 : 2) * width);
  }
}

// A vector has a 32-bit word for each column of a half. It holds k = 0 to 7 (or 3) of a step: element 2 i + j is part i
// of the word's half j.
void IntegerLinear::pack_weights(const Panel& panel, std::int64_t block, std::byte* to) const {
  const std::int64_t half = kernels_.panel / 2, bits = layout_.bits, in_word = 32 / bits;
  for (std::int64_t column = 0; column < kernels_.panel; ++column) {
    const std::int8_t* const q = panel.q.data() + column * spec_.k;
    for (std::int64_t step = 0; step < layout_.block / in_word; ++step) {
      std::uint32_t word = 0;
      for (std::int64_t i = 0; i < in_word; ++i) {
        const std::int64_t k = block * layout_.block + step * in_word + i;
        const std::int32_t value = (k < spec_.k ? q[k] : 0) + layout_.middle();
        const auto part = static_cast<std::uint32_t>(value) & (bits == 4 ? 0xfU : 0xffU);
        word |= part << static_cast<std::uint32_t>(16 * (i % 2) + bits * (i / 2));
      }
      const std::int64_t vector = 2 * step + column / half;
      std::memcpy(to + (vector * half + column % half) * 4, &word, sizeof word);
    }
  }
}

const std::byte* IntegerLinear::panels(std::int64_t copy) const {
  return memory_.data() + copy * panels_ * layout_.panel_bytes(kernels_.panel);
}

const float* IntegerLinear::factors(std::int64_t copy) const {
  return factors_.data() + copy * panels_ * kernels_.panel;
}

void IntegerLinear::read_row(std::int64_t row, float* out) const {
  PLIMSOLL_CHECK(row >= 0 && row < spec_.n, "the row is within the matrix");
  const std::int64_t column = row % kernels_.panel, half = kernels_.panel / 2, in_word = 32 / layout_.bits;
  const std::byte* const panel = memory_.data() + row / kernels_.panel * layout_.panel_bytes(kernels_.panel);
  const float factor = factors_[static_cast<std::size_t>(row)];
  for (std::int64_t k = 0; k < spec_.k; ++k) {
    const std::byte* const block = panel + k / layout_.block * layout_.block_bytes(kernels_.panel);
    std::uint16_t scale = 0;
    std::memcpy(&scale, block + 2 * column, sizeof scale);
    auto zero = static_cast<std::uint8_t>(layout_.middle());
    if (layout_.zeros) std::memcpy(&zero, block + 2 * kernels_.panel + column, sizeof zero);
    const std::int64_t inside = k % layout_.block, i = inside % in_word;
    const std::int64_t vector = inside / in_word * 2 + column / half;
    std::uint32_t word = 0;
    std::memcpy(&word, block + (layout_.zeros ? 4 : 2) * kernels_.panel + (vector * half + column % half) * 4, 4);
    word >>= static_cast<std::uint32_t>(16 * (i % 2) + layout_.bits * (i / 2));
    const auto q = static_cast<std::int32_t>(word & (layout_.bits == 4 ? 0xfU : 0xffU));
    out[order_ == nullptr ? k : (*order_)[static_cast<std::size_t>(k)]] =
        static_cast<float>(q - zero) * (from_f16(scale) * factor);
  }
}

void IntegerMultiplier::pack(const IntegerLinear& weights, std::span<const ProductRows> products) {
  std::int64_t rows = 0, tiles = 0;
  for (const ProductRows& product : products) {
    rows += product.rows;
    tiles += kernels_.tile_count(product.rows);
  }
  const std::int64_t words = weights.layout().row_words();
  const auto bytes = static_cast<std::size_t>(rows * words) * sizeof(std::int32_t);
  if (packed_.bytes() < bytes) packed_ = HostMemory(bytes, "packed activations");
  const auto pack_tiles = [&](std::int64_t begin, std::int64_t end) {
    IntegerRowsTask task{.layout = weights.layout(), .order = weights.order(), .stride = weights.k(), .k = weights.k()};
    task.packed = packed_.as<std::int32_t>();
    for (const ProductRows& product : products) {
      const std::int64_t count = kernels_.tile_count(product.rows);
      task.x = product.x;
      task.rows = product.rows;
      task.tile_begin = std::clamp<std::int64_t>(begin, 0, count);
      task.tile_end = std::clamp<std::int64_t>(end, 0, count);
      if (task.tile_begin < task.tile_end) kernels_.pack_rows(task);
      task.packed += product.rows * words;
      // The range counts tiles of all products. From here on, it is relative to the first tile of the next product.
      begin -= count;
      end -= count;
    }
  };
  if (rows * weights.k() <= kPackIntegersAlone)
    pack_tiles(0, tiles);
  else
    pool_.parallel_for(tiles, [&](int, std::int64_t begin, std::int64_t end) { pack_tiles(begin, end); });
}

void IntegerMultiplier::run(const IntegerLinear& weights, std::span<const ProductRows> products, const float* bias,
                            bool accumulate) {
  pack(weights, products);
  const model::CpuBlockings& blockings = weights.layout().bits == 4 ? int4_ : int8_;
  const std::int64_t panels = (weights.n() + kernels_.panel - 1) / kernels_.panel;
  // Each thread computes its panels of all products, so the threads synchronise once.
  pool_.parallel_for(panels, [&](int, std::int64_t begin, std::int64_t end) {
    IntegerTask task{.layout = weights.layout(), .n = weights.n(), .bias = bias, .accumulate = accumulate};
    task.panel_begin = begin;
    task.panel_end = end;
    task.x = packed_.as<std::int32_t>();
    for (const ProductRows& product : products) {
      task.rows = product.rows;
      task.blocking = blockings.of(product.rows, kernels_.tile_count(product.rows));
      task.weights = weights.panels(product.copy);
      task.factor = weights.factors(product.copy);
      task.y = product.y;
      kernels_.gemm(task);
      task.x += product.rows * weights.layout().row_words();
    }
  });
}

}  // namespace plimsoll::exec
