// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/packed_linear.h"

#include <algorithm>
#include <vector>

#include "exec/cpu/bf16.h"
#include "model/error.h"

namespace plimsoll::exec {

namespace {

std::size_t bytes_of(std::int64_t elements, bool bf16) { return static_cast<std::size_t>(elements) * (bf16 ? 2 : 4); }

// Below this many elements, packing rows costs less than waking the team.
constexpr std::int64_t kPackAlone = 16'384;

}  // namespace

PackedLinear::PackedLinear(const ProductKernels& kernels, const LinearSpec& spec, bool bf16, const FillRows& fill,
                           ThreadPool& pool)
    : kernels_(kernels),
      spec_(spec),
      bf16_(bf16),
      depth_(kernels.pairs ? 2 * kernels.row_words(spec.k) : spec.k),
      memory_(bytes_of(copy_elements() * spec.copies, bf16), "weights") {
  PLIMSOLL_CHECK(bf16 || !kernels.pairs, "pairs are of bf16");
  const std::int64_t panels = kernels_.panels(spec_.n);
  pool.parallel_for(panels * spec_.copies, [&](int, std::int64_t begin, std::int64_t end) {
    // One panel at a time, so that a matrix never exists in full precision as a whole.
    std::vector<float> rows(static_cast<std::size_t>(kernels_.panel * spec_.k));
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t copy = i / panels, first = i % panels * kernels_.panel;
      const std::int64_t count = std::min<std::int64_t>(kernels_.panel, spec_.n - first);
      fill(copy, first, count, rows.data());
      std::fill(rows.begin() + count * spec_.k, rows.end(), 0.0F);
      pack_panel(copy, i % panels, rows.data());
    }
  });
}

// bf16 panels interleave their two halves, so that one load and a shift give two vectors of floats; those of pairs have
// words of two adjacent k.
std::int64_t PackedLinear::place(std::int64_t row, std::int64_t k) const {
  const std::int64_t width = kernels_.panel, column = row % width, half = width / 2,
                     panel = row / width * width * depth_;
  if (kernels_.pairs) return panel + k / 2 * 2 * width + 2 * column + k % 2;
  return panel + k * width + (bf16_ ? column % half * 2 + column / half : column);
}

void PackedLinear::pack_panel(std::int64_t copy, std::int64_t panel, const float* rows) {
  // Memory is zero where nothing is written: the padding of pairs.
  const std::int64_t step = kernels_.pairs ? 2 : 1;
  for (std::int64_t column = 0; column < kernels_.panel; ++column) {
    const float* from = rows + column * spec_.k;
    for (std::int64_t first = 0; first < step; ++first) {
      std::int64_t to = copy * copy_elements() + place(panel * kernels_.panel + column, first);
      for (std::int64_t i = first; i < spec_.k; i += step, to += step * kernels_.panel) {
        if (bf16_)
          memory_.as<std::uint16_t>()[to] = to_bf16(from[i]);
        else
          memory_.as<float>()[to] = from[i];
      }
    }
  }
}

const void* PackedLinear::panels(std::int64_t copy) const {
  return memory_.data() + bytes_of(copy * copy_elements(), bf16_);
}

void PackedLinear::read_row(std::int64_t row, float* out) const {
  PLIMSOLL_CHECK(row >= 0 && row < spec_.n, "the row is within the matrix");
  for (std::int64_t i = 0; i < spec_.k; ++i) {
    const std::int64_t at = place(row, i);
    out[i] = bf16_ ? from_bf16(memory_.as<std::uint16_t>()[at]) : memory_.as<float>()[at];
  }
}

void Multiplier::pack(const ProductKernels& kernels, std::span<const ProductRows> products, std::int64_t k) {
  std::int64_t rows = 0, tiles = 0;
  for (const ProductRows& product : products) {
    rows += product.rows;
    tiles += kernels.tile_count(product.rows);
  }
  const std::int64_t words = kernels.row_words(k);
  const std::size_t bytes = bytes_of(rows * words, false);
  if (packed_.bytes() < bytes) packed_ = HostMemory(bytes, "packed activations");
  const auto pack_tiles = [&](std::int64_t begin, std::int64_t end) {
    float* to = packed_.as<float>();
    for (const ProductRows& product : products) {
      const std::int64_t count = kernels.tile_count(product.rows);
      const std::int64_t first = std::clamp<std::int64_t>(begin, 0, count),
                         last = std::clamp<std::int64_t>(end, 0, count);
      if (first < last) kernels.pack_rows(product.x, k, product.rows, k, first, last, to);
      to += product.rows * words;
      // The range counts tiles of all products. From here on, it is relative to the first tile of the next product.
      begin -= count;
      end -= count;
    }
  };
  // Waking the other threads takes longer than packing a few rows.
  if (rows * k <= kPackAlone)
    pack_tiles(0, tiles);
  else
    pool_.parallel_for(tiles, [&](int, std::int64_t begin, std::int64_t end) { pack_tiles(begin, end); });
}

void Multiplier::run(const PackedLinear& weights, std::span<const ProductRows> products, const float* bias,
                     bool accumulate) {
  const ProductKernels& kernels = weights.kernels();
  const std::int64_t n = weights.n(), k = kernels.row_words(weights.k());
  // A single row of floats needs no packing.
  const bool as_it_stands = products.size() == 1 && products.front().rows == 1 && !kernels.pairs;
  if (!as_it_stands) pack(kernels, products, weights.k());
  std::int64_t grain = 1;  // panels that are read in parallel stay together
  for (const ProductRows& product : products) grain = std::max(grain, kernels.panels_at_once(product.rows));
  // Each thread computes its panels of all products, so the threads meet once.
  pool_.parallel_for(kernels.panels(n), grain, [&](int, std::int64_t begin, std::int64_t end) {
    GemmTask task;
    task.n = n;
    task.k = k;
    task.bf16 = weights.bf16();
    task.bias = bias;
    task.accumulate = accumulate;
    task.panel_begin = begin;
    task.panel_end = end;
    // The packed rows of the products are stored one after the other; task.x advances below.
    task.x = packed_.as<float>();
    for (const ProductRows& product : products) {
      if (as_it_stands) task.x = product.x;
      task.rows = product.rows;
      task.blocking = blockings_.of(product.rows, kernels.tile_count(product.rows));
      task.weights = weights.panels(product.copy);
      task.y = product.y;
      kernels.gemm(task);
      task.x += product.rows * k;
    }
  });
}

}  // namespace plimsoll::exec
