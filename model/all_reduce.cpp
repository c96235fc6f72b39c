// SPDX-License-Identifier: Apache-2.0
// All-reduce times: measured points or segments. For links without measurements, NCCL's own cost model is the prior
// (constants of src/graph/tuning.cc: latency = base + 2 (n - 1) hops, bandwidth by protocol). It is within 25 % of
// measurements on NVLink and two-GPU PCIe for small messages.
#include <algorithm>
#include <array>
#include <limits>

#include "model/accelerator.h"

namespace plimsoll::model {
namespace {

// Protocols of the ring: base and per-hop latency in seconds, and bus bandwidth as a fraction of the ring's.
struct Protocol {
  double base, nvlink_hop, pcie_hop, bandwidth;
};
constexpr std::array<Protocol, 3> kProtocols{{{6.6e-6, 0.6e-6, 1.0e-6, 0.37},   // LL: llMax 87.7 of 240 GB/s on A100
                                              {14e-6, 1.9e-6, 2.5e-6, 0.92},    // LL128
                                              {8.4e-6, 3.4e-6, 5.7e-6, 1.0}}};  // Simple
// NCCL reaches 20 GB/s of each 25 GB/s NVLink (topo.h).
constexpr double kNvlinkFraction = 0.8;
// 20 of 32 GB/s was measured between two L40S on PCIe 4; NCCL's own figure for PCIe 3 is 12 of 16.
constexpr double kPcieFraction = 0.625;

// In a ring through the host, the traffic of all GPUs passes the root, which two GPUs already saturate.
double ring_bandwidth(const Interconnect& link, double ranks) {
  if (link.kind == LinkKind::pcie) return kPcieFraction * link.unidirectional.value * 2 / ranks;
  return kNvlinkFraction * link.unidirectional.value;
}

double ring_time(const Interconnect& link, double bytes, double ranks) {
  const double bus = ring_bandwidth(link, ranks);
  double best = std::numeric_limits<double>::infinity();
  for (const Protocol& protocol : kProtocols) {
    const double hop = link.kind == LinkKind::pcie ? protocol.pcie_hop : protocol.nvlink_hop;
    const double latency = protocol.base + 2 * (ranks - 1) * hop;
    best = std::min(best, latency + bytes * 2 * (ranks - 1) / ranks / (bus * protocol.bandwidth));
  }
  return best;
}

double slope(const AllReducePoint& a, const AllReducePoint& b) {
  return (b.time.count() - a.time.count()) / (b.bytes.value - a.bytes.value);
}

// A library changes its algorithm (one-shot to two-shot, own kernel to NCCL) at powers of two, which are also the
// measured sizes. A switch is where a size takes clearly longer than the line through the two sizes before it, and the
// times do not continue to rise as steeply. The sizes just before it then belong to the old algorithm.
bool is_switch(const std::vector<AllReducePoint>& points, std::size_t high, double expected) {
  constexpr double kClearly = 1.2, kGoesOn = 0.5;
  if (high + 1 >= points.size() || points[high].time.count() <= kClearly * expected) return false;
  return slope(points[high], points[high + 1]) < kGoesOn * slope(points[high - 1], points[high]);
}

// Interpolates latency and rate between two measured sizes. Tested on five accelerators by leaving out each size up to
// 8 MiB, it errs less than a line through the logarithms: 4.4 instead of 5.0 % for NCCL on an H100. Treating switches
// separately lowers the mean over NVLink from 4.9 to 4.5 %, and that of vLLM's kernel in graphs on a B200 from 7.8 to
// 6.5 %.
double interpolated(const std::vector<AllReducePoint>& points, double bytes) {
  const AllReducePoint &first = points.front(), &last = points.back();
  if (bytes <= first.bytes.value) return first.time.count();
  if (bytes >= last.bytes.value) return last.time.count() * bytes / last.bytes.value;
  const auto above = std::upper_bound(points.begin(), points.end(), bytes,
                                      [](double value, const AllReducePoint& p) { return value < p.bytes.value; });
  const auto high = static_cast<std::size_t>(above - points.begin());
  const AllReducePoint& low = points[high - 1];
  const double before = high > 1 ? std::max(0.0, slope(points[high - 2], low)) : 0;
  const double expected = low.time.count() + before * (above->bytes.value - low.bytes.value);
  const double rate = is_switch(points, high, expected) ? before : slope(low, *above);
  return low.time.count() + rate * (bytes - low.bytes.value);
}

double curve_time(const AllReduceCurve& curve, double bytes) {
  if (!curve.points.empty()) return interpolated(curve.points, bytes);
  double best = std::numeric_limits<double>::infinity();
  for (const AllReduceSegment& segment : curve.segments) {
    best = std::min(best, segment.latency.count() + bytes / segment.bandwidth.value);
  }
  return best;
}

// Returns the curve for the next larger number of ranks, else for the largest.
const AllReduceCurve* curve_for(const Interconnect& link, std::int32_t ranks, std::string_view kernel) {
  const AllReduceCurve* found = nullptr;
  for (const AllReduceCurve& curve : link.all_reduce) {
    if (curve.segments.empty() && curve.points.empty()) continue;
    if (kernel.empty() ? !is_nccl(curve) : curve.kernel != kernel) continue;
    const bool covers = curve.ranks >= ranks, found_covers = found != nullptr && found->ranks >= ranks;
    const bool closer = found == nullptr || (covers ? curve.ranks < found->ranks : curve.ranks > found->ranks);
    if (covers != found_covers ? covers || found == nullptr : closer) found = &curve;
  }
  return found;
}

const AllReduceCurve* curve_or_nccl(const Interconnect& link, std::int32_t ranks, std::string_view kernel) {
  const AllReduceCurve* curve = curve_for(link, ranks, kernel);
  return curve == nullptr && !kernel.empty() ? curve_for(link, ranks, {}) : curve;
}

}  // namespace

bool is_nccl(const AllReduceCurve& curve) { return curve.kernel.empty() || curve.kernel == "NCCL"; }

Seconds all_reduce_time(const Interconnect& link, Bytes bytes, std::int32_t ranks, std::string_view kernel) {
  if (ranks <= 1) return Seconds(0);
  const AllReduceCurve* curve = curve_or_nccl(link, ranks, kernel);
  if (curve == nullptr) return Seconds(ring_time(link, bytes.value, ranks));
  const double measured = curve_time(*curve, bytes.value);
  if (curve->ranks >= ranks || link.unidirectional.value <= 0) return Seconds(measured);
  // More ranks than measured: scale by the prior.
  return Seconds(measured * ring_time(link, bytes.value, ranks) / ring_time(link, bytes.value, curve->ranks));
}

bool fuses_norm(const Interconnect& link, std::int32_t ranks, std::string_view kernel) {
  const AllReduceCurve* curve = ranks > 1 ? curve_or_nccl(link, ranks, kernel) : nullptr;
  return curve != nullptr && curve->fuses_norm;
}

}  // namespace plimsoll::model
