// SPDX-License-Identifier: Apache-2.0
#include "model/op_cost.h"

#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::model {
namespace {

// Latency of a point-to-point transfer between two GPUs: AIConfigurator's systems/*.yaml uses 10 us throughout.
constexpr double kSendLatency = 10e-6;

// A position in an ascending grid: the index of the cell and the fraction within it, clamped to the grid.
struct Place {
  std::size_t index = 0;
  double fraction = 0;
};
Place locate(const std::vector<double>& grid, double value) {
  if (value <= grid.front()) return {0, 0};
  if (value >= grid.back()) return {grid.size() - 1, 0};
  const auto above = std::upper_bound(grid.begin(), grid.end(), value);
  const auto index = static_cast<std::size_t>(above - grid.begin()) - 1;
  return {index, (value - grid[index]) / (grid[index + 1] - grid[index])};
}

// Activations of quantised weights stay in the 16-bit type that the accelerator multiplies faster; old GPUs have no
// bf16.
DType activation_type(DType weight_dtype, const Accelerator& accelerator) {
  switch (weight_dtype) {
    case DType::fp32:
    case DType::fp16:
    case DType::bf16: return weight_dtype;
    case DType::fp8:
    case DType::int8:
    case DType::int4:
    case DType::nvfp4:
    case DType::mxfp4: break;
  }
  return accelerator.bf16 > accelerator.fp16 ? DType::bf16 : DType::fp16;
}

}  // namespace

// Attributes the time of an op to its causes. Time that is not arithmetic is divided in proportion to the bytes that
// the op moves, because the memory serves weights, KV and activations at the same rate.
TimeParts split(const Op& op, double time, double compute_share) {
  const double bytes = op.weight_bytes + op.kv_bytes + op.other_bytes;
  TimeParts parts;
  parts.compute = time * compute_share;
  const double memory = time - parts.compute;
  parts.weights = bytes > 0 ? memory * (op.weight_bytes / bytes) : 0;
  parts.kv = bytes > 0 ? memory * (op.kv_bytes / bytes) : 0;
  parts.other = memory - parts.weights - parts.kv;
  return parts;
}

// Bilinear in the logarithms. Outside the grid the nearest edge is used: a ratio that was measured at the edge is a
// better guess than a line continued from noise.
double residual_at(const ResidualTable& table, double x, double y) {
  const Place px = locate(table.x, x), py = locate(table.y, y);
  const std::size_t width = table.y.size();
  const auto row = [&](std::size_t i) {
    const double* values = table.log_ratio.data() + i * width;
    const double low = values[py.index];
    return py.fraction == 0 ? low : low + py.fraction * (values[py.index + 1] - low);
  };
  const double low = row(px.index);
  return px.fraction == 0 ? low : low + px.fraction * (row(px.index + 1) - low);
}

Seconds roofline_time(const OpCoefficients& coefficients, const Roof& roof, Flops flops, Bytes bytes) {
  // An op without arithmetic has no compute time, whatever its efficiency is; 0 / 0 must not appear.
  const double compute = flops.value == 0 ? 0 : flops.value / (roof.peak.value * coefficients.compute_efficiency);
  const double memory = bytes.value / (roof.bandwidth.value * coefficients.memory_efficiency);
  return coefficients.t0 + Seconds(p_norm(compute, memory, coefficients.p).value);
}

std::string dtype_problem(const Accelerator& accelerator, DType weight_dtype) {
  const bool computes = matmul_peak(accelerator, weight_dtype).value > 0 &&
                        matmul_peak(accelerator, activation_type(weight_dtype, accelerator)).value > 0;
  if (computes) return {};
  return "accelerator " + accelerator.id + " has no matrix multiplication in " + name(weight_dtype) +
         " (its peak is 0 or not known)";
}

