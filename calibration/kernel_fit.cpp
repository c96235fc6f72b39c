// SPDX-License-Identifier: Apache-2.0
#include "calibration/kernel_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace plimsoll::calibration {
namespace {

using model::KernelFeatures;
using model::KernelInterpolation;
using model::KernelKey;
using model::KernelOp;
using model::KernelRow;
using model::KernelTable;
using model::KernelWork;
using model::LeaveOut;

// Geometric means of repeated measurements, by key and column.
using Measured = std::map<KernelKey, std::map<std::uint32_t, double>>;
// Errors of a measurement multiply, so repeated ones are averaged by their logarithms.
Measured merged(std::span<const KernelMeasurement* const> rows) {
  std::map<KernelKey, std::map<std::uint32_t, std::pair<double, int>>> sums;
  for (const KernelMeasurement* row : rows) {
    auto& [sum, count] = sums[row->key][row->column];
    sum += std::log(row->seconds);
    ++count;
  }
  Measured means;
  for (const auto& [key, columns] : sums) {
    for (const auto& [column, sum] : columns) means[key][column] = std::exp(sum.first / sum.second);
  }
  return means;
}

// Returns the fraction of the bandwidth at which data of more than four times the cache's size were read, at the 98th
// percentile of these reads.
double cold_efficiency(std::span<const KernelWork> work, std::span<const double> seconds, const model::Accelerator& a) {
  constexpr double kTimesCache = 4, kBest = 0.98;
  const double cache = std::max(a.last_level_cache.value, 32e6);
  std::vector<double> reached;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (work[i].stored > kTimesCache * cache) reached.push_back(work[i].stored / seconds[i] / a.memory_bandwidth.value);
  }
  if (reached.empty()) return 1;
  // A quantile instead of the maximum, so that a single disturbed measurement does not decide.
  const auto place = reached.begin() + static_cast<std::ptrdiff_t>(kBest * static_cast<double>(reached.size() - 1));
  std::nth_element(reached.begin(), place, reached.end());
  return std::clamp(*place, 0.05, 1.0);
}

// Predicts every log ratio without the measurements of its own configuration, site by site in the table's order.
std::vector<float> left_out(const KernelTable& table, LeaveOut what) {
  const KernelInterpolation interpolation(table);
  std::vector<float> out;
  out.reserve(table.log_ratio.size());
  for (const KernelKey& key : table.sites) {
    for (const double value : interpolation.row(key, what).log_ratio) out.push_back(static_cast<float>(value));
  }
  return out;
}

