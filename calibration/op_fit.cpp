// SPDX-License-Identifier: Apache-2.0
#include "calibration/op_fit.h"

#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "model/error.h"
#include "model/op_cost.h"
#include "model/p_norm.h"

namespace plimsoll::calibration {

namespace {

using model::OpClass;
using model::OpKind;

constexpr double kMinEfficiency = 2e-3, kMaxP = 12;
constexpr double kMinT0 = 1e-8;

// log of (compute efficiency, memory efficiency, t0), and p itself.
using Parameters = Eigen::Vector4d;

struct OpProblem {
  OpClass op_class;
  std::span<const OpSample> samples;
  double peak, bandwidth;
  bool mixed;  // ops of several kinds, which one curve cannot fit: give long ones more weight
  // Returns the root of a sample's weight.
  [[nodiscard]] double root_weight(const OpSample& sample) const {
    return mixed ? std::sqrt(sample.seconds / longest) : 1.0;
  }
  double longest = 1;
};

// Prices an op as model/op_cost.cpp and model/decode_curve.cpp do, without the residual.
double roofline(const OpProblem& problem, const Parameters& x, const model::Op& op) {
  const double compute = op.flops / (problem.peak * std::exp(x[0]));
  const double byte_time = 1 / (problem.bandwidth * std::exp(x[1]));
  const double t0 = std::exp(x[2]);
  if (problem.op_class == OpClass::decode_attention)
    return t0 + op.other_bytes * byte_time + model::p_norm(compute, op.kv_bytes * byte_time, x[3]).value;
  return t0 + model::p_norm(compute, (op.weight_bytes + op.kv_bytes + op.other_bytes) * byte_time, x[3]).value;
}

Eigen::VectorXd residuals(const OpProblem& problem, const Parameters& x) {
  Eigen::VectorXd r(static_cast<Eigen::Index>(problem.samples.size()));
  for (Eigen::Index i = 0; i < r.size(); ++i) {
    const OpSample& sample = problem.samples[static_cast<std::size_t>(i)];
    r[i] = problem.root_weight(sample) * std::log(roofline(problem, x, sample.op) / sample.seconds);
  }
  return r;
}

// Limits the parameters to a range beyond which the loss is flat and the solver would not return.
Parameters clamped(Parameters x) {
  x[0] = std::clamp(x[0], std::log(kMinEfficiency), 0.0);
  x[1] = std::clamp(x[1], std::log(kMinEfficiency), 0.0);
  x[2] = std::clamp(x[2], std::log(kMinT0), std::log(0.1));
  x[3] = std::clamp(x[3], 1.0, kMaxP);
  return x;
}

// Levenberg-Marquardt with a numeric Jacobian: four parameters, a few hundred samples.
Parameters minimise(const OpProblem& problem, Parameters x) {
  double damping = 1e-2;
  Eigen::VectorXd r = residuals(problem, x);
  for (int iteration = 0; iteration < 200; ++iteration) {
    Eigen::MatrixXd jacobian(r.size(), 4);
    for (int j = 0; j < 4; ++j) {
      Parameters moved = x;
      const double step = j == 3 ? 1e-4 : 1e-5;
      // At the upper bound the difference is taken downwards, or it would be zero.
      moved[j] += moved[j] + step > (j == 3 ? kMaxP : 0.0) ? -step : step;
      jacobian.col(j) = (residuals(problem, moved) - r) / (moved[j] - x[j]);
    }
    // A weak prior pulls p towards 3, in case the samples do not determine it.
    Eigen::Matrix4d normal = jacobian.transpose() * jacobian;
    Eigen::Vector4d gradient = jacobian.transpose() * r;
    constexpr double kPull = 1e-3;
    normal(3, 3) += kPull;
    gradient[3] += kPull * (x[3] - 3);
    normal.diagonal() += damping * (normal.diagonal().array() + 1e-9).matrix();
    const Parameters next = clamped(x - normal.ldlt().solve(gradient));
    const Eigen::VectorXd after = residuals(problem, next);
    if (after.squaredNorm() < r.squaredNorm()) {
      const bool done = r.squaredNorm() - after.squaredNorm() < 1e-10 * r.squaredNorm();
      x = next;
      r = after;
      damping = std::max(1e-9, damping / 3);
      if (done) break;
    } else {
      damping *= 4;
      if (damping > 1e6) break;
    }
  }
  return x;
}

// Tries several starts, because it is not known in advance whether samples are compute-bound or memory-bound.
Parameters fit_roofline(const OpProblem& problem) {
  double shortest = std::numeric_limits<double>::infinity();
  for (const OpSample& sample : problem.samples) shortest = std::min(shortest, sample.seconds);
  Parameters best = Parameters::Zero();
  double least = std::numeric_limits<double>::infinity();
  for (const double compute : {0.8, 0.2})
    for (const double memory : {0.8, 0.2}) {
      const Parameters start(std::log(compute), std::log(memory), std::log(std::max(kMinT0, 0.3 * shortest)), 3);
      const Parameters x = minimise(problem, clamped(start));
      const double error = residuals(problem, x).squaredNorm();
      if (error < least) {
        least = error;
        best = x;
      }
    }
  return best;
}

struct GridPlace {
  double x, y;
};

// The axes of ResidualTable.
GridPlace place_of(OpClass op_class, const model::Op& op) {
  const double m = std::log2(static_cast<double>(op.m));
  switch (op_class) {
    case OpClass::decode_attention: return {m, std::log2(op.context / static_cast<double>(op.m))};
    case OpClass::prefill_attention: return {m, std::log2(op.context)};
    case OpClass::gemm:
    case OpClass::moe_gemm:
    case OpClass::pointwise: break;
  }
  return {m, std::log2(static_cast<double>(op.n) * static_cast<double>(std::max<std::int64_t>(op.k, 1)))};
}

// Fills gaps in a line of the table's grid by interpolation along x; constant beyond its ends.
void fill_gaps(model::ResidualTable& table, const std::vector<bool>& known, std::size_t y) {
  const std::vector<double>& x = table.x;
  std::vector<double>& values = table.log_ratio;
  const std::size_t width = table.y.size();
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (known[i * width + y]) continue;
    std::ptrdiff_t below = static_cast<std::ptrdiff_t>(i), above = below;
    const auto end = static_cast<std::ptrdiff_t>(x.size());
    const auto is_known = [&](std::ptrdiff_t at) { return known[static_cast<std::size_t>(at) * width + y]; };
    const auto at = [&](std::ptrdiff_t index) { return values[static_cast<std::size_t>(index) * width + y]; };
    while (below >= 0 && !is_known(below)) --below;
    while (above < end && !is_known(above)) ++above;
    if (below < 0 && above == end) continue;
    if (below < 0)
      values[i * width + y] = at(above);
    else if (above == end)
      values[i * width + y] = at(below);
    else {
      const double low = x[static_cast<std::size_t>(below)], high = x[static_cast<std::size_t>(above)];
      const double fraction = (x[i] - low) / (high - low);
      values[i * width + y] = at(below) + fraction * (at(above) - at(below));
    }
  }
}

// Builds the residual table. Samples at the same grid point are averaged.
std::shared_ptr<model::ResidualTable> residual_table(const OpProblem& problem, const Parameters& parameters) {
  std::map<std::pair<double, double>, std::pair<double, int>> cells;
  auto table = std::make_shared<model::ResidualTable>();
  for (const OpSample& sample : problem.samples) {
    const GridPlace place = place_of(problem.op_class, sample.op);
    auto& [sum, count] = cells[{place.x, place.y}];
    sum += std::log(sample.seconds / roofline(problem, parameters, sample.op));
    ++count;
    table->x.push_back(place.x);
    table->y.push_back(place.y);
  }
  for (std::vector<double>* axis : {&table->x, &table->y}) {
    std::sort(axis->begin(), axis->end());
    axis->erase(std::unique(axis->begin(), axis->end()), axis->end());
  }
  const std::size_t width = table->y.size();
  table->log_ratio.assign(table->x.size() * width, 0.0);
  std::vector<bool> known(table->log_ratio.size(), false);
  for (const auto& [place, cell] : cells) {
    const auto i =
        static_cast<std::size_t>(std::lower_bound(table->x.begin(), table->x.end(), place.first) - table->x.begin());
    const auto j =
        static_cast<std::size_t>(std::lower_bound(table->y.begin(), table->y.end(), place.second) - table->y.begin());
    table->log_ratio[i * width + j] = cell.first / cell.second;
    known[i * width + j] = true;
  }
  // Not every pair of coordinates was measured.
  for (std::size_t y = 0; y < width; ++y) fill_gaps(*table, known, y);
  return table;
}

// Returns the mean error; weights the samples as in the fit.
double mean_error(const OpProblem& problem, const Parameters& parameters, const model::ResidualTable* table) {
  double sum = 0, weights = 0;
  for (const OpSample& sample : problem.samples) {
    double time = roofline(problem, parameters, sample.op);
    const GridPlace place = place_of(problem.op_class, sample.op);
    if (table != nullptr) time *= std::exp(model::residual_at(*table, place.x, place.y));
    const double weight = problem.root_weight(sample) * problem.root_weight(sample);
    sum += weight * std::abs(time / sample.seconds - 1);
    weights += weight;
  }
  return sum / weights;
}

}  // namespace