OpPricer::OpPricer(const CostInputs& inputs) : inputs_(inputs) {
  const Accelerator& accelerator = *inputs.accelerator;
  // Quantised products run at the peak of the narrow type, all other products at that of the activations.
  const Peaks peaks = {matmul_peak(accelerator, activation_type(inputs.weight_dtype, accelerator)).value,
                       matmul_peak(accelerator, inputs.weight_dtype).value};
  if (const std::string problem = dtype_problem(accelerator, inputs.weight_dtype); !problem.empty())
    throw InputError(problem);
  if (!(accelerator.memory_bandwidth.value > 0)) {
    throw InputError("accelerator " + accelerator.id + " has no memory bandwidth");
  }
  // No op may be faster than reading its bytes at this bandwidth, whatever was fitted.
  bound_byte_time_ = 1 / accelerator.memory_bandwidth.value;
  const auto priced = [&](const OpCoefficients& c) {
    ClassPrices scaled_prices = scaled(c, 1, peaks);
    scaled_prices.residual = c.residual.get();
    return scaled_prices;
  };
  for (std::size_t i = 0; i < kOpClasses; ++i) prices_[i] = priced(accelerator.coefficients[i]);
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    // A kind that was measured separately has prices of its own.
    const auto own = accelerator.pointwise_kinds.find(pointwise_kind(static_cast<OpKind>(i)));
    pointwise_[i] = own == accelerator.pointwise_kinds.end() ? prices(OpClass::pointwise) : priced(own->second);
  }
  // Until a measured table is found, products use the prices of their class.
  wide_.prices = narrow_.prices = prices(OpClass::gemm);
  const OpCoefficients& gemm = accelerator.coefficients[static_cast<std::size_t>(OpClass::gemm)];
  narrow_.prices = scaled(gemm, 1, peaks, own_products());
  unpacked_from_ = own_products().unpacked_from;
  narrow_.prices.residual = gemm.residual.get();
  // There is a gap between kernels that are launched one by one; within a captured graph it is shorter. Without
  // measurements of graphs, both gaps are assumed to be equal.
  const double eager_gap = accelerator.kernel_gap.count();
  gaps_ = {eager_gap, accelerator.graph ? accelerator.graph->kernel_gap.count() : eager_gap};
  if (inputs.tp > 1)
    fuses_norm_ = fuses_norm(*inputs.interconnect, inputs.tp, inputs.engine->all_reduce_on(inputs.interconnect->id));
  if (accelerator.kernels && inputs.engine->measured_kernels) use_measured(peaks.wide);
}

// A scale above one corrects a low efficiency, but cannot raise it above the specification.
ClassPrices OpPricer::scaled(const OpCoefficients& c, double cold_efficiency, Peaks peaks, KernelScale own) const {
  const double compute_scale = inputs_.engine->compute_scale * own.compute;
  const double memory_scale = inputs_.engine->memory_scale * own.memory;
  const double compute = std::min(1.0, c.compute_efficiency * compute_scale);
  const double memory = std::min(1.0, c.memory_efficiency * memory_scale);
  const double one_row = std::min(1.0, c.one_row_memory * memory_scale);
  const double cold = std::min(1.0, cold_efficiency * std::max(1.0, memory_scale));
  return {1 / (peaks.wide * compute),
          1 / (peaks.narrow * compute),
          bound_byte_time_ / memory,
          bound_byte_time_ / (one_row > 0 ? one_row : memory),
          bound_byte_time_ / cold,
          c.t0.count(),
          c.p,
          nullptr};
}

KernelScale OpPricer::own_products() const {
  const auto own = inputs_.engine->product_scales.find(inputs_.weight_dtype);
  return own == inputs_.engine->product_scales.end() ? KernelScale{} : own->second;
}

// Returns whether an op is a norm directly after an all-reduce. Norms of latents, queries and keys are not. If a layer
// has norms both before and after attention and MLP, only those after follow one, because the residual sum precedes the
// others.
bool OpPricer::is_behind_all_reduce(const Op& op) const {
  const bool sandwich = norms_per_layer(*inputs_.shape) == 4;
  if (op.id == OpId::input_norm || op.id == OpId::mlp_norm) return !sandwich;
  return op.id == OpId::post_attention_norm || op.id == OpId::post_mlp_norm;
}

