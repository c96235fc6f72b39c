// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/banner.h"

#include <QAction>
#include <QHBoxLayout>
#include <QLabel>
#include <QToolButton>

namespace plimsoll::gui {

Banner::Banner(QWidget* parent) : QFrame(parent) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(6, 4, 6, 4);
  label_ = new QLabel(this);
  label_->setObjectName(QStringLiteral("problem"));
  label_->setWordWrap(true);
  label_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  label_->setAccessibleName(tr("Message"));
  offer_ = new QToolButton(this);
  offer_->setAccessibleName(tr("Run the action of this message"));
  close_ = new QToolButton(this);
  close_->setText(QStringLiteral("✕"));
  close_->setAutoRaise(true);
  close_->setToolTip(tr("Dismiss this message"));
  close_->setAccessibleName(close_->toolTip());
  row->addWidget(label_, 1);
  row->addWidget(offer_, 0, Qt::AlignTop);
  row->addWidget(close_, 0, Qt::AlignTop);
  hide();
  connect(close_, &QToolButton::clicked, this, [this] {
    const bool offered = !offer_->isHidden();
    show_text({});
    Q_EMIT dismissed(offered);
  });
}

void Banner::show_text(const QString& text, QAction* offer) {
  label_->setText(text);
  disconnect(offer_, &QToolButton::clicked, nullptr, nullptr);
  offer_->setVisible(offer != nullptr);
  if (offer != nullptr) {
    offer_->setText(QString(offer->text()).remove(QChar(u'&')));
    offer_->setAccessibleName(offer_->text());
    connect(offer_, &QToolButton::clicked, offer, &QAction::trigger);
  }
  setVisible(!text.isEmpty());
}

QString Banner::text() const { return label_->text(); }

}  // namespace plimsoll::gui
