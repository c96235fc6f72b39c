// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/welcome.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QToolButton>
#include <QVBoxLayout>

#include "gui/core/text.h"
#include "gui/window/flow_layout.h"

namespace plimsoll::gui {

WelcomeStrip::WelcomeStrip(QWidget* parent) : QFrame(parent) {
  setObjectName(QStringLiteral("welcome"));
  setAccessibleName(tr("Welcome"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(12, 8, 8, 8);
  auto* head = new QHBoxLayout();
  auto* words =
      new QLabel(tr("<b>Welcome to Plimsoll.</b> This is an example: Llama 2 7B on eight A100. Change anything on "
                    "the left, and the curve follows. Files can be dropped anywhere on this window."),
                 this);
  words->setWordWrap(true);
  auto* close = new QToolButton(this);
  close->setText(QStringLiteral("✕"));
  close->setAutoRaise(true);
  close->setToolTip(tr("Close; Help ▸ Welcome brings it back"));
  close->setAccessibleName(tr("Close the welcome strip"));
  head->addWidget(words, 1);
  head->addWidget(close, 0, Qt::AlignTop);
  column->addLayout(head);
  auto* row = new QWidget(this);
  auto* flow = new FlowLayout(row);
  const auto button = [&](const QString& text, const QString& help, void (WelcomeStrip::*wanted)()) {
    auto* made = new QPushButton(text, row);
    made->setToolTip(help);
    made->setAccessibleDescription(help);
    flow->addWidget(made);
    connect(made, &QPushButton::clicked, this, wanted);
  };
  button(tr("Example"), tr("Show the example again"), &WelcomeStrip::example_wanted);
  button(tr("New study"), tr("Begin with your own model and hardware"), &WelcomeStrip::new_wanted);
  button(tr("Open…"), tr("A study, session, table of measured points, trace or config.json"),
         &WelcomeStrip::open_wanted);
  button(tr("Plan a deployment"), tr("Find the cheapest deployment that keeps an SLO"), &WelcomeStrip::plan_wanted);
  button(tr("Measure a server"), tr("Send the load to a running server, or to this machine"),
         &WelcomeStrip::measure_wanted);
  button(tr("Import your runs…"), tr("Results of a load generator, or any table"), &WelcomeStrip::import_wanted);
  column->addWidget(row);
  connect(close, &QToolButton::clicked, this, [this] {
    hide();
    Q_EMIT dismissed();
  });
}

QString about_text() {
  return WelcomeStrip::tr(
             "<h3>Plimsoll %1</h3>"
             "<p>Predicts how much load a deployment of a large language model can carry.</p>"
             "<p>This window is free software under the GNU General Public License, version 3 or later, as is Qt "
             "Charts, which it uses. It comes without any warranty. Everything else of Plimsoll is under the "
             "Apache License 2.0. The texts are in the folder LICENSES.</p>"
             "<p>Prices, models and accelerators come from the catalogue; each entry states its source "
             "(plimsoll list). Built with Qt %2, running with Qt %3.</p>")
      .arg(QStringLiteral(PLIMSOLL_VERSION), QStringLiteral(QT_VERSION_STR), QString::fromLatin1(qVersion()));
}

}  // namespace plimsoll::gui
