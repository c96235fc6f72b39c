// SPDX-License-Identifier: Apache-2.0
// Reads a points.csv that a run or an import wrote.
#pragma once

#include <string>
#include <vector>

#include "study/exchange/import_results.h"

namespace plimsoll::study {

/// Reads rows with the columns of points.csv in any order; columns of swept keys are kept under their names. A
/// figure is a number, a label a text. Lines that begin with # are comments. At most 64 MiB. Throws InputError with
/// file:line:column.
[[nodiscard]] std::vector<ImportedPoint> read_points_csv(const std::string& file);

}  // namespace plimsoll::study
