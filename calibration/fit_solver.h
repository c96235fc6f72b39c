// SPDX-License-Identifier: Apache-2.0
// A small robust least-squares solver for fits of a few numbers to simulated figures. It uses Levenberg-Marquardt on
// logarithms with a pseudo-Huber loss. Log-normal priors keep a number near its known value if the data do not
// determine it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace plimsoll::calibration {

/// A number to fit. It is positive and varies on a logarithmic scale.
struct FitNumber {
  std::string name;
  double prior = 1;          // the most likely value before any data
  double spread = 0.5;       // standard deviation of its logarithm before any data
  double low = 0, high = 0;  // limits; 0 for none
};

/// Returns the residuals of several candidate vectors, all of the same length, so that the caller may compute them in
/// parallel. A residual is log(predicted / measured) divided by its scale.
using Residuals = std::function<std::vector<std::vector<double>>(const std::vector<std::vector<double>>& candidates)>;

struct FitOptions {
  int iterations = 12;       // upper limit
  double step = 0.02;        // step of the logarithm for differences; large enough to cross the steps of a scheduler
  double stop_below = 1e-3;  // stop when the loss decreases by a smaller fraction
};

struct FitResult {
  std::vector<double> values;
  double loss = 0;      // includes the priors
  int evaluations = 0;  // candidate vectors evaluated
};

/// Returns the loss of residuals r and the priors: the sum of 2 (sqrt(1 + r^2) - 1), which is quadratic for small and
/// linear for large residuals, plus the squared distances from the priors in units of their spread.
[[nodiscard]] double fit_loss(const std::vector<FitNumber>& numbers, const std::vector<double>& values,
                              const std::vector<double>& residuals);

/// Fits from `start` (values in the order of the numbers). Deterministic.
[[nodiscard]] FitResult fit_numbers(const std::vector<FitNumber>& numbers, const std::vector<double>& start,
                                    const Residuals& residuals, const FitOptions& options = {});

}  // namespace plimsoll::calibration
