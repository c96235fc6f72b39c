// SPDX-License-Identifier: Apache-2.0
// Interpolates between measured shapes: ordinary kriging over the nearest sites (Matheron 1963), solved by Cholesky.
#include "model/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace plimsoll::model {
namespace {

// Factor on the sites considered for a row: some of the nearest ones may lack a column (long contexts of large batches
// do not fit in memory).
constexpr std::size_t kReach = 4;
constexpr double kSettled = 1.5;  // in doublings: products beyond their range keep the efficiency at its edge

// Returns whether a cross-validation that hides `a` must also hide `b`: a row of the same configuration at another
// size, or of the same shape at another degree of parallelism. A neighbour that differs only in the batch would reveal
// the hidden value.
bool is_same(KernelOp op, const KernelKey& a, const KernelKey& b, LeaveOut leave_out) {
  switch (leave_out) {
    case LeaveOut::nothing: return false;
    case LeaveOut::configuration:
      if (op == KernelOp::gemm) return a == b;
      if (op == KernelOp::moe) {
        return std::equal(a.begin(), a.begin() + 4, b.begin()) && a[5] == b[5] && a[6] == b[6];
      }
      return std::equal(a.begin() + 1, a.begin() + 4, b.begin() + 1);
    case LeaveOut::shape:
      if (op == KernelOp::moe) return std::equal(a.begin(), a.begin() + 4, b.begin());
      return is_same(op, a, b, LeaveOut::configuration);
  }
  return false;
}

// Solves A x = b in place for two right-hand sides. A is symmetric, positive definite and row-major, and is
// overwritten.
void solve(std::vector<double>& a, std::size_t n, std::vector<double>& b, std::vector<double>& c) {
  for (std::size_t j = 0; j < n; ++j) {
    double diagonal = a[j * n + j];
    for (std::size_t k = 0; k < j; ++k) diagonal -= a[j * n + k] * a[j * n + k];
    // Two sites at the same place make the matrix singular; the floor keeps the factor finite.
    const double root = std::sqrt(std::max(diagonal, 1e-12));
    a[j * n + j] = root;
    for (std::size_t i = j + 1; i < n; ++i) {
      double sum = a[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = sum / root;
    }
  }
  for (std::vector<double>* x : {&b, &c}) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) (*x)[i] -= a[i * n + k] * (*x)[k];
      (*x)[i] /= a[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t k = i + 1; k < n; ++k) (*x)[i] -= a[k * n + i] * (*x)[k];
      (*x)[i] /= a[i * n + i];
    }
  }
}

// A column without a value from any site gets the value of the nearest column that has one.
void fill_gaps(std::vector<double>& values) {
  const std::size_t none = values.size();
  std::size_t last = none;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) continue;
    for (std::size_t j = last == none ? 0 : last + 1; j < i; ++j) {
      const bool left = last != none && j - last <= i - j;
      values[j] = values[left ? last : i];
    }
    last = i;
  }
  if (last == none)
    std::fill(values.begin(), values.end(), 0.0);
  else
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(last), values.end(), values[last]);
}

// The features whose range defines what was measured. Decode kernels work per sequence and KV head; how these two
// numbers combine to the same product matters little.
std::span<const std::size_t> deciding_features(KernelOp op) {
  static constexpr std::array<std::size_t, 2> kGemm = {0, 1};
  static constexpr std::array<std::size_t, 5> kPrefill = {0, 1, 2, 3, 4};
  static constexpr std::array<std::size_t, 3> kDecode = {0, 2, 3};
  if (op == KernelOp::gemm) return kGemm;
  if (op == KernelOp::decode_attention) return kDecode;
  return kPrefill;
}

