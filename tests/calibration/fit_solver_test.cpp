// SPDX-License-Identifier: Apache-2.0
#include "calibration/fit_solver.h"

#include <gtest/gtest.h>

#include <cmath>

namespace plimsoll::calibration {
namespace {

// Times a + b x, as step times are host time plus work. The loss is smallest at the true a and b.
std::vector<double> figures(double a, double b) {
  std::vector<double> out;
  for (const double x : {1.0, 2.0, 5.0, 10.0, 50.0}) out.push_back(a + b * x);
  return out;
}

Residuals against(std::vector<double> measured, double scale) {
  return [measured, scale](const std::vector<std::vector<double>>& candidates) {
    std::vector<std::vector<double>> out;
    for (const auto& values : candidates) {
      const std::vector<double> predicted = figures(values[0], values[1]);
      out.emplace_back();
      for (std::size_t i = 0; i < measured.size(); ++i)
        out.back().push_back(std::log(predicted[i] / measured[i]) / scale);
    }
    return out;
  };
}

TEST(FitSolver, FindsTheNumbersThatMadeTheFigures) {
  const std::vector<FitNumber> numbers = {{"a", 1, 10}, {"b", 1, 10}};  // nearly flat priors
  const FitResult fit = fit_numbers(numbers, {1, 1}, against(figures(8, 0.3), 0.05), {.iterations = 40});
  EXPECT_NEAR(fit.values[0], 8, 0.02);
  EXPECT_NEAR(fit.values[1], 0.3, 0.002);
}

// One of five figures is ten times too large. A squared loss would move b by far more than its spread.
TEST(FitSolver, OneWildFigureDoesNotDecide) {
  std::vector<double> measured = figures(8, 0.3);
  measured.back() *= 10;
  const FitResult fit =
      fit_numbers({{"a", 8, 1}, {"b", 0.3, 0.2}}, {8, 0.3}, against(measured, 0.05), {.iterations = 40});
  EXPECT_NEAR(fit.values[0], 8, 1.5);
  EXPECT_LT(fit.values[1], 0.6);
}

TEST(FitSolver, ANumberWithoutDataStaysAtItsPrior) {
  const Residuals blind = [](const std::vector<std::vector<double>>& candidates) {
    std::vector<std::vector<double>> out;
    for (const auto& values : candidates) out.push_back({std::log(values[0] / 4) / 0.01});
    return out;
  };
  const FitResult fit = fit_numbers({{"seen", 1, 1}, {"unseen", 7, 0.5}}, {1, 9}, blind, {.iterations = 40});
  EXPECT_NEAR(fit.values[0], 4, 0.05);
  EXPECT_NEAR(fit.values[1], 7, 0.05);
}

TEST(FitSolver, LimitsAreKept) {
  const FitResult fit = fit_numbers({{"a", 1, 10, 0, 5}, {"b", 1, 10, 0.5, 0}}, {1, 1}, against(figures(8, 0.3), 0.05),
                                    {.iterations = 40});
  EXPECT_LE(fit.values[0], 5);
  EXPECT_GE(fit.values[1], 0.5);
}

}  // namespace
}  // namespace plimsoll::calibration
