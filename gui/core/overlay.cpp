// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/overlay.h"

#include <QCoreApplication>
#include <QFile>
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <filesystem>

#include "gui/core/text.h"
#include "model/error.h"
#include "study/exchange/import_results.h"
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
                      {"model", p.model},
                      {"hardware", p.hardware},
                      {"engine", p.engine},
                      {"dtype", p.dtype},
                      {"tp", std::int64_t{p.tp}},
                      {"replicas", std::int64_t{p.replicas}},
                      {"policy", p.policy},
                      {"load_kind", p.load_kind},
                      {"load_value", p.load_value},
                      {"input_tokens_mean", static_cast<double>(p.input_tokens)},
                      {"output_tokens_mean", static_cast<double>(p.output_tokens)}};
  const auto add = [&](const char* name, const std::optional<double>& value) {
    cells.emplace_back(name, study::number_cell(value));
  };
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
  OverlayTable table{qs(measured.name), {}, published, {}, {}, {}};
  for (const auto& point : measured.points) table.rows.push_back(measured_row(point, published));
  return table;
}

OverlayTable points_table(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  OverlayTable table{qs(folder.filename().string() + "/points.csv"), {}, false, {}, {}, folder.string()};
  for (const study::ImportedPoint& point : study::read_points_csv(file)) {
    table.rows.push_back(overlay_row(point.cells));
    table.rows.back().result.index = table.rows.size() - 1;
  }
  return table;
}

// Returns the tool's name as its users write it.
QString tool_name(const std::string& format) {
  if (format == "vllm") return QStringLiteral("vLLM bench");
  if (format == "aiperf") return QStringLiteral("AIPerf");
  if (format == "inferencex") return QStringLiteral("InferenceX");
  return qs(format);
}

OverlayTable imported_table(const std::string& file) {
  const study::ImportedResults imported = study::import_results(file);
  OverlayTable table{
      qs(std::filesystem::path(file).filename().string()), {}, false, tool_name(imported.format), {}, {}};
  for (const std::string& note : imported.notes)
    table.notes.push_back(qs(note).section(QChar(u';'), 0, 0));  // after it: options of the command line
  for (const study::ImportedPoint& point : imported.points) table.rows.push_back(overlay_row(point.cells));
  return table;
}

bool same_or_blank(double stated, double simulated) {
  // Allow 2 %: tools report the mean of the lengths that they drew.
  return stated == 0 || std::abs(stated - simulated) <= 0.02 * simulated;
}

bool same_lengths(const PointRow& measured, const study::PointResult& point) {
  return !point.metrics ||
         (same_or_blank(number_of(measured, "input_tokens_mean"), point.metrics->input_tokens_mean) &&
          same_or_blank(number_of(measured, "output_tokens_mean"), point.metrics->output_tokens_mean));
}

// Compares only letters and digits, and accepts one text inside the other: "meta-llama/Llama-2-7b-hf" and "llama-2-7b",
// "h100" and "h100-sxm x 8".
bool alike(const std::string& stated, const std::string& ours) {
  const auto plain = [](std::string text) {
    if (const std::size_t slash = text.find_last_of("/\\"); slash != std::string::npos) text = text.substr(slash + 1);
    text = text.substr(0, text.find(" x "));  // the number of devices is compared elsewhere
    std::string out;
    for (const char c : text) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0)
        out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return out;
  };
  const std::string a = plain(stated), b = plain(ours);
  return a.empty() || a.find(b) != std::string::npos || b.find(a) != std::string::npos;
}

// Returns the first property in which another tool's row differs from a curve's points; empty if none does.
QString difference(const PointRow& measured, const study::PointResult& point) {
  const study::PointLabels &l = point.labels, &m = measured.result.labels;
  const auto differs = [](const char* what, const QString& stated) {
    return QCoreApplication::translate("plimsoll::gui::Overlay", "it states %1 %2").arg(qs(what), stated);
  };
  if (!alike(m.model, l.model)) return differs("model", qs(m.model));
  if (!alike(m.hardware, l.hardware)) return differs("hardware", qs(m.hardware));
  const double tp = number_of(measured, "tp");
  if (tp > 0 && m.tp != l.tp) return differs("TP degree", reader_text(tp, 3));
  if (!m.load_kind.empty() && m.load().load_class != l.load().load_class)
    return differs("load", qs(m.load_kind).replace(QChar(u'_'), QChar(u' ')));
  if (!same_lengths(measured, point)) {
    return differs("lengths", QStringLiteral("%1 + %2").arg(reader_text(number_of(measured, "input_tokens_mean"), 5),
                                                            reader_text(number_of(measured, "output_tokens_mean"), 5)));
  }
  return {};
}

