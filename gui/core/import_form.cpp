// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/import_form.h"

#include <QRegularExpression>
#include <algorithm>
#include <array>
#include <filesystem>

#include "gui/core/overlay.h"
#include "gui/core/slo_form.h"
#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

constexpr auto kFigures = std::to_array<ImportFigure>({
    {"concurrency", QT_TRANSLATE_NOOP("plimsoll::gui", "load: clients at once")},
    {"rate", QT_TRANSLATE_NOOP("plimsoll::gui", "load: requests/s")},
    {"output_tokens_per_s", QT_TRANSLATE_NOOP("plimsoll::gui", "output tokens/s")},
    {"requests_per_s", QT_TRANSLATE_NOOP("plimsoll::gui", "completed requests/s")},
    {"total_tokens_per_s", QT_TRANSLATE_NOOP("plimsoll::gui", "tokens/s with prompts")},
    {"ttft_mean_s", QT_TRANSLATE_NOOP("plimsoll::gui", "mean TTFT"), true},
    {"ttft_p50_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p50 TTFT"), true},
    {"ttft_p90_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p90 TTFT"), true},
    {"ttft_p95_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p95 TTFT"), true},
    {"ttft_p99_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p99 TTFT"), true},
    {"tpot_mean_s", QT_TRANSLATE_NOOP("plimsoll::gui", "mean TPOT"), true},
    {"tpot_p50_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p50 TPOT"), true},
    {"tpot_p90_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p90 TPOT"), true},
    {"tpot_p99_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p99 TPOT"), true},
    {"itl_mean_s", QT_TRANSLATE_NOOP("plimsoll::gui", "mean ITL"), true},
    {"itl_p50_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p50 ITL"), true},
    {"itl_p95_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p95 ITL"), true},
    {"itl_p99_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p99 ITL"), true},
    {"latency_mean_s", QT_TRANSLATE_NOOP("plimsoll::gui", "mean latency"), true},
    {"latency_p50_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p50 latency"), true},
    {"latency_p90_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p90 latency"), true},
    {"latency_p95_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p95 latency"), true},
    {"latency_p99_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p99 latency"), true},
    {"latency_per_token_mean_s", QT_TRANSLATE_NOOP("plimsoll::gui", "mean latency per token"), true},
    {"latency_per_token_p90_s", QT_TRANSLATE_NOOP("plimsoll::gui", "p90 latency per token"), true},
    {"input_tokens_mean", QT_TRANSLATE_NOOP("plimsoll::gui", "input tokens")},
    {"output_tokens_mean", QT_TRANSLATE_NOOP("plimsoll::gui", "output tokens")},
    {"requests_completed", QT_TRANSLATE_NOOP("plimsoll::gui", "completed requests")},
    {"duration_s", QT_TRANSLATE_NOOP("plimsoll::gui", "duration"), true},
    {"model", QT_TRANSLATE_NOOP("plimsoll::gui", "model")},
    {"hardware", QT_TRANSLATE_NOOP("plimsoll::gui", "hardware")},
    {"engine", QT_TRANSLATE_NOOP("plimsoll::gui", "engine")},
    {"dtype", QT_TRANSLATE_NOOP("plimsoll::gui", "number format of the weights")},
    {"tp", QT_TRANSLATE_NOOP("plimsoll::gui", "TP degree")},
    {"replicas", QT_TRANSLATE_NOOP("plimsoll::gui", "replicas")},
    {"load_kind", QT_TRANSLATE_NOOP("plimsoll::gui", "kind of load")},
    {"load_value", QT_TRANSLATE_NOOP("plimsoll::gui", "load")},
});

const ImportFigure* figure_of(const std::string& column) {
  for (const ImportFigure& figure : kFigures) {
    if (column == figure.column) return &figure;
  }
  return nullptr;
}

bool any_has(const std::vector<PointRow>& rows, const std::string& metric) {
  const Metric* found = find_metric(metric);
  return found != nullptr &&
         std::any_of(rows.begin(), rows.end(), [&](const PointRow& row) { return value_of(row, *found).has_value(); });
}

// Returns the columns of points.csv that the user does not want to read although they were recognised.
std::vector<std::string> dropped_columns(const ImportRequest& request) {
  std::vector<std::string> out;
  for (const ImportColumn& column : request.columns) {
    if (!column.figure.empty() || column.recognised.empty()) continue;
    const bool elsewhere = std::any_of(request.columns.begin(), request.columns.end(),
                                       [&](const ImportColumn& c) { return c.figure == column.recognised; });
    if (!elsewhere) out.push_back(column.recognised);
  }
  return out;
}

}  // namespace

std::span<const ImportFigure> import_figures() { return kFigures; }

