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

PackedLinear::PackedLinear(const KernelSet& kernels, const LinearSpec& spec, bool bf16, const FillRows& fill,
                           ThreadPool& pool)
    : kernels_(kernels), spec_(spec), bf16_(bf16), memory_(bytes_of(copy_elements() * spec.copies, bf16), "weights") {
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

// bf16 panels interleave their two halves, so that one load and a shift give two vectors of floats.
std::int64_t PackedLinear::place(std::int64_t row) const {
  const std::int64_t column = row % kernels_.panel, half = kernels_.panel / 2;
  const std::int64_t within = bf16_ ? column % half * 2 + column / half : column;
  return row / kernels_.panel * kernels_.panel * spec_.k + within;
}

void PackedLinear::pack_panel(std::int64_t copy, std::int64_t panel, const float* rows) {
  for (std::int64_t column = 0; column < kernels_.panel; ++column) {
    const std::int64_t to = copy * copy_elements() + place(panel * kernels_.panel + column);
    const float* from = rows + column * spec_.k;
    for (std::int64_t i = 0; i < spec_.k; ++i) {
      if (bf16_)
        memory_.as<std::uint16_t>()[to + i * kernels_.panel] = to_bf16(from[i]);
      else
        memory_.as<float>()[to + i * kernels_.panel] = from[i];
    }
  }
}

const void* PackedLinear::panels(std::int64_t copy) const {
  return memory_.data() + bytes_of(copy * copy_elements(), bf16_);
}

void PackedLinear::read_row(std::int64_t row, float* out) const {
  PLIMSOLL_CHECK(row >= 0 && row < spec_.n, "the row is within the matrix");
  const std::int64_t from = place(row);
  for (std::int64_t i = 0; i < spec_.k; ++i) {
    out[i] = bf16_ ? from_bf16(memory_.as<std::uint16_t>()[from + i * kernels_.panel])
                   : memory_.as<float>()[from + i * kernels_.panel];
  }
}

void Multiplier::pack(std::span<const ProductRows> products, std::int64_t k) {
  std::int64_t rows = 0, tiles = 0;
  for (const ProductRows& product : products) {
    rows += product.rows;
    tiles += kernels_.tile_count(product.rows);
  }
  const std::size_t bytes = bytes_of(rows * k, false);
  if (packed_.bytes() < bytes) packed_ = HostMemory(bytes, "packed activations");
  const auto pack_tiles = [&](std::int64_t begin, std::int64_t end) {
    float* to = packed_.as<float>();
    for (const ProductRows& product : products) {
      const std::int64_t count = kernels_.tile_count(product.rows);
      const std::int64_t first = std::clamp<std::int64_t>(begin, 0, count),
                         last = std::clamp<std::int64_t>(end, 0, count);
      if (first < last) kernels_.pack_rows(product.x, k, product.rows, k, first, last, to);
      to += product.rows * k;
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
  const std::int64_t n = weights.n(), k = weights.k();
  // A single row needs no packing.
  const bool as_it_stands = products.size() == 1 && products.front().rows == 1;
  if (!as_it_stands) pack(products, k);
  std::int64_t grain = 1;  // panels that are read in parallel stay together
  for (const ProductRows& product : products) grain = std::max(grain, kernels_.panels_at_once(product.rows));
  // Each thread computes its panels of all products, so the threads meet once.
  pool_.parallel_for(kernels_.panels(n), grain, [&](int, std::int64_t begin, std::int64_t end) {
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
      task.weights = weights.panels(product.copy);
      task.y = product.y;
      kernels_.gemm(task);
      task.x += product.rows * k;
    }
  });
}

}  // namespace plimsoll::exec
