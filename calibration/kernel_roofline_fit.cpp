// SPDX-License-Identifier: Apache-2.0
// The roofline of a table of measured kernels: a few numbers, fitted by robust Levenberg-Marquardt.
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

#include "calibration/kernel_fit.h"

namespace plimsoll::calibration {
namespace {

using model::KernelOp;
using model::KernelWork;
using model::OpCoefficients;

// The unknowns on unbounded scales: log t0, logit of the efficiencies, log (p - 1), and with a cache log (speedup - 1).
using Unknowns = Eigen::VectorXd;
constexpr Eigen::Index kSpeedup = 4;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

OpCoefficients coefficients_of(const Unknowns& x) {
  OpCoefficients c;
  c.t0 = Seconds(std::exp(std::clamp(x[0], -18.4, -4.6)));  // 10 ns to 10 ms
  c.compute_efficiency = logistic(std::clamp(x[1], -6.0, 6.0));
  c.memory_efficiency = logistic(std::clamp(x[2], -6.0, 6.0));
  c.p = 1 + std::exp(std::clamp(x[3], -5.0, 3.0));  // at most 21, where the norm already equals the maximum
  return c;
}

model::WarmCache cache_of(const Unknowns& x, Bytes bytes) {
  if (x.size() <= kSpeedup) return {};
  return {bytes, 1 + std::exp(std::clamp(x[kSpeedup], -5.0, 3.0))};  // a speedup of at most 21
}

// The loss is the sum of sqrt(1 + (e / s)^2) - 1. It is quadratic for small and linear for large errors, so wave steps
// and outliers do not bend the curve.
constexpr double kScale = 0.15;
double loss_of(double error) { return std::sqrt(1 + (error / kScale) * (error / kScale)) - 1; }
double weight_of(double error) { return 1 / std::sqrt(1 + (error / kScale) * (error / kScale)); }

struct Problem {
  KernelOp op;
  KernelTimes times;
  model::Roof roof;
  Bytes cache;  // 0 for none

  [[nodiscard]] Eigen::VectorXd errors(const Unknowns& x) const {
    const OpCoefficients c = coefficients_of(x);
    const model::KernelRoof seen{roof, cache_of(x, cache)};
    Eigen::VectorXd out(static_cast<Eigen::Index>(times.work.size()));
    for (std::size_t i = 0; i < times.work.size(); ++i) {
      out[static_cast<Eigen::Index>(i)] =
          std::log(model::kernel_roofline(op, c, seen, times.work[i]) / times.seconds[i]);
    }
    return out;
  }
  [[nodiscard]] double loss(const Eigen::VectorXd& errors) const {
    double sum = 0;
    for (const double e : errors) sum += loss_of(e);
    return sum;
  }
};

// Levenberg-Marquardt with weights from the loss. The Jacobian is numeric, because there are few unknowns.
Unknowns minimise(const Problem& problem, Unknowns x) {
  constexpr int kMaxSteps = 60;
  constexpr double kStep = 1e-5;
  Eigen::VectorXd errors = problem.errors(x);
  double loss = problem.loss(errors), damping = 1e-2;
  for (int step = 0; step < kMaxSteps && damping < 1e8; ++step) {
    Eigen::MatrixXd jacobian(errors.size(), x.size());
    for (Eigen::Index j = 0; j < x.size(); ++j) {
      Unknowns moved = x;
      moved[j] += kStep;
      jacobian.col(j) = (problem.errors(moved) - errors) / kStep;
    }
    const Eigen::VectorXd weights = errors.unaryExpr([](double e) { return weight_of(e); });
    const Eigen::MatrixXd normal = jacobian.transpose() * weights.asDiagonal() * jacobian;
    const Unknowns gradient = jacobian.transpose() * weights.asDiagonal() * errors;
    const Eigen::MatrixXd damped =
        normal + damping * (normal.diagonal().array() + 1e-9).matrix().asDiagonal().toDenseMatrix();
    const Unknowns next = x - damped.ldlt().solve(gradient);
    const Eigen::VectorXd next_errors = problem.errors(next);
    const double next_loss = problem.loss(next_errors);
    // A step that does not improve the fit is taken back, and the next one is shorter.
    if (!std::isfinite(next_loss) || next_loss >= loss) {
      damping *= 4;
      continue;
    }
    const bool settled = loss - next_loss < 1e-7 * loss;
    x = next;
    errors = next_errors;
    loss = next_loss;
    damping = std::max(damping / 4, 1e-9);
    if (settled) break;
  }
  return x;
}

}  // namespace

FittedRoofline fit_roofline(KernelOp op, const KernelTimes& times, const model::Roof& roof, Bytes cache) {
  const Problem problem{op, times, roof, cache};
  const double fastest = *std::min_element(times.seconds.begin(), times.seconds.end());
  Unknowns best;
  double lowest = std::numeric_limits<double>::infinity();
  // Two starts, at compute efficiencies of 0.5 and 0.82, because the loss may have several minima.
  for (const double compute : {0.0, 1.5}) {
    Unknowns start(cache.value > 0 ? kSpeedup + 1 : kSpeedup);
    start.head<4>() << std::log(fastest), compute, 1.0, 0.5;
    if (cache.value > 0) start[kSpeedup] = 0.7;  // the search starts at a speedup of three
    const Unknowns found = minimise(problem, start);
    const double loss = problem.loss(problem.errors(found));
    if (loss >= lowest) continue;
    best = found;
    lowest = loss;
  }
  return {coefficients_of(best), cache_of(best, cache)};
}

}  // namespace plimsoll::calibration
