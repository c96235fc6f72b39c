// SPDX-License-Identifier: Apache-2.0
// Linear layers on one GPU. The fastest way to compute a shape is either our own kernel, for few rows, or one of
// cuBLASLt's algorithms. cuBLASLt's heuristics miss the best one by up to 10 %. Candidates are therefore measured when
// a shape first occurs, and the choice is stored in a file.
#pragma once

#include <cuda_runtime.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "exec/cuda/blas.h"
#include "exec/cuda/buffer.h"
#include "exec/cuda/kernels.h"

namespace plimsoll::exec::cuda {

/// The key of a measured choice: a shape with its rows rounded up to a bucket.
struct GemmKey {
  MatmulShape shape;
  [[nodiscard]] auto order() const {
    return std::tuple(shape.x, shape.y, shape.n, shape.k, shape.m, shape.bias, shape.accumulate);
  }
  bool operator<(const GemmKey& other) const { return order() < other.order(); }
};
/// Returns the bucket of `rows`: the decode graphs' buckets up to 512 rows, above that multiples of a quarter of a
/// power of two.
[[nodiscard]] std::int64_t gemm_bucket(std::int64_t rows);

/// An algorithm of cuBLASLt; nullopt means our own kernel.
using GemmChoice = std::optional<MatmulAlgorithm>;
using GemmChoices = std::map<GemmKey, GemmChoice>;

/// Returns $XDG_CACHE_HOME/plimsoll/gemm/<name>.txt, or an empty path without a home directory. Other characters of the
/// name than letters and digits are replaced.
[[nodiscard]] std::filesystem::path gemm_file(const std::string& name);
/// Returns the choices in the file. Malformed lines are skipped: the file is only a cache.
[[nodiscard]] GemmChoices load_choices(const std::filesystem::path& file);
/// Merges `choices` into the current content of the file and replaces it atomically. Failure to write is ignored.
void save_choices(const std::filesystem::path& file, const GemmChoices& choices);

struct GemmOperands {
  const void* w = nullptr;
  const void* x = nullptr;
  const float* bias_f32 = nullptr;  // null if none
  const void* bias = nullptr;       // the same in y's type
  void* y = nullptr;
  ProductActivation then = {};  // y is undefined afterwards
};

class Gemm {
 public:
  /// Uses the current device. `file` is the result of gemm_file(), or empty for no file. Throws DeviceError.
  explicit Gemm(std::filesystem::path file);
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Enqueues a product. `may_measure`: the call may wait for the stream (not allowed while a graph is captured).
  void run(MatmulShape shape, const GemmOperands& operands, bool may_measure, cudaStream_t stream);
  /// Returns "cublaslt131001".
  [[nodiscard]] std::string version() const { return blas_.version(); }
  void use_file(std::filesystem::path file);
  /// Allocates memory for measuring products, and for those that are added to a result of up to that many bytes. Larger
  /// ones use the algorithm that cuBLASLt proposes first. No other call allocates, because measuring may happen between
  /// collectives (cuda_backend.cpp). Throws DeviceError.
  void reserve(std::size_t result_bytes);
  /// Returns the bytes that reserve() allocates on the current device, plus cuBLASLt's own.
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
  GemmChoices choices_, fresh_;  // fresh_: not yet in the file
  GemmChoices exact_;            // by exact rows; known to be supported
  DeviceBuffer scratch_, flush_;
  EventOwner begin_ = make_event(cudaEventDefault), end_ = make_event(cudaEventDefault);
};

}  // namespace plimsoll::exec::cuda
