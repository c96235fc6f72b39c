// SPDX-License-Identifier: GPL-3.0-or-later
#include <QAbstractTextDocumentLayout>
#include <QBuffer>
#include <QDate>
#include <QGuiApplication>
#include <QPainter>
#include <QPdfWriter>
#include <QSaveFile>
#include <QScreen>
#include <QSvgGenerator>
#include <QTextDocument>
#include <QUrl>

#include "gui/core/footprint.h"
#include "gui/core/hardware_list.h"
#include "gui/core/pool_form.h"
#include "gui/core/slo_form.h"
#include "gui/core/text.h"
#include "gui/plot/plot_view.h"
#include "gui/window/curve_words.h"
#include "gui/window/curves_view.h"
#include "gui/window/export.h"
#include "model/error.h"
#include "study/output/html_page.h"
#include "study/output/points_page.h"
#include "study/output/table_view.h"

namespace plimsoll::gui {
namespace {

/// The contents of both forms of the report.
struct Report {
  QString title, made;
  QStringList question, answers, doubts, assumptions;
  QString flags;
  study::PointsTable figures;
  bool has_figures = false;
  std::string study;
};

QString deployment_line(const Workbench& bench) {
  const Scenario& scenario = bench.session().scenario();
  const auto stated = [&](const char* path) {
    const QString text = field_value(scenario, path).text;
    return text.isEmpty() ? tr("default") : text;
  };
  const QString batch = stated("scheduler.max_running");
  if (states_pools(scenario))
    return tr("%1, batch limit %2").arg(footprint_range(bench.curves().outline().footprints), batch);
  return tr("TP %1, replicas %2, batch limit %3").arg(stated("deployment.tp"), stated("deployment.replicas"), batch);
}

QStringList question_lines(const Workbench& bench) {
  const Scenario& scenario = bench.session().scenario();
  const ViewState& view = bench.session().state().view;
  const auto field = [&](const char* path) { return field_value(scenario, path).text; };
  QString hardware = field("hardware");
  for (const HardwareRow& row : hardware_rows(*bench.catalogue())) {
    if (qs(row.name) == hardware) hardware = QStringLiteral("%1 (%2)").arg(hardware_words(row), hardware);
  }
  const LoadField load = load_field(scenario);
  QStringList lines{tr("Model %1 on %2, engine %3").arg(field("model"), hardware, field("engine")),
                    deployment_line(bench),
                    tr("Load: %1 %2%3")
                        .arg(QString(load.kind).replace(QChar(u'_'), QChar(u' ')), load.values,
                             load.rate ? tr(" requests/s") : QString())};
  if (const QString lengths = field("workload.lengths"); !lengths.isEmpty())
    lines << tr("Input and output tokens: %1").arg(QString(lengths).remove(QChar(u'{')).remove(QChar(u'}')));
  QStringList limits;
  for (const SloRow& row : slo_rows(scenario, view)) limits << slo_row_words(row);
  lines << (limits.isEmpty() ? tr("No SLO") : tr("SLO: %1").arg(limits.join(QStringLiteral(", "))));
  if (!limits.isEmpty() && view.safe) lines << tr("Safety margin: the whole 90 % band within the limits");
  if (!limits.isEmpty() && view.margin > 0)
    lines << tr("Safety margin: %1 % of each limit").arg(reader_text(100 * view.margin, 3));
  QStringList others;
  for (const Scenario& other : bench.session().state().scenarios) {
    if (other.shown && other.name != scenario.name) others << other.name;
  }
  if (!others.isEmpty())
    lines << tr("This is %1; compared with %2").arg(scenario.name, others.join(QStringLiteral(", ")));
  return lines;
}

QStringList answer_lines(const Workbench& bench, const CurvesView& curves) {
  const DrawnLimit drawn = drawn_limit(bench.session().state().view);
  const bool limited = has_limit(bench, drawn);
  QStringList lines;
  for (const AnswerRow& row : answer_rows(bench, drawn, curves.choice().bands)) {
    // Curves of an earlier state of a scenario do not answer for the present one.
    if (row.drawn.stale) continue;
    if (limited)
      lines << row.drawn.name + QStringLiteral(": ") + answer_words(row);
    else if (row.answer)
      lines << tr("%1: at most %2 tokens/s, at %3; no SLO limits it")
                   .arg(row.drawn.name, reader_text(row.answer->tokens_per_s, 4), row.load);
  }
  return lines;
}

Report report_of(const Workbench& bench, const CurvesView& curves) {
  if (bench.failure()) throw InputError(utf8(bench.failure()->text));
  const study::Study study = make_study(bench.session().scenario(), bench.catalogue());
  Report report;
  report.title = qs(study.title());
  report.made = tr("Made by Plimsoll on %1").arg(QDate::currentDate().toString(Qt::ISODate));
  report.question = question_lines(bench);
  report.answers = answer_lines(bench, curves);
  const QString validity = validity_text(bench);
  if (!validity.isEmpty()) report.doubts << validity;
  for (const QString& note : failure_notes(bench)) report.doubts << note;
  for (const std::string& line : study::assumptions_of(study.point(0), study.notes())) report.assumptions << qs(line);
  const LanePoint* point = bench.selected_point();
  report.flags = qs(server_flags(study.point(point != nullptr ? point->index : 0)));
  const auto results = bench.curves().results();
  report.has_figures = !results.empty();
  if (report.has_figures) report.figures = study::points_text_table(study.swept_keys(), results);
  report.study = study.resolved_yaml();
  return report;
}

/// Shows the plot as on paper, which is white, as long as it lives.
class OnPaper {
 public:
  explicit OnPaper(PlotView& plot) : plot_(plot), dark_(plot.palette().color(QPalette::Window).lightness() < 128) {
    if (dark_) plot_.set_theme(light_theme());
  }
  ~OnPaper() {
    if (dark_) plot_.set_theme(dark_theme());
  }
  OnPaper(const OnPaper&) = delete;
  OnPaper& operator=(const OnPaper&) = delete;

