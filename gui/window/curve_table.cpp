// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/curve_content.h"

#include <array>
#include <optional>

#include "gui/core/slo_answer.h"
#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

/// A metric of the plot and the columns of its band, if it has one.
struct Axis {
  const Metric* metric = nullptr;
  std::optional<std::size_t> low = {}, high = {};
};

Axis axis_of(const Metric& metric) {
  const std::string id = metric.id;
  return {&metric, column_index(id + "_lo"), column_index(id + "_hi")};
}

QString text_of(std::optional<double> value) { return value ? qs(study::number_text(*value)) : QString(); }

std::optional<double> edge(const PointRow& row, std::size_t column, const Metric& metric) {
  const auto* value = std::get_if<double>(&row.cells[column]);
  return value != nullptr ? std::optional(*value * metric.scale) : std::nullopt;
}

QString load_unit(const PointRow& row) {
  switch (row.result.labels.load().quantity) {
    case load::LoadQuantity::clients: return tr("clients");
    case load::LoadQuantity::requests_per_s: return tr("requests/s");
    default: return {};
  }
}

QStringList headers_of(const std::array<Axis, 2>& axes) {
  QStringList headers{tr("curve"), tr("kind"), tr("load"), tr("load unit"), tr("TP"), tr("replicas")};
  for (const Axis& axis : axes) {
    const QString title = axis_title(*axis.metric);
    headers << title;
    if (axis.low && axis.high) headers << tr("90 % band from: %1").arg(title) << tr("90 % band to: %1").arg(title);
  }
  return headers << tr("note");
}

QStringList cells_of(const PointRow& row, const QString& curve, const QString& kind, const std::array<Axis, 2>& axes) {
  const study::PointLabels& labels = row.result.labels;
  QStringList cells{curve,
                    kind,
                    text_of(labels.load_value),
                    load_unit(row),
                    QString::number(labels.tp),
                    QString::number(labels.replicas)};
  for (const Axis& axis : axes) {
    cells << text_of(value_of(row, *axis.metric));
    if (axis.low && axis.high)
      cells << text_of(edge(row, *axis.low, *axis.metric)) << text_of(edge(row, *axis.high, *axis.metric));
  }
  return cells << failed_text(row.result);
}

}  // namespace

TableData curve_table(const Workbench& bench, const ContentChoice& choice) {
  const std::array<Axis, 2> axes = {axis_of(*choice.x), axis_of(*choice.y)};
  TableData table{headers_of(axes), {}};
  const std::vector<DrawnCurve> drawn = bench.drawn();
  for (const DrawnCurve& one : drawn) {
    // Curves of an earlier state of a scenario say nothing about the present one.
    if (one.stale || choice.hidden.contains(one.name)) continue;
    for (const LanePoint& point : one.curve->points) {
      const QString kind = point.stage == PointStage::study ? tr("simulated") : stage_name(point.stage);
      table.rows.push_back(cells_of(point.row, one.name, kind, axes));
    }
  }
  if (!choice.measured) return table;
  for (const MeasuredPoint& measured : measured_points(bench, drawn)) {
    if (choice.hidden.contains(measured.drawn->name)) continue;
    const OverlayTable& from = *measured.point.table;
    const QString kind = from.published ? tr("published") : from.tool.isEmpty() ? tr("measured") : from.tool;
    table.rows.push_back(cells_of(*measured.point.row, measured.drawn->name, kind, axes));
  }
  return table;
}

}  // namespace plimsoll::gui
