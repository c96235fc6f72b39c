// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/slo_panel.h"

#include <QComboBox>
#include <QCoreApplication>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QSignalBlocker>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <cmath>

#include "gui/core/text.h"
#include "gui/window/curve_words.h"
#include "gui/window/wheel_guard.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

constexpr std::array<const char*, 5> kStatistics = {"mean", "p50", "p90", "p95", "p99"};
// Limits that are stated most often; a new row is the first of them that the scenario lacks.
constexpr std::array<const char*, 6> kUsualKeys = {
    "p90_ttft", "p90_tpot", "p99_itl", "p90_latency", "p90_latency_per_token", "min_goodput"};

QString quantity_words(const SloQuantity& quantity) {
  return QCoreApplication::translate("plimsoll::gui::SloPanel", quantity.label);
}

}  // namespace

SloPanel::SloPanel(Workbench& bench, QWidget* parent) : QWidget(parent), bench_(bench) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  empty_ = new QLabel(tr("No limits: any latency will do."), this);
  empty_->setWordWrap(true);
  column->addWidget(empty_);
  grid_ = new QGridLayout();
  grid_->setHorizontalSpacing(4);
  grid_->setVerticalSpacing(3);
  grid_->setColumnStretch(1, 3);
  grid_->setColumnStretch(2, 2);
  column->addLayout(grid_);
  problem_ = new QLabel(this);
  problem_->setObjectName(QStringLiteral("problem"));
  problem_->setWordWrap(true);
  problem_->hide();
  column->addWidget(problem_);
  attained_ = new QLabel(this);
  attained_->setWordWrap(true);
  attained_->setObjectName(QStringLiteral("soft"));
  attained_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  attained_->setFocusPolicy(Qt::NoFocus);
  column->addWidget(attained_);
  make_margin();
  connect(&bench_.session(), &Session::changed, this, &SloPanel::refresh);
  connect(&bench_, &Workbench::curves_changed, this, &SloPanel::refresh_standing);
  connect(&bench_, &Workbench::selection_changed, this, &SloPanel::refresh_standing);
  refresh();
}

void SloPanel::make_margin() {
  auto* row = new QHBoxLayout();
  add_ = new QToolButton(this);
  add_->setText(tr("Add a limit"));
  add_->setToolTip(tr("Add a limit on another metric; a load must keep them all"));
  margin_ = new QComboBox(this);
  margin_->setAccessibleName(tr("Safety margin"));
  margin_->setToolTip(
      tr("How far from its limits a load must stay to count as carried: a share of each limit, or the whole 90 % band "
         "of the prediction"));
  margin_->addItem(tr("no margin"), 0.0);
  for (const int percent : {5, 10, 20}) margin_->addItem(tr("%1 % margin").arg(percent), percent / 100.0);
  margin_->addItem(tr("90 % band within"), -1.0);
  row->addWidget(add_);
  row->addStretch();
  row->addWidget(margin_);
  static_cast<QVBoxLayout*>(layout())->addLayout(row);
  connect(add_, &QToolButton::clicked, this, &SloPanel::add_row);
  connect(margin_, &QComboBox::activated, this, [this](int index) {
    const double chosen = margin_->itemData(index).toDouble();
    bench_.set_view(tr("Choose the safety margin"), {}, [chosen](ViewState& view) {
      view.safe = chosen < 0;
      view.margin = std::max(0.0, chosen);
    });
  });
}