double mean_error(std::span<const float> predicted, std::span<const float> measured) {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (std::isnan(measured[i])) continue;
    sum += std::abs(std::expm1(static_cast<double>(predicted[i] - measured[i])));
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

// Returns the starting point of the metric search, which was found on the published tables of five accelerators.
model::KernelMetric first_metric(KernelOp op) {
  switch (op) {
    case KernelOp::gemm: return {.scale = {0.5, 0.125, 0}, .nugget = 0.03, .neighbours = 32};
    case KernelOp::moe: return {.scale = {2, 0.5, 2, 0.25, 0.3, 0.25, 0.25, 0}, .nugget = 0.03, .neighbours = 16};
    case KernelOp::prefill_attention: return {.scale = {0.5, 0.5, 0.3, 3, 0}, .nugget = 0.1, .neighbours = 8};
    case KernelOp::decode_attention: return {.scale = {1, 0.1, 0.15, 2, 0}, .nugget = 0.05, .neighbours = 8};
  }
  return {};
}

// Searches the metric by coordinate descent in factors of two. It minimizes the error that results when configurations
// are left out.
class MetricSearch {
 public:
  /// Errors are computed against `measured`, even if the table holds cleaned values.
  MetricSearch(KernelTable& table, const std::vector<float>& measured)
      : table_(table), step_(step_of(table.op)), measured_(measured), best_(error_of(table.metric)) {}

  double run() {
    constexpr int kRounds = 3;
    const std::size_t features = model::feature_names(table_.op).size();
    for (int round = 0; round < kRounds; ++round) {
      const double before = best_;
      for (std::size_t f = 0; f < features; ++f) {
        if (f != step_) improve_scale(f);
      }
      if (table_.op == KernelOp::gemm) find_knee(19, 26);
      if (table_.cache.bytes.value > 0) find_knee(23, 29);
      for (const double factor : {3.0, 1 / 3.0}) {
        model::KernelMetric trial = table_.metric;
        trial.nugget = std::clamp(trial.nugget * factor, 1e-3, 3.0);
        try_metric(trial);
      }
      // Stop after a round that gains less than half a per cent.
      if (best_ > 0.995 * before) break;
    }
    // More neighbours make every lookup slower, so they must reduce the error by 5 %.
    model::KernelMetric trial = table_.metric;
    trial.neighbours *= 2;
    if (trial.neighbours <= 16) try_metric(trial, 0.05);
    return best_;
  }

 private:
  void improve_scale(std::size_t f) {
    const double from = table_.metric.scale[f];
    if (from == 0) {
      double better = 0;
      // The feature has no influence: try growing scales from a quarter, then one small scale.
      for (double next = 0.25; try_scale(f, next); next *= 2) better = next;
      if (better == 0) try_scale(f, 0.0625);
      return;
    }
    for (const double factor : {2.0, 0.5}) {
      // Keep going in a direction that helps; try the other direction only if the first does not.
      bool better = try_scale(f, from * factor);
      for (double next = from * factor * factor; better; next *= factor) better = try_scale(f, next);
      if (table_.metric.scale[f] != from) return;
    }
    // Neither direction helps: test whether the feature is needed at all.
    try_scale(f, 0);
  }
  // Returns the feature that has a step at the knee. Other ops have no such feature.
  [[nodiscard]] static std::size_t step_of(KernelOp op) {
    if (op == KernelOp::gemm) return 3;
    return op == KernelOp::moe ? 7 : model::kFeatures;
  }
  // Finds the size, as log2 of the number of weights, above which weights no longer stay in the cache between runs of a
  // benchmark.
  void find_knee(double low, double high) {
    for (double knee = low; knee <= high; knee += 0.25) {
      for (const double scale : {0.5, 1.0}) {
        model::KernelMetric trial = table_.metric;
        trial.knee = knee;
        trial.scale[step_] = scale;
        try_metric(trial, 0.01);
      }
    }
  }
  bool try_scale(std::size_t f, double value) {
    if (value > 64 || (value > 0 && value < 1e-3)) return false;
    model::KernelMetric trial = table_.metric;
    trial.scale[f] = value;
    return try_metric(trial);
  }
  // Accepts the trial only if it reduces the error by the fraction `margin`, so that no parameter changes without
  // benefit.
  bool try_metric(const model::KernelMetric& trial, double margin = 1e-4) {
    const double error = error_of(trial);
    if (error >= best_ * (1 - margin)) return false;
    best_ = error;
    table_.metric = trial;
    return true;
  }
  double error_of(const model::KernelMetric& metric) {
    const model::KernelMetric kept = table_.metric;
    table_.metric = metric;
    double error = mean_error(left_out(table_, LeaveOut::configuration), measured_);
    // Experts of other models are predicted too, not only other layouts of the measured ones.
    if (table_.op == KernelOp::moe) error += mean_error(left_out(table_, LeaveOut::shape), measured_);
    table_.metric = kept;
    return error;
  }

  KernelTable& table_;
  std::size_t step_;
  const std::vector<float>& measured_;
  double best_;
};

// Returns the median deviation of a shape's measurements from the expectation, over the columns near that of
// measurement i.
float offset_around(const KernelTable& table, std::span<const float> measured, std::span<const float> expected,
                    std::size_t i) {
  constexpr std::size_t kReach = 8;  // columns on either side
  const std::size_t width = table.columns.size(), column = i % width, row = i - column;
  std::vector<float> offsets;
  for (std::size_t c = column - std::min(column, kReach); c <= std::min(column + kReach, width - 1); ++c) {
    if (c != column && !std::isnan(measured[row + c])) offsets.push_back(measured[row + c] - expected[row + c]);
  }
  if (offsets.empty()) return 0;
  const auto middle = offsets.begin() + static_cast<std::ptrdiff_t>(offsets.size() / 2);
  std::nth_element(offsets.begin(), middle, offsets.end());
  return *middle;
}

// Replaces outliers. A measurement that disagrees with all its neighbours (the clock dropped, or a cold start) spoils
// the interpolation from it. Its neighbours are the measurements of the same shape in nearby columns, and those of
// other shapes in the same column. A shape that differs from other shapes in all columns is not an outlier.
//
// Outliers are replaced by the prediction of their neighbours if that improves the prediction of left-out
// configurations. Because outliers also distort the metric, it is then searched again. Times that are too long are more
// common, so their threshold is lower. Returns the error out of fit against the original measurements.
double replace_outliers(KernelTable& table, double error) {
  constexpr float kSlow = 0.2F, kFast = 0.3F;  // 22 % above, 26 % below
  constexpr double kWorthIt = 0.9;
  constexpr int kRounds = 3, kPasses = 4;
  const std::vector<float> measured = table.log_ratio, level(measured.size(), 0.0F);
  KernelTable cleaned = table;
  // Start from the general metric, because outliers distorted the one found by the search.
  cleaned.metric = first_metric(table.op);
  double best = error;
  for (int round = 0; round < kRounds; ++round) {
    for (int pass = 0; pass < kPasses; ++pass) {
      const std::vector<float> expected = left_out(cleaned, LeaveOut::configuration);
      for (std::size_t i = 0; i < measured.size(); ++i) {
        if (std::isnan(measured[i])) continue;
        // In the first pass outliers also affect the prediction, so a measurement must deviate from its own row too.
        const float likely = expected[i] + offset_around(table, measured, expected, i), off = measured[i] - likely;
        const float sticks_out = pass > 0 ? off : 2 * (measured[i] - offset_around(table, measured, level, i));
        const bool is_outlier = std::min(off, sticks_out) > kSlow || std::max(off, sticks_out) < -kFast;
        cleaned.log_ratio[i] = is_outlier ? likely : measured[i];
      }
    }
    // The passes above found the outliers for this metric; with a new metric there may be others.
    const double after = MetricSearch(cleaned, measured).run();
    if (after >= best || after > kWorthIt * error) break;
    best = after;
    table.log_ratio = cleaned.log_ratio;
    table.metric = cleaned.metric;
  }
  for (std::size_t i = 0; i < measured.size(); ++i) {
    if (!std::isnan(measured[i]) && table.log_ratio[i] != measured[i]) ++table.replaced;
  }
  return best;
}

}  // namespace

