// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/legend.h"

#include <QEvent>
#include <QPainter>
#include <QToolButton>
#include <QVBoxLayout>

#include "gui/plot/plot_painter.h"
#include "gui/window/flow_layout.h"

namespace plimsoll::gui {
namespace {

QIcon swatch(const PlotSeries& series, const Theme& theme, double ratio) {
  const QSize size(30, 14);
  QPixmap pixmap(size * ratio);
  pixmap.setDevicePixelRatio(ratio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  draw_swatch(painter, QRectF(QPointF(1, 0), QSizeF(28, 14)), series, theme);
  return QIcon(pixmap);
}

}  // namespace

Legend::Legend(QWidget* parent) : QWidget(parent) {
  lay_out();
  setAccessibleName(tr("Legend"));
}

void Legend::lay_out() {
  delete layout();
  if (below_) {
    auto* rows = new FlowLayout(this);
    for (QToolButton* button : buttons_) rows->addWidget(button);
    return;
  }
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 6, 0, 6);
  column->setSpacing(0);
  for (QToolButton* button : buttons_) column->addWidget(button);
  column->addStretch();
}

void Legend::place_in(QBoxLayout& row, int width) {
  constexpr int kRoomForBoth = 90;  // characters; enough for the plot, its labels and a name
  const bool below = width < kRoomForBoth * fontMetrics().averageCharWidth();
  if (below == below_) return;
  below_ = below;
  row.setDirection(below ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
  lay_out();
}

void Legend::show_series(const std::vector<PlotSeries>& series, const Theme& theme) {
  std::vector<const PlotSeries*> named;
  std::set<QString> seen;
  for (const PlotSeries& one : series) {
    // Greyed curves have no button; series of the same name share one.
    if (one.line != LineLook::faded && !one.name.isEmpty() && seen.insert(one.name).second) named.push_back(&one);
  }
  const std::size_t before = buttons_.size();
  // Reuse buttons: a new one would lose the keyboard focus.
  while (buttons_.size() > named.size()) {
    delete buttons_.back();
    buttons_.pop_back();
  }
  while (buttons_.size() < named.size()) {
    auto* button = new QToolButton(this);
    button->setObjectName(QStringLiteral("series"));
    button->setCheckable(true);
    button->setAutoRaise(true);
    button->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    button->setIconSize(QSize(30, 14));
    button->setFocusPolicy(Qt::StrongFocus);
    button->installEventFilter(this);
    connect(button, &QToolButton::clicked, this, [this, button] { toggle(button->accessibleName()); });
    buttons_.push_back(button);
  }
  if (buttons_.size() != before) lay_out();
  for (std::size_t i = 0; i < named.size(); ++i) {
    const QString& name = named[i]->name;
    // The text contains everything that changes the swatch or the style of the label.
    const QString look = QStringLiteral("%1 %2 %3 %4 %5")
                             .arg(hidden_.contains(name))
                             .arg(named[i]->colour)
                             .arg(static_cast<int>(named[i]->line))
                             .arg(theme.dark)
                             .arg(named[i]->points.empty() ? 0 : static_cast<int>(named[i]->points.front().look));
    const bool same = buttons_[i]->accessibleName() == name && buttons_[i]->property("look").toString() == look;
    if (same) continue;  // avoids redrawing at every step of a drag
    buttons_[i]->setProperty("look", look);
    buttons_[i]->setIcon(swatch(*named[i], theme, devicePixelRatioF()));
    buttons_[i]->setText(
        QFontMetrics(buttons_[i]->font()).elidedText(name, Qt::ElideRight, 30 * fontMetrics().averageCharWidth()));
    buttons_[i]->setAccessibleName(name);
    buttons_[i]->setToolTip(tr("%1: click to hide or show, double-click to show alone").arg(name));
    buttons_[i]->setChecked(!hidden_.contains(name));
    QFont font = this->font();
    // Strike the name out, because colour alone is not visible to colour-blind users.
    font.setStrikeOut(hidden_.contains(name));
    buttons_[i]->setFont(font);
  }
}

void Legend::toggle(const QString& name) {
  if (!hidden_.erase(name)) hidden_.insert(name);
  Q_EMIT changed();
}

void Legend::solo(const QString& name) {
  hidden_.clear();
  for (const QToolButton* button : buttons_) {
    if (button->accessibleName() != name) hidden_.insert(button->accessibleName());
  }
  Q_EMIT changed();
}

// A double-click sends a click first, which has already hidden or shown the series; solo() then sets all of them.
bool Legend::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::MouseButtonDblClick) {
    if (auto* button = qobject_cast<QToolButton*>(watched)) solo(button->accessibleName());
    return true;
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace plimsoll::gui
