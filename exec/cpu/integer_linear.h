// SPDX-License-Identifier: Apache-2.0
// Weights of 4 or 8 bits in the order in which the kernels read them (integer_kernels.h), and their products.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/backend.h"
#include "exec/cpu/host_memory.h"
#include "exec/cpu/integer_kernels.h"
#include "exec/cpu/packed_linear.h"
#include "exec/cpu/thread_pool.h"

namespace plimsoll::exec {

/// Returns the columns of a block for weights with these groups (0: a row); 0 if the kernels cannot run such groups.
[[nodiscard]] std::int64_t integer_block(std::int64_t group, std::int64_t columns);

class IntegerLinear final : public Linear {
 public:
  /// Packs on all threads: the integers of spec.integers if there are any, which integer_block() must allow; else it
  /// rounds the floats of `fill` to `bits`, in groups of model::kLoadGroup. Rethrows what the fills throw.
  IntegerLinear(const IntegerKernels& kernels, const LinearSpec& spec, int bits, const FillRows& fill,
                ThreadPool& pool);

  [[nodiscard]] std::int64_t n() const override { return spec_.n; }
  [[nodiscard]] std::int64_t k() const override { return spec_.k; }
  [[nodiscard]] std::int64_t copies() const { return spec_.copies; }
  [[nodiscard]] const IntegerLayout& layout() const { return layout_; }
  /// Returns the panels of one copy.
  [[nodiscard]] const std::byte* panels(std::int64_t copy) const;
  /// Returns the factors of one copy's columns (IntegerTask::factor).
  [[nodiscard]] const float* factors(std::int64_t copy) const;
  /// Returns the order of the columns; null if they are in their own.
  [[nodiscard]] const std::int32_t* order() const { return order_ == nullptr ? nullptr : order_->data(); }
  /// Returns the bytes of all copies.
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }
  /// Reads W[row, 0 .. k) of copy 0 in f32.
  void read_row(std::int64_t row, float* out) const;

 private:
  struct Panel;
  void fill_panel(std::int64_t copy, std::int64_t first, const FillRows& fill, Panel& panel) const;
  void quantise(Panel& panel, std::int64_t count) const;
  void pack_panel(std::int64_t copy, std::int64_t index, const Panel& panel);
  void pack_weights(const Panel& panel, std::int64_t block, std::byte* to) const;

  const IntegerKernels& kernels_;
  LinearSpec spec_;
  IntegerFormat format_;
  IntegerLayout layout_;
  std::shared_ptr<const std::vector<std::int32_t>> order_;
  std::int64_t panels_ = 0;  // of a copy
  HostMemory memory_;
  std::vector<float> factors_;
};

/// Runs products with the matrices of one IntegerLinear, as Multiplier does. Grows its workspace as needed.
class IntegerMultiplier {
 public:
  IntegerMultiplier(const IntegerKernels& kernels, ThreadPool& pool, const model::CpuBlockings& int8 = {},
                    const model::CpuBlockings& int4 = {})
      : kernels_(kernels), pool_(pool), int8_(int8), int4_(int4) {}
  void use(const model::CpuBlockings& blockings) { int8_ = int4_ = blockings; }
  void run(const IntegerLinear& weights, std::span<const ProductRows> products, const float* bias, bool accumulate);

 private:
  void pack(const IntegerLinear& weights, std::span<const ProductRows> products);

  const IntegerKernels& kernels_;
  ThreadPool& pool_;
  model::CpuBlockings int8_, int4_;
  HostMemory packed_;
};

}  // namespace plimsoll::exec
