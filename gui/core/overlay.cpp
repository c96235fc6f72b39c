// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/overlay.h"

#include <QFile>
#include <QStringList>
#include <algorithm>
#include <filesystem>
#include <map>

#include "configs/quantity.h"
#include "gui/core/text.h"
#include "model/error.h"
#include "validation/measured_points.h"

namespace plimsoll::gui {
namespace {

using study::Cell;
using NamedCells = std::vector<std::pair<std::string, Cell>>;

std::string text_of(const PointRow& row, std::string_view column) {
  const auto index = column_index(column);
  return index ? study::plain_text(row.cells[*index]) : std::string();
}

double number_of(const PointRow& row, std::string_view column) {
  const auto index = column_index(column);
  if (!index) return 0;
  const Cell& cell = row.cells[*index];
  if (const auto* number = std::get_if<double>(&cell)) return *number;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*whole);
  return 0;
}

PointRow measured_row(const validation::MeasuredPoint& p, bool published) {
  NamedCells cells = {{"source", std::string(published ? "published" : "measured")},
                      {"model", p.model}, {"hardware", p.hardware}, {"engine", p.engine}, {"dtype", p.dtype},
                      {"tp", std::int64_t{p.tp}}, {"replicas", std::int64_t{p.replicas}}, {"policy", p.policy},
                      {"load_kind", p.load_kind}, {"load_value", p.load_value},
                      {"input_tokens_mean", static_cast<double>(p.input_tokens)},
                      {"output_tokens_mean", static_cast<double>(p.output_tokens)}};
  const auto add = [&](const char* name, const std::optional<double>& value) { cells.emplace_back(name, study::number_cell(value)); };
  add("output_tokens_per_s", p.output_tokens_per_s);
  add("latency_per_token_p90_s", p.latency_per_token_p90_s);
  add("latency_p90_s", p.latency_p90_s);
  add("latency_mean_s", p.latency_mean_s);
  add("ttft_mean_s", p.ttft_mean_s);
  add("tpot_mean_s", p.tpot_mean_s);
  return overlay_row(cells);
}

OverlayTable table_of(const std::string& file, bool published) {
  const validation::MeasuredTable measured = validation::read_measured(file);
  OverlayTable table{qs(measured.name), {}, published};
  for (const auto& point : measured.points) table.rows.push_back(measured_row(point, published));
  return table;
}

// Fields of a line without line breaks in them, as points.csv has them.
std::vector<std::string> split(const QString& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  const std::string text = utf8(line);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      if (quoted && i + 1 < text.size() && text[i + 1] == '"') fields.back() += text[++i];
      else quoted = !quoted;
    } else if (text[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += text[i];
    }
  }
  return fields;
}

Cell cell_from(const std::string& text) {
  if (text.empty()) return {};
  if (const auto number = configs::parse_number(text)) return *number;
  return text;
}

OverlayTable points_table(const std::string& file, const QStringList& lines) {
  OverlayTable table{qs(std::filesystem::path(file).parent_path().filename().string() + "/points.csv"), {}, false};
  const std::vector<std::string> names = split(lines.front());
  for (qsizetype i = 1; i < lines.size(); ++i) {
    if (lines[i].isEmpty()) continue;
    const std::vector<std::string> fields = split(lines[i]);
    if (fields.size() != names.size()) {
      throw InputError(Where{file, static_cast<std::size_t>(i) + 1, 1}, "found " + std::to_string(fields.size()) + " fields, expected " + std::to_string(names.size()));
    }
    NamedCells cells;
    for (std::size_t f = 0; f < fields.size(); ++f) cells.emplace_back(names[f], cell_from(fields[f]));
    table.rows.push_back(overlay_row(cells));
  }
  return table;
}

bool same_or_blank(double stated, double simulated) { return stated == 0 || std::abs(stated - simulated) <= 0.02 * simulated; }

