// SPDX-License-Identifier: Apache-2.0
// Measured kernels of one accelerator, op and type: what the p-norm roofline leaves unexplained, log(measured /
// roofline), for every measured shape (a site) over a grid of rows or contexts (the columns).
//
// A shape that was measured has its own row. Another one gets a row by kriging: the weighted mean of its nearest sites,
// whose weights solve the ordinary kriging equations for the covariance exp(-distance), distance being the weighted sum
// of differences of logarithms (docs/cost-model.md tells what they are for each op and how well it predicts). Shapes of
// one table share their columns, so that wave and tile steps along the rows are kept and only shapes are interpolated.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/accelerator.h"

namespace plimsoll::model {

enum class KernelOp : std::uint8_t { gemm, moe, prefill_attention, decode_attention };
inline constexpr std::size_t kKernelOps = 4;
[[nodiscard]] std::string_view name(KernelOp op);

/// What a site is, by op; unused places are 0.
///   gemm:              n, k                                              columns: rows m
///   moe:               hidden, expert width, experts a token, experts, skew (power of the routing's power law x 100,
///                      0: even), TP ranks, EP ranks                      columns: tokens
///   prefill_attention: sequences, heads, KV heads, head size             columns: tokens of each sequence
///   decode_attention:  the same                                          columns: context of each sequence
inline constexpr std::size_t kKeyParts = 7;
using KernelKey = std::array<std::uint32_t, kKeyParts>;
/// Names of the parts that the op uses, in order, then the name of its columns.
[[nodiscard]] std::span<const std::string_view> key_names(KernelOp op);

/// Distances are sums of scale x |difference of feature|; the features of an op are listed by feature_names().
inline constexpr std::size_t kFeatures = 8;
using KernelFeatures = std::array<double, kFeatures>;
[[nodiscard]] std::span<const std::string_view> feature_names(KernelOp op);
/// `knee`: see KernelMetric.
[[nodiscard]] KernelFeatures features(KernelOp op, const KernelKey& key, double knee = 0);

struct KernelMetric {
  KernelFeatures scale{};        // per unit of a feature, mostly per doubling
  double nugget = 0.05;          // variance of a single measurement against that of the field
  std::int32_t neighbours = 16;  // sites that a row is interpolated from
  double knee = 0;               // gemm, moe: log2 of the weights at which they cease to stay in the cache; a feature
                                 // that steps from 0 to 1 there keeps both sides apart. 0: none
};

/// A last-level cache that keeps weights from one run of a benchmark to the next. It explains measurements and prices
/// nothing: a step reads the weights of every layer before it comes back to the first, so there all of them are cold.
struct WarmCache {
  Bytes bytes{0};      // 0: none
  double speedup = 1;  // how much faster than memory it is read
};
/// The part of `bytes` read over and over again that is found in the cache, when lines are replaced at random: of a
/// load of L caches (L > 1) a line survives the L (1 - h) misses a cache line between two visits with probability h =
/// exp(-L (1 - h)).
[[nodiscard]] double cache_hits(const WarmCache& cache, Bytes bytes);

/// Measured kernels of one op and type, as ratios to a roofline: rows of shapes by columns of sizes.
struct KernelTable {
  KernelOp op = KernelOp::gemm;
  std::string dtype, kv_dtype, kernel;  // as measured: "bfloat16", "fp8"; kv_dtype of attention; the kernel's name
  OpCoefficients coefficients;          // of the roofline that the ratios are relative to
  WarmCache cache;                      // moe: what the ratios are relative to as well
  double cold_efficiency = 1;           // the largest fraction of the bandwidth seen on data far larger than the cache
  KernelMetric metric;
  std::vector<std::uint32_t> columns;  // ascending
  std::vector<KernelKey> sites;        // all different
  std::vector<float> log_ratio;        // [site][column]; NaN: not measured
  // How it was fitted, for people.
  std::int64_t points = 0, replaced = 0;                  // measurements, and outliers replaced by their neighbours
  double roofline_error = 0, in_fit = 0, out_of_fit = 0;  // mean |predicted / measured - 1|

