// SPDX-License-Identifier: Apache-2.0
// Linear layers on one GPU. Which way is fastest for a shape, our own kernel for few rows or one of cuBLASLt's, is
// measured the first time that shape comes up and remembered in a file, as heuristics miss the best by up to 10 %.
#pragma once

#include <cuda_runtime.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "exec/cuda/blas.h"
#include "exec/cuda/buffer.h"

namespace plimsoll::exec::cuda {

/// What a measured choice holds for: a shape, with its rows rounded up to a bucket.
struct GemmKey {
  MatmulShape shape;
  [[nodiscard]] auto order() const {
    return std::tuple(shape.x, shape.y, shape.n, shape.k, shape.m, shape.bias, shape.accumulate);
  }
  bool operator<(const GemmKey& other) const { return order() < other.order(); }
};
/// The bucket of `rows`: those of decode graphs up to 512 rows, above that a quarter of a power of two.
[[nodiscard]] std::int64_t gemm_bucket(std::int64_t rows);

/// cuBLASLt's algorithm, or none for our own kernel.
using GemmChoice = std::optional<MatmulAlgorithm>;
using GemmChoices = std::map<GemmKey, GemmChoice>;

/// $XDG_CACHE_HOME/plimsoll/gemm/<name>.txt; empty where there is no home. The name becomes one of letters and digits.
[[nodiscard]] std::filesystem::path gemm_file(const std::string& name);
/// What the file holds. Lines that are not understood are left out, as a cache may be.
[[nodiscard]] GemmChoices load_choices(const std::filesystem::path& file);
/// Adds `choices` to what the file holds by now, in one move. A cache that cannot be written is none.
void save_choices(const std::filesystem::path& file, const GemmChoices& choices);

struct GemmOperands {
  const void* w = nullptr;
  const void* x = nullptr;
  const float* bias_f32 = nullptr;  // null: none
  const void* bias = nullptr;       // the same in y's type
  void* y = nullptr;
};

class Gemm {
 public:
  /// On the current device. `file`: gemm_file(), or empty for none. Throws DeviceError.
  explicit Gemm(std::filesystem::path file);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Enqueues a product. `may_measure`: the stream may be waited for (it may not while a graph is captured).
  void run(MatmulShape shape, const GemmOperands& operands, bool may_measure, cudaStream_t stream);
  /// "cublaslt131001"
  [[nodiscard]] std::string version() const { return blas_.version(); }
  void use_file(std::filesystem::path file);
  /// Makes room for measuring products with results of up to so many bytes; larger ones go the way that cuBLASLt
  /// proposes first. Nothing else allocates: measuring may fall between collectives (cuda_backend.cpp). Throws
  /// DeviceError.
  void reserve(std::size_t result_bytes);
  /// Bytes that reserve() takes on the current device, and what cuBLASLt takes besides.
  [[nodiscard]] static std::size_t bytes(std::size_t result_bytes);

 private:
  [[nodiscard]] GemmChoice find(const MatmulShape& shape, const GemmOperands& operands, bool may_measure,
                                cudaStream_t stream);
  [[nodiscard]] GemmChoice first_way(const MatmulShape& shape);
  GemmChoice choose(const MatmulShape& shape, const GemmOperands& operands, cudaStream_t stream);
  [[nodiscard]] double seconds(const MatmulShape& shape, const GemmChoice& way, const GemmOperands& operands,
                               cudaStream_t stream);
  void run_way(const MatmulShape& shape, const GemmChoice& way, const GemmOperands& operands, cudaStream_t stream);

  Blas blas_;
  std::filesystem::path file_;
  GemmChoices choices_, fresh_;  // fresh: not in the file yet
  GemmChoices exact_;            // by the rows themselves: known to be possible
  DeviceBuffer scratch_, flush_;
  EventOwner begin_ = make_event(cudaEventDefault), end_ = make_event(cudaEventDefault);
};

}  // namespace plimsoll::exec::cuda