LeftOutErrors left_out_errors(const KernelTable& table) {
  LeftOutErrors errors;
  errors.configuration = mean_error(left_out(table, LeaveOut::configuration), table.log_ratio);
  errors.shape =
      table.op == KernelOp::moe ? mean_error(left_out(table, LeaveOut::shape), table.log_ratio) : errors.configuration;
  double sum = 0, count = 0;
  const std::size_t width = table.columns.size();
  for (std::size_t site = 0; site < table.sites.size(); ++site) {
    for (std::size_t i = 1; i + 1 < width; ++i) {
      const float left = table.at(site, i - 1), middle = table.at(site, i), right = table.at(site, i + 1);
      if (std::isnan(left) || std::isnan(middle) || std::isnan(right)) continue;
      const double low = std::log(table.columns[i - 1]), high = std::log(table.columns[i + 1]);
      const double fraction = (std::log(table.columns[i]) - low) / (high - low);
      // Interpolate linearly in the logarithm of the column, as the table does.
      sum += std::abs(std::expm1(static_cast<double>(left) + fraction * static_cast<double>(right - left) -
                                 static_cast<double>(middle)));
      ++count;
    }
  }
  errors.column = count > 0 ? sum / count : 0;
  return errors;
}

namespace {

// All measurements in the order of the table: by site, then by column.
struct Measurements {
  Measured by_site;
  std::vector<KernelWork> work;
  std::vector<double> seconds;
};

double mean_error_of(const model::OpCoefficients& c, const Measurements& m, const KernelTable& t,
                     const model::Roof& roof) {
  double sum = 0;
  for (std::size_t i = 0; i < m.work.size(); ++i)
    sum += std::abs(model::kernel_roofline(t.op, c, {roof, {}}, m.work[i]) / m.seconds[i] - 1);
  return sum / static_cast<double>(m.work.size());
}

std::vector<KernelWork> work_of(const Measured& by_site, const KernelTable& table) {
  std::vector<KernelWork> work;
  for (const auto& [key, columns] : by_site)
    for (const auto& [column, time] : columns) work.push_back(model::kernel_work(table, key, column));
  return work;
}

// With EP some kernels let the activations of all pairs pass through every rank, others only those of its experts.
// Chooses what describes the measurements better.
void choose_pairs(Measurements& m, KernelTable& table, const model::Roof& roof) {
  if (std::all_of(table.sites.begin(), table.sites.end(), [](const KernelKey& key) { return key[6] == 1; })) return;
  const auto error = [&](const Measurements& tried) {
    return mean_error_of(fit_roofline(table.op, {tried.work, tried.seconds}, roof, Bytes(0)).coefficients, tried, table,
                         roof);
  };
  Measurements all = m;
  table.all_pairs = true;
  all.work = work_of(m.by_site, table);
  table.all_pairs = error(all) < error(m);
  if (table.all_pairs) m = std::move(all);
}

Measurements prepare(std::span<const KernelMeasurement* const> rows, KernelTable& table, const model::Roof& roof) {
  Measurements m{merged(rows), {}, {}};
  for (const auto& [key, columns] : m.by_site) {
    table.sites.push_back(key);
    for (const auto& [column, time] : columns) {
      table.columns.push_back(column);
      m.seconds.push_back(time);
    }
  }
  std::sort(table.columns.begin(), table.columns.end());
  table.columns.erase(std::unique(table.columns.begin(), table.columns.end()), table.columns.end());
  m.work = work_of(m.by_site, table);
  if (table.op == KernelOp::moe) choose_pairs(m, table, roof);
  return m;
}

// Fits the roofline with a cache of the given size (0 for none), computes the remaining ratios, and searches the metric
// that predicts them best.
KernelTable fit_all(KernelTable table, const Measurements& m, const model::Roof& roof, Bytes cache) {
  const FittedRoofline fitted = fit_roofline(table.op, {m.work, m.seconds}, roof, cache);
  table.coefficients = fitted.coefficients;
  table.cache = fitted.cache;
  const model::KernelRoof seen{roof, fitted.cache};
  table.log_ratio.assign(table.sites.size() * table.columns.size(), std::numeric_limits<float>::quiet_NaN());
  std::size_t i = 0, site = 0;
  for (const auto& [key, columns] : m.by_site) {
    for (const auto& [column, time] : columns) {
      const auto place = std::lower_bound(table.columns.begin(), table.columns.end(), column) - table.columns.begin();
      const double base = model::kernel_roofline(table.op, table.coefficients, seen, m.work[i++]);
      table.log_ratio[site * table.columns.size() + static_cast<std::size_t>(place)] =
          static_cast<float>(std::log(time / base));
      table.roofline_error += std::abs(base / time - 1) / static_cast<double>(m.seconds.size());
    }
    ++site;
  }
  // The search may replace outliers in the table, so errors are always computed against the original measurements.
  const std::vector<float> exact = table.log_ratio;
  table.out_of_fit = MetricSearch(table, exact).run();
  if (table.op == KernelOp::moe) table.out_of_fit = mean_error(left_out(table, LeaveOut::configuration), exact);
  // Only products have enough neighbours to distinguish an outlier from an edge.
  if (table.op == KernelOp::gemm) table.out_of_fit = replace_outliers(table, table.out_of_fit);
  table.in_fit = mean_error(table.log_ratio, exact);
  return table;
}

}  // namespace

