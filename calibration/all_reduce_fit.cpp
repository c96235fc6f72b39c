// SPDX-License-Identifier: Apache-2.0
#include <Eigen/Dense>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "calibration/machine_calibration.h"
#include "model/error.h"

namespace plimsoll::calibration {

namespace {

constexpr double kMaxBandwidth = 1e15;  // bytes per second; so high that the size has no effect

// Fits latency + bytes / bandwidth by least squares on relative errors. Neither number may be negative.
model::AllReduceSegment fit_segment(std::span<const AllReduceSample> samples) {
  Eigen::MatrixXd a(static_cast<Eigen::Index>(samples.size()), 2);
  for (Eigen::Index i = 0; i < a.rows(); ++i) {
    const AllReduceSample& s = samples[static_cast<std::size_t>(i)];
    a.row(i) << 1 / s.seconds, s.bytes / s.seconds;
  }
  const Eigen::VectorXd ones = Eigen::VectorXd::Ones(a.rows());
  Eigen::Vector2d x = (a.transpose() * a + 1e-12 * Eigen::Matrix2d::Identity()).ldlt().solve(a.transpose() * ones);
  if (x[1] < 1 / kMaxBandwidth) x = {a.col(0).dot(ones) / a.col(0).squaredNorm(), 1 / kMaxBandwidth};
  if (x[0] < 0) x = {0, a.col(1).dot(ones) / a.col(1).squaredNorm()};
  return {Seconds(x[0]), BytesPerSecond(1 / x[1])};
}

double time_of(std::span<const model::AllReduceSegment> segments, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (const model::AllReduceSegment& s : segments)
    least = std::min(least, s.latency.count() + bytes / s.bandwidth.value);
  return least;
}

double error_of(std::span<const model::AllReduceSegment> segments, std::span<const AllReduceSample> samples) {
  double sum = 0;
  for (const AllReduceSample& s : samples) sum += std::pow(time_of(segments, s.bytes) / s.seconds - 1, 2);
  return sum;
}

}  // namespace

std::vector<model::AllReduceSegment> fit_all_reduce(std::vector<AllReduceSample> samples) {
  PLIMSOLL_CHECK(!samples.empty(), "there is something to fit");
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  std::vector<model::AllReduceSegment> best{fit_segment(samples)};
  double least = error_of(best, samples);
  for (std::size_t split = 2; split + 2 <= samples.size(); ++split) {
    const std::span<const AllReduceSample> all(samples);
    const std::vector<model::AllReduceSegment> two{fit_segment(all.first(split)), fit_segment(all.subspan(split))};
    if (const double error = error_of(two, samples);
        error < 0.9 * least) {  // a second segment must reduce the error by a tenth
      least = error;
      best = two;
    }
  }
  return best;
}

}  // namespace plimsoll::calibration
