// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/plan_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QSignalBlocker>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "configs/quantity.h"
#include "gui/core/hardware_list.h"
#include "gui/core/plan_question.h"
#include "gui/core/text.h"
#include "gui/window/flow_layout.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

constexpr int kInstanceRole = Qt::UserRole;

QStringList split(const char* text) { return QString::fromLatin1(text).split(QChar(u' ')); }

}  // namespace

ValueBoxes::ValueBoxes(const QString& label, const QStringList& usual, QWidget* parent)
    : QWidget(parent), label_(label), usual_(usual) {
  new FlowLayout(this);
  for (const QString& value : usual) add(value);
}

QCheckBox* ValueBoxes::add(const QString& value) {
  auto* made = new QCheckBox(value, this);
  made->setAccessibleName(QStringLiteral("%1 %2").arg(label_, value));
  layout()->addWidget(made);
  boxes_.push_back(made);
  connect(made, &QCheckBox::clicked, this, &ValueBoxes::changed);
  return made;
}

QCheckBox* ValueBoxes::box(const QString& value) const {
  for (QCheckBox* known : boxes_) {
    if (known->text() == value) return known;
  }
  return nullptr;
}

void ValueBoxes::show_values(const std::vector<std::string>& values) {
  for (QCheckBox* known : boxes_) known->setChecked(false);
  for (const std::string& value : values) {
    QCheckBox* known = box(qs(value));
    (known != nullptr ? known : add(qs(value)))->setChecked(true);
  }
}

std::vector<std::string> ValueBoxes::values() const {
  std::vector<std::string> out;
  for (const QCheckBox* known : boxes_) {
    if (known->isChecked()) out.push_back(utf8(known->text()));
  }
  // Values without a place among the usual ones have their boxes at the end.
  std::stable_sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) {
    return configs::parse_number(a).value_or(0) < configs::parse_number(b).value_or(0);
  });
  return out;
}

PlanPanel::PlanPanel(Workbench& bench, QWidget* parent) : QWidget(parent), bench_(bench) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(4);
  auto* form = new QFormLayout();
  form->setContentsMargins(0, 0, 0, 0);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  form->setRowWrapPolicy(QFormLayout::WrapLongRows);
  objective_ = new QComboBox(this);
  objective_->setAccessibleName(tr("Objective of the search"));
  objective_->addItem(tr("the least cost"), QStringLiteral("cost"));
  objective_->addItem(tr("the largest load"), QStringLiteral("capacity"));
  objective_->addItem(tr("the least cost per token"), QStringLiteral("cost_per_token"));
  objective_->addItem(tr("the fewest GPUs"), QStringLiteral("gpus"));
  objective_->addItem(tr("the lowest latency"), QStringLiteral("latency"));
  objective_->addItem(tr("the highest throughput"), QStringLiteral("throughput"));
  tp_ = new ValueBoxes(tr("TP degree"), split("1 2 4 8 16"), this);
  replicas_ = new ValueBoxes(tr("Replicas"), split("1 2 4 8 16 32"), this);
  batch_ = new ValueBoxes(tr("Batch limit"), split("16 32 64 128 256 512"), this);
  placing_ = new QComboBox(this);
  placing_->setAccessibleName(tr("How replicas are counted"));
  placing_->addItem(tr("in all"), QStringLiteral("replicas"));
  placing_->addItem(tr("per instance"), QStringLiteral("replicas_per_instance"));
  placing_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  form->addRow(tr("Find"), objective_);
  form->addRow(tr("TP"), tp_);
  form->addRow(tr("Replicas"), replicas_);
  form->addRow(tr("counted"), placing_);
  form->addRow(tr("Batch limit"), batch_);
  column->addLayout(form);
  make_instances();
  make_limits();
  problem_ = new QLabel(this);
  problem_->setObjectName(QStringLiteral("problem"));
  problem_->setWordWrap(true);
  problem_->hide();
  column->addWidget(problem_);
  for (ValueBoxes* boxes : {tp_, replicas_, batch_}) connect(boxes, &ValueBoxes::changed, this, &PlanPanel::enter);
  for (QComboBox* box : {objective_, placing_}) connect(box, &QComboBox::activated, this, &PlanPanel::enter);
  connect(&bench_.session(), &Session::changed, this, [this] {
    if (isVisible()) refresh();
  });
}