// Our own tables state every property, so all must be equal.
bool describes(const PointRow& measured, const study::PointResult& point) {
  const study::PointLabels& l = point.labels;
  const study::PointLabels& m = measured.result.labels;
  if (m.tp != l.tp || m.replicas != l.replicas || m.load_kind != l.load_kind || m.model != l.model ||
      m.hardware != l.hardware)
    return false;
  return same_lengths(measured, point);
}

/// Returns one simulated point of each curve; nullptr if a curve has none.
std::vector<const study::PointResult*> typical_points(const CurveModel& model) {
  std::vector<const study::PointResult*> out;
  for (const Curve& curve : model.curves()) {
    const auto found = std::find_if(curve.points.begin(), curve.points.end(),
                                    [](const LanePoint& p) { return p.row.result.metrics.has_value(); });
    out.push_back(found == curve.points.end() ? nullptr : &found->row.result);
  }
  return out;
}

struct CurveMatch {
  std::vector<std::size_t> curves;  // curves that the row fits
  QString why_not;                  // for the last curve that it does not fit
};

CurveMatch match_of(const OverlayTable& table, const PointRow& row,
                    const std::vector<const study::PointResult*>& typical) {
  CurveMatch match;
  for (std::size_t c = 0; c < typical.size(); ++c) {
    if (typical[c] == nullptr) continue;
    const QString why = table.tool.isEmpty() ? QString() : difference(row, *typical[c]);
    const bool fits = table.tool.isEmpty() ? describes(row, *typical[c]) : why.isEmpty();
    if (fits)
      match.curves.push_back(c);
    else if (!why.isEmpty())
      match.why_not = why;
  }
  return match;
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
  constexpr qint64 kMaxBytes = 64 << 20;
  QFile source(qs(file));
  if (!source.open(QIODevice::ReadOnly | QIODevice::Text))
    throw InputError(Where{file, 0, 0}, "cannot be read: " + utf8(source.errorString()));
  if (source.size() > kMaxBytes)
    throw InputError(Where{file, 0, 0}, "is larger than 64 MiB; expected a table of points");
  // Only our own points.csv has this column.
  if (source.readLine().contains("requests_completed")) return points_table(file);
  if (file.ends_with(".json") || file.ends_with(".jsonl")) return imported_table(file);
  return table_of(file, false);
}

bool is_overlay(const std::string& text) {
  const std::string header = text.substr(0, text.find('\n'));
  const auto has = [](const std::string& in, const char* word) { return in.find(word) != std::string::npos; };
  if (has(header, "requests_completed,") || (has(header, "load_kind") && has(header, "load_value"))) return true;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || (text[first] != '{' && text[first] != '[')) return false;
  // Names that occur in the result of every supported load generator, but in no trace or config.json: each format has
  // at least one of them.
  constexpr std::array<const char*, 6> kNames = {"output_throughput", "mean_ttft_ms",        "ttfts",
                                                 "guidellm_version",  "time_to_first_token", "tput_per_gpu"};
  return has(text, "\"benchmarks\"") ||
         std::any_of(kNames.begin(), kNames.end(), [&](const char* name) { return has(text, name); });
}

std::vector<OverlayTable> published_tables() {
  std::vector<OverlayTable> tables;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(validation::published_folder())) {
    if (entry.path().extension() == ".csv") files.push_back(entry.path().string());
  }
  // The directory's order differs between machines.
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) tables.push_back(table_of(file, true));
  return tables;
}

