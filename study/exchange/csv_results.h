// SPDX-License-Identifier: Apache-2.0
// Reads points from any CSV. Columns are recognised by name and unit, or mapped by the user. Private to study/exchange.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "study/exchange/foreign_formats.h"

namespace plimsoll::study {

/// Maps a column of another table to a column of points.csv.
struct ColumnMap {
  std::string ours;             // column of points.csv, or kConcurrency or kRate
  std::string theirs;           // name in the other table's header
  std::optional<double> scale;  // factor from their unit to ours; none: take the unit from the column's name
};

/// Columns accepted besides those of points.csv; each one gives both load_kind and load_value.
inline constexpr std::string_view kConcurrency = "concurrency", kRate = "rate";

/// Parses "ttft=first_token_ms" or "ttft=first_token:ms". Metrics are named as in points.csv, or shorter (ttft,
/// p90_ttft, tpot, latency, input_tokens, rate, concurrency). Throws InputError for an unknown metric or unit.
[[nodiscard]] ColumnMap read_column_map(const std::string& text);

/// Returns the table with commas between its fields, if the header is separated by semicolons or tabs. Decimal commas
/// of its numbers then become points.
[[nodiscard]] std::string comma_separated(std::string text);

/// Returns one point per row. `text` is the whole table with its header. Throws InputError with file:line:column.
[[nodiscard]] std::vector<PointDraft> read_csv_results(const std::string& text, const std::string& file,
                                                       const std::vector<ColumnMap>& maps);

}  // namespace plimsoll::study