 private:
  PlotView& plot_;
  bool dark_;
};

// Returns the plot as SVG for an HTML page, without the lines before its root element.
std::string plot_svg(CurvesView& curves) {
  QBuffer buffer;
  QSvgGenerator svg;
  svg.setOutputDevice(&buffer);
  svg.setSize(curves.plot().size());
  svg.setViewBox(curves.plot().rect());
  QPainter painter(&svg);
  painter.fillRect(curves.plot().rect(), light_theme().background);
  curves.plot().render(&painter, QPoint(), QRegion(), QWidget::DrawChildren);
  painter.end();
  const std::string text = buffer.data().toStdString();
  const std::size_t root = text.find("<svg");
  return root == std::string::npos ? std::string() : text.substr(root);
}

std::vector<std::string> lines_of(const QStringList& lines) {
  std::vector<std::string> out;
  for (const QString& line : lines) out.push_back(utf8(line));
  return out;
}

void write_html(const Report& report, CurvesView& curves, const QString& file) {
  study::HtmlPage page(utf8(report.title));
  page.paragraph(utf8(report.made));
  page.heading(utf8(tr("Question"))).list(lines_of(report.question));
  page.heading(utf8(tr("Answer"))).list(lines_of(report.answers));
  page.raw("<figure>" + plot_svg(curves) + "</figure>\n");
  if (!report.doubts.isEmpty()) page.heading(utf8(tr("Doubts"))).list(lines_of(report.doubts));
  page.heading(utf8(tr("Assumptions"))).list(lines_of(report.assumptions));
  page.heading(utf8(tr("To deploy one replica"))).preformatted(utf8(report.flags));
  if (report.has_figures)
    page.heading(utf8(tr("Figures")))
        .paragraph(report.figures.constants)
        .table(report.figures.table)
        .list(report.figures.footnotes);
  write_bytes(file, QByteArray::fromStdString(page.folded(utf8(tr("The study")), report.study).text()));
}

QString html_list(const QString& heading, const QStringList& lines) {
  if (lines.isEmpty()) return {};
  QString html = QStringLiteral("<h3>%1</h3><ul>").arg(heading.toHtmlEscaped());
  for (const QString& line : lines) html += QStringLiteral("<li>%1</li>").arg(line.toHtmlEscaped());
  return html + QStringLiteral("</ul>");
}

// `width` is in pixels of the screen: a document scales its pictures from the screen's resolution to the paper's.
QString pdf_html(const Report& report, double width) {
  return QStringLiteral("<h2>%1</h2>").arg(report.title.toHtmlEscaped()) +
         QStringLiteral("<p>%1</p>").arg(report.made.toHtmlEscaped()) + html_list(tr("Question"), report.question) +
         html_list(tr("Answer"), report.answers) +
         QStringLiteral("<p><img src=\"plot\" width=\"%1\"></p>").arg(width, 0, 'f', 0) +
         html_list(tr("Doubts"), report.doubts) + html_list(tr("Assumptions"), report.assumptions) +
         QStringLiteral("<h3>%1</h3><pre>%2</pre>").arg(tr("To deploy one replica"), report.flags.toHtmlEscaped());
}

QImage plot_image(CurvesView& curves) {
  constexpr double kScale = 2.5;  // sharp in print
  QImage image((QSizeF(curves.plot().size()) * kScale).toSize(), QImage::Format_RGB32);
  image.setDevicePixelRatio(kScale);
  image.fill(light_theme().background);
  // Without a painter, Qt applies the screen's own scale too.
  QPainter painter(&image);
  curves.plot().render(&painter, QPoint(), QRegion(), QWidget::DrawChildren);
  painter.end();
  image.setDevicePixelRatio(1);
  return image;
}

// Fits everything on one page: the text shrinks as far as it stays legible, then the picture.
void write_pdf(const Workbench& bench, const Report& report, CurvesView& curves, const QString& file) {
  QSaveFile out(file);
  if (!out.open(QIODevice::WriteOnly)) throw DeviceError(utf8(file) + " cannot be written");
  constexpr int kDpi = 144;
  constexpr double kMarginMm = 14;
  QPdfWriter pdf(&out);
  pdf.setTitle(report.title);
  pdf.setCreator(QStringLiteral("Plimsoll"));
  pdf.setResolution(kDpi);
  pdf.setPageSize(QPageSize(QPageSize::A4));
  pdf.setPageMargins(QMarginsF(kMarginMm, kMarginMm, kMarginMm, kMarginMm), QPageLayout::Millimeter);
  pdf.addFileAttachment(QStringLiteral("study.plimsoll-session.yaml"),
                        QByteArray::fromStdString(session_text(bench.session().state())),
                        QStringLiteral("application/yaml"));
  QTextDocument document;
  document.documentLayout()->setPaintDevice(&pdf);
  document.addResource(QTextDocument::ImageResource, QUrl(QStringLiteral("plot")), plot_image(curves));
  document.setDocumentMargin(0);
  const QSizeF page(pdf.width(), pdf.height());
  document.setPageSize(QSizeF(page.width(), 100 * page.height()));  // one long page, to measure it
  QFont font = document.defaultFont();
  const double pixel = pdf.logicalDpiY() / QGuiApplication::primaryScreen()->logicalDotsPerInchY();
  for (const auto& [points, part] : {std::pair(9.0, 1.0), {8.0, 0.85}, {7.0, 0.7}, {6.0, 0.55}, {5.0, 0.45}}) {
    font.setPointSizeF(points);
    document.setDefaultFont(font);
    document.setHtml(pdf_html(report, page.width() * part / pixel));
    if (document.documentLayout()->documentSize().height() <= page.height()) break;
  }
  QPainter painter;
  if (!painter.begin(&pdf)) throw DeviceError(utf8(file) + " cannot be written");
  // The window's palette may be light text on a dark ground.
  QAbstractTextDocumentLayout::PaintContext ink;
  ink.palette.setColor(QPalette::Text, light_theme().text);
  document.documentLayout()->draw(&painter, ink);
  painter.end();
  if (!out.commit()) throw DeviceError(utf8(file) + " cannot be written");
}

}  // namespace

void write_report(const Workbench& bench, CurvesView& curves, const QString& file) {
  const QString ending = file.section(QChar(u'.'), -1).toLower();
  const bool html = ending == QStringLiteral("html") || ending == QStringLiteral("htm");
  if (!html && ending != QStringLiteral("pdf"))
    throw InputError(utf8(file) + ": expected a name that ends in .html or .pdf");
  const Report report = report_of(bench, curves);
  const OnPaper paper(curves.plot());
  if (html)
    write_html(report, curves, file);
  else
    write_pdf(bench, report, curves, file);
}

}  // namespace plimsoll::gui
