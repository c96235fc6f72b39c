// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/hardware_dialog.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QDoubleSpinBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSignalBlocker>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <set>

#include "gui/core/text.h"
#include "gui/window/view.h"

namespace plimsoll::gui {
namespace {

enum HardwareColumn : int {
  kGpu,
  kCount,
  kGpuMemory,
  kGpuLink,
  kHourPrice,
  kPerGpu,
  kCloud,
  kInstance,
  kHardwareColumns
};
constexpr double kHours = 730;  // in a month

}  // namespace

HardwareDialog::HardwareDialog(Workbench& bench, QWidget* parent)
    : QDialog(parent), bench_(bench), rows_(hardware_rows(*bench.catalogue())) {
  setWindowTitle(tr("Choose hardware"));
  auto* column = new QVBoxLayout(this);
  auto* top = new QHBoxLayout();
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText(tr("Filter: h100 8, azure, l40s"));
  filter_->setAccessibleName(tr("Filter"));
  filter_->setClearButtonEnabled(true);
  cloud_ = new QComboBox(this);
  cloud_->setAccessibleName(tr("Cloud"));
  cloud_->addItem(tr("all clouds"), QString());
  std::set<QString> clouds;
  for (const HardwareRow& row : rows_) clouds.insert(row.cloud);
  for (const QString& cloud : clouds) cloud_->addItem(cloud, cloud);
  top->addWidget(filter_, 1);
  top->addWidget(cloud_);
  column->addLayout(top);
  table_ = new QTableWidget(this);
  table_->setAccessibleName(tr("Instances"));
  table_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setSelectionMode(QAbstractItemView::ExtendedSelection);
  table_->setTabKeyNavigation(false);
  table_->setShowGrid(false);
  table_->setAlternatingRowColors(true);
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
  table_->setToolTip(tr("Ctrl or Shift selects several: each becomes a curve"));
  column->addWidget(table_, 1);
  make_prices(*column);
  summary_ = new QLabel(this);
  summary_->setWordWrap(true);
  column->addWidget(summary_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel, this);
  use_ = buttons->addButton(tr("&Use"), QDialogButtonBox::AcceptRole);
  use_->setDefault(true);
  column->addWidget(buttons);
  fill();
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(filter_, &QLineEdit::textChanged, this, &HardwareDialog::apply_filter);
  connect(cloud_, &QComboBox::activated, this, &HardwareDialog::apply_filter);
  connect(table_, &QTableWidget::itemSelectionChanged, this, &HardwareDialog::show_own_price);
  connect(table_, &QTableWidget::cellActivated, this, &HardwareDialog::accept);
  resize(fontMetrics().averageCharWidth() * 132, fontMetrics().height() * 34);
  for (const QString& name : field_value(bench_.session().scenario(), "hardware").text.split(QChar(u',')))
    choose(utf8(name.trimmed()));
  show_own_price();
}

// Prices of the scenario for names that are not instances stay unchanged.
void HardwareDialog::make_prices(QVBoxLayout& column) {
  auto* row = new QHBoxLayout();
  const auto spin = [&](const QString& label, const QString& help, const QString& none) {
    auto* made = new QDoubleSpinBox(this);
    made->setRange(0, 1e6);
    made->setDecimals(3);
    made->setSpecialValueText(none);
    made->setKeyboardTracking(false);
    made->setAccessibleName(help);
    made->setToolTip(help);
    auto* text = new QLabel(label, this);
    text->setBuddy(made);
    row->addWidget(text);
    row->addWidget(made);
    return made;
  };
  own_ = spin(tr("&Own price"), tr("USD per hour of each selected instance; replaces the catalogue's price"),
              tr("the catalogue's"));
  connect(own_, &QDoubleSpinBox::valueChanged, this, [this] {
    own_typed_ = true;
    refresh_summary();
  });
  discount_ = spin(tr("&Discount"), tr("Discount on the own or the catalogue's price, in percent"), tr("none"));
  discount_->setRange(0, 99);
  discount_->setDecimals(1);
  discount_->setSuffix(tr(" %"));
  gpu_hour_ = spin(tr("USD per &GPU-hour"),
                   tr("One price for every GPU, whatever the instance; prices of single instances take precedence"),
                   tr("none"));
  for (const QDoubleSpinBox* one : {discount_, gpu_hour_})
    connect(one, &QDoubleSpinBox::valueChanged, this, &HardwareDialog::refresh_summary);
  row->addStretch();
  column.addLayout(row);
  const OwnPrices prices = own_prices(bench_.session().scenario());
  gpu_hour_->setValue(prices.gpu_hour.value_or(0));
}

void HardwareDialog::fill() {
  const OwnPrices prices = own_prices(bench_.session().scenario());
  table_->setColumnCount(kHardwareColumns);
  table_->setHorizontalHeaderLabels({tr("GPU"), tr("count"), tr("GB each"), tr("links"), tr("USD/h"),
                                     tr("USD per GPU-hour"), tr("cloud"), tr("instance")});
  table_->setRowCount(static_cast<int>(rows_.size()));
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const HardwareRow& row = rows_[i];
    const int r = static_cast<int>(i);
    const auto put = [&](int column, const QString& text, std::optional<double> number = {}) {
      auto* item = new SortedItem(text, number);
      item->setData(Qt::UserRole, static_cast<qulonglong>(i));
      item->setToolTip(row.price_note);
      table_->setItem(r, column, item);
    };
    const auto money = [&](int column, std::optional<double> usd) {
      put(column, usd ? reader_text(*usd, 4) : QStringLiteral("–"), usd);
    };
    const auto own = std::find_if(prices.instances.begin(), prices.instances.end(),
                                  [&](const auto& known) { return known.first == row.name; });
    const bool stated = own != prices.instances.end();
    put(kGpu, row.gpu);
    put(kCount, QString::number(row.count), row.count);
    put(kGpuMemory, reader_text(row.memory_gb, 3), row.memory_gb);
    put(kGpuLink, row.link);
    money(kHourPrice, stated ? std::optional(own->second) : row.usd_per_hour);
    money(kPerGpu, stated ? std::optional(own->second / row.count) : row.usd_per_gpu_hour());
    put(kCloud, row.cloud);
    put(kInstance, qs(row.name));
    if (stated) table_->item(r, kHourPrice)->setToolTip(tr("Own price of the scenario"));
  }
  table_->setSortingEnabled(true);
  table_->sortByColumn(kGpu, Qt::AscendingOrder);
  table_->resizeColumnsToContents();
  table_->horizontalHeader()->setStretchLastSection(true);
}