std::string number_problem(const KernelTable& table) {
  const OpCoefficients& c = table.coefficients;
  const auto is_share = [](double v) { return v > 0 && v <= 1; };
  if (!is_share(c.compute_efficiency))
    return fmt::format("compute efficiency {} is not in (0, 1]", c.compute_efficiency);
  if (!is_share(c.memory_efficiency)) return fmt::format("memory efficiency {} is not in (0, 1]", c.memory_efficiency);
  if (!is_share(table.cold_efficiency))
    return fmt::format("cold efficiency {} is not in (0, 1]", table.cold_efficiency);
  if (!(c.p >= 1) || !std::isfinite(c.p)) return fmt::format("p {} is not a number of at least 1", c.p);
  if (!(c.t0.count() >= 0) || !std::isfinite(c.t0.count()))
    return fmt::format("t0 {} s is negative or not finite", c.t0.count());
  if (!(table.metric.nugget > 0) || !std::isfinite(table.metric.nugget))
    return fmt::format("nugget {} is not positive", table.metric.nugget);
  if (table.metric.neighbours < 1 || table.metric.neighbours > 64) {
    return fmt::format("{} neighbours are not 1 to 64", table.metric.neighbours);
  }
  if (!(table.metric.knee >= 0) || !std::isfinite(table.metric.knee))
    return fmt::format("knee {} is negative", table.metric.knee);
  if (!(table.cache.bytes.value >= 0) || !std::isfinite(table.cache.bytes.value)) {
    return fmt::format("a cache of {} bytes is not a valid size", table.cache.bytes.value);
  }
  if (!(table.cache.speedup >= 1) || !std::isfinite(table.cache.speedup)) {
    return fmt::format("a cache {} times as fast as memory is slower than memory", table.cache.speedup);
  }
  for (const double scale : table.metric.scale) {
    if (!(scale >= 0) || !std::isfinite(scale)) return fmt::format("scale {} is negative", scale);
  }
  return {};
}

bool key_has_zero(KernelOp op, const KernelKey& key) {
  for (std::size_t part = 0; part + 1 < key_names(op).size(); ++part) {
    if (key[part] == 0 && !(op == KernelOp::moe && part == 4)) return true;
  }
  return false;
}

}  // namespace

std::string table_problem(const KernelTable& table) {
  if (std::string problem = number_problem(table); !problem.empty()) return problem;
  if (!stored_bytes(table.dtype)) return fmt::format("type '{}' is not known", table.dtype);
  if (!table.kv_dtype.empty() && !stored_bytes(table.kv_dtype))
    return fmt::format("type '{}' is not known", table.kv_dtype);
  if (table.columns.empty() || table.sites.empty()) return "no measurements";
  if (table.columns.front() == 0 ||
      std::adjacent_find(table.columns.begin(), table.columns.end(), std::greater_equal<>()) != table.columns.end()) {
    return "columns do not ascend";
  }
  if (table.log_ratio.size() != table.columns.size() * table.sites.size()) {
    return fmt::format("{} ratios for {} shapes of {} columns", table.log_ratio.size(), table.sites.size(),
                       table.columns.size());
  }
  for (const KernelKey& key : table.sites) {
    if (key_has_zero(table.op, key)) return "a shape has a dimension of 0";
  }
  return {};
}

double log_ratio_at(const KernelTable& table, const KernelRow& row, double column) {
  const std::vector<std::uint32_t>& grid = table.columns;
  // Beyond the ends the ratio stays constant, while the roofline still grows with the size.
  if (!(column > grid.front())) return row.log_ratio.front();
  if (column >= grid.back()) return row.log_ratio.back();
  const auto above =
      std::upper_bound(grid.begin(), grid.end(), column, [](double value, std::uint32_t edge) { return value < edge; });
  const auto i = static_cast<std::size_t>(above - grid.begin()) - 1;
  if (column == grid[i]) return row.log_ratio[i];
  // The columns are about equally spaced in the logarithm, and efficiencies are smooth in it.
  const double low = std::log(static_cast<double>(grid[i])), high = std::log(static_cast<double>(grid[i + 1]));
  const double fraction = (std::log(column) - low) / (high - low);
  return row.log_ratio[i] + fraction * (row.log_ratio[i + 1] - row.log_ratio[i]);
}

struct KernelInterpolation::Near {
  double distance = 0;
  std::size_t site = 0;
  // Sites at the same distance keep the order of the file, so that every machine chooses the same ones.
  bool operator<(const Near& other) const {
    return distance != other.distance ? distance < other.distance : site < other.site;
  }
};

KernelInterpolation::KernelInterpolation(const KernelTable& table)
    : table_(table), used_(feature_names(table.op).size()) {
  sites_.reserve(table.sites.size());
  low_.fill(std::numeric_limits<double>::infinity());
  high_.fill(-std::numeric_limits<double>::infinity());
  for (const KernelKey& key : table.sites) {
    KernelFeatures values = features(table.op, key, table.metric.knee);
    for (std::size_t f = 0; f < used_; ++f) {
      low_[f] = std::min(low_[f], values[f]);
      high_[f] = std::max(high_[f], values[f]);
      values[f] *= table.metric.scale[f];
    }
    sites_.push_back(values);
  }
}

KernelFeatures KernelInterpolation::scaled(const KernelKey& key) const {
  KernelFeatures out = features(table_.op, key, table_.metric.knee);
  for (std::size_t f = 0; f < used_; ++f) out[f] *= table_.metric.scale[f];
  return out;
}

