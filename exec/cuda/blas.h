// SPDX-License-Identifier: Apache-2.0
// The products of cuBLASLt that a transformer needs, without its types. gemm.h decides which way to compute one.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/cuda/kernels.h"

namespace plimsoll::exec::cuda {

/// y[m, n] = x[m, k] W[n, k]^T (+ bias[n]) (+ y), row-major, sums in f32 (no TF32).
struct MatmulShape {
  Element x = Element::bf16;  // of x and W
  Element y = Element::bf16;  // of y and the bias: f32, or as x
  std::int64_t m = 0, n = 0, k = 0;
  bool bias = false, accumulate = false;
};
struct MatmulOperands {
  const void* w = nullptr;
  const void* x = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
};
/// How cuBLASLt is to compute a product: opaque, to be stored for the same GPU and library only.
using MatmulAlgorithm = std::array<std::uint64_t, 8>;

/// 32 MiB: what NVIDIA recommends for Hopper; older GPUs use less of it.
constexpr std::size_t kBlasWorkspaceBytes = std::size_t{32} << 20;

class Blas {
 public:
  /// Of the current device. Throws DeviceError where cuBLASLt is missing.
  Blas();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  [[nodiscard]] std::string version() const;
  /// Up to `most` ways, the likely best first; none where cuBLASLt cannot compute it.
  [[nodiscard]] std::vector<MatmulAlgorithm> ways(const MatmulShape& shape, int most);
  /// Whether a way found for another m computes this one too.
  [[nodiscard]] bool fits(const MatmulShape& shape, const MatmulAlgorithm& algorithm);
  void run(const MatmulShape& shape, const MatmulAlgorithm& algorithm, const MatmulOperands& operands,
           cudaStream_t stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::exec::cuda
