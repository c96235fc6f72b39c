// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/picture.h"

#include <QDate>
#include <QFontInfo>
#include <QFontMetrics>
#include <algorithm>
#include <set>
#include <utility>

#include "gui/core/footprint.h"
#include "gui/core/text.h"
#include "gui/plot/plot_painter.h"

namespace plimsoll::gui {
namespace {

constexpr int kMargin = 14, kGap = 4;
constexpr int kSwatch = 30;

// Returns what a scenario simulates and where: model, hardware, engine, footprint.
QString setup_words(const CurveModel& model) {
  const CurveOutline& outline = model.outline();
  QStringList words{outline.setup.model, outline.setup.hardware, outline.setup.engine,
                    footprint_range(outline.footprints)};
  words.removeAll(QString());
  return words.join(QStringLiteral(" · "));
}

// A line for each shown scenario, with its name if there are several.
QStringList setup_lines(const Workbench& bench) {
  const std::vector<Scenario>& scenarios = bench.session().state().scenarios;
  QStringList lines;
  for (std::size_t s = 0; s < scenarios.size(); ++s) {
    const CurveModel* model = scenarios[s].shown ? bench.curves_of(s) : nullptr;
    if (model == nullptr || bench.failure_of(s) != nullptr) continue;
    lines << (scenarios.size() > 1 ? QStringLiteral("%1: ").arg(scenarios[s].name) : QString()) + setup_words(*model);
  }
  return lines;
}

QString title_of(const View& view) {
  const Workbench& bench = view.bench();
  const QString study = bench.curves().outline().title;
  const bool several = bench.session().state().scenarios.size() > 1;
  const QString about = several || study.isEmpty() ? bench.session().scenario().name : study;
  return QStringLiteral("%1: %2").arg(several ? tr("Plimsoll") : about, view.title());
}

}  // namespace

// Fonts are in pixels, so that the text has the same size in every format.
Picture::Picture(View& view) : title_(title_of(view)), font_(view.font()) {
  view.complete();
  const PictureParts parts = view.picture();
  const bool dark = view.palette().color(QPalette::Window).lightness() < 128;
  theme_ = dark ? &dark_theme() : &light_theme();
  for (const QWidget* chart : parts.charts) width_ = std::max(width_, chart->width());
  width_ += 2 * kMargin;
  height_ = kMargin;
  const int pixels = QFontInfo(view.font()).pixelSize();
  font_.setPixelSize(pixels);
  QFont large = font_;
  large.setPixelSize(pixels * 5 / 4);
  large.setBold(true);
  add_text(title_, large, theme_->text);
  for (const QString& line : setup_lines(view.bench())) add_text(line, font_, theme_->text);
  for (QWidget* chart : parts.charts) add_chart(*chart);
  const auto* first = parts.charts.empty() ? nullptr : dynamic_cast<const PlotView*>(parts.charts.front());
  if (first != nullptr) add_legend(first->content());
  for (const QString& line : parts.text) add_text(line, font_, theme_->text);
  add_text(tr("Plimsoll, %1").arg(QDate::currentDate().toString(Qt::ISODate)), font_, theme_->soft_text);
  height_ += kMargin - kGap;
}

void Picture::add(int height, std::function<void(QPainter&, const QPoint&)> draw) {
  strips_.push_back({height, std::move(draw)});
  height_ += height + kGap;
}

void Picture::add_text(const QString& text, const QFont& font, const QColor& colour) {
  if (text.isEmpty()) return;
  texts_ << text;
  const QRect room(0, 0, width_ - 2 * kMargin, 1 << 20);
  const int height = QFontMetrics(font).boundingRect(room, Qt::TextWordWrap, text).height();
  add(height, [=, width = room.width()](QPainter& painter, const QPoint& at) {
    painter.setFont(font);
    painter.setPen(colour);
    painter.drawText(QRect(at, QSize(width, height)), Qt::TextWordWrap, text);
  });
}

void Picture::add_chart(QWidget& chart) {
  add(chart.height(),
      [&chart](QPainter& painter, const QPoint& at) { chart.render(&painter, at, QRegion(), QWidget::DrawChildren); });
}

// Series of the same name share an entry, as in the legend of the window.
void Picture::add_legend(const PlotContent& content) {
  const QFontMetrics metrics(font_);
  struct Entry {
    PlotSeries look;
    QPoint at;
  };
  std::vector<Entry> entries;
  std::set<QString> seen;
  QPoint at;
  for (const PlotSeries& series : content.series) {
    if (series.line == LineLook::faded || series.points.empty() || series.name.isEmpty()) continue;
    if (!seen.insert(series.name).second) continue;
    const int needed = kSwatch + 6 + metrics.horizontalAdvance(series.name) + 16;
    if (at.x() > 0 && at.x() + needed > width_ - 2 * kMargin) at = {0, at.y() + metrics.height() + 2};
    Entry entry{series, at};
    entry.look.points.resize(1);  // a swatch needs the look of one point
    entries.push_back(std::move(entry));
    at.rx() += needed;
  }
  if (entries.size() < 2) return;
  add(at.y() + metrics.height(), [this, entries, metrics](QPainter& painter, const QPoint& place) {
    painter.setFont(font_);
    for (const Entry& entry : entries) {
      const QPoint corner = place + entry.at;
      draw_swatch(painter, QRectF(corner, QSizeF(kSwatch, metrics.height())), entry.look, *theme_);
      painter.setPen(theme_->text);
      painter.drawText(corner + QPoint(kSwatch + 6, metrics.ascent()), entry.look.name);
    }
  });
}

void Picture::draw(QPainter& painter) const {
  painter.fillRect(QRect(QPoint(), size()), theme_->background);
  QPoint at(kMargin, kMargin);
  for (const Strip& strip : strips_) {
    painter.save();
    painter.setRenderHint(QPainter::Antialiasing);
    strip.draw(painter, at);
    painter.restore();
    at.ry() += strip.height + kGap;
  }
}

}  // namespace plimsoll::gui
