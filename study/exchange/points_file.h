// SPDX-License-Identifier: Apache-2.0
// points.csv read back: what a run of ours, or an import, wrote.
#pragma once

#include <string>
#include <vector>

#include "study/exchange/import_results.h"

namespace plimsoll::study {

/// Rows with the columns of points.csv in any order; the columns of swept keys are kept too, under their names. A figure
/// is a number, a label a text. Lines that begin with # are remarks. At most 64 MiB. Throws InputError with
/// file:line:column.
[[nodiscard]] std::vector<ImportedPoint> read_points_csv(const std::string& file);

/// One line of CSV without its end as fields, quotes undone (RFC 4180 without line breaks inside a field). `starts`, if
/// given, gets the byte column of each field, from 1. Throws InputError at `where` for a quote that is not closed.
[[nodiscard]] std::vector<std::string> csv_fields(std::string_view line, const Where& where, std::vector<std::size_t>* starts = nullptr);

}  // namespace plimsoll::study
