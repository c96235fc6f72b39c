// SPDX-License-Identifier: Apache-2.0
// A small table of measured kernels, and a file with it in the test's own folder.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "model/kernel_file.h"
#include "tests/scratch.h"

namespace plimsoll::model {

inline constexpr float kNotMeasured = std::numeric_limits<float>::quiet_NaN();

/// Products of four shapes, at the corners of a square (1024 and 4096 in n and k), with 1, 16 and 256 rows.
inline KernelTable square_table() {
  KernelTable t;
  t.op = KernelOp::gemm;
  t.dtype = "bfloat16";
  t.kernel = "test";
  t.coefficients = {
      .compute_efficiency = 0.8, .memory_efficiency = 0.7, .p = 2.5, .t0 = Seconds(4e-6), .residual = nullptr};
  t.cold_efficiency = 0.9;
  t.metric = {.scale = {0.5, 0.5, 0, 0}, .nugget = 0.01, .neighbours = 4, .knee = 0};
  t.columns = {1, 16, 256};
  t.sites = {{1024, 1024}, {1024, 4096}, {4096, 1024}, {4096, 4096}};
  t.log_ratio = {0.1F, 0.2F, 0.3F, 0.1F, 0.2F, 0.3F, -0.1F, 0.0F, kNotMeasured, -0.1F, 0.0F, 0.1F};
  t.points = 11;
  t.roofline_error = 0.2;
  t.out_of_fit = 0.05;
  return t;
}

/// Attention of 8 heads over 8 KV heads of 64, one and four sequences, contexts 64 and 1024.
inline KernelTable attention_table(KernelOp op) {
  KernelTable t;
  t.op = op;
  t.dtype = "bfloat16";
  t.kv_dtype = "bfloat16";
  t.kernel = "test";
  t.coefficients = {
      .compute_efficiency = 0.5, .memory_efficiency = 0.8, .p = 3, .t0 = Seconds(8e-6), .residual = nullptr};
  t.metric = {.scale = {0.5, 0.5, 0.5, 1, 0}, .nugget = 0.01, .neighbours = 4, .knee = 0};
  t.columns = {64, 1024};
  t.sites = {{1, 8, 8, 64}, {4, 8, 8, 64}};
  t.log_ratio = {0.2F, 0.1F, 0.4F, 0.3F};
  t.points = 4;
  return t;
}

/// A folder with files of measured kernels.
class KernelFolder : public Scratch {
 public:
  std::string write(const std::string& bytes, const std::string& name = "test.kernels") const {
    return Scratch::write(name, bytes);
  }
  std::string write(const std::vector<KernelTable>& tables) const {
    return write(kernel_file_bytes({"test", "a test", "2026-11-21"}, tables));
  }
};

}  // namespace plimsoll::model