void SloPanel::make_row() {
  RowWidgets row;
  const int line = static_cast<int>(rows_.size()), number = line + 1;
  row.statistic = new QComboBox(this);
  row.statistic->setEditable(true);
  row.statistic->setInsertPolicy(QComboBox::NoInsert);
  for (const char* const name : kStatistics) row.statistic->addItem(qs(name));
  row.statistic->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  row.statistic->setMinimumContentsLength(3);
  row.statistic->setAccessibleName(tr("Statistic of limit %1").arg(number));
  row.statistic->lineEdit()->setAccessibleName(row.statistic->accessibleName());
  row.statistic->setToolTip(tr("mean, or a percentile such as p99 or p99.9"));
  row.quantity = new QComboBox(this);
  for (const SloQuantity& quantity : slo_quantities())
    row.quantity->addItem(quantity_words(quantity), qs(quantity.name));
  row.quantity->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  row.quantity->setMinimumContentsLength(3);
  row.quantity->setAccessibleName(tr("Metric of limit %1").arg(number));
  row.limit = new QLineEdit(this);
  row.limit->setMinimumWidth(fontMetrics().averageCharWidth() * 8);
  row.limit->setAccessibleName(tr("Value of limit %1").arg(number));
  row.limit->setToolTip(tr("The limit, such as 50 ms or 2 s"));
  row.limit->installEventFilter(window());  // which leaves the keys of the menus to them
  row.standing = new QLabel(this);
  row.standing->setObjectName(QStringLiteral("soft"));
  row.standing->setWordWrap(true);
  row.standing->setTextInteractionFlags(Qt::TextSelectableByMouse);
  row.remove = new QToolButton(this);
  row.remove->setText(QStringLiteral("✕"));
  row.remove->setAutoRaise(true);
  row.remove->setAccessibleName(tr("Remove limit %1").arg(number));
  row.remove->setToolTip(tr("Remove this limit"));
  // Two lines, because the form is narrow: the limit, and below it how much of it is used.
  grid_->addWidget(row.statistic, 2 * line, 0);
  grid_->addWidget(row.quantity, 2 * line, 1);
  grid_->addWidget(row.limit, 2 * line, 2);
  grid_->addWidget(row.remove, 2 * line, 3);
  grid_->addWidget(row.standing, 2 * line + 1, 0, 1, 4);
  rows_.push_back(row);
  for (QComboBox* box : {row.statistic, row.quantity}) leave_wheel_to_form(*box);
  connect(row.quantity, &QComboBox::activated, this, [this, line](int index) {
    // A limit of another kind of quantity would make no sense, so the usual one replaces it.
    const SloQuantity& chosen = slo_quantities()[static_cast<std::size_t>(index)];
    const SloRow before =
        slo_rows(bench_.session().scenario(), bench_.session().state().view).at(static_cast<std::size_t>(line));
    const SloQuantity* known = slo_quantity(before.key);
    if (known == nullptr || known->name != chosen.name)
      rows_[static_cast<std::size_t>(line)].limit->setText(qs(chosen.usual));
    enter();
  });
  connect(row.statistic, &QComboBox::activated, this, &SloPanel::enter);
  connect(row.statistic->lineEdit(), &QLineEdit::editingFinished, this, &SloPanel::enter);
  connect(row.limit, &QLineEdit::editingFinished, this, &SloPanel::enter);
  connect(row.remove, &QToolButton::clicked, this, [this, line] {
    std::vector<SloRow> rows = shown_rows();
    rows.erase(rows.begin() + line);
    apply(std::move(rows), tr("Remove a limit"));
  });
}

SloRow SloPanel::entered_row(const RowWidgets& row) const {
  const std::string name = utf8(row.quantity->currentData().toString());
  const SloQuantity* quantity = nullptr;
  for (const SloQuantity& known : slo_quantities()) {
    if (name == known.name) quantity = &known;
  }
  if (quantity == nullptr) return {};
  const QString statistic = row.statistic->currentText().trimmed().toLower();
  return {quantity->statistic ? utf8(statistic.isEmpty() ? QStringLiteral("p90") : statistic) + "_" + name : name,
          utf8(row.limit->text().trimmed())};
}

// Rows of keys that this form does not know are kept as they are.
std::vector<SloRow> SloPanel::shown_rows() const {
  std::vector<SloRow> rows = slo_rows(bench_.session().scenario(), bench_.session().state().view);
  for (std::size_t i = 0; i < std::min(rows.size(), rows_.size()); ++i) {
    if (slo_quantity(rows[i].key) != nullptr) rows[i] = entered_row(rows_[i]);
  }
  return rows;
}

void SloPanel::enter() { apply(shown_rows(), tr("Change the SLO")); }

void SloPanel::apply(std::vector<SloRow> rows, const QString& label) {
  // Leaving a field without a change is not an edit.
  if (rows == slo_rows(bench_.session().scenario(), bench_.session().state().view)) {
    problem_->hide();
    return;
  }
  try {
    bench_.session().edit(label, {}, [&](SessionState& state) { set_slo_rows(state, rows); });
    problem_->hide();
  } catch (const InputError& error) {
    problem_->setText(QStringLiteral("✗ ") + qs(error.text()));
    problem_->show();
  }
}

