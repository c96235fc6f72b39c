// SPDX-License-Identifier: Apache-2.0
// Matrices of integers in .safetensors files: GPTQ, AWQ (GEMM layout) and compressed-tensors (pack-quantized and
// int-quantized). Layouts: AutoGPTQ's qlinear_cuda, AutoAWQ's WQLinear_GEMM, compressed_tensors' pack_quantized.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "configs/hf_checkpoint.h"
#include "exec/weights/integers.h"
#include "exec/weights/tensor_files.h"
#include "exec/weights/weights.h"

namespace plimsoll::exec {

/// Rows and columns of a matrix.
struct MatrixSize {
  std::int64_t rows = 0, columns = 0;
};

class PackedTensor {
 public:
  /// Finds the tensors of a matrix by its name without ".weight". Returns nullptr if there are none. `files` must
  /// outlive it. Throws InputError, naming the tensor, if they do not fit each other or `size`.
  [[nodiscard]] static std::unique_ptr<PackedTensor> find(const TensorFiles& files, const std::string& name,
                                                          MatrixSize size, const configs::PackedCheckpoint& settings);

  [[nodiscard]] const IntegerFormat& format() const { return format_; }
  /// As WeightSource::read() and read_integers(), for a slice of the matrix.
  void read(const TensorSlice& slice, float* out) const;
  void read_integers(const TensorSlice& slice, const IntegerRows& out) const;

 private:
  // Where integers lie: GPTQ packs them along the columns, AWQ along the rows, in words of the transposed matrix;
  // compressed-tensors along the columns, or one in a byte.
  enum class Layout : std::uint8_t { gptq, awq, packed, bytes };

  PackedTensor() = default;
  void find_gptq_or_awq(const TensorFiles& files, const std::string& name, const configs::PackedCheckpoint& settings);
  void find_compressed(const TensorFiles& files, const std::string& name, const configs::PackedCheckpoint& settings);
  void set_groups(std::int64_t groups, const configs::PackedCheckpoint& settings, const std::string& name);
  void read_order(const FileTensor& indices, const std::string& name);
  void find_zeros();
  [[nodiscard]] std::int32_t q(std::int64_t row, std::int64_t column) const;
  [[nodiscard]] std::int32_t zero(std::int64_t row, std::int64_t group) const;
  [[nodiscard]] float scale(std::int64_t row, std::int64_t group) const;
  [[nodiscard]] std::int64_t group_of(std::int64_t column) const;

  Layout layout_ = Layout::gptq;
  MatrixSize size_;
  IntegerFormat format_;
  std::int64_t groups_ = 1;
  const FileTensor* integers_ = nullptr;
  const FileTensor* scales_ = nullptr;
  const FileTensor* zeros_ = nullptr;   // null: symmetric
  std::vector<std::int32_t> group_of_;  // [columns]; empty: adjacent columns
  std::int32_t zero_offset_ = 0;        // added to a stored zero
};

}  // namespace plimsoll::exec
