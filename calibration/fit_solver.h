// SPDX-License-Identifier: Apache-2.0
// A small robust least-squares solver for fits of a few numbers to simulated figures: Levenberg-Marquardt on
// logarithms, pseudo-Huber loss, log-normal priors that keep a number near what is known where the data say nothing
// about it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace plimsoll::calibration {

/// One number of a fit. It is positive and moves on a logarithmic scale.
struct FitNumber {
  std::string name;
  double prior = 1;          // its most likely value before any data
  double spread = 0.5;       // standard deviation of its logarithm before any data
  double low = 0, high = 0;  // limits; 0: none
};

/// Residuals of several candidate vectors at once (all of the same length), so that the caller may run them in
/// parallel. A residual is log(predicted / measured) over its scale.
using Residuals = std::function<std::vector<std::vector<double>>(const std::vector<std::vector<double>>& candidates)>;

struct FitOptions {
  int iterations = 12;       // at most
  double step = 0.02;        // of the logarithm, for differences: large enough to cross steps of a scheduler
  double stop_below = 1e-3;  // relative decrease of the loss
};

struct FitResult {
  std::vector<double> values;
  double loss = 0;      // priors included
  int evaluations = 0;  // candidate vectors that were tried
};

/// Loss of the residuals r and the priors: sum of 2 (sqrt(1 + r^2) - 1), quadratic for small and linear for large
/// residuals, plus squared distances from the priors in their spreads.
[[nodiscard]] double fit_loss(const std::vector<FitNumber>& numbers, const std::vector<double>& values,
                              const std::vector<double>& residuals);

/// Starts at `start` (values in the order of the numbers). Deterministic.
[[nodiscard]] FitResult fit_numbers(const std::vector<FitNumber>& numbers, const std::vector<double>& start,
                                    const Residuals& residuals, const FitOptions& options = {});

}  // namespace plimsoll::calibration
