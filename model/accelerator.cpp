// SPDX-License-Identifier: Apache-2.0
#include "model/accelerator.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/op_cost.h"

namespace plimsoll::model {
namespace {

constexpr std::array<std::string_view, kOpClasses> kClassNames{"gemm", "moe_gemm", "prefill_attention",
                                                               "decode_attention", "pointwise"};

FlopsPerSecond half_peak(const Accelerator& a) { return std::max(a.fp16, a.bf16); }

// A device without 16-bit units (a CPU) converts to fp32.
FlopsPerSecond or_fp32(const Accelerator& a, FlopsPerSecond peak) { return half_peak(a).value > 0 ? peak : a.fp32; }

bool is_ascending(const std::vector<double>& grid) {
  const bool finite = std::all_of(grid.begin(), grid.end(), [](double v) { return std::isfinite(v); });
  return finite && std::adjacent_find(grid.begin(), grid.end(), std::greater_equal<>()) == grid.end();
}

std::string grid_problem(const ResidualTable& table) {
  if (table.x.empty() || table.y.empty()) return "residual grid is empty";
  if (!is_ascending(table.x) || !is_ascending(table.y)) return "residual grid is not ascending";
  if (table.log_ratio.size() != table.x.size() * table.y.size()) {
    return fmt::format("residual has {} values for a grid of {} x {}", table.log_ratio.size(), table.x.size(),
                       table.y.size());
  }
  for (const double value : table.log_ratio) {
    if (!std::isfinite(value)) return "residual has a value that is not finite";
  }
  return {};
}

std::string number_problem(const OpCoefficients& c) {
  const auto is_efficiency = [](double v) { return v > 0 && v <= 1; };
  if (!is_efficiency(c.compute_efficiency)) {
    return fmt::format("compute_efficiency {} is not in (0, 1]", c.compute_efficiency);
  }
  if (!is_efficiency(c.memory_efficiency)) {
    return fmt::format("memory_efficiency {} is not in (0, 1]", c.memory_efficiency);
  }
  if (c.one_row_memory != 0 && !is_efficiency(c.one_row_memory)) {
    return fmt::format("one_row_memory {} is not in (0, 1]", c.one_row_memory);
  }
  if (!(c.p >= 1) || !std::isfinite(c.p)) return fmt::format("p {} is not a number of at least 1", c.p);
  if (!(c.t0.count() >= 0) || !std::isfinite(c.t0.count())) return fmt::format("t0 {} s is negative", c.t0.count());
  return {};
}

// Flops and bytes of a grid point, if the table's axes determine them: 16-bit matrix products with n = k, and decode
// attention in 16 bits with 8 KV heads of size 128 (the reference layout, 4096 bytes per token).
struct Work {
  double flops = 0, bytes = 0;
};
constexpr double kReferenceKvBytes = 4096;
Work work_at(OpClass op_class, double x, double y) {
  if (op_class == OpClass::gemm) return {2 * std::exp2(x + y), 2 * std::exp2(y)};
  if (op_class == OpClass::decode_attention) return {0, kReferenceKvBytes * std::exp2(x + y)};
  return {};
}

// Returns a message if the residual at some grid point gives less time than reading the bytes beyond the cache takes.
std::string bound_problem(const Accelerator& a, OpClass op_class, const OpCoefficients& c) {
  constexpr double kTolerance = 1e-6;
  const ResidualTable& table = *c.residual;
  for (std::size_t i = 0; i < table.x.size(); ++i) {
    for (std::size_t j = 0; j < table.y.size(); ++j) {
      const Work work = work_at(op_class, table.x[i], table.y[j]);
      const double beyond = work.bytes - a.last_level_cache.value;
      if (beyond <= 0) continue;
      const double ratio = table.log_ratio[i * table.y.size() + j];
      const double time =
          roofline_time(c, {half_peak(a), a.memory_bandwidth}, Flops(work.flops), Bytes(work.bytes)).count() *
          std::exp(ratio);
      if (time < beyond / a.memory_bandwidth.value * (1 - kTolerance)) {
        return fmt::format("residual {} at ({}, {}) reads memory at {:.2f} of the specified bandwidth", ratio,
                           table.x[i], table.y[j], beyond / a.memory_bandwidth.value / time);
      }
    }
  }
  return {};
}

}  // namespace

FlopsPerSecond matmul_peak(const Accelerator& accelerator, DType dtype) {
  switch (dtype) {
    case DType::fp32: return accelerator.fp32;
    case DType::fp16: return or_fp32(accelerator, accelerator.fp16);
    case DType::bf16: return or_fp32(accelerator, accelerator.bf16);
    case DType::fp8:
      if (accelerator.fp8.value > 0) return accelerator.fp8;
      break;
    case DType::nvfp4:
      if (accelerator.fp4.value > 0) return accelerator.fp4;
      break;
    case DType::int8:
    case DType::int4:
    case DType::mxfp4: break;
  }
  return or_fp32(accelerator, half_peak(accelerator));
}

std::string validate_coefficients(const Accelerator& accelerator) {
  for (std::size_t i = 0; i < kOpClasses; ++i) {
    const OpCoefficients& c = accelerator.coefficients[i];
    std::string problem = number_problem(c);
    if (problem.empty() && c.residual) problem = grid_problem(*c.residual);
    if (problem.empty() && c.residual) problem = bound_problem(accelerator, static_cast<OpClass>(i), c);
    if (!problem.empty()) return fmt::format("{}: {}", kClassNames[i], problem);
  }
  for (const auto& [kind, c] : accelerator.pointwise_kinds) {
    std::string problem = number_problem(c);
    if (problem.empty() && c.residual) problem = grid_problem(*c.residual);
    if (!problem.empty()) return fmt::format("{}: {}", kind, problem);
  }
  if (!(accelerator.kernel_gap.count() >= 0) || !std::isfinite(accelerator.kernel_gap.count())) {
    return fmt::format("kernel_gap {} s is negative", accelerator.kernel_gap.count());
  }
  return {};
}

}  // namespace plimsoll::model
