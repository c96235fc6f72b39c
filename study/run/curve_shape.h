// SPDX-License-Identifier: Apache-2.0
// The shape of a latency-throughput curve: where it bends, where it crosses a limit, and which of several points are
// not dominated.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace plimsoll::study {

struct CurvePoint {
  double load = 0, throughput = 0, latency = 0;
};

/// Returns the knee: the point with the largest power, throughput / latency (Kleinrock 1979; for an M/M/1 queue it is
/// at half the capacity). Returns an index into `points`, which are in order of load; nullopt for fewer than three
/// points, or if it is an end point and the curve thus shows no knee.
[[nodiscard]] std::optional<std::size_t> knee(std::span<const CurvePoint> points);

/// The value of `at` where `value` first rises through `limit`, interpolated linearly. Both series are in order of
/// load. nullopt if the limit is never crossed.
struct Crossing {
  double at = 0;
  std::size_t after = 0;  // the crossing lies between this index and the next
};
[[nodiscard]] std::optional<Crossing> first_crossing(std::span<const double> at, std::span<const double> value,
                                                     double limit);

/// Returns the indices of the points that no other beats in both values (larger is better), by falling x.
[[nodiscard]] std::vector<std::size_t> pareto_front(std::span<const double> x, std::span<const double> y);

}  // namespace plimsoll::study