std::vector<OverlayPoint> overlay_points(const CurveModel& model, const std::vector<OverlayTable>& tables) {
  std::vector<OverlayPoint> out;
  const auto typical = typical_points(model);
  for (const OverlayTable& table : tables) {
    for (const PointRow& row : table.rows) {
      const std::vector<std::size_t> curves = match_of(table, row, typical).curves;
      if (!table.tool.isEmpty() && curves.size() > 1)
        continue;  // the result does not state which of these curves it belongs to
      for (const std::size_t c : curves) out.push_back({&row, &table, c});
    }
  }
  // Sort by curve; within a curve, keep the order of the tables.
  std::stable_sort(out.begin(), out.end(),
                   [](const OverlayPoint& a, const OverlayPoint& b) { return a.curve < b.curve; });
  return out;
}

std::vector<QString> overlay_notes(const std::vector<const CurveModel*>& models,
                                   const std::vector<OverlayTable>& tables) {
  const auto translate = [](const char* text) { return QCoreApplication::translate("plimsoll::gui::Overlay", text); };
  std::vector<std::vector<const study::PointResult*>> typical;
  for (const CurveModel* model : models) {
    auto points = typical_points(*model);
    // Nothing can be compared before the first simulated point.
    if (std::any_of(points.begin(), points.end(), [](const auto* p) { return p != nullptr; }))
      typical.push_back(std::move(points));
  }
  std::vector<QString> out;
  if (typical.empty()) return out;
  for (const OverlayTable& table : tables) {
    if (table.published) continue;
    std::size_t without = 0, several = 0;
    QString why;
    for (const PointRow& row : table.rows) {
      bool found = false, drawn = false;
      QString why_not;
      for (const auto& points : typical) {
        const CurveMatch match = match_of(table, row, points);
        if (match.curves.empty()) why_not = match.why_not;
        found = found || !match.curves.empty();
        drawn = drawn || match.curves.size() == 1 || (!match.curves.empty() && table.tool.isEmpty());
      }
      if (!found) why = why_not;
      without += found ? 0 : 1;
      several += found && !drawn ? 1 : 0;
    }
    const QString name = table.tool.isEmpty() ? table.name : QStringLiteral("%1 (%2)").arg(table.name, table.tool);
    if (without > 0) {
      const QString reason =
          why.isEmpty() ? translate("another model, hardware, TP degree, number of replicas, load or lengths") : why;
      out.push_back(translate("%1: %2 of %3 points belong to no curve here: %4")
                        .arg(name)
                        .arg(without)
                        .arg(table.rows.size())
                        .arg(reason));
    }
    if (several > 0)
      out.push_back(translate("%1: %2 points fit several curves and are shown on none; choose one value of the swept "
                              "key")
                        .arg(name)
                        .arg(several));
    for (const QString& note : table.notes) out.push_back(translate("%1 %2").arg(name, note));
  }
  return out;
}

namespace {

// `value` is in the metric's displayed unit.
std::optional<bool> in_band(const PointRow& row, const Metric& metric, double value) {
  const auto edge = [&](const char* which) -> std::optional<double> {
    const auto column = column_index(metric.id + std::string(which));
    const auto* cell = column ? std::get_if<double>(&row.cells[*column]) : nullptr;
    return cell != nullptr ? std::optional(*cell * metric.scale) : std::nullopt;
  };
  const auto low = edge("_lo"), high = edge("_hi");
  if (!low || !high) return {};
  return *low <= value && value <= *high;
}

}  // namespace

std::vector<Residual> residuals(const CurveModel& model, const std::vector<OverlayPoint>& points, const Metric& x,
                                const Metric& y) {
  std::vector<Residual> out;
  for (const OverlayPoint& point : points) {
    const LanePoint* simulated = model.find(point.curve, point.row->result.labels.load_value);
    const auto measured_x = value_of(*point.row, x), measured_y = value_of(*point.row, y);
    // Compare only at equal loads: an interpolated value is not a prediction of this run.
    if (simulated == nullptr || !measured_x || !measured_y || *measured_y == 0) continue;
    const auto predicted = value_of(simulated->row, y);
    if (predicted)
      out.push_back({point, *measured_x, *measured_y, *predicted, in_band(simulated->row, y, *measured_y)});
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
