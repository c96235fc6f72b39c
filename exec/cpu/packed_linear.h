// SPDX-License-Identifier: Apache-2.0
// Weights in the order in which kernels read them (GemmTask), and the products that a team of threads computes.
#pragma once

#include <cstdint>
#include <span>

#include "exec/backend.h"
#include "exec/cpu/host_memory.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/thread_pool.h"

namespace plimsoll::exec {

/// Weights in panels of columns, in the order in which the kernel reads them.
class PackedLinear final : public Linear {
 public:
  /// Packs on all threads. Kernels of pairs need bf16. Rethrows what `fill` throws.
  PackedLinear(const ProductKernels& kernels, const LinearSpec& spec, bool bf16, const FillRows& fill,
               ThreadPool& pool);

  [[nodiscard]] std::int64_t n() const override { return spec_.n; }
  [[nodiscard]] std::int64_t k() const override { return spec_.k; }
  [[nodiscard]] std::int64_t copies() const { return spec_.copies; }
  [[nodiscard]] bool bf16() const { return bf16_; }
  /// Returns the kernels that read its panels.
  [[nodiscard]] const ProductKernels& kernels() const { return kernels_; }
  /// Returns the panels of one copy.
  [[nodiscard]] const void* panels(std::int64_t copy) const;
  /// Reads W[row, 0 .. k) of copy 0 in f32, for embeddings.
  void read_row(std::int64_t row, float* out) const;

 private:
  void pack_panel(std::int64_t copy, std::int64_t panel, const float* rows);
  [[nodiscard]] std::int64_t copy_elements() const { return kernels_.panels(spec_.n) * kernels_.panel * depth_; }
  // Returns the position of element [row, k] in a copy.
  [[nodiscard]] std::int64_t place(std::int64_t row, std::int64_t k) const;

  const ProductKernels& kernels_;
  LinearSpec spec_;
  bool bf16_;
  std::int64_t depth_;  // k, padded with zeros for kernels of pairs
  HostMemory memory_;
};

/// The rows of one product: y[rows, n] = x[rows, k] W_copy^T.
struct ProductRows {
  std::int64_t copy = 0;
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t rows = 0;
};

/// Runs products with the matrices of one PackedLinear. Grows its workspace as needed.
class Multiplier {
 public:
  explicit Multiplier(ThreadPool& pool, const model::CpuBlockings& blockings = {})
      : pool_(pool), blockings_(blockings) {}
  /// Cuts products this way from now on.
  void use(const model::CpuBlockings& blockings) { blockings_ = blockings; }
  /// Runs all products. Adds `bias` [n] to every row unless it is null. With `accumulate`, y += instead of y =.
  void run(const PackedLinear& weights, std::span<const ProductRows> products, const float* bias, bool accumulate);

 private:
  void pack(const ProductKernels& kernels, std::span<const ProductRows> products, std::int64_t k);

  ThreadPool& pool_;
  model::CpuBlockings blockings_;
  HostMemory packed_;
};

}  // namespace plimsoll::exec
