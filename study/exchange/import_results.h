// SPDX-License-Identifier: Apache-2.0
// Points in and out: our points.csv, exports in the forms of other tools, and results of other load generators as
// points of ours (docs/import.md): vLLM's bench serve, AIPerf and GenAI-Perf, guidellm, InferenceX, and tables of any
// tool. The format is detected from the content, never from the file's name.
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

/// Labels that such files seldom state. A label that is set overrides the file.
struct ImportLabels {
  std::string model, hardware, engine, dtype, policy;
  std::optional<std::int32_t> tp, replicas;
};

/// One point: cells named as in points.csv (docs/metrics.md), times in seconds, rates per second. A missing column
/// was not measured.
struct ImportedPoint {
  std::vector<std::pair<std::string, Cell>> cells;
  [[nodiscard]] const Cell* find(std::string_view column) const;
};

struct ImportedResults {
  std::string format;                 // one of import_formats()
  std::vector<ImportedPoint> points;  // at least one
  std::vector<std::string> notes;     // for the user: what was left out, converted or is missing
};

[[nodiscard]] std::span<const std::string_view> import_formats();

/// Whether a point has a throughput or a mean latency, TTFT or TPOT: points without are neither imported nor exported.
[[nodiscard]] bool holds_a_figure(const ImportedPoint& point);

/// Reads a file of at most 256 MiB, plain or gzip: JSON, JSON Lines, or CSV with a header and a point per row. `maps`
/// identifies CSV columns whose names do not: "ttft=first_token_ms", "ttft=first_token:ms". Throws
/// InputError, with file:line where the text cannot be read and with file and field where a value is of the wrong kind,
/// negative or not finite, or a point holds no figure.
[[nodiscard]] ImportedResults import_results(const std::string& file, const ImportLabels& labels = {},
                                             const std::vector<std::string>& maps = {});

/// All columns of points.csv; blank where a point has none.
[[nodiscard]] std::string imported_csv(const std::vector<ImportedPoint>& points);
[[nodiscard]] std::string imported_json(const std::vector<ImportedPoint>& points);

// Points of ours in the forms of other tools, so that their plots and reports read them (docs/import.md).

/// vllm: what `vllm bench serve --save-result --append-result` writes, an object a line. aiperf: what
/// profile_export_aiperf.json holds, one object a point, as lines too.
[[nodiscard]] std::span<const std::string_view> export_formats();

/// One JSON object a line, ended by a line break. Figures that a point lacks are left out. `format` is one of
/// export_formats().
[[nodiscard]] std::string exported_text(std::string_view format, const std::vector<ImportedPoint>& points);

// Reads a points.csv that a run or an import wrote.

/// Reads rows with the columns of points.csv in any order; columns of swept keys are kept under their names. A
/// figure is a number, a label a text. Lines that begin with # are comments. At most 64 MiB. Throws InputError with
/// file:line:column.
[[nodiscard]] std::vector<ImportedPoint> read_points_csv(const std::string& file);

}  // namespace plimsoll::study