void PlanPanel::make_instances() {
  auto* head = new QHBoxLayout();
  auto* label = new QLabel(tr("&Instances"), this);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText(tr("filter: h100, 8 ×, azure"));
  filter_->setAccessibleName(tr("Filter of the instances"));
  head->addWidget(label);
  head->addWidget(filter_, 1);
  instances_ = new QListWidget(this);
  instances_->setAccessibleName(tr("Instances to search"));
  instances_->setToolTip(tr("Instance types to choose from; without a tick, the scenario's own"));
  instances_->setSelectionMode(QAbstractItemView::SingleSelection);
  instances_->setUniformItemSizes(true);
  instances_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  constexpr int kLines = 5;
  instances_->setMinimumHeight(kLines * (fontMetrics().height() + 5));
  label->setBuddy(filter_);
  static_cast<QVBoxLayout*>(layout())->addLayout(head);
  static_cast<QVBoxLayout*>(layout())->addWidget(instances_, 1);  // takes the height that the form leaves
  connect(filter_, &QLineEdit::textChanged, this, &PlanPanel::filter_instances);
  connect(instances_, &QListWidget::itemChanged, this, &PlanPanel::enter);
}

void PlanPanel::make_limits() {
  auto* row = new QHBoxLayout();
  const auto field = [&](const QString& label, const QString& name) {
    auto* line = new QLineEdit(this);
    line->setPlaceholderText(tr("no limit"));
    line->setAccessibleName(name);
    line->setMaximumWidth(fontMetrics().averageCharWidth() * 12);
    auto* text = new QLabel(label, this);
    text->setBuddy(line);
    row->addWidget(text);
    row->addWidget(line);
    connect(line, &QLineEdit::editingFinished, this, &PlanPanel::enter);
    return line;
  };
  budget_ = field(tr("At most"), tr("Most USD an hour"));
  row->addWidget(new QLabel(tr("USD/h,"), this));
  gpus_ = field(QString(), tr("Most GPUs"));
  row->addWidget(new QLabel(tr("GPUs"), this));
  row->addStretch();
  reset_ = new QToolButton(this);
  reset_->setText(tr("Reset"));
  reset_->setToolTip(tr("Derive the search from the scenario again"));
  row->addWidget(reset_);
  static_cast<QVBoxLayout*>(layout())->addLayout(row);
  connect(reset_, &QToolButton::clicked, this, [this] { bench_.set_value(QStringLiteral("search"), {}); });
}

// Reading the catalogue takes some milliseconds, so it is done when the form is shown first.
void PlanPanel::fill_instances(const std::vector<std::string>& chosen) {
  const QSignalBlocker quiet(instances_);
  const auto add = [&](const std::string& name, const QString& words) {
    auto* item = new QListWidgetItem(words, instances_);
    item->setData(kInstanceRole, qs(name));
    item->setToolTip(words);
    item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable | Qt::ItemIsUserCheckable);
    item->setCheckState(Qt::Unchecked);
  };
  if (!filled_) {
    filled_ = true;
    filter_->setClearButtonEnabled(true);  // not at the start of the program: its picture takes milliseconds to load
    for (const HardwareRow& row : hardware_rows(*bench_.catalogue())) {
      const QString price = row.usd_per_hour ? tr(", %1 USD/h").arg(reader_text(*row.usd_per_hour, 4)) : QString();
      add(row.name, QStringLiteral("%1: %2%3, %4").arg(qs(row.name), hardware_words(row), price, row.cloud));
    }
  }
  for (const std::string& name : chosen) {
    bool known = false;
    for (int i = 0; i < instances_->count(); ++i) known = known || instances_->item(i)->data(kInstanceRole) == qs(name);
    if (!known) add(name, qs(name));
  }
  for (int i = 0; i < instances_->count(); ++i) {
    const std::string name = utf8(instances_->item(i)->data(kInstanceRole).toString());
    const bool on = std::find(chosen.begin(), chosen.end(), name) != chosen.end();
    instances_->item(i)->setCheckState(on ? Qt::Checked : Qt::Unchecked);
  }
  filter_instances(filter_->text());
}

