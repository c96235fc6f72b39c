// SPDX-License-Identifier: Apache-2.0
// The measured kernels of one accelerator, op and type. For every measured shape (a site), a table stores log(measured
// / p-norm roofline) over a grid of rows or contexts (the columns).
//
// A measured shape has its own row. Any other shape gets a row by kriging: the weighted mean of its nearest sites. The
// weights solve the ordinary kriging equations for the covariance exp(-distance). The distance is a weighted sum of
// differences of logarithms (docs/cost-model.md defines them for each op and states the errors). All shapes of a table
// share its columns, so wave and tile steps along the rows are preserved and only shapes are interpolated.
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

/// The parts of a site's key, by op; unused parts are 0.
///   gemm:              n, k                                              columns: rows m
///   moe:               hidden, expert width, experts per token, experts, skew (exponent of the routing's power law
///                      x 100, 0: even), TP ranks, EP ranks               columns: tokens
///   prefill_attention: sequences, heads, KV heads, head size             columns: tokens of each sequence
///   decode_attention:  the same                                          columns: context of each sequence
inline constexpr std::size_t kKeyParts = 7;
using KernelKey = std::array<std::uint32_t, kKeyParts>;
/// Returns the names of the parts that the op uses, in order, then the name of its columns.
[[nodiscard]] std::span<const std::string_view> key_names(KernelOp op);

/// A distance is the sum of scale x |difference of feature|; the features of an op are listed by feature_names().
inline constexpr std::size_t kFeatures = 8;
using KernelFeatures = std::array<double, kFeatures>;
[[nodiscard]] std::span<const std::string_view> feature_names(KernelOp op);
/// `knee`: see KernelMetric.
[[nodiscard]] KernelFeatures features(KernelOp op, const KernelKey& key, double knee = 0);

struct KernelMetric {
  KernelFeatures scale{};        // per unit of a feature, in most cases per doubling
  double nugget = 0.05;          // variance of a single measurement relative to that of the field
  std::int32_t neighbours = 16;  // number of sites from which a row is interpolated
  double knee = 0;               // gemm, moe: log2 of the weights that no longer fit the cache; a feature that steps
                                 // from 0 to 1 there separates both sides. 0: none
};

/// A last-level cache that keeps weights between the runs of a benchmark. It explains measurements but does not affect
/// prices: a step reads the weights of every layer before it returns to the first, so there all weights are cold.
struct WarmCache {
  Bytes bytes{0};      // 0: none
  double speedup = 1;  // how much faster than memory it can be read
};
/// Returns the share of `bytes`, read repeatedly, that is found in the cache if lines are replaced at random. For a
/// load of L caches (L > 1) there are L (1 - h) misses per cache line between two accesses. A line survives them with
/// probability h = exp(-L (1 - h)).
[[nodiscard]] double cache_hits(const WarmCache& cache, Bytes bytes);

/// All measurements of one kernel in one type, as ratios to a roofline: a row per shape, a column per size. Also holds
/// the fit of their interpolation.
struct KernelTable {
  KernelOp op = KernelOp::gemm;
  std::string dtype, kv_dtype, kernel;  // as measured: "bfloat16", "fp8"; kv_dtype for attention; name of the kernel
  OpCoefficients coefficients;          // coefficients of the roofline to which the ratios are relative
  WarmCache cache;                      // moe: the ratios are also relative to this cache
  bool all_pairs = false;               // moe with EP: the activations of other ranks' pairs pass too
  double cold_efficiency = 1;           // largest fraction of the bandwidth seen on data far larger than the cache
  KernelMetric metric;
  std::vector<std::uint32_t> columns;  // ascending
  std::vector<KernelKey> sites;        // all distinct
  std::vector<float> log_ratio;        // [site][column]; NaN: not measured
  // Information on the fit, for readers.
  std::int64_t points = 0, replaced = 0;                  // measurements, and outliers replaced by their neighbours
  double roofline_error = 0, in_fit = 0, out_of_fit = 0;  // mean |predicted / measured - 1|

  /// Returns the log ratio of a site at a column; NaN if it was not measured.
  [[nodiscard]] float at(std::size_t site, std::size_t column) const {
    return log_ratio[site * columns.size() + column];
  }
};

