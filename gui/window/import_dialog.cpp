// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/import_dialog.h"

#include <QComboBox>
#include <QCoreApplication>
#include <QDialogButtonBox>
#include <QFileInfo>
#include <QFormLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <array>

#include "gui/core/slo_form.h"
#include "gui/core/text.h"
#include "gui/window/wheel_guard.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

enum TableColumn : int { kHeading, kSamples, kFigure, kUnit, kImportColumns };

constexpr const char* kChosen = "chosen";

constexpr std::array<const char*, 4> kUnits = {"s", "ms", "us", "ns"};

bool is_time(const std::string& column) {
  return std::any_of(import_figures().begin(), import_figures().end(),
                     [&](const ImportFigure& figure) { return column == figure.column && figure.is_time; });
}

QTableWidgetItem* read_only(const QString& text) {
  auto* item = new QTableWidgetItem(text);
  item->setFlags(Qt::ItemIsEnabled | Qt::ItemIsSelectable);
  item->setToolTip(text);
  return item;
}

}  // namespace

ColumnTable::ColumnTable(QWidget* parent) : QWidget(parent) {
  table_ = new QTableWidget(0, kImportColumns, this);
  table_->setAccessibleName(tr("Columns of the table"));
  table_->setHorizontalHeaderLabels({tr("column"), tr("first values"), tr("read as"), tr("unit")});
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 10);
  table_->setTabKeyNavigation(false);
  table_->setSelectionMode(QAbstractItemView::NoSelection);
  table_->setShowGrid(false);
  table_->setAlternatingRowColors(true);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->addWidget(table_);
}

void ColumnTable::show_request(ImportRequest* request) {
  request_ = request;
  table_->setRowCount(static_cast<int>(request->columns.size()));
  for (std::size_t i = 0; i < request->columns.size(); ++i) {
    const int row = static_cast<int>(i);
    const ImportColumn& column = request->columns[i];
    table_->setItem(row, kHeading, read_only(column.name));
    table_->setItem(row, kSamples, read_only(column.samples.join(QStringLiteral(", "))));
    auto* figure = new QComboBox(table_);
    figure->setAccessibleName(tr("What column %1 is read as").arg(column.name));
    figure->addItem(tr("(not read)"), QString());
    for (const ImportFigure& known : import_figures())
      figure->addItem(QCoreApplication::translate("plimsoll::gui", known.label), qs(known.column));
    // A column of points.csv without a description here is still read.
    if (!column.figure.empty() && figure->findData(qs(column.figure)) < 0)
      figure->addItem(qs(column.figure), qs(column.figure));
    auto* unit = new QComboBox(table_);
    unit->setAccessibleName(tr("Unit of column %1").arg(column.name));
    unit->addItem(tr("in its name"), QString());
    unit->addItem(tr("unit?"), QStringLiteral("?"));
    for (const char* const name : kUnits) unit->addItem(qs(name), qs(name));
    table_->setCellWidget(row, kFigure, figure);
    table_->setCellWidget(row, kUnit, unit);
    show_column(i);
    connect(figure, &QComboBox::activated, this, [this, i, figure] {
      choose_figure(request_->columns[i], utf8(figure->currentData().toString()));
      show_column(i);
      Q_EMIT changed();
    });
    connect(unit, &QComboBox::activated, this, [this, i, unit] {
      request_->columns[i].unit = utf8(unit->currentData().toString());
      Q_EMIT changed();
    });
  }
  table_->resizeColumnsToContents();
  const int widest = 26 * fontMetrics().averageCharWidth();
  for (const int c : {int{kHeading}, int{kSamples}})
    table_->setColumnWidth(c, std::min(table_->columnWidth(c), widest));
  table_->horizontalHeader()->setStretchLastSection(true);
  leave_wheel_to_form(*table_);
}

void ColumnTable::show_column(std::size_t column) {
  const ImportColumn& shown = request_->columns[column];
  figure_box(column).setCurrentIndex(figure_box(column).findData(qs(shown.figure)));
  unit_box(column).setEnabled(is_time(shown.figure));
  unit_box(column).setCurrentIndex(is_time(shown.figure) ? unit_box(column).findData(qs(shown.unit)) : -1);
}

QComboBox& ColumnTable::figure_box(std::size_t column) const {
  return *qobject_cast<QComboBox*>(table_->cellWidget(static_cast<int>(column), kFigure));
}

QComboBox& ColumnTable::unit_box(std::size_t column) const {
  return *qobject_cast<QComboBox*>(table_->cellWidget(static_cast<int>(column), kUnit));
}

void ColumnTable::choose(std::size_t column, const std::string& figure, const std::string& unit) {
  choose_figure(request_->columns.at(column), figure);
  if (!unit.empty()) request_->columns[column].unit = unit;
  show_column(column);
  Q_EMIT changed();
}