void SloPanel::add_row() {
  std::vector<SloRow> rows = slo_rows(bench_.session().scenario(), bench_.session().state().view);
  for (const char* const key : kUsualKeys) {
    if (std::any_of(rows.begin(), rows.end(), [&](const SloRow& row) { return row.key == key; })) continue;
    rows.push_back({key, slo_quantity(key)->usual});
    apply(std::move(rows), tr("Add a limit"));
    return;
  }
}

void SloPanel::show_row(std::size_t index, const SloRow& row) {
  RowWidgets& widgets = rows_[index];
  const SloQuantity* quantity = slo_quantity(row.key);
  const QSignalBlocker quiet_statistic(widgets.statistic), quiet_quantity(widgets.quantity);
  widgets.quantity->setEnabled(quantity != nullptr);
  widgets.quantity->setCurrentIndex(quantity != nullptr ? widgets.quantity->findData(qs(quantity->name)) : -1);
  const bool statistic = quantity != nullptr && quantity->statistic;
  widgets.statistic->setVisible(statistic);
  if (!widgets.statistic->lineEdit()->hasFocus()) widgets.statistic->setEditText(qs(slo_statistic(row.key)));
  // Never overwrite what the user is typing.
  if (!widgets.limit->hasFocus() || !widgets.limit->isModified()) {
    widgets.limit->setText(qs(row.limit));
    widgets.limit->setCursorPosition(0);
  }
  widgets.limit->setEnabled(quantity != nullptr);
}

void SloPanel::refresh() {
  const ViewState& view = bench_.session().state().view;
  const std::vector<SloRow> rows = slo_rows(bench_.session().scenario(), view);
  while (rows_.size() < rows.size()) make_row();
  while (rows_.size() > rows.size()) {
    const RowWidgets last = rows_.back();
    rows_.pop_back();
    for (QWidget* widget : {static_cast<QWidget*>(last.statistic), static_cast<QWidget*>(last.quantity),
                            static_cast<QWidget*>(last.limit), static_cast<QWidget*>(last.standing),
                            static_cast<QWidget*>(last.remove)}) {
      widget->disconnect(this);
      widget->hide();
      widget->deleteLater();  // its own signal may have led here
    }
  }
  for (std::size_t i = 0; i < rows.size(); ++i) show_row(i, rows[i]);
  empty_->setVisible(rows.empty());
  problem_->hide();
  const int chosen = view.safe ? margin_->count() - 1 : margin_->findData(view.margin);
  margin_->setCurrentIndex(chosen);
  if (chosen < 0) margin_->setPlaceholderText(tr("%1 % margin").arg(reader_text(100 * view.margin, 3)));
  margin_->setEnabled(!rows.empty());
  refresh_standing();
}

void SloPanel::refresh_standing() {
  const std::vector<SloRow> rows = slo_rows(bench_.session().scenario(), bench_.session().state().view);
  if (rows.size() != rows_.size()) return;  // refresh() follows
  const SloStanding standing = slo_standing(bench_, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& limit = standing.limits[i];
    QLabel& label = *rows_[i].standing;
    if (!limit) {
      label.setText(QStringLiteral("–"));
    } else {
      const QString mark = limit->kept() ? QStringLiteral("✓") : QStringLiteral("✗");
      label.setText(std::isfinite(limit->used()) ? tr("%1 %2 % used").arg(mark, reader_text(100 * limit->used(), 3))
                                                 : tr("%1 requests fail, or the queue grows").arg(mark));
    }
    label.setToolTip(limit ? used_words(*limit) : tr("Nothing has been simulated yet"));
    label.setAccessibleName(limit ? used_words(*limit) : QString());
  }
  if (!standing.at || rows.empty()) {
    attained_->hide();
    return;
  }
  const QString where = load_text(*standing.at);
  QString text = standing.selected ? tr("At %1, the selected point").arg(where) : tr("At %1").arg(where);
  if (standing.attainment)
    text +=
        tr(": %1 % of the requests keep all limits on single requests").arg(reader_text(100 * *standing.attainment, 4));
  attained_->setText(text);
  attained_->show();
}

QString SloPanel::notes() const {
  QStringList lines;
  for (const QLabel* label : {problem_, attained_}) {
    if (!label->isHidden()) lines << label->text();
  }
  return lines.join(QChar(u'\n'));
}

}  // namespace plimsoll::gui
