// SPDX-License-Identifier: Apache-2.0
// What a latency-throughput curve says: where it bends, where it crosses a limit, and which of several are worth
// having.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace plimsoll::study {

struct CurvePoint {
  double load = 0, throughput = 0, latency = 0;
};

/// The knee: the point of the largest power, throughput / latency (Kleinrock 1979; for an M/M/1 queue it lies at half
/// the capacity). Index into `points`, which are in order of load; nullopt below three points, or where it is an end
/// point: then the curve shows no knee.
[[nodiscard]] std::optional<std::size_t> knee(std::span<const CurvePoint> points);

/// The value of `at` where `value` first rises through `limit`, linear in between. Both are in order of load; nullopt
/// where the limit is never crossed.
struct Crossing {
  double at = 0;
  std::size_t after = 0;  // the crossing lies between this index and the next
};
[[nodiscard]] std::optional<Crossing> first_crossing(std::span<const double> at, std::span<const double> value,
                                                     double limit);

/// Indices of the points that no other beats in both (larger is better in both), by falling x.
[[nodiscard]] std::vector<std::size_t> pareto_front(std::span<const double> x, std::span<const double> y);

}  // namespace plimsoll::study
