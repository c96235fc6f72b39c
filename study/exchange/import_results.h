// SPDX-License-Identifier: Apache-2.0
// Import and export of points: our points.csv, exports in the formats of other tools, and results of other load
// generators as our points (docs/import.md). These are vLLM's bench serve, AIPerf and GenAI-Perf, guidellm, InferenceX,
// and tables of any tool. The format is detected from the content, never from the file name.
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

/// Labels that such files seldom contain. A label that is set overrides the file.
struct ImportLabels {
  std::string model, hardware, engine, dtype, policy;
  std::optional<std::int32_t> tp, replicas;
};

/// One point: cells named as in points.csv (docs/metrics.md), times in seconds, rates per second. A missing column
/// means that it was not measured.
struct ImportedPoint {
  std::vector<std::pair<std::string, Cell>> cells;
  /// Returns the cell of a column; null if the point has none.
  [[nodiscard]] const Cell* find(std::string_view column) const;
};

struct ImportedResults {
  std::string format;                 // one of kImportFormats (import_results.cpp)
  std::vector<ImportedPoint> points;  // at least one
  std::vector<std::string> notes;     // for the user: what was left out, converted or missing
};

/// Returns whether a point has a throughput or a mean latency, TTFT or TPOT. Points without any are not imported or
/// exported.
[[nodiscard]] bool holds_a_figure(const ImportedPoint& point);

/// Reads a file of at most 256 MiB, plain or gzip: JSON, JSON Lines, or CSV with a header and one point per row, whose
/// fields may also be separated by semicolons (then with decimal commas if it has any) or tabs. `maps`
/// names CSV columns that are not recognised: "ttft=first_token_ms", "ttft=first_token:ms". Throws InputError with
/// file:line if the text cannot be read. A value of the wrong kind, negative or not finite gives an error with file and
/// field, and so does a point without any metric of holds_a_figure().
[[nodiscard]] ImportedResults import_results(const std::string& file, const ImportLabels& labels = {},
                                             const std::vector<std::string>& maps = {});

/// The meaning of a CSV column, derived from its name.
struct ColumnMeaning {
  std::string column;       // of points.csv, or "concurrency" or "rate"
  bool needs_unit = false;  // a time whose name states no unit: it is not read unless a map states the unit
};
/// Returns how import_results() interprets a column name; nullopt if it reads such a column only with a map.
[[nodiscard]] std::optional<ColumnMeaning> recognised_column(std::string_view name);

/// The beginning of a table of results.
struct TableHead {
  bool is_table = false;  // false: JSON, whose fields are recognised by the tool's names
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // each as long as the header
  std::size_t row_count = 0;                   // of the whole table
};
/// Reads the header and the first `rows` rows of a file that import_results() reads. Throws InputError as that does.
[[nodiscard]] TableHead read_table_head(const std::string& file, std::size_t rows);

/// All columns of points.csv; cells that a point lacks are blank.
[[nodiscard]] std::string imported_csv(const std::vector<ImportedPoint>& points);
[[nodiscard]] std::string imported_json(const std::vector<ImportedPoint>& points);

// Our points in the formats of other tools, for use with their plots and reports (docs/import.md).

/// vllm: the output of `vllm bench serve --save-result --append-result`, one object per line. aiperf: the content of
/// profile_export_aiperf.json, one object per point, also as lines.
[[nodiscard]] std::span<const std::string_view> export_formats();

/// Returns one JSON object per line, each ended by a line break. Metrics that a point lacks are left out. `format` is
/// one of export_formats().
[[nodiscard]] std::string exported_text(std::string_view format, const std::vector<ImportedPoint>& points);

// Reads a points.csv written by a run or an import.

/// Reads rows with the columns of points.csv in any order; columns of swept keys keep their names. Metrics are numbers,
/// labels are text. Lines that begin with # are comments. At most 64 MiB. Throws InputError with file:line:column.
[[nodiscard]] std::vector<ImportedPoint> read_points_csv(const std::string& file);

}  // namespace plimsoll::study
