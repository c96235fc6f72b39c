// SPDX-License-Identifier: Apache-2.0
// Accelerators, their links, and the coefficients that convert datasheet peaks to times.
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

/// Kinds of operations that are fitted separately.
enum class OpClass : std::uint8_t { gemm, moe_gemm, prefill_attention, decode_attention, pointwise };
inline constexpr std::size_t kOpClasses = 5;

/// Residuals log(measured / p-norm) on a grid, interpolated between its points and constant outside.
/// GEMM: x = log2 m, y = log2(n k). Decode attention: x = log2 batch, y = log2 mean context.
/// Prefill attention: x = log2 new tokens, y = log2(context + new tokens). MoE GEMM: as GEMM, with n k of one expert.
/// Interpolation is bilinear, except along y for decode attention: there it is linear in the logarithm of the p-norm
/// time. So times that rise from one grid point to the next also rise between them.
struct ResidualTable {
  std::vector<double> x, y;       // ascending grid
  std::vector<double> log_ratio;  // [x][y], row-major
};

/// t = [t0 + ((F/(eta_F peak))^p + (B/(eta_B bandwidth))^p)^(1/p)] exp(residual).
/// B is weights and activations (GEMM), all traffic (pointwise, prefill attention) or only the KV cache (decode
/// attention, where queries and outputs at eta_B are added to t0, so that the time is linear in the context).
struct OpCoefficients {
  double compute_efficiency = 1;                  // eta_F, fraction of the peak, in (0, 1]
  double memory_efficiency = 1;                   // eta_B, fraction of the bandwidth, in (0, 1]
  double p = 3;                                   // >= 1; a larger p is closer to max(compute, memory)
  Seconds t0{0};                                  // fixed cost of one kernel
  std::shared_ptr<const ResidualTable> residual;  // none: pure p-norm
  double one_row_memory = 0;                      // GEMM of one row: eta_B of its own kernel; 0: no such kernel
};

/// The two limits of a roofline, as specified for the device.
struct Roof {
  FlopsPerSecond peak{0};
  BytesPerSecond bandwidth{0};
};

/// One segment of an all-reduce: t = latency + bytes / bandwidth. Of several segments, the fastest applies.
struct AllReduceSegment {
  Seconds latency{0};
  BytesPerSecond bandwidth{0};
};
/// The measured time for one size.
struct AllReducePoint {
  Bytes bytes{0};
  Seconds time{0};
};
/// One kernel's times by number of ranks. A number between two entries uses the next larger entry. Points, if any, take
/// precedence over segments: linear between them, constant below, proportional to the bytes above.
struct AllReduceCurve {
  std::int32_t ranks = 2;
  std::vector<AllReduceSegment> segments{};
  std::string kernel{};                  // "NCCL", "vLLM_custom_graph"; empty: NCCL
  std::vector<AllReducePoint> points{};  // ascending bytes
  bool fuses_norm = false;               // the kernel also does the residual addition and the norm that follow
};
/// Returns whether engines without kernels of their own use this curve.
[[nodiscard]] bool is_nccl(const AllReduceCurve& curve);
/// How the accelerators of an instance are connected.
enum class LinkKind : std::uint8_t { none, nvswitch, nvlink, pcie };
/// A link between accelerators, with measured all-reduce times if there are any.
struct Interconnect {
  std::string id;  // "nvswitch-a100", "pcie-gen4"
  LinkKind kind = LinkKind::none;
  BytesPerSecond unidirectional{0};        // link rate of one GPU, for point-to-point transfers (PP, swap)
  std::vector<AllReduceCurve> all_reduce;  // empty: derived from kind and link rate (all_reduce_time)
  std::string source;
};

class KernelFile;

/// How kernels are launched: one by one from the host, or as a recorded CUDA graph.
enum class LaunchMode : std::uint8_t { eager, graph };
inline constexpr std::size_t kLaunchModes = 2;
/// Fixed times of a kernel in a replayed graph. Benchmarks also time kernels in graphs, so their tables already include
/// the time from one kernel to the next.
struct GraphReplay {
  Seconds kernel_gap{0};
  Seconds pointwise_t0{0};
};

/// A device: its datasheet figures, and the coefficients and kernels measured on it.
struct Accelerator {
  std::string id;  // "a100-sxm-40gb"
  std::string vendor;
  FlopsPerSecond fp16{0}, bf16{0}, fp8{0}, int8{0}, fp32{0}, fp4{0};  // dense peaks; 0: not supported or unknown
  Bytes memory{0};                                                    // nameplate
  Bytes memory_visible{0};  // as reported by the device to programs; decides what fits
  BytesPerSecond memory_bandwidth{0};
  Bytes last_level_cache{0};    // 0: unknown
  BytesPerSecond host_link{0};  // PCIe, one direction; used for swapping
  std::string default_interconnect;
  std::array<OpCoefficients, kOpClasses> coefficients{};
  /// Coefficients of pointwise ops by the name of their kind (op_list.h: pointwise_kind), for kinds measured
  /// separately. Other kinds use those of the class. Residuals: x = log2 rows, y = log2 width.
  std::map<std::string, OpCoefficients, std::less<>> pointwise_kinds;
  Seconds kernel_gap{0};                      // idle time between kernels that are launched one by one
  std::optional<GraphReplay> graph;           // none: kernels in a graph take as long as those launched singly
  std::shared_ptr<const KernelFile> kernels;  // measured kernels take precedence over coefficients; may be null
  /// Matrix products of servers with kernels of their own, by the server's name (EngineProfile::own_kernels).
  std::map<std::string, std::shared_ptr<const KernelFile>, std::less<>> own_kernels;
  bool calibrated = false;  // the coefficients were fitted to measurements of this accelerator
  std::string source;       // source of the datasheet figures
  std::string fit_source;   // source of the coefficients: what was fitted, or "datasheet only"
};

/// Returns the peak for matrix products with this weight type; 0 if there is none. Weight-only types compute in 16
/// bits: int8, int4, mxfp4, and also fp8 and nvfp4 if the device has no units for them.
[[nodiscard]] FlopsPerSecond matmul_peak(const Accelerator& accelerator, DType dtype);

/// Returns an empty text if the coefficients can be used, else the fault. Faults are an efficiency outside (0, 1], p
/// below 1, a negative or non-finite number, a malformed residual grid, and a residual with which bytes beyond the
/// last-level cache are read faster than at the specified bandwidth.
[[nodiscard]] std::string validate_coefficients(const Accelerator& accelerator);

/// Returns the time of one all-reduce of `bytes` over `ranks` GPUs, from measurements of the interconnect if there are
/// any. Else it uses NCCL's ring model: latency 2(n-1) hops plus 2(n-1)/n of the bytes over the link. PCIe rings
/// through the host share the root's bandwidth among the ranks. `kernel` names the curves to prefer
/// (EngineProfile::all_reduce_kernel); if the link has none of that name, NCCL's are used.
[[nodiscard]] Seconds all_reduce_time(const Interconnect& link, Bytes bytes, std::int32_t ranks,
                                      std::string_view kernel = {});
/// Returns whether the curve used by all_reduce_time() for this kernel includes the norm that follows.
[[nodiscard]] bool fuses_norm(const Interconnect& link, std::int32_t ranks, std::string_view kernel);

}  // namespace plimsoll::model
