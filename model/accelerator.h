// SPDX-License-Identifier: Apache-2.0
// Accelerators, their links and the coefficients that turn datasheet peaks into times.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/llm_shape.h"
#include "model/units.h"

namespace plimsoll::model {

/// Kinds of operation that are fitted separately.
enum class OpClass : std::uint8_t { gemm, moe_gemm, prefill_attention, decode_attention, pointwise };
inline constexpr std::size_t kOpClasses = 5;

/// Residuals log(measured / p-norm) on a grid, interpolated between its points and held constant outside.
/// GEMM: x = log2 m, y = log2(n k). Decode attention: x = log2 batch, y = log2 mean context.
/// Prefill attention: x = log2 new tokens, y = log2(context + new tokens). MoE GEMM: as GEMM, n k of one expert.
/// Bilinear in x and y; decode attention is, along y, linear in the logarithm of the p-norm time instead, so that times
/// that rise from grid point to grid point rise between them too.
struct ResidualTable {
  std::vector<double> x, y;       // ascending grid
  std::vector<double> log_ratio;  // [x][y], row by row
};

/// t = [t0 + ((F/(eta_F peak))^p + (B/(eta_B bandwidth))^p)^(1/p)] exp(residual).
/// B holds weights and activations (GEMM), all traffic (pointwise, prefill attention) or the KV cache alone (decode
/// attention, where queries and outputs are added to t0 at eta_B: the time is then linear in the context).
struct OpCoefficients {
  double compute_efficiency = 1;                  // eta_F, fraction of the peak, in (0, 1]
  double memory_efficiency = 1;                   // eta_B, fraction of the bandwidth, in (0, 1]
  double p = 3;                                   // >= 1; larger is closer to max(compute, memory)
  Seconds t0{0};                                  // fixed cost of one kernel
  std::shared_ptr<const ResidualTable> residual;  // none: pure p-norm
};

/// One segment of an all-reduce: t = latency + bytes / bandwidth; the faster of several segments counts.
struct AllReduceSegment {
  Seconds latency{0};
  BytesPerSecond bandwidth{0};
};
/// One measured size.
struct AllReducePoint {
  Bytes bytes{0};
  Seconds time{0};
};
/// One kernel's times by number of ranks. Ranks between two entries take the next larger one. Points, where there are
/// any, go before segments: linear between them, flat below, proportional to the bytes beyond.
struct AllReduceCurve {
  std::int32_t ranks = 2;
  std::vector<AllReduceSegment> segments{};
  std::string kernel{};                  // "NCCL", "vLLM_custom_graph"; empty: NCCL
  std::vector<AllReducePoint> points{};  // ascending bytes
  bool fuses_norm = false;               // engines run the residual addition and the norm behind it in the same kernel
};
/// Whether a curve is the one that engines without kernels of their own use.
[[nodiscard]] bool is_nccl(const AllReduceCurve& curve);
enum class LinkKind : std::uint8_t { none, nvswitch, nvlink, pcie };
struct Interconnect {
  std::string id;  // "nvswitch-a100", "pcie-gen4"
  LinkKind kind = LinkKind::none;
  BytesPerSecond unidirectional{0};        // a GPU's own link rate, for point-to-point (PP, swap)
  std::vector<AllReduceCurve> all_reduce;  // empty: derived from kind and link rate (see all_reduce_time)
  std::string source;
};

class KernelFile;

/// How kernels are started: one by one by the host, or as one recorded CUDA graph.
enum class LaunchMode : std::uint8_t { eager, graph };
inline constexpr std::size_t kLaunchModes = 2;
/// Fixed times of a kernel in a replayed graph. Benchmarks time kernels in graphs too, so that their tables contain the
/// way from one kernel to the next already.
struct GraphReplay {
  Seconds kernel_gap{0};
  Seconds pointwise_t0{0};
};

struct Accelerator {
  std::string id;  // "a100-sxm-40gb"
  std::string vendor;
  FlopsPerSecond fp16{0}, bf16{0}, fp8{0}, int8{0}, fp32{0}, fp4{0};  // dense peaks; 0: not supported or not known
  Bytes memory{0};                                                    // nameplate
  Bytes memory_visible{0};  // what the device reports to programs; decides what fits
  BytesPerSecond memory_bandwidth{0};
  Bytes last_level_cache{0};    // 0: not known
  BytesPerSecond host_link{0};  // PCIe, one direction: swapping
  std::string default_interconnect;
  std::array<OpCoefficients, kOpClasses> coefficients{};
  /// Pointwise ops by the name of their kind (op_list.h: pointwise_kind), where each was measured by itself; the others
  /// are priced as the class. Residuals: x = log2 rows, y = log2 width.
  std::map<std::string, OpCoefficients, std::less<>> pointwise_kinds;
  Seconds kernel_gap{0};                      // idle time between kernels that the host starts one by one
  std::optional<GraphReplay> graph;           // none: a graph's kernels take as long as those started one by one
  std::shared_ptr<const KernelFile> kernels;  // measured kernels, which go before the coefficients; may be null
  /// Products of servers that bring kernels of their own, by the server's name (EngineProfile::own_kernels).
  std::map<std::string, std::shared_ptr<const KernelFile>, std::less<>> own_kernels;
  bool calibrated = false;  // coefficients were fitted to measurements of this accelerator
  std::string source;       // of the datasheet figures
  std::string fit_source;   // of the coefficients: what was fitted, or "datasheet only"
};

/// Peak for matrix products with this weight type; 0 when there is none. Weight-only types (int8, int4, mxfp4, and
/// fp8 and nvfp4 where the device has no such units) compute in 16 bits.
[[nodiscard]] FlopsPerSecond matmul_peak(const Accelerator& accelerator, DType dtype);

/// Empty when the coefficients can be used, else what is wrong: an efficiency outside (0, 1], p below 1, a negative or
/// non-finite number, a malformed residual grid, or a residual that promises to read more bytes than the last-level
/// cache holds faster than the specified bandwidth.
[[nodiscard]] std::string validate_coefficients(const Accelerator& accelerator);

/// Time of one all-reduce of `bytes` over `ranks` GPUs. Measured segments where the interconnect has them; else NCCL's
/// ring model, latency 2(n-1) hops plus 2(n-1)/n of the bytes over the link; PCIe rings through the host share the
/// root's bandwidth among the ranks. `kernel` names curves to prefer (EngineProfile::all_reduce_kernel); where the link
/// has none of that name, NCCL's count.
[[nodiscard]] Seconds all_reduce_time(const Interconnect& link, Bytes bytes, std::int32_t ranks,
                                      std::string_view kernel = {});
/// Whether the curve that all_reduce_time() takes for this kernel contains the norm behind it.
[[nodiscard]] bool fuses_norm(const Interconnect& link, std::int32_t ranks, std::string_view kernel);

}  // namespace plimsoll::model
