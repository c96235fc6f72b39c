// SPDX-License-Identifier: Apache-2.0
// The CPU backend and the CUDA backend side by side: both get the same weights and run the same ops of exec/backend.h,
// and their buffers are compared. The CPU's kernels are themselves tested against f64 (tests/exec/cpu).
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "exec/backend.h"
#include "exec/row_table.h"

namespace plimsoll::exec {

/// One backend with its copies of the weights, numbered in order of creation.
struct Twin {
  std::unique_ptr<Backend> backend;
  std::vector<std::unique_ptr<Linear>> linears;
  std::vector<std::unique_ptr<Vector>> vectors;
  Backend& operator*() const { return *backend; }
  Backend* operator->() const { return backend.get(); }
  [[nodiscard]] const Linear& linear(std::size_t i) const { return *linears[i]; }
  [[nodiscard]] const Vector* vector(std::size_t i) const { return vectors[i].get(); }
};

struct TwinOutputs {
  std::vector<float> cpu, cuda;  // [rows][width]
  std::size_t width = 0;
  std::vector<std::int32_t> cpu_tokens, cuda_tokens;
};

class Twins {
 public:
  /// config.rank.vocab_rows is the number of elements per row that are compared.
  explicit Twins(const BackendConfig& config);

  /// Adds normally distributed numbers around `mean`, the same on both sides. Returns the weight's number.
  std::size_t add_linear(std::int64_t n, std::int64_t k, double deviation, std::int64_t copies = 1);
  std::size_t add_vector(std::int64_t size, double mean, double deviation);

  /// Runs `ops` on both sides and returns the first rows of `buffer`, which are `width` wide: as many rows as are
  /// sampled. Only part of rows wider than the logits is returned.
  TwinOutputs run(ForwardInput input, const std::function<void(Twin&)>& ops, Buffer buffer, std::int64_t width);
  /// The same for the logits. Samples the first `valid` of them as tokens from vocab_begin on.
  TwinOutputs run_logits(ForwardInput input, const std::function<void(Twin&)>& ops, std::int64_t valid = 1,
                         std::int64_t vocab_begin = 0);

  [[nodiscard]] Twin& cpu() { return cpu_; }
  [[nodiscard]] Twin& cuda() { return cuda_; }

 private:
  std::size_t reader(std::int64_t width);
  // Returns logits and tokens.
  [[nodiscard]] std::pair<std::vector<float>, std::vector<std::int32_t>> run_side(
      Twin& side, const RowTable& table, const std::function<void(Twin&)>& ops) const;

  BackendConfig config_;
  Twin cpu_, cuda_;
  std::vector<std::pair<std::int64_t, std::size_t>> readers_;
  std::uint64_t seed_ = 1;
};

/// Returns the largest relative L2 error of any row of the second against the first; infinite if a number is NaN.
[[nodiscard]] double worst_row(const TwinOutputs& outputs);

/// Returns a config for a rank with these types. hidden, MLP and vocabulary are 64 unless the test changes them.
[[nodiscard]] BackendConfig twin_config(model::DType weights, model::DType kv);

}  // namespace plimsoll::exec
