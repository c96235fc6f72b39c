// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/view.h"

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

QString cell(const QString& text, QChar separator) {
  QString out = text;
  if (separator == QChar(u'\t')) return out.replace(QChar(u'\t'), QChar(u' ')).replace(QChar(u'\n'), QChar(u' '));
  if (!out.contains(QChar(u',')) && !out.contains(QChar(u'"')) && !out.contains(QChar(u'\n'))) return out;
  return QChar(u'"') + out.replace(QStringLiteral("\""), QStringLiteral("\"\"")) + QChar(u'"');
}

QString line(const QStringList& cells, QChar separator) {
  QStringList out;
  for (const QString& text : cells) out << cell(text, separator);
  return out.join(separator) + QChar(u'\n');
}

}  // namespace

QString table_text(const TableData& table, QChar separator) {
  QString text = line(table.headers, separator);
  for (const QStringList& row : table.rows) text += line(row, separator);
  return text;
}

void show_row(QWidget& row, bool shown, bool settled) {
  const bool stays = !settled && row.isVisible();
  row.setMinimumHeight(stays ? row.height() : 0);
  row.setVisible(shown || stays);
}

TableData table_of(const PlotContent& content) {
  TableData table{{View::tr("series"), content.x.title.isEmpty() ? View::tr("x") : content.x.title, content.y.title},
                  {}};
  bool intervals = false;
  for (const PlotSeries& series : content.series) {
    for (const PlotPoint& point : series.points) intervals = intervals || point.error > 0;
  }
  if (intervals) table.headers << View::tr("half-width of the interval");
  for (const PlotSeries& series : content.series) {
    if (series.line == LineLook::faded) continue;
    for (const PlotPoint& point : series.points) {
      QStringList row{series.name, qs(study::number_text(point.x)), qs(study::number_text(point.y))};
      if (intervals) row << (point.error > 0 ? qs(study::number_text(point.error)) : QString());
      table.rows.push_back(row);
    }
  }
  return table;
}

}  // namespace plimsoll::gui