// Commas separate alternatives, so that machines to compare are seen together. Every word of an alternative must appear
// somewhere in the row.
void HardwareDialog::apply_filter() {
  const QStringList alternatives = filter_->text().split(QChar(u','), Qt::SkipEmptyParts);
  const QString cloud = cloud_->currentData().toString();
  for (int r = 0; r < table_->rowCount(); ++r) {
    QString all;
    for (int c = 0; c < table_->columnCount(); ++c) all += table_->item(r, c)->text() + QChar(u' ');
    const auto has = [&](const QString& word) { return all.contains(word, Qt::CaseInsensitive); };
    const bool fits = alternatives.isEmpty() ||
                      std::any_of(alternatives.begin(), alternatives.end(), [&](const QString& alternative) {
                        const QStringList words = alternative.split(QChar(u' '), Qt::SkipEmptyParts);
                        return !words.isEmpty() && std::all_of(words.begin(), words.end(), has);
                      });
    table_->setRowHidden(r, !fits || (!cloud.isEmpty() && table_->item(r, kCloud)->text() != cloud));
  }
  show_own_price();
}

int HardwareDialog::shown() const {
  int count = 0;
  for (int r = 0; r < table_->rowCount(); ++r) count += table_->isRowHidden(r) ? 0 : 1;
  return count;
}

