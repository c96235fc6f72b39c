// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/export.h"

#include <QFile>
#include <QImage>
#include <QPainter>
#include <QPdfWriter>
#include <QSaveFile>
#include <QSvgGenerator>

#include "gui/core/text.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

constexpr const char* kKey = "plimsoll-session";

[[noreturn]] void cannot_write(const QString& file) { throw DeviceError(utf8(file) + " cannot be written"); }

void write_png(const Picture& picture, const QString& file, const std::string& session, double scale) {
  QImage image = picture_image(picture, scale);
  image.setText(QString::fromLatin1(kKey), qs(session));
  if (!image.save(file, "PNG")) cannot_write(file);
}

void write_svg(const Picture& picture, const QString& file, const std::string& session) {
  QSaveFile out(file);
  if (!out.open(QIODevice::WriteOnly)) cannot_write(file);
  QSvgGenerator svg;
  svg.setOutputDevice(&out);
  svg.setSize(picture.size());
  svg.setViewBox(QRect(QPoint(), picture.size()));
  svg.setTitle(picture.title());
  svg.setDescription(qs(std::string(kKey) + "\n" + session));
  QPainter painter;
  if (!painter.begin(&svg)) cannot_write(file);
  picture.draw(painter);
  painter.end();
  if (!out.commit()) cannot_write(file);
}

void write_pdf(const Picture& picture, const QString& file, const std::string& session) {
  QSaveFile out(file);
  if (!out.open(QIODevice::WriteOnly)) cannot_write(file);
  QPdfWriter pdf(&out);
  pdf.setTitle(picture.title());
  pdf.setResolution(96);
  pdf.setPageMargins({});
  // The page has the size of the picture: a pixel is 1/96 inch, a point 1/72 inch.
  pdf.setPageSize(QPageSize(QSizeF(picture.size()) * 72 / 96, QPageSize::Point));
  pdf.addFileAttachment(QStringLiteral("study.plimsoll-session.yaml"), QByteArray::fromStdString(session),
                        QStringLiteral("application/yaml"));
  QPainter painter;
  if (!painter.begin(&pdf)) cannot_write(file);
  picture.draw(painter);
  painter.end();
  if (!out.commit()) cannot_write(file);
}

// Writes the session to a file beside the CSV: inside it, every reader of the CSV would have to skip it.
void write_csv(const View& view, const QString& file, const std::string& session) {
  write_bytes(file, table_text(view.table(), QChar(u',')).toUtf8());
  write_bytes(file.chopped(4) + QStringLiteral(".plimsoll-session.yaml"), QByteArray::fromStdString(session));
}

std::string unescaped(QString text) {
  // Replace the ampersand last, or "&amp;lt;" would become "<".
  text.replace(QStringLiteral("&lt;"), QStringLiteral("<")).replace(QStringLiteral("&gt;"), QStringLiteral(">"));
  text.replace(QStringLiteral("&quot;"), QStringLiteral("\"")).replace(QStringLiteral("&apos;"), QStringLiteral("'"));
  return utf8(text.replace(QStringLiteral("&amp;"), QStringLiteral("&")));
}

std::string session_in_svg(const QString& file) {
  constexpr qint64 kMaxBytes = 16 << 20;
  QFile in(file);
  if (!in.open(QIODevice::ReadOnly) || in.size() > kMaxBytes) return {};
  const QString text = QString::fromUtf8(in.readAll());
  const QString open = QStringLiteral("<desc>") + QString::fromLatin1(kKey) + QChar(u'\n');
  const auto begin = text.indexOf(open), end = text.indexOf(QStringLiteral("</desc>"), begin);
  if (begin < 0 || end < 0) return {};
  return unescaped(text.mid(begin + open.size(), end - begin - open.size()));
}

// The attachment is one of the compressed streams, recognised by its first bytes.
std::string session_in_pdf(const QString& file) {
  constexpr qint64 kMaxBytes = 64 << 20;
  constexpr char kGuess[] = {0, 1, 0, 0};  // 64 KiB: qUncompress requires a size but finds the real one itself
  QFile in(file);
  if (!in.open(QIODevice::ReadOnly) || in.size() > kMaxBytes) return {};
  const QByteArray bytes = in.readAll();
  for (qsizetype at = bytes.indexOf("stream\n"); at >= 0; at = bytes.indexOf("stream\n", at + 1)) {
    const qsizetype begin = at + 7, end = bytes.indexOf("endstream", begin);
    if (end < 0 || bytes.mid(at - 3, 3) == "end") continue;
    const QByteArray raw = bytes.mid(begin, end - begin);
    const QByteArray text = raw.startsWith('\x78') ? qUncompress(QByteArray(kGuess, sizeof kGuess) + raw) : raw;
    if (text.contains("\nplimsoll_session:")) return text.toStdString();
  }
  return {};
}

}  // namespace

QImage picture_image(const Picture& picture, double scale) {
  // RGB32 has no alpha, so the picture looks the same on any page.
  QImage image((QSizeF(picture.size()) * scale).toSize(), QImage::Format_RGB32);
  image.setDevicePixelRatio(scale);
  QPainter painter(&image);
  picture.draw(painter);
  return image;
}

void write_bytes(const QString& file, const QByteArray& text) {
  QSaveFile out(file);
  if (!out.open(QIODevice::WriteOnly) || out.write(text) != text.size() || !out.commit()) cannot_write(file);
}

void export_view(View& view, const QString& file, const std::string& session, double scale) {
  const QString ending = file.section(QChar(u'.'), -1).toLower();
  if (ending == QStringLiteral("png"))
    write_png(Picture(view), file, session, scale);
  else if (ending == QStringLiteral("svg"))
    write_svg(Picture(view), file, session);
  else if (ending == QStringLiteral("pdf"))
    write_pdf(Picture(view), file, session);
  else if (ending == QStringLiteral("csv"))
    write_csv(view, file, session);
  else
    throw InputError(utf8(file) + ": expected a name that ends in .png, .svg, .pdf or .csv");
}

std::string session_in_picture(const QString& file) {
  if (file.endsWith(QStringLiteral(".svg"), Qt::CaseInsensitive)) return session_in_svg(file);
  if (file.endsWith(QStringLiteral(".pdf"), Qt::CaseInsensitive)) return session_in_pdf(file);
  return utf8(QImage(file).text(QString::fromLatin1(kKey)));
}

}  // namespace plimsoll::gui
