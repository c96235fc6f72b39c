// SPDX-License-Identifier: Apache-2.0
// The cuBLASLt products that a transformer needs, without cuBLASLt's types. gemm.h chooses the algorithm.
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
  Element x = Element::bf16;  // type of x and W
  Element y = Element::bf16;  // type of y and the bias: f32, or that of x
  std::int64_t m = 0, n = 0, k = 0;
  bool bias = false, accumulate = false;
};
struct MatmulOperands {
  const void* w = nullptr;
  const void* x = nullptr;
  const void* bias = nullptr;
  void* y = nullptr;
};
/// A cuBLASLt algorithm: opaque, and valid only for the same GPU and library version.
using MatmulAlgorithm = std::array<std::uint64_t, 8>;

/// NVIDIA recommends 32 MiB for Hopper; older GPUs need less.
constexpr std::size_t kBlasWorkspaceBytes = std::size_t{32} << 20;

class Blas {
 public:
  /// Uses the current device. Throws DeviceError if cuBLASLt is missing.
  Blas();
  ~Blas();
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;

  [[nodiscard]] std::string version() const;
  /// Returns up to `most` algorithms, the likely fastest first; none if cuBLASLt cannot compute the product.
  [[nodiscard]] std::vector<MatmulAlgorithm> ways(const MatmulShape& shape, int most);
  /// Returns true if an algorithm found for another m can compute this product too.
  [[nodiscard]] bool fits(const MatmulShape& shape, const MatmulAlgorithm& algorithm);
  void run(const MatmulShape& shape, const MatmulAlgorithm& algorithm, const MatmulOperands& operands,
           cudaStream_t stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace plimsoll::exec::cuda
