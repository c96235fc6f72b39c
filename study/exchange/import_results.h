// SPDX-License-Identifier: Apache-2.0
// Results of other load generators as points of ours (docs/import.md): vLLM's bench serve, AIPerf and GenAI-Perf,
// guidellm, InferenceX, and tables of any tool. A format is told by what is in the file, never by its name.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/error.h"
#include "study/file/cell.h"

namespace plimsoll::study {

/// What such files seldom say. A label that is set wins over the file.
struct ImportLabels {
  std::string model, hardware, engine, dtype, policy;
  std::optional<std::int32_t> tp, replicas;
};

/// One point: cells under the names of points.csv (docs/metrics.md), times in seconds, rates per second; a column that
/// is not there was not measured.
struct ImportedPoint {
  std::vector<std::pair<std::string, Cell>> cells;
  [[nodiscard]] const Cell* find(std::string_view column) const;
};

struct ImportedResults {
  std::string format;                 // one of import_formats()
  std::vector<ImportedPoint> points;  // at least one
  std::vector<std::string> notes;     // what was left out, converted or is missing, for people
};

[[nodiscard]] std::span<const std::string_view> import_formats();

/// Reads a file of at most 256 MiB, plain or gzip: JSON, JSON Lines, or CSV with a header, a point a row. `maps` says
/// what columns of a CSV are that their names do not tell: "ttft=first_token_ms", "ttft=first_token:ms". Throws
/// InputError, with file:line where the text cannot be read and with file and field where a value is of the wrong kind,
/// negative or not finite, or a point holds neither a rate nor a latency.
[[nodiscard]] ImportedResults import_results(const std::string& file, const ImportLabels& labels = {},
                                             const std::vector<std::string>& maps = {});

/// All columns of points.csv; blank where a point has none.
[[nodiscard]] std::string imported_csv(const std::vector<ImportedPoint>& points);
[[nodiscard]] std::string imported_json(const std::vector<ImportedPoint>& points);

}  // namespace plimsoll::study
