// SPDX-License-Identifier: Apache-2.0
// points.csv read back: what a run of ours, or an import, wrote.
#pragma once

#include <string>
#include <vector>

#include "study/exchange/import_results.h"

namespace plimsoll::study {

/// Rows with the columns of points.csv in any order; the columns of swept keys are kept too, under their names. A
/// figure is a number, a label a text. Lines that begin with # are remarks. At most 64 MiB. Throws InputError with
/// file:line:column.
[[nodiscard]] std::vector<ImportedPoint> read_points_csv(const std::string& file);

}  // namespace plimsoll::study
