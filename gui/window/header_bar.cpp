// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/header_bar.h"

#include <QLabel>
#include <QRegularExpression>
#include <QToolButton>

#include "gui/core/footprint.h"
#include "gui/core/text.h"
#include "gui/window/flow_layout.h"

namespace plimsoll::gui {

HeaderBar::HeaderBar(Workbench& bench, QWidget* parent) : QWidget(parent), bench_(bench) {
  auto* row = new FlowLayout(this);
  row->setContentsMargins(2, 3, 2, 3);
  model_ = make_button(QStringLiteral("model"), tr("Model"));
  hardware_ = make_button(QStringLiteral("hardware"), tr("Hardware"));
  engine_ = make_button(QStringLiteral("engine"), tr("Engine"));
  footprint_ = new QLabel(this);
  footprint_->setAccessibleName(tr("Footprint"));
  footprint_->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  row->addWidget(footprint_);
  connect(footprint_, &QLabel::linkActivated, this, [this] { bench_.fill_instances(); });
}

QToolButton* HeaderBar::make_button(const QString& path, const QString& name) {
  auto* button = new QToolButton(this);
  button->setObjectName(QStringLiteral("header"));
  button->setAutoRaise(true);
  button->setAccessibleName(name);
  button->setToolTip(tr("%1: click to change it").arg(name));
  button->setFocusPolicy(Qt::StrongFocus);
  layout()->addWidget(button);
  connect(button, &QToolButton::clicked, this, [this, path] { Q_EMIT edit_wanted(path); });
  return button;
}

void HeaderBar::refresh() {
  const CurveOutline& outline = bench_.curves().outline();
  const Scenario& scenario = bench_.session().scenario();
  // Until the study has been read, shows the fields as they are stated.
  const auto show = [&](QToolButton* button, const QString& known, const char* path) {
    const FieldValue stated = field_value(scenario, path);
    // Of several swept values, only the first is known in words.
    QString text = bench_.failure() || known.isEmpty() || stated.swept ? stated.text : known;
    if (text.isEmpty()) text = tr("%1 not stated").arg(button->accessibleName());
    // Several swept values do not fit; the form shows them.
    text = fontMetrics().elidedText(text, Qt::ElideRight, 40 * fontMetrics().averageCharWidth());
    if (button->text() != text) button->setText(text);
  };
  show(model_, outline.setup.model, "model");
  show(hardware_, outline.setup.hardware, "hardware");
  show(engine_, outline.setup.engine, "engine");
  const auto footprint = [&](bool machines) {
    const QString text = bench_.failure() ? QString() : footprint_range(outline.footprints, machines);
    const auto replicas = bench_.filling_replicas();
    // Plain text, where there is no link: rich text is laid out again and again during a drag.
    return replicas ? QStringLiteral("%1 · <a href=\"fill\">%2</a>")
                          .arg(text.toHtmlEscaped(), tr("fill with %1 replicas").arg(*replicas))
                    : text;
  };
  full_ = footprint(true);
  brief_ = footprint(false);
  fit();
}

// A second row would take height from the plot. The hardware's name is in the row already, so it may be left out.
void HeaderBar::fit() {
  const auto show = [this](const QString& text) {
    if (footprint_->text() != text) footprint_->setText(text);
  };
  int buttons = layout()->contentsMargins().left() + layout()->contentsMargins().right();
  for (const QToolButton* button : {model_, hardware_, engine_})
    buttons += button->sizeHint().width() + FlowLayout::kAcross;
  const int room = width() - buttons;
  QString plain = full_;
  static const QRegularExpression tag(QStringLiteral("<[^>]*>"));
  show(footprint_->fontMetrics().horizontalAdvance(plain.remove(tag)) <= room ? full_ : brief_);
}

void HeaderBar::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fit();
}

QString HeaderBar::text() const {
  return QStringList{model_->text(), hardware_->text(), engine_->text(), full_}.join(QStringLiteral(" · "));
}

}  // namespace plimsoll::gui