KernelTable fit_kernel_table(std::span<const KernelMeasurement* const> rows, const model::Accelerator& accelerator) {
  const KernelMeasurement& first = *rows.front();
  const model::Roof roof{model::kernel_peak(accelerator, first.dtype), accelerator.memory_bandwidth};
  if (!(roof.peak.value > 0) || !(roof.bandwidth.value > 0)) {
    throw InputError(fmt::format("accelerator {} has no peak for {} or no bandwidth", accelerator.id, first.dtype));
  }
  KernelTable table{.op = first.op,
                    .dtype = first.dtype,
                    .kv_dtype = first.kv_dtype,
                    .kernel = first.kernel,
                    .coefficients = {},
                    .cache = {},
                    .metric = first_metric(first.op),
                    .columns = {},
                    .sites = {},
                    .log_ratio = {}};
  table.points = static_cast<std::int64_t>(rows.size());
  const Measurements measured = prepare(rows, table, roof);
  table.cold_efficiency = cold_efficiency(measured.work, measured.seconds, accelerator);
  KernelTable plain = fit_all(table, measured, roof, Bytes(0));
  if (table.op != KernelOp::moe || !(accelerator.last_level_cache.value > 0)) return plain;
  // The cache model must reduce the error by a tenth. It does if the experts of a rank fit the cache (L40S: 96 MB), and
  // explains nothing elsewhere.
  constexpr double kWorthIt = 0.9;
  KernelTable cached = fit_all(std::move(table), measured, roof, accelerator.last_level_cache);
  return cached.out_of_fit < kWorthIt * plain.out_of_fit ? cached : plain;
}

}  // namespace plimsoll::calibration