  [[nodiscard]] float at(std::size_t site, std::size_t column) const {
    return log_ratio[site * columns.size() + column];
  }
};

/// Empty when the table can be used, else what is wrong with it. The ratios themselves are not looked at.
[[nodiscard]] std::string table_problem(const KernelTable& table);

/// Log ratios of one shape over the columns of its table.
struct KernelRow {
  std::vector<double> log_ratio;
  bool measured = false;  // the shape is a site of the table
  bool outside = false;   // the shape lies beyond the sites; see is_outside
};
/// At a column between the measured ones: linear in the logarithm; constant beyond them.
[[nodiscard]] double log_ratio_at(const KernelTable& table, const KernelRow& row, double column);

/// Which sites may not be used, for errors out of fit: none, those of the same configuration (gemm: the shape;
/// attention: heads, KV heads and head size at any batch; moe: the model's shape with its TP and EP at any skew), or
/// those of the same model shape (moe; else as configuration).
enum class LeaveOut : std::uint8_t { nothing, configuration, shape };

/// Interpolates in a table, which outlives it. Safe to use from several threads.
class KernelInterpolation {
 public:
  explicit KernelInterpolation(const KernelTable& table);
  [[nodiscard]] KernelRow row(const KernelKey& key, LeaveOut leave_out = LeaveOut::nothing) const;
  /// Further from every site in some feature than the table's own sites reach by more than a margin (one doubling and a
  /// half for products, whose efficiency settles; nothing for attention); MoE: no site has this model shape.
  [[nodiscard]] bool is_outside(const KernelKey& key) const;
  /// Distance to the nearest site.
  [[nodiscard]] double distance(const KernelKey& key) const;

 private:
  struct Near;
  [[nodiscard]] KernelFeatures scaled(const KernelKey& key) const;
  [[nodiscard]] double distance_to(const KernelFeatures& scaled, std::size_t site) const;
  [[nodiscard]] std::vector<Near> nearest(const KernelKey& key, LeaveOut leave_out) const;
  void krige(std::span<const Near> chosen, std::vector<double>& weights) const;

  const KernelTable& table_;
  std::size_t used_;                   // features of the op
  std::vector<KernelFeatures> sites_;  // scaled
  KernelFeatures low_{}, high_{};      // unscaled range of the sites
};

/// Flops and bytes of one execution: what the rooflines of tables, simulator and calibration are computed from.
struct KernelWork {
  double flops = 0;
  double stored = 0;   // weights or cached keys and values: cold in a real step
  double passing = 0;  // activations, queries, outputs
};
/// Bytes an element: 16-bit activations; weights and cache by the measured type ("bfloat16", "fp8_block", "nvfp4" …).
/// Nothing for a type that is not known.
[[nodiscard]] std::optional<double> stored_bytes(std::string_view dtype);
/// Whether products of this type run on the units for 8 bits and less.
[[nodiscard]] bool is_narrow(std::string_view dtype);
[[nodiscard]] KernelWork kernel_work(KernelOp op, const KernelKey& key, double column, double bytes_per_stored_element);

/// Seconds of the roofline alone. Decode attention adds what passes to t0 (accelerator.h); everything else is one
/// p-norm. With a cache what is stored counts as fewer bytes: those that hit it divided by its speedup.
[[nodiscard]] double kernel_roofline(KernelOp op, const OpCoefficients& coefficients, FlopsPerSecond peak,
                                     BytesPerSecond bandwidth, const KernelWork& work, const WarmCache& cache = {});
/// Seconds of a prefill's later chunk, for which there are no measurements: the prefill of all tokens so far, less the
/// prefill of those cached before, plus the fixed cost that both contain.
[[nodiscard]] double chunk_time(double t0, double whole, double cached);
/// The peak that a table's products are measured against: fp8 for narrow types where the device has such units.
[[nodiscard]] FlopsPerSecond kernel_peak(const Accelerator& accelerator, std::string_view dtype);

}  // namespace plimsoll::model