// In captured graphs, where it costs no host time, servers run the shared experts on a separate stream beside the
// routed experts.
bool OpPricer::runs_beside(const Op& op, LaunchMode mode) const {
  if (mode != LaunchMode::graph || experts_.kernel == nullptr) return false;
  return op.id == OpId::shared_gate || op.id == OpId::shared_gate_up || op.id == OpId::shared_up ||
         op.id == OpId::shared_activation || op.id == OpId::shared_down;
}

TimeParts OpPricer::price_pointwise(const Op& op, LaunchMode mode) const {
  ClassPrices prices = pointwise_[static_cast<std::size_t>(op.kind)];
  const bool is_fused = fuses_norm_ && is_behind_all_reduce(op);
  if (mode == LaunchMode::graph && inputs_.accelerator->graph)
    prices.t0 = std::min(prices.t0, inputs_.accelerator->graph->pointwise_t0.count());
  // A norm fused into the kernel of the all-reduce has no launch and no gap of its own.
  if (is_fused) prices.t0 = 0;
  TimeParts parts = price_class(op, prices);
  if (!is_fused) parts.other += op.launches * kernel_gap(mode);
  return parts;
}

TimeParts OpPricer::price(const Op& op, LaunchMode mode) const {
  if (runs_beside(op, mode)) return price_beside(op);
  TimeParts parts;
  switch (op.kind) {
    case OpKind::all_reduce: parts.allreduce = all_reduce(op); break;
    case OpKind::send: parts.allreduce = send_time(op); break;
    case OpKind::gemm: parts = price_product(op); break;
    case OpKind::moe_gemm: parts = price_experts(op); break;
    case OpKind::prefill_attention: parts = price_prefill(op); break;
    case OpKind::decode_attention: PLIMSOLL_CHECK(false, "decode attention is priced by its curve");
    case OpKind::embed:
    case OpKind::norm:
    case OpKind::residual_add:
    case OpKind::rope_append:
    case OpKind::activation:
    case OpKind::route:
    case OpKind::combine:
    case OpKind::sample: return is_inside_experts(op) ? parts : price_pointwise(op, mode);
  }
  parts.other += op.launches * kernel_gap(mode);
  return parts;
}

TimeParts OpPricer::price_class(const Op& op, const ClassPrices& c) const {
  double log_ratio = 0;
  if (c.residual != nullptr) {
    const double k = static_cast<double>(std::max<std::int64_t>(op.k, 1));  // pointwise ops have no k
    // The second axis is the context for attention, and the size of the matrix for products.
    const double y = op.kind == OpKind::prefill_attention ? op.context : static_cast<double>(op.n) * k;
    log_ratio = residual_at(*c.residual, std::log2(static_cast<double>(op.m)), std::log2(y));
  }
  return price_roofline(op, c, log_ratio);
}

TimeParts OpPricer::price_roofline(const Op& op, const ClassPrices& c, double log_ratio) const {
  // Only products of weights are computed in the narrow type; attention and pointwise ops see dequantised values.
  const bool narrow = op.quantised && (op.kind == OpKind::gemm || op.kind == OpKind::moe_gemm);
  const double bytes = op.weight_bytes + op.kv_bytes + op.other_bytes;
  const double byte_time = op.kind == OpKind::gemm && op.m == 1 ? c.one_row_byte_time : c.byte_time;
  const PNorm norm = p_norm(op.flops * (narrow ? c.narrow_flop_time : c.flop_time), bytes * byte_time, c.p);
  double time = c.t0 * op.launches + norm.value;
  if (log_ratio != 0) time *= std::exp(log_ratio);
  // Fitted times that beat the specified bandwidth are raised to it, so that an optimistic fit cannot claim more than
  // the hardware.
  return split(op, std::max(time, (op.weight_bytes + op.kv_bytes) * c.bound_byte_time), norm.share_a);
}

double OpPricer::send_time(const Op& op) const {
  return kSendLatency + op.other_bytes / inputs_.interconnect->unidirectional.value;
}

}  // namespace plimsoll::model
