// SPDX-License-Identifier: GPL-3.0-or-later
// Import of the user's own runs: what each column of a table means, which labels the file lacks, and which metrics it
// has. study/exchange reads the file.
#pragma once

#include <QString>
#include <QStringList>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gui/core/session.h"
#include "study/exchange/import_results.h"

namespace plimsoll::gui {

/// What a column can be read as: a column of points.csv, "concurrency" or "rate".
struct ImportFigure {
  const char *column, *label;
  bool is_time = false;  // needs a unit: s, ms, us or ns
};
[[nodiscard]] std::span<const ImportFigure> import_figures();

/// A column of the user's table.
struct ImportColumn {
  QString name;
  QStringList samples;
  std::string recognised, figure;  // column of points.csv; empty: not read
  std::string unit;                // of a time; empty: that in the column's name
};

/// A file, the meaning of its columns, and labels that it lacks.
struct ImportRequest {
  std::string file;
  bool is_table = false;  // false: JSON, whose fields are recognised
  std::vector<ImportColumn> columns;
  study::ImportLabels labels;
  std::optional<double> input_tokens = {}, output_tokens = {};  // of points that state no lengths; none: any lengths
};
/// Reads the head of a file. Columns are read as `plimsoll import` recognises them. Throws InputError.
[[nodiscard]] ImportRequest import_request(const std::string& file);
/// Reads a column as a figure; empty: not at all. The unit of a time is taken from the column's name if that has one.
void choose_figure(ImportColumn& column, const std::string& figure);
/// Returns what is still missing, in words; empty if the request can be carried out.
[[nodiscard]] QString import_problem(const ImportRequest& request);
/// Reads the file. Throws InputError.
[[nodiscard]] study::ImportedResults import_runs(const ImportRequest& request);
/// Returns the points as a run of the session, named after the file.
[[nodiscard]] MeasuredRun measured_run(const std::string& file, const study::ImportedResults& results);

/// Returns the metrics that at least one of the rows has, in the order of the menus.
[[nodiscard]] std::vector<const Metric*> metrics_of(const std::vector<PointRow>& rows);
/// If the rows have none of the metrics that are shown, shows metrics that they have, so that an added table is
/// visible.
void show_rows(SessionState& state, const std::vector<PointRow>& rows);

}  // namespace plimsoll::gui