// Every word of the filter must appear. What is ticked stays visible.
void PlanPanel::filter_instances(const QString& text) {
  const QStringList words = text.split(QChar(u' '), Qt::SkipEmptyParts);
  for (int i = 0; i < instances_->count(); ++i) {
    QListWidgetItem* item = instances_->item(i);
    const bool fits = std::all_of(words.begin(), words.end(), [&](const QString& word) {
      return item->text().contains(word, Qt::CaseInsensitive);
    });
    item->setHidden(!fits && item->checkState() != Qt::Checked);
  }
}

void PlanPanel::refresh() {
  problem_->hide();
  const Scenario& scenario = bench_.session().scenario();
  const std::string stated = utf8(field_value(scenario, "search").text);
  reset_->setEnabled(!stated.empty());
  try {
    form_ = read_plan_form(stated.empty() ? derived_search(scenario) : stated);
  } catch (const InputError& error) {
    problem_->setText(QStringLiteral("✗ ") + qs(error.text()));
    problem_->show();
    return;
  }
  objective_->setCurrentIndex(objective_->findData(qs(form_.objective)));
  tp_->show_values(form_.list("tp"));
  const bool per_instance = !form_.list("replicas_per_instance").empty();
  placing_->setCurrentIndex(per_instance ? 1 : 0);
  replicas_->show_values(form_.list(per_instance ? "replicas_per_instance" : "replicas"));
  batch_->show_values(form_.list("max_running"));
  fill_instances(form_.list("instances"));
  for (const auto& [line, text] : {std::pair(budget_, &form_.max_usd_per_hour), std::pair(gpus_, &form_.max_gpus)}) {
    if (!line->hasFocus() || !line->isModified()) line->setText(qs(*text));
  }
}

PlanForm PlanPanel::shown_form() const {
  PlanForm form = form_;
  form.objective = utf8(objective_->currentData().toString());
  form.lists["tp"] = tp_->values();
  form.lists["max_running"] = batch_->values();
  const bool per_instance = placing_->currentIndex() == 1;
  form.lists[per_instance ? "replicas_per_instance" : "replicas"] = replicas_->values();
  form.lists[per_instance ? "replicas" : "replicas_per_instance"].clear();
  if (!per_instance) form.lists["instance_count"].clear();
  // A search for the largest load needs a fixed number of instances, because more instances would always carry more.
  if (per_instance && form.list("instance_count").empty()) form.lists["instance_count"] = {"1"};
  std::vector<std::string>& instances = form.lists["instances"];
  instances.clear();
  for (int i = 0; i < instances_->count(); ++i) {
    if (instances_->item(i)->checkState() == Qt::Checked)
      instances.push_back(utf8(instances_->item(i)->data(kInstanceRole).toString()));
  }
  form.max_usd_per_hour = utf8(budget_->text().trimmed());
  form.max_gpus = utf8(gpus_->text().trimmed());
  std::erase_if(form.lists, [](const auto& entry) { return entry.second.empty(); });
  return form;
}

// Leaving a field without a change is not an edit.
void PlanPanel::enter() {
  PlanForm form = shown_form();
  if (form == form_) return;
  // Another objective may count replicas otherwise, as long as the user has not said what may vary.
  const Scenario& scenario = bench_.session().scenario();
  if (form.objective != form_.objective && field_value(scenario, "search").text.isEmpty())
    form = read_plan_form(derived_search(scenario, form.objective));
  bench_.set_value(QStringLiteral("search"), qs(plan_form_yaml(form)));
  bench_.session().end_merge();
}

}  // namespace plimsoll::gui
