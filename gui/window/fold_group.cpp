// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/fold_group.h"

#include <QSettings>
#include <QToolButton>
#include <QVBoxLayout>

namespace plimsoll::gui {

FoldGroup::FoldGroup(const QString& title, const QString& key, bool open, QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  title_ = new QToolButton(this);
  title_->setText(title);
  title_->setAccessibleName(title);
  title_->setToolTip(tr("Fold or unfold %1").arg(title));
  title_->setAutoRaise(true);
  title_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  title_->setFocusPolicy(Qt::StrongFocus);
  QFont font = title_->font();
  font.setBold(true);
  title_->setFont(font);
  inside_ = new QWidget(this);
  layout_ = new QVBoxLayout(inside_);
  layout_->setContentsMargins(6, 2, 0, 6);
  column->addWidget(title_, 0, Qt::AlignLeft);
  column->addWidget(inside_);
  const QString setting = QStringLiteral("groups/") + key;
  set_open(QSettings().value(setting, open).toBool());
  connect(title_, &QToolButton::clicked, this, [this, setting] {
    set_open(!is_open());
    QSettings().setValue(setting, is_open());
  });
}

bool FoldGroup::is_open() const { return !inside_->isHidden(); }

void FoldGroup::set_open(bool open) {
  title_->setArrowType(open ? Qt::DownArrow : Qt::RightArrow);
  inside_->setVisible(open);
}

}  // namespace plimsoll::gui
