// SPDX-License-Identifier: Apache-2.0
// Reads tables of measured kernels in the format of docs/kernel-tables.md: CSV, plain or gzip, one kernel per row,
// times in milliseconds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "model/error.h"
#include "model/kernel_table.h"

namespace plimsoll::calibration {

/// One measured kernel.
struct KernelMeasurement {
  std::string device, framework, version;  // "NVIDIA H200", "VLLM", "0.24.0"
  model::KernelOp op = model::KernelOp::gemm;
  std::string dtype, kv_dtype, kernel;
  model::KernelKey key{};
  std::uint32_t column = 0;
  std::uint32_t past = 0;  // prefill attention: cached tokens of each sequence before the new ones
  double seconds = 0;
  std::size_t line = 0;
};

/// One measured all-reduce.
struct AllReduceMeasurement {
  std::string device, framework, version, dtype, kernel;
  std::uint32_t ranks = 0;
  double bytes = 0, seconds = 0;
  std::size_t line = 0;
};

/// Returns the name of a kernel's curve for a type other than the one in which engines reduce: "NCCL int8".
[[nodiscard]] inline std::string all_reduce_name(const std::string& kernel, const std::string& dtype) {
  return kernel + " " + dtype;
}

/// The rows of a file. Rows that are not modelled (other collectives, windows, beams) are only counted, by kind.
struct KernelRows {
  std::string file;
  std::vector<KernelMeasurement> kernels;
  std::vector<AllReduceMeasurement> all_reduces;
  std::map<std::string, std::size_t> not_modelled;
};

/// Returns true if the line is the header of such a table.
[[nodiscard]] bool is_kernel_header(std::string_view line);
/// Returns true if the file begins with such a header; false if it cannot be read.
[[nodiscard]] bool is_kernel_table(const std::string& file);
/// Reads a table. Throws InputError with file, line and column if it is unreadable or damaged, lacks a column or holds
/// an invalid value.
[[nodiscard]] KernelRows read_kernel_rows(const std::string& file);

}  // namespace plimsoll::calibration
