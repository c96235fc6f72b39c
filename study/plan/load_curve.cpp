// SPDX-License-Identifier: Apache-2.0
#include "study/plan/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "load/load_kind.h"
#include "study/run/load_variation.h"

namespace plimsoll::study::plan {
namespace {

constexpr std::array<double, 16> kShares = {0.05, 0.1,  0.2, 0.3,  0.4, 0.5,  0.6, 0.7,
                                            0.8,  0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25};
constexpr std::int64_t kCurveRequests = 4000;
constexpr double kStraight = 1e-3;  // less curvature than this is straight; in units of the scaled axes

struct Dot {
  double x = 0, y = 0;
};

// Returns one over the radius of the circle through three points.
double menger_curvature(Dot a, Dot b, Dot c) {
  const double area2 = (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
  const double sides =
      std::hypot(b.x - a.x, b.y - a.y) * std::hypot(c.x - b.x, c.y - b.y) * std::hypot(c.x - a.x, c.y - a.y);
  return sides > 0 ? 2 * area2 / sides : 0;  // positive if the curve turns upwards
}

double interpolated(std::span<const double> x, std::span<const double> y, double at) {
  const auto right = static_cast<std::size_t>(std::lower_bound(x.begin(), x.end(), at) - x.begin());
  if (right == 0) return y.front();
  if (right == x.size()) return y.back();
  const double share = (at - x[right - 1]) / (x[right] - x[right - 1]);
  return y[right - 1] + share * (y[right] - y[right - 1]);
}

// Returns at least as many requests as a first run at that load has, since the opening wave of many clients would
// dominate a short run. Near the capacity, returns as many as the capacity's own run needed.
std::int64_t requests_at(const PointSpec& spec, double load, const Capacity& capacity) {
  constexpr double kNear = 0.9;
  if (!can_be_longer(spec)) return 0;
  const PointSpec there = with_load_value(spec, load).value_or(spec);
  const std::int64_t least = std::max({spec.workload.requests, kCurveRequests, screening_requests(there)});
  if (load::is_closed_loop(spec.workload.load) || !capacity.at_passing || load < kNear * capacity.passing) return least;
  const double per_load = static_cast<double>(capacity.at_passing->requests_completed) / capacity.passing;
  return std::max<std::int64_t>(least, std::llround(load * per_load * kScreeningLives / kConfirmingLives));
}

}  // namespace

std::optional<double> max_curvature_knee(std::span<const double> load, std::span<const double> latency) {
  if (load.size() < 3 || !(load.back() > load.front())) return {};
  const auto [low, high] = std::minmax_element(latency.begin(), latency.end());
  if (!(*high > *low)) return {};
  const auto dot = [&](std::size_t i) {
    return Dot{(load[i] - load.front()) / (load.back() - load.front()), (latency[i] - *low) / (*high - *low)};
  };
  std::optional<double> best;
  double most = kStraight;
  for (std::size_t i = 1; i + 1 < load.size(); ++i) {
    const double curvature = menger_curvature(dot(i - 1), dot(i), dot(i + 1));
    if (curvature <= most) continue;
    most = curvature;
    best = load[i];
  }
  return best;
}

std::optional<double> half_latency_knee(std::span<const double> load, std::span<const double> latency) {
  if (load.size() < 2) return {};
  const auto excess = [&](double at) {
    return interpolated(load, latency, at) - 2 * interpolated(load, latency, at / 2);
  };
  // Finds the first load whose latency exceeds twice that at half the load, then refines it by bisection.
  for (std::size_t i = 1; i < load.size(); ++i) {
    if (excess(load[i]) < 0) continue;
    double low = load[i - 1], high = load[i];
    constexpr int kHalvings = 40;
    for (int n = 0; n < kHalvings; ++n) {
      const double middle = (low + high) / 2;
      (excess(middle) < 0 ? low : high) = middle;
    }
    return high;
  }
  return {};
}

LoadCurve load_curve(const Question& question, Trials& trials, std::size_t candidate, const Capacity& capacity) {
  LoadCurve curve;
  const double top = capacity.load.mean;
  if (!(top > 0) || std::holds_alternative<load::Script>(question.spec.workload.load)) return curve;
  const bool whole = load::is_whole(load::kind_of(question.spec.workload.load).quantity);
  std::vector<Trial> todo;
  for (const double share : kShares) {
    const double load = whole ? std::max(1.0, std::round(top * share)) : top * share;
    // Rounding may give the same load twice.
    if (!todo.empty() && load <= todo.back().load) continue;
    todo.push_back({.candidate = candidate,
                    .requests = requests_at(question.spec, load, capacity),
                    .load = load,
                    .replicas = sampled_replicas(question.candidates[candidate].spec, kSampledPart)});
  }
  trials.run(todo);
  std::vector<double> loads, latencies;
  for (const Trial& trial : todo) {
    const sched::PointMetrics& metrics = trials.of(trial);
    curve.loads.push_back({trial.load, metrics});
    // A load beyond capacity has no latency for the knees.
    if (!std::isfinite(p90_latency(question.spec, metrics)) || !metrics.latency.mean) continue;
    loads.push_back(trial.load);
    latencies.push_back(*metrics.latency.mean);
  }
  curve.max_curvature = max_curvature_knee(loads, latencies);
  curve.half_latency = half_latency_knee(loads, latencies);
  if (!capacity.is_open()) curve.slo = top;
  return curve;
}

}  // namespace plimsoll::study::plan
