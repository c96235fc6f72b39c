// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit_solver.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "model/error.h"

namespace plimsoll::calibration {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

class Solver {
 public:
  Solver(const std::vector<FitNumber>& numbers, const Residuals& residuals, const FitOptions& options)
      : numbers_(numbers), residuals_(residuals), options_(options) {}

  FitResult run(const std::vector<double>& start) {
    FitResult best;
    best.values = start;
    for (std::size_t i = 0; i < start.size(); ++i) best.values[i] = limited(i, start[i]);
    std::vector<double> at = evaluate({best.values}).front();
    best.loss = fit_loss(numbers_, best.values, at);
    double damping = 1e-2;
    // Each evaluation is a set of simulations. So the number of iterations is limited, and a small gain ends the fit.
    for (int iteration = 0; iteration < options_.iterations; ++iteration) {
      const double before = best.loss;
      if (!improve(best, at, damping)) break;
      if (before - best.loss < options_.stop_below * before) break;
    }
    best.evaluations = evaluations_;
    return best;
  }

 private:
  // Limits of 0 mean none: all numbers are positive, as they are fitted by their logarithms.
  [[nodiscard]] double limited(std::size_t i, double value) const {
    const FitNumber& n = numbers_[i];
    if (n.low > 0) value = std::max(value, n.low);
    return n.high > 0 ? std::min(value, n.high) : value;
  }

  std::vector<std::vector<double>> evaluate(const std::vector<std::vector<double>>& candidates) {
    evaluations_ += static_cast<int>(candidates.size());
    return residuals_(candidates);
  }

  // At a limit of a value, the difference is taken in the direction away from that limit.
  MatrixXd jacobian(const std::vector<double>& values, const std::vector<double>& at) {
    std::vector<std::vector<double>> candidates;
    std::vector<double> steps;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double step = options_.step;
      // A step beyond the limit would be cut off and give a derivative of 0.
      if (limited(i, values[i] * std::exp(step)) != values[i] * std::exp(step)) step = -step;
      candidates.push_back(values);
      candidates.back()[i] *= std::exp(step);
      steps.push_back(step);
    }
    // Evaluate all columns in one call, because the caller may compute them in parallel.
    const auto moved = evaluate(candidates);
    MatrixXd j(static_cast<Eigen::Index>(at.size()), static_cast<Eigen::Index>(values.size()));
    for (std::size_t c = 0; c < values.size(); ++c)
      for (std::size_t r = 0; r < at.size(); ++r)
        j(static_cast<Eigen::Index>(r), static_cast<Eigen::Index>(c)) = (moved[c][r] - at[r]) / steps[c];
    return j;
  }

  // Takes one Gauss-Newton step with as much damping as it needs. Returns false if no step reduces the loss.
  bool improve(FitResult& best, std::vector<double>& at, double& damping) {
    const auto n = static_cast<Eigen::Index>(numbers_.size());
    const MatrixXd j = jacobian(best.values, at);
    VectorXd r(static_cast<Eigen::Index>(at.size())), w(r.size());
    for (Eigen::Index i = 0; i < r.size(); ++i) {
      r(i) = at[static_cast<std::size_t>(i)];
      // The weight that the pseudo-Huber loss gives to a residual: large residuals pull less.
      w(i) = 1 / std::sqrt(1 + r(i) * r(i));
    }
    MatrixXd normal = j.transpose() * w.asDiagonal() * j;
    VectorXd gradient = j.transpose() * w.asDiagonal() * r;
    for (Eigen::Index i = 0; i < n; ++i) {
      const FitNumber& number = numbers_[static_cast<std::size_t>(i)];
      // A prior is one more residual: the distance from it in units of its spread.
      const double weight = 1 / (number.spread * number.spread);
      normal(i, i) += weight;
      gradient(i) += weight * std::log(best.values[static_cast<std::size_t>(i)] / number.prior);
    }
    for (int attempt = 0; attempt < 8; ++attempt, damping *= 4) {
      MatrixXd damped = normal;
      // Marquardt's scaling: damp each number in proportion to its own curvature.
      damped.diagonal() *= 1 + damping;
      const VectorXd step = damped.ldlt().solve(-gradient);
      std::vector<double> values = best.values;
      for (std::size_t i = 0; i < values.size(); ++i)
        // Change by at most a factor of e per step, because the model is linear only nearby.
        values[i] = limited(i, values[i] * std::exp(std::clamp(step(static_cast<Eigen::Index>(i)), -1.0, 1.0)));
      std::vector<double> moved = evaluate({values}).front();
      const double loss = fit_loss(numbers_, values, moved);
      if (!(loss < best.loss)) continue;  // also rejects NaN
      best.values = std::move(values);
      best.loss = loss;
      at = std::move(moved);
      damping = std::max(1e-4, damping / 4);
      return true;
    }
    return false;
  }

  const std::vector<FitNumber>& numbers_;
  const Residuals& residuals_;
  const FitOptions& options_;
  int evaluations_ = 0;
};

}  // namespace

double fit_loss(const std::vector<FitNumber>& numbers, const std::vector<double>& values,
                const std::vector<double>& residuals) {
  double loss = 0;
  for (const double r : residuals) loss += 2 * (std::sqrt(1 + r * r) - 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double distance = std::log(values[i] / numbers[i].prior) / numbers[i].spread;
    loss += distance * distance;
  }
  return loss;
}

FitResult fit_numbers(const std::vector<FitNumber>& numbers, const std::vector<double>& start,
                      const Residuals& residuals, const FitOptions& options) {
  PLIMSOLL_CHECK(numbers.size() == start.size(), "a start value for each number");
  return Solver(numbers, residuals, options).run(start);
}

}  // namespace plimsoll::calibration