std::optional<OpClass> class_of(OpKind kind) {
  switch (kind) {
    case OpKind::gemm: return OpClass::gemm;
    case OpKind::moe_gemm: return OpClass::moe_gemm;
    case OpKind::prefill_attention: return OpClass::prefill_attention;
    case OpKind::decode_attention: return OpClass::decode_attention;
    case OpKind::embed:
    case OpKind::norm:
    case OpKind::residual_add:
    case OpKind::rope_append:
    case OpKind::activation:
    case OpKind::route:
    case OpKind::combine:
    case OpKind::sample: return OpClass::pointwise;
    case OpKind::all_reduce:
    case OpKind::send: break;
  }
  return {};
}

OpFit fit_op_class(OpClass op_class, std::span<const OpSample> samples, FlopsPerSecond peak, BytesPerSecond bandwidth) {
  PLIMSOLL_CHECK(!samples.empty(), "there is something to fit");
  double longest = 0;
  for (const OpSample& sample : samples) longest = std::max(longest, sample.seconds);
  // Pointwise ops of several kinds share one curve; the differences between the kinds are noise to it.
  const bool mixed = std::any_of(samples.begin(), samples.end(),
                                 [&](const OpSample& s) { return s.op.kind != samples.front().op.kind; });
  const OpProblem problem{op_class, samples, peak.value, bandwidth.value, mixed, longest};
  const Parameters x = fit_roofline(problem);
  OpFit fit;
  fit.samples = static_cast<std::int64_t>(samples.size());
  fit.coefficients.compute_efficiency = std::exp(x[0]);
  fit.coefficients.memory_efficiency = std::exp(x[1]);
  fit.coefficients.t0 = Seconds(std::exp(x[2]));
  fit.coefficients.p = x[3];
  fit.roofline_error = mean_error(problem, x, nullptr);
  fit.fit_error = fit.roofline_error;
  if (mixed) return fit;  // a table could not distinguish the kinds
  const auto table = residual_table(problem, x);
  fit.fit_error = mean_error(problem, x, table.get());
  fit.coefficients.residual = table;
  return fit;
}

}  // namespace plimsoll::calibration
