// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/palette.h"

#include <QAction>
#include <QDialogButtonBox>
#include <QTextBrowser>
#include <QVBoxLayout>

#include "gui/core/metrics.h"
#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

QString row(const QString& a, const QString& b) {
  return QStringLiteral("<tr><td><b>%1</b>&nbsp;&nbsp;</td><td>%2</td></tr>").arg(a.toHtmlEscaped(), b.toHtmlEscaped());
}

QString metrics_html() {
  QString html;
  for (const Metric& metric : metrics()) html += row(axis_title(metric), qs(metric.definition));
  return html;
}

QString keys_html(const std::vector<QAction*>& actions) {
  QString html;
  for (const QAction* action : actions) {
    if (!action->shortcut().isEmpty())
      html += row(action->shortcut().toString(QKeySequence::NativeText), QString(action->text()).remove(QChar(u'&')));
  }
  html += row(Help::tr("in a plot: arrows"),
              Help::tr("walk along the points and from series to series; Return selects, Shift+Return pins"));
  html += row(Help::tr("in a plot: drag, wheel, middle button"),
              Help::tr("zoom into a box, zoom at the pointer, move; 0 or a double click shows all, Z goes back"));
  html += row(Help::tr("in a plot: SLO line"),
              Help::tr("drag it: the line below states the load that each curve carries within it"));
  html += row(Help::tr("in the map: arrows, Home, End"),
              Help::tr("walk along the cells; Return makes the cell's TP degree and batch limit the scenario's"));
  return html + row(Help::tr("in the timeline: A D W S"), Help::tr("move and zoom"));
}

}  // namespace

Help::Help(const std::vector<QAction*>& actions, QWidget* parent) : QDialog(parent) {
  setWindowTitle(tr("Metrics and keys"));
  auto* text = new QTextBrowser(this);
  text->setAccessibleName(tr("Metrics and keys"));
  text->setHtml(QStringLiteral("<h3>%1</h3><p>%2</p><table>%3</table><h3>%4</h3><table>%5</table>")
                    .arg(tr("Metrics"),
                         tr("Latency counts from the time at which a client meant to send its request, over completed "
                            "requests. TPOT divides by output tokens − 1, latency per output token by output tokens; "
                            "tools differ in this. Percentiles interpolate linearly between order statistics (type 7).")
                             .toHtmlEscaped(),
                         metrics_html(), tr("Keys"), keys_html(actions)));
  auto* close = new QDialogButtonBox(QDialogButtonBox::Close, this);
  connect(close, &QDialogButtonBox::rejected, this, &QDialog::reject);
  auto* column = new QVBoxLayout(this);
  column->addWidget(text);
  column->addWidget(close);
  resize(fontMetrics().averageCharWidth() * 110, fontMetrics().height() * 36);
}

}  // namespace plimsoll::gui