bool describes(const PointRow& measured, const study::PointResult& point) {
  const study::PointLabels& l = point.labels;
  const study::PointLabels& m = measured.result.labels;
  if (m.tp != l.tp || m.replicas != l.replicas || m.load_kind != l.load_kind || m.model != l.model || m.hardware != l.hardware) return false;
  return !point.metrics || (same_or_blank(number_of(measured, "input_tokens_mean"), point.metrics->input_tokens_mean) &&
                            same_or_blank(number_of(measured, "output_tokens_mean"), point.metrics->output_tokens_mean));
}

}  // namespace

PointRow overlay_row(const NamedCells& cells) {
  PointRow row;
  row.cells.resize(row_columns().size());
  for (const auto& [name, cell] : cells) {
    if (const auto index = column_index(name)) row.cells[*index] = cell;
  }
  row.result.labels.model = text_of(row, "model");
  row.result.labels.hardware = text_of(row, "hardware");
  row.result.labels.tp = std::max(1, static_cast<int>(number_of(row, "tp")));
  row.result.labels.replicas = std::max(1, static_cast<int>(number_of(row, "replicas")));
  row.result.labels.source = text_of(row, "source");
  row.result.labels.load_value = number_of(row, "load_value");
  row.result.labels.load_kind = text_of(row, "load_kind");
  row.gpus = row.result.labels.tp * row.result.labels.replicas;
  return row;
}

OverlayTable read_overlay(const std::string& file) {
  constexpr qint64 kMost = 64 << 20;
  QFile source(qs(file));
  if (!source.open(QIODevice::ReadOnly | QIODevice::Text)) throw InputError(Where{file, 0, 0}, "cannot be read: " + utf8(source.errorString()));
  if (source.size() > kMost) throw InputError(Where{file, 0, 0}, "is larger than 64 MiB; expected a table of points");
  const QStringList lines = QString::fromUtf8(source.readAll()).split(QChar(u'\n'));
  if (lines.front().contains(QStringLiteral("requests_completed"))) return points_table(file, lines);
  return table_of(file, false);
}

std::vector<OverlayTable> published_tables() {
  std::vector<OverlayTable> tables;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(validation::published_folder())) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) tables.push_back(table_of(file, true));
  return tables;
}

std::vector<OverlayPoint> overlay_points(const CurveModel& model, const std::vector<OverlayTable>& tables) {
  std::vector<OverlayPoint> out;
  for (std::size_t c = 0; c < model.curves().size(); ++c) {
    const auto& points = model.curves()[c].points;
    const auto typical = std::find_if(points.begin(), points.end(), [](const LanePoint& p) { return p.row.result.metrics.has_value(); });
    if (typical == points.end()) continue;
    for (const OverlayTable& table : tables) {
      for (const PointRow& row : table.rows) {
        if (describes(row, typical->row.result)) out.push_back({&row, &table, c});
      }
    }
  }
  return out;
}

std::vector<Residual> residuals(const CurveModel& model, const std::vector<OverlayPoint>& points, const Metric& x, const Metric& y) {
  std::vector<Residual> out;
  for (const OverlayPoint& point : points) {
    const LanePoint* simulated = model.find(point.curve, point.row->result.labels.load_value);
    const auto measured_x = value_of(*point.row, x), measured_y = value_of(*point.row, y);
    if (simulated == nullptr || !measured_x || !measured_y || *measured_y == 0) continue;
    const auto predicted = value_of(simulated->row, y);
    if (predicted) out.push_back({point, *measured_x, *measured_y, *predicted});
  }
  return out;
}

validation::ErrorSummary summary_of(const std::vector<Residual>& residuals) {
  std::vector<validation::Comparison> comparisons;
  for (const Residual& r : residuals) {
    validation::Comparison c;
    c.measured = r.measured;
    c.predicted = r.predicted;
    comparisons.push_back(std::move(c));
  }
  std::vector<const validation::Comparison*> pointers;
  for (const auto& c : comparisons) pointers.push_back(&c);
  return validation::summarise(pointers);
}

}  // namespace plimsoll::gui