ImportRequest import_request(const std::string& file) {
  constexpr std::size_t kSamples = 3;
  const study::TableHead head = study::read_table_head(file, kSamples);
  ImportRequest request{file, head.is_table, {}, {}};
  for (std::size_t i = 0; i < head.header.size(); ++i) {
    ImportColumn column;
    column.name = qs(head.header[i]);
    for (const auto& row : head.rows) column.samples << qs(row[i]);
    const auto meaning = study::recognised_column(head.header[i]);
    const bool taken = meaning && std::any_of(request.columns.begin(), request.columns.end(),
                                              [&](const ImportColumn& c) { return c.figure == meaning->column; });
    if (meaning && !taken) {
      column.recognised = column.figure = meaning->column;
      // The unit of a time is never guessed; the user states it.
      if (meaning->needs_unit) column.unit = "?";
    }
    request.columns.push_back(std::move(column));
  }
  return request;
}

void choose_figure(ImportColumn& column, const std::string& figure) {
  column.figure = figure;
  const ImportFigure* known = figure_of(figure);
  const bool recognised = !figure.empty() && figure == column.recognised;
  column.unit.clear();
  if (known == nullptr || !known->is_time) return;
  // The unit of a time may be the last word of the column's name.
  static const QRegularExpression breaks(QStringLiteral("[^A-Za-z0-9]+"));
  const QStringList words = column.name.split(breaks, Qt::SkipEmptyParts);
  const auto meaning = study::recognised_column(
      recognised ? utf8(column.name) : "ttft " + (words.isEmpty() ? std::string() : utf8(words.last())));
  if (!meaning || meaning->needs_unit) column.unit = "?";
}

QString import_problem(const ImportRequest& request) {
  if (!request.is_table) return {};
  bool figure = false;
  std::vector<std::string> seen;
  for (const ImportColumn& column : request.columns) {
    if (column.figure.empty()) continue;
    const ImportFigure* known = figure_of(column.figure);
    if (known != nullptr && known->is_time && column.unit == "?") return tr("State the unit of “%1”.").arg(column.name);
    if (std::find(seen.begin(), seen.end(), column.figure) != seen.end())
      return tr("Two columns are read as %1.").arg(known != nullptr ? tr(known->label) : qs(column.figure));
    seen.push_back(column.figure);
    const study::ImportedPoint probe{{{column.figure, 1.0}}};
    figure = figure || study::holds_a_figure(probe);
  }
  if (!figure) return tr("Choose a column for a throughput or for a mean latency, TTFT or TPOT.");
  return {};
}

study::ImportedResults import_runs(const ImportRequest& request) {
  std::vector<std::string> maps;
  for (const ImportColumn& column : request.columns) {
    if (column.figure.empty() || (column.figure == column.recognised && column.unit.empty())) continue;
    maps.push_back(column.figure + "=" + utf8(column.name) + (column.unit.empty() ? "" : ":" + column.unit));
  }
  study::ImportedResults results = study::import_results(request.file, request.labels, maps);
  const std::vector<std::string> dropped = dropped_columns(request);
  const std::array lengths{std::pair("input_tokens_mean", request.input_tokens),
                           std::pair("output_tokens_mean", request.output_tokens)};
  for (study::ImportedPoint& point : results.points) {
    std::erase_if(point.cells, [&](const auto& cell) {
      return std::find(dropped.begin(), dropped.end(), cell.first) != dropped.end();
    });
    for (const auto& [column, tokens] : lengths) {
      if (tokens && point.find(column) == nullptr) point.cells.emplace_back(column, *tokens);
    }
  }
  return results;
}

MeasuredRun measured_run(const std::string& file, const study::ImportedResults& results) {
  const QString name = qs(std::filesystem::path(file).filename().string());
  MeasuredRun run{name, {}, {}, {}, name};
  for (const study::ImportedPoint& point : results.points) {
    run.rows.push_back(overlay_row(point.cells));
    run.rows.back().result.index = run.rows.size() - 1;
  }
  return run;
}

std::vector<const Metric*> metrics_of(const std::vector<PointRow>& rows) {
  std::vector<const Metric*> out;
  for (const Metric& metric : metrics()) {
    if (any_has(rows, metric.id)) out.push_back(&metric);
  }
  return out;
}

void show_rows(SessionState& state, const std::vector<PointRow>& rows) {
  // What load generators report most, in the order of preference.
  constexpr std::array<const char*, 6> kY = {"latency_per_token_p90_s", "tpot_mean_s", "ttft_mean_s",
                                             "latency_mean_s",          "itl_mean_s",  "output_tokens_per_s"};
  constexpr std::array<const char*, 2> kX = {"output_tokens_per_s", "load_value"};
  if (rows.empty()) return;
  if (!any_has(rows, state.view.y)) {
    const auto* const y = std::find_if(kY.begin(), kY.end(), [&](const char* id) { return any_has(rows, id); });
    if (y != kY.end()) choose_y(state, *y);
  }
  if (any_has(rows, state.view.x)) return;
  const auto* const x =
      std::find_if(kX.begin(), kX.end(), [&](const char* id) { return any_has(rows, id) && state.view.y != id; });
  if (x != kX.end()) state.view.x = *x;
}

}  // namespace plimsoll::gui
