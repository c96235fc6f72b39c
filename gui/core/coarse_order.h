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
  std::vector<QString> names;         // names of the curves
  std::vector<std::size_t> curve_of;  // index of the curve, for each point
  std::vector<std::size_t> order;     // every point once, from coarse to fine across all curves
};

/// Groups points that differ only in their load into curves.
[[nodiscard]] CurveGrid curve_grid(const study::Study& study);

/// Returns a permutation of 0 … n-1: both ends first, then repeatedly the middle of the widest gap.
[[nodiscard]] std::vector<std::size_t> bisection_order(std::size_t n);

struct Refinement {
  std::size_t index = 0, curve = 0;  // index of the study point to vary
  double load = 0;
};
/// Returns loads to add between those of the study, on both sides of the knee. With `limit_s` > 0, also on both sides
/// of the load where the p90 latency per token crosses that limit. Around the only point of a curve it adds loads from
/// an eighth to twice its own. Loads of closed loops are whole numbers of clients.
[[nodiscard]] std::vector<Refinement> refinements(const CurveGrid& grid, const std::vector<LanePoint>& seen,
                                                  double limit_s);

}  // namespace plimsoll::gui
