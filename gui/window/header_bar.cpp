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
  names_.clear();
  // Until the study has been read, shows the fields as they are stated.
  const auto name = [&](QToolButton* button, const QString& known, const char* path) {
    const FieldValue stated = field_value(scenario, path);
    // Of several swept values, only the first is known in words.
    const bool in_words = !bench_.failure() && !known.isEmpty() && !stated.swept;
    QString text = in_words ? known : stated.text;
    if (text.isEmpty()) text = tr("%1 not stated").arg(button->accessibleName());
    const QString tip = tr("%1: click to change it").arg(in_words ? text : button->accessibleName());
    if (button->toolTip() != tip) button->setToolTip(tip);
    // Several swept values do not fit; the form shows them.
    text = fontMetrics().elidedText(text, Qt::ElideRight, 40 * fontMetrics().averageCharWidth());
    names_.push_back({text, in_words ? text.section(QStringLiteral(", "), 0, 0) : text});
  };
  name(model_, outline.setup.model, "model");
  name(hardware_, outline.setup.hardware, "hardware");
  name(engine_, outline.setup.engine, "engine");
  const auto footprint = [&](bool machines) {
    const QString text = bench_.failure() ? QString() : footprint_range(outline.footprints, machines);
    const auto replicas = bench_.filling_replicas();
    // Plain text, where there is no link: rich text is laid out again and again during a drag.
    return replicas ? QStringLiteral("%1 · <a href=\"fill\">%2</a>")
                          .arg(text.toHtmlEscaped(), tr("fill with %1 replicas").arg(*replicas))
                    : text;
  };
  machines_ = {footprint(true), footprint(false)};
  fit();
}

// Returns the texts of the row. Each step leaves out what another place shows as well: the footprint's instances, which
// the hardware names; the instance, which the form names; number format and price, which the form and the table of
// answers have.
std::vector<QString> HeaderBar::texts(int step) const {
  std::vector<QString> out;
  for (std::size_t i = 0; i < names_.size(); ++i)
    out.push_back(step > (i == 1 ? 1 : 2) ? names_[i].brief : names_[i].full);
  QString machines = step > 0 ? machines_.brief : machines_.full;
  if (step > 2 && !machines.contains(QChar(u'<'))) machines = machines.section(QStringLiteral(", "), 0, 0);
  out.push_back(machines);
  return out;
}

int HeaderBar::width_of(const std::vector<QString>& texts) const {
  static const QRegularExpression tag(QStringLiteral("<[^>]*>"));
  int width = layout()->contentsMargins().left() + layout()->contentsMargins().right();
  std::size_t i = 0;
  for (const QToolButton* button : {model_, hardware_, engine_}) {
    const QFontMetrics metrics = button->fontMetrics();
    width += button->sizeHint().width() - metrics.horizontalAdvance(button->text()) +
             metrics.horizontalAdvance(texts[i++]) + FlowLayout::kAcross;
  }
  return width + footprint_->fontMetrics().horizontalAdvance(QString(texts[i]).remove(tag));
}

// A second row would take height from the plot, so the texts are shortened where that avoids it.
void HeaderBar::fit() {
  constexpr int kSteps = 3;
  if (names_.empty()) return;
  for (int step = 0; step <= kSteps; ++step) {
    const std::vector<QString> row = texts(step);
    if (width_of(row) <= width()) return show_texts(row);
  }
  show_texts(texts(1));
}

void HeaderBar::show_texts(const std::vector<QString>& texts) {
  std::size_t i = 0;
  for (QToolButton* button : {model_, hardware_, engine_}) {
    if (button->text() != texts[i]) button->setText(texts[i]);
    ++i;
  }
  if (footprint_->text() != texts[i]) footprint_->setText(texts[i]);
}

void HeaderBar::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  fit();
}

QString HeaderBar::text() const {
  QStringList all;
  for (const Part& name : names_) all << name.full;
  return (all << machines_.full).join(QStringLiteral(" · "));
}

}  // namespace plimsoll::gui
