// SPDX-License-Identifier: Apache-2.0
// Weights on a GPU: matrices row-major in the activations' type, vectors in f32 plus a copy in that type.
#pragma once

#include <span>

#include "exec/backend.h"
#include "exec/cuda/buffer.h"
#include "exec/cuda/kernels.h"

namespace plimsoll::exec::cuda {

class CudaLinear final : public Linear {
 public:
  /// Reads all rows from `fill` on several threads and stores them on the current device. Throws DeviceError and
  /// whatever `fill` throws.
  CudaLinear(const LinearSpec& spec, Element element, const FillRows& fill);
  [[nodiscard]] std::int64_t n() const override { return spec_.n; }
  [[nodiscard]] std::int64_t k() const override { return spec_.k; }
  [[nodiscard]] std::int64_t copies() const { return spec_.copies; }
  [[nodiscard]] const void* get() const { return memory_.get(); }

 private:
  LinearSpec spec_;
  DeviceBuffer memory_;
};

class CudaVector final : public Vector {
 public:
  CudaVector(std::span<const float> values, Element element);
  [[nodiscard]] const float* f32() const { return f32_.as<const float>(); }
  /// Returns the vector in f32 or in the activations' type.
  [[nodiscard]] const void* in(Element element) const { return element == Element::f32 ? f32_.get() : bf16_.get(); }

 private:
  DeviceBuffer f32_, bf16_;
};

/// Converts f32 numbers to their form on the device.
void convert(std::span<const float> from, Element element, void* to);

}  // namespace plimsoll::exec::cuda
