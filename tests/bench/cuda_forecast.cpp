// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/cuda_forecast.h"

#include <algorithm>

#include "model/op_list.h"

namespace plimsoll::bench {

namespace {

// A kernel takes fixed_s + max(bytes / (memory x bandwidth), flops / (compute x peak)).
struct Rates {
  double memory = 1, compute = 1, fixed_s = 0;
};

constexpr double kGap = 1e-6;                 // from one kernel of a graph to the next
constexpr std::int64_t kRowsOfOwnKernel = 8;  // exec/cuda/gemv.cu

Rates rates_of(const model::Op& op) {
  switch (op.kind) {
    case model::OpKind::gemm:
    case model::OpKind::moe_gemm:
      // Our own kernel keeps 40 KB in flight a multiprocessor (tests/exec/cuda/machine_code); it fills and drains once.
      if (op.m <= kRowsOfOwnKernel) return {.memory = 0.90, .compute = 0.5, .fixed_s = 2e-6};
      // cuBLASLt on an H100, from the tables of measured kernels in configs/accelerators.
      return {.memory = 0.85, .compute = 0.78, .fixed_s = 3e-6};
    case model::OpKind::decode_attention: return {.memory = 0.85, .compute = 0.5, .fixed_s = 4e-6};
    case model::OpKind::prefill_attention: return {.memory = 0.85, .compute = 0.30, .fixed_s = 4e-6};
    case model::OpKind::embed:
    case model::OpKind::norm:
    case model::OpKind::residual_add:
    case model::OpKind::rope_append:
    case model::OpKind::activation:
    case model::OpKind::route:
    case model::OpKind::combine:
    case model::OpKind::sample: return {.memory = 0.60, .compute = 1, .fixed_s = 2e-6};
    case model::OpKind::all_reduce:
    case model::OpKind::send: break;  // one GPU has none
  }
  return {};
}

}  // namespace

Forecast forecast(const model::Accelerator& gpu, const model::LlmShape& shape, const model::ForwardWork& work) {
  model::OpListInputs inputs;
  inputs.shape = &shape;
  inputs.weight_dtype = inputs.kv_dtype = model::DType::bf16;
  Forecast sum;
  double kernels = 0;
  model::for_each_op(model::make_op_list(inputs, work), [&](const model::Op& op) {
    if (op.id == model::OpId::activation && op.m <= kRowsOfOwnKernel) return;  // part of the product before it
    const Rates rates = rates_of(op);
    const double bytes = op.weight_bytes + op.kv_bytes + op.other_bytes;
    const double time =
        std::max(bytes / (rates.memory * gpu.memory_bandwidth.value), op.flops / (rates.compute * gpu.bf16.value));
    sum.forecast_s += op.count * (time + op.launches * (rates.fixed_s + kGap));
    sum.bytes += op.count * (op.weight_bytes + op.kv_bytes);
    sum.flops += op.count * op.flops;
    kernels += op.count * op.launches;
  });
  sum.kernels = static_cast<int>(kernels);
  sum.floor_s = std::max(sum.bytes / gpu.memory_bandwidth.value, sum.flops / gpu.bf16.value);
  return sum;
}

}  // namespace plimsoll::bench