ImportDialog::ImportDialog(Workbench& bench, const QString& file, QWidget* parent)
    : QDialog(parent), bench_(bench), request_(import_request(utf8(QFileInfo(file).absoluteFilePath()))) {
  setWindowTitle(tr("Import measured runs: %1").arg(QFileInfo(file).fileName()));
  auto* all = new QVBoxLayout(this);
  columns_ = new ColumnTable(this);
  columns_->show_request(&request_);
  columns_->setVisible(request_.is_table);
  all->addWidget(columns_, 1);
  auto* form = new QFormLayout();
  make_labels(*form);
  y_ = new QComboBox(this);
  y_->setAccessibleName(tr("Metric to show on the vertical axis"));
  y_->setToolTip(tr("Only metrics that the file has"));
  form->addRow(tr("Show on the &Y axis"), y_);
  // Until the user chooses, every mapped column may bring a better metric.
  connect(y_, &QComboBox::activated, this, [this] { y_->setProperty(kChosen, y_->currentData()); });
  all->addLayout(form);
  state_ = new QLabel(this);
  state_->setWordWrap(true);
  state_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  all->addWidget(state_);
  auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel, this);
  import_ = buttons->addButton(tr("&Import"), QDialogButtonBox::AcceptRole);
  import_->setDefault(true);
  all->addWidget(buttons);
  connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
  connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
  connect(columns_, &ColumnTable::changed, this, &ImportDialog::check);
  resize(fontMetrics().averageCharWidth() * 96, fontMetrics().height() * (request_.is_table ? 32 : 16));
  check();
}

// Labels that the file states stay empty; the others are those of the scenario, over whose curves the points will be.
void ImportDialog::make_labels(QFormLayout& form) {
  const auto has = [&](const char* column) {
    return !request_.is_table || std::any_of(request_.columns.begin(), request_.columns.end(),
                                             [&](const ImportColumn& c) { return c.figure == column; });
  };
  const Scenario& scenario = bench_.session().scenario();
  const auto line = [&](const QString& text, const char* column, const char* path) {
    auto* made = new QLineEdit(this);
    made->setAccessibleName(text);
    const FieldValue value = field_value(scenario, path);
    if (has(column))
      made->setPlaceholderText(tr("as the file states"));
    else if (!value.swept)
      made->setText(value.text);
    form.addRow(text, made);
    connect(made, &QLineEdit::textChanged, this, &ImportDialog::check);
    return made;
  };
  model_ = line(tr("Model"), "model", "model");
  hardware_ = line(tr("Hardware"), "hardware", "hardware");
  engine_ = line(tr("Engine"), "engine", "engine");
  tp_ = line(tr("TP degree"), "tp", "deployment.tp");
  replicas_ = line(tr("Replicas"), "replicas", "deployment.replicas");
  input_ = line(tr("Input tokens"), "input_tokens_mean", "workload.lengths.input");
  output_ = line(tr("Output tokens"), "output_tokens_mean", "workload.lengths.output");
}

// Reads the file again with the present choices. Files of measured points are small.
void ImportDialog::check() {
  results_ = {};
  QString text = import_problem(request_);
  const auto count = [](const QLineEdit& line) -> std::optional<std::int32_t> {
    bool number = false;
    const int value = line.text().trimmed().toInt(&number);
    return number && value > 0 ? std::optional(value) : std::nullopt;
  };
  request_.labels = {utf8(model_->text().trimmed()),
                     utf8(hardware_->text().trimmed()),
                     utf8(engine_->text().trimmed()),
                     {},
                     {},
                     count(*tp_),
                     count(*replicas_)};
  request_.input_tokens = count(*input_);
  request_.output_tokens = count(*output_);
  if (text.isEmpty()) {
    try {
      results_ = import_runs(request_);
    } catch (const InputError& error) {
      text = qs(error.text());
    }
  }
  import_->setEnabled(text.isEmpty());
  const QString chosen = y_->property(kChosen).toString();
  y_->clear();
  if (text.isEmpty()) {
    const MeasuredRun run = measured_run(request_.file, results_);
    for (const Metric* metric : metrics_of(run.rows)) {
      // The vertical axis of curves shows what a load leads to, not the load itself.
      if (std::string_view(metric->group) != "load") y_->addItem(axis_title(*metric), qs(metric->id));
    }
    SessionState state = bench_.session().state();
    show_rows(state, run.rows);
    const int before = y_->findData(chosen);
    y_->setCurrentIndex(before >= 0 ? before : std::max(0, y_->findData(qs(state.view.y))));
    text = results_.points.size() == 1 ? tr("✓ 1 point will be added.")
                                       : tr("✓ %1 points will be added.").arg(results_.points.size());
    for (const std::string& note : results_.notes)
      text += QStringLiteral("\n") + qs(note).section(QChar(u';'), 0, 0) + QChar(u'.');  // after it: options
  } else {
    text = QStringLiteral("✗ ") + text;
  }
  y_->setEnabled(y_->count() > 0);
  state_->setText(text);
}

QString ImportDialog::state() const { return state_->text(); }

void ImportDialog::accept() {
  if (!import_->isEnabled()) return;
  const auto run = std::make_shared<const MeasuredRun>(measured_run(request_.file, results_));
  const std::string y = utf8(y_->currentData().toString());
  bench_.session().edit(tr("Import %1").arg(run->name), {}, [&](SessionState& state) {
    state.runs.push_back(run);
    if (!y.empty() && y != state.view.y) choose_y(state, y);
    show_rows(state, run->rows);
  });
  QDialog::accept();
}

}  // namespace plimsoll::gui