double KernelInterpolation::distance_to(const KernelFeatures& from, std::size_t site) const {
  double sum = 0;
  for (std::size_t f = 0; f < used_; ++f) sum += std::abs(from[f] - sites_[site][f]);
  return sum;
}

std::vector<KernelInterpolation::Near> KernelInterpolation::nearest(const KernelKey& key, LeaveOut leave_out) const {
  const KernelFeatures from = scaled(key);
  std::vector<Near> found;
  found.reserve(sites_.size());
  for (std::size_t site = 0; site < sites_.size(); ++site) {
    if (leave_out != LeaveOut::nothing && is_same(table_.op, key, table_.sites[site], leave_out)) continue;
    found.push_back({distance_to(from, site), site});
  }
  const std::size_t wanted = std::min(found.size(), kReach * static_cast<std::size_t>(table_.metric.neighbours));
  if (wanted < found.size()) {
    std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(wanted), found.end());
    found.resize(wanted);
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Ordinary kriging: weights w = K^-1 (k + u 1), with u such that they sum to 1.
void KernelInterpolation::krige(std::span<const Near> chosen, std::vector<double>& weights) const {
  const std::size_t n = chosen.size();
  std::vector<double> covariance(n * n), ones(n, 1.0);
  weights.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    weights[i] = std::exp(-chosen[i].distance);
    for (std::size_t j = 0; j < i; ++j) {
      covariance[i * n + j] = std::exp(-distance_to(sites_[chosen[i].site], chosen[j].site));
    }
    covariance[i * n + i] = 1 + table_.metric.nugget;
  }
  solve(covariance, n, weights, ones);
  double sum = 0, sum_ones = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += weights[i];
    sum_ones += ones[i];
  }
  for (std::size_t i = 0; i < n; ++i) weights[i] += (1 - sum) / sum_ones * ones[i];
}

KernelRow KernelInterpolation::row(const KernelKey& key, LeaveOut leave_out) const {
  const std::size_t width = table_.columns.size();
  KernelRow out{std::vector<double>(width, std::numeric_limits<double>::quiet_NaN()), false, is_outside(key)};
  const std::vector<Near> near = nearest(key, leave_out);
  const auto own = std::find_if(near.begin(), near.end(), [&](const Near& n) { return table_.sites[n.site] == key; });
  out.measured = own != near.end();
  std::vector<Near> chosen, previous;
  std::vector<double> weights;
  const auto most = static_cast<std::size_t>(table_.metric.neighbours);
  for (std::size_t column = 0; column < width; ++column) {
    // A measured value is used as it is: interpolation through it would only add an error.
    if (out.measured && !std::isnan(table_.at(own->site, column))) {
      out.log_ratio[column] = table_.at(own->site, column);
      continue;
    }
    chosen.clear();
    for (const Near& n : near) {
      if (chosen.size() == most) break;
      if (!std::isnan(table_.at(n.site, column))) chosen.push_back(n);
    }
    if (chosen.empty()) continue;
    // The neighbours of two columns differ only if one of them has a gap. Otherwise the weights are still valid, and
    // the equations need not be solved again.
    const bool as_before = std::equal(chosen.begin(), chosen.end(), previous.begin(), previous.end(),
                                      [](const Near& a, const Near& b) { return a.site == b.site; });
    if (!as_before) krige(chosen, weights);
    double value = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      value += weights[i] * static_cast<double>(table_.at(chosen[i].site, column));
    out.log_ratio[column] = value;
    previous = chosen;
  }
  fill_gaps(out.log_ratio);
  return out;
}

bool KernelInterpolation::is_outside(const KernelKey& key) const {
  const KernelFeatures raw = features(table_.op, key);
  if (table_.op == KernelOp::moe) {
    return std::none_of(table_.sites.begin(), table_.sites.end(),
                        [&](const KernelKey& site) { return is_same(KernelOp::moe, key, site, LeaveOut::shape); });
  }
  const double margin = table_.op == KernelOp::gemm ? kSettled : 1e-9;
  for (const std::size_t f : deciding_features(table_.op)) {
    if (raw[f] < low_[f] - margin || raw[f] > high_[f] + margin) return true;
  }
  return false;
}

double KernelInterpolation::distance(const KernelKey& key) const {
  const KernelFeatures from = scaled(key);
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t site = 0; site < sites_.size(); ++site) best = std::min(best, distance_to(from, site));
  return best;
}

}  // namespace plimsoll::model