/// Returns an empty text if the table can be used, else what is wrong with it. Does not check the ratios themselves.
[[nodiscard]] std::string table_problem(const KernelTable& table);

/// The log ratios of one shape over the columns of its table.
struct KernelRow {
  std::vector<double> log_ratio;
  bool measured = false;  // the shape is a site of the table
  bool outside = false;   // the shape lies beyond the sites (see is_outside)
};
/// Returns the ratio at any column: linear in its logarithm between the measured columns, constant beyond them.
[[nodiscard]] double log_ratio_at(const KernelTable& table, const KernelRow& row, double column);

/// Which sites are left out to compute errors out of fit. `nothing`: none. `configuration`: those of the same
/// configuration (gemm: the shape; attention: heads, KV heads and head size at any batch; moe: the model's shape with
/// its TP and EP at any skew). `shape`: those of the same model shape (moe; for other ops the same as `configuration`).
enum class LeaveOut : std::uint8_t { nothing, configuration, shape };

/// Interpolates in a table, which must outlive this object. Thread-safe.
class KernelInterpolation {
 public:
  explicit KernelInterpolation(const KernelTable& table);
  /// Returns the ratios of a shape: measured ones where there are any, else interpolated ones.
  [[nodiscard]] KernelRow row(const KernelKey& key, LeaveOut leave_out = LeaveOut::nothing) const;
  /// Returns whether the shape is, in some feature, further from every site than the table's own sites reach plus a
  /// margin (1.5 doublings for products, whose efficiency settles; none for attention). MoE: whether no site has this
  /// model shape.
  [[nodiscard]] bool is_outside(const KernelKey& key) const;
  /// Returns the distance to the nearest site.
  [[nodiscard]] double distance(const KernelKey& key) const;

 private:
  struct Near;
  [[nodiscard]] KernelFeatures scaled(const KernelKey& key) const;
  [[nodiscard]] double distance_to(const KernelFeatures& scaled, std::size_t site) const;
  [[nodiscard]] std::vector<Near> nearest(const KernelKey& key, LeaveOut leave_out) const;
  void krige(std::span<const Near> chosen, std::vector<double>& weights) const;

  const KernelTable& table_;
  std::size_t used_;                   // number of features that the op uses
  std::vector<KernelFeatures> sites_;  // scaled
  KernelFeatures low_{}, high_{};      // range of the sites' features, unscaled
};

/// Flops and bytes of one execution, from which tables, simulator and calibration compute their rooflines.
struct KernelWork {
  double flops = 0;
  double stored = 0;   // weights, or cached keys and values; cold in a real step
  double passing = 0;  // activations, queries, outputs
};
/// Returns the bytes per element: 16 bits for activations; for weights and cache by the measured type ("bfloat16",
/// "fp8_block", "nvfp4" …). nullopt for an unknown type.
[[nodiscard]] std::optional<double> stored_bytes(std::string_view dtype);
/// Returns whether products of this type run on the units for 8 bits and less.
[[nodiscard]] bool is_narrow(std::string_view dtype);
/// Returns the flops and bytes of one execution of a kernel.
[[nodiscard]] KernelWork kernel_work(KernelOp op, const KernelKey& key, double column, double bytes_per_stored_element);
/// The same for a kernel of the table, with its type and its pairs.
[[nodiscard]] KernelWork kernel_work(const KernelTable& table, const KernelKey& key, double column);

/// A device's roofline in a benchmark, where the cache may hold part of the stored bytes.
struct KernelRoof : Roof {
  WarmCache cache = {};
};
/// Returns the seconds of the roofline alone. Decode attention adds passing bytes to t0 (accelerator.h); all other ops
/// are one p-norm. With a cache, stored bytes that hit it are divided by its speedup.
[[nodiscard]] double kernel_roofline(KernelOp op, const OpCoefficients& coefficients, const KernelRoof& roof,
                                     const KernelWork& work);
/// Returns the seconds of a later chunk of a prefill, for which there are no measurements: the prefill of all tokens so
/// far, minus that of the cached tokens, plus the fixed cost that both include.
[[nodiscard]] double chunk_time(double t0, double whole, double cached);
/// Returns the peak for a table's products: that of fp8 for narrow types if the device has such units.
[[nodiscard]] FlopsPerSecond kernel_peak(const Accelerator& accelerator, std::string_view dtype);

}  // namespace plimsoll::model
