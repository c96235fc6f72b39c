// SPDX-License-Identifier: GPL-3.0-or-later
// Which points of a study make which curve, in which order they are simulated, and where more would help.
#pragma once

#include <QString>
#include <cstddef>
#include <vector>

#include "study/file/study.h"

namespace plimsoll::gui {

struct LanePoint;

struct CurveGrid {
  std::vector<QString> names;         // of the curves
  std::vector<std::size_t> curve_of;  // by point
  std::vector<std::size_t> order;     // every point once, coarse to fine over all curves
};

/// Points that differ in their load alone make a curve.
[[nodiscard]] CurveGrid curve_grid(const study::Study& study);

/// 0 … n-1, ends first, then always the middle of the widest gap.
[[nodiscard]] std::vector<std::size_t> bisection_order(std::size_t n);

struct Refinement {
  std::size_t index = 0, curve = 0;  // the study's point to vary
  double load = 0;
};
/// Loads between the study's own: on both sides of the knee and of the crossing of p90 latency per token with `limit_s`
/// (0: none); around a curve's only point, an eighth to twice its load. Closed loops get whole numbers of clients.
[[nodiscard]] std::vector<Refinement> refinements(const CurveGrid& grid, const std::vector<LanePoint>& seen,
                                                  double limit_s);

}  // namespace plimsoll::gui
