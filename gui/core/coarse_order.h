// SPDX-License-Identifier: GPL-3.0-or-later
// Groups the points of a study into curves, orders their simulation from coarse to fine, and finds loads where more
// points would help.
#pragma once

#include <QString>
#include <cstddef>
#include <vector>

#include "study/file/study.h"

namespace plimsoll::gui {

struct LanePoint;

struct CurveGrid {
  std::vector<QString> names;         // of the curves
  std::vector<std::size_t> curve_of;  // index of the curve, by point
  std::vector<std::size_t> order;     // every point once, from coarse to fine across all curves
};

/// Groups points that differ only in their load into curves.
[[nodiscard]] CurveGrid curve_grid(const study::Study& study);

/// Returns 0 … n-1: both ends first, then always the middle of the widest gap.
[[nodiscard]] std::vector<std::size_t> bisection_order(std::size_t n);

struct Refinement {
  std::size_t index = 0, curve = 0;  // index of the study point to vary
  double load = 0;
};
/// Returns loads to add between the study's own: on both sides of the knee, and of the crossing of p90 latency per
/// token with `limit_s` (0: none). Around the only point of a curve: from an eighth to twice its load. Closed loops get
/// whole numbers of clients.
[[nodiscard]] std::vector<Refinement> refinements(const CurveGrid& grid, const std::vector<LanePoint>& seen,
                                                  double limit_s);

}  // namespace plimsoll::gui
