// SPDX-License-Identifier: Apache-2.0
// Points from any CSV: columns are known by their names and units, or as the user maps them; private to study/exchange.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "study/exchange/foreign_formats.h"

namespace plimsoll::study {

/// Where a column of points.csv is found in another table.
struct ColumnMap {
  std::string ours;             // column of points.csv, or kConcurrency or kRate
  std::string theirs;           // as the table's header has it
  std::optional<double> scale;  // from their unit to ours; nothing where their name is to say the unit
};

/// Columns accepted besides those of points.csv; each states load_kind and load_value at once.
inline constexpr std::string_view kConcurrency = "concurrency", kRate = "rate";

/// Of "ttft=first_token_ms", "ttft=first_token:ms": figures are named as in points.csv, or shorter (ttft, p90_ttft,
/// tpot, latency, input_tokens, rate, concurrency). Throws InputError for a figure or unit that is not known.
[[nodiscard]] ColumnMap read_column_map(const std::string& text);

/// One point a row. `text` is the whole table, with a header. Throws InputError with file:line:column.
[[nodiscard]] std::vector<PointDraft> read_csv_results(const std::string& text, const std::string& file,
                                                       const std::vector<ColumnMap>& maps);

}  // namespace plimsoll::study