void HardwareDialog::choose(const std::string& name) {
  for (int r = 0; r < table_->rowCount(); ++r) {
    if (table_->item(r, kInstance)->text() != qs(name)) continue;
    table_->selectionModel()->select(table_->model()->index(r, 0),
                                     QItemSelectionModel::Select | QItemSelectionModel::Rows);
    table_->scrollToItem(table_->item(r, 0));
  }
}

// A row that the filter hides is not chosen, although it stays selected.
std::vector<const HardwareRow*> HardwareDialog::chosen() const {
  std::vector<const HardwareRow*> out;
  for (int r = 0; r < table_->rowCount(); ++r) {
    const QTableWidgetItem* item = table_->item(r, kGpu);
    if (item == nullptr || !item->isSelected() || table_->isRowHidden(r)) continue;
    out.push_back(&rows_[static_cast<std::size_t>(item->data(Qt::UserRole).toULongLong())]);
  }
  return out;
}

// Returns the instance's own price: as typed, else as the scenario states it.
std::optional<double> HardwareDialog::own_price_of(const HardwareRow& row) const {
  if (own_typed_) return own_->value() > 0 ? std::optional(own_->value()) : std::nullopt;
  for (const auto& [name, usd] : own_prices(bench_.session().scenario()).instances) {
    if (name == row.name) return usd;
  }
  return {};
}

std::optional<double> HardwareDialog::price_of(const HardwareRow& row) const {
  const auto own = own_price_of(row), list = own ? own : row.usd_per_hour;
  if (discount_->value() > 0 && list) return *list * (1 - discount_->value() / 100);
  if (own) return own;
  if (gpu_hour_->value() > 0) return gpu_hour_->value() * row.count;
  return row.usd_per_hour;
}

// Follows the choice of instances. Until the user types a price, the field shows the one that they have in common.
void HardwareDialog::show_own_price() {
  if (own_typed_) return refresh_summary();
  std::set<double> prices;
  for (const HardwareRow* row : chosen()) prices.insert(own_price_of(*row).value_or(0));
  const QSignalBlocker quiet(own_);
  own_->setSpecialValueText(prices.size() > 1 ? tr("as stated") : tr("the catalogue's"));
  own_->setValue(prices.size() == 1 ? *prices.begin() : 0);
  refresh_summary();
}

void HardwareDialog::refresh_summary() {
  if (use_ == nullptr) return;
  const auto rows = chosen();
  use_->setEnabled(!rows.empty());
  QStringList words;
  for (const HardwareRow* row : rows) {
    const auto usd = price_of(*row);
    words << QStringLiteral("%1 (%2)").arg(hardware_words(*row), qs(row->name)) +
                 (usd ? tr(", %1 USD/h, %2 USD a month").arg(reader_text(*usd, 4), reader_text(*usd * kHours, 4))
                      : tr(", no price known"));
  }
  const QString none = shown() > 0 ? tr("Choose an instance; Ctrl+click adds more.") : tr("No instance matches.");
  summary_->setText(words.isEmpty() ? none : words.join(QStringLiteral("\n")));
}

QString HardwareDialog::summary() const { return summary_->text(); }

void HardwareDialog::accept() {
  const auto rows = chosen();
  if (rows.empty()) return;
  QStringList names;
  for (const HardwareRow* row : rows) names << qs(row->name);
  bench_.session().edit(tr("Choose hardware"), {}, [&](SessionState& state) {
    Scenario& scenario = state.scenarios[state.current];
    OwnPrices prices = own_prices(scenario);
    prices.gpu_hour = gpu_hour_->value() > 0 ? std::optional(gpu_hour_->value()) : std::nullopt;
    for (const HardwareRow* row : rows) {
      if (!own_typed_ && discount_->value() <= 0) continue;
      const auto usd = price_of(*row);
      const bool own = own_price_of(*row) || discount_->value() > 0;
      std::erase_if(prices.instances, [&](const auto& known) { return known.first == row->name; });
      if (own && usd) prices.instances.emplace_back(row->name, *usd);
    }
    set_own_prices(scenario, prices);
    set_field(scenario, "hardware", names.join(QStringLiteral(", ")));
  });
  QDialog::accept();
}

}  // namespace plimsoll::gui
