// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/fit_dialog.h"

#include <QAction>
#include <QButtonGroup>
#include <QCheckBox>
#include <QComboBox>
#include <QCompleter>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPushButton>
#include <QRadioButton>
#include <QSpinBox>
#include <QStackedWidget>
#include <QStyle>
#include <QVBoxLayout>

#include "gui/core/text.h"
#include "gui/plot/plot_view.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

enum Page : int { kSource, kColumnsPage, kEngine, kFit };

QString title_of(int page) {
  switch (page) {
    case kSource: return FitDialog::tr("1 of 4: where the runs come from");
    case kColumnsPage: return FitDialog::tr("2 of 4: what the columns mean");
    case kEngine: return FitDialog::tr("3 of 4: what is fitted");
    default: return FitDialog::tr("4 of 4: the fit and its errors");
  }
}

}  // namespace

FitDialog::FitDialog(Workbench& bench, QWidget* parent) : QDialog(parent), bench_(bench) {
  setWindowTitle(tr("Fit an engine of your own"));
  auto* all = new QVBoxLayout(this);
  title_ = new QLabel(this);
  QFont bold = title_->font();
  bold.setBold(true);
  title_->setFont(bold);
  all->addWidget(title_);
  pages_ = new QStackedWidget(this);
  run_ = new FitRun(bench, this);
  for (QWidget* page : {make_source(), make_columns(), make_engine(), static_cast<QWidget*>(run_)})
    pages_->addWidget(page);
  all->addWidget(pages_, 1);
  problem_ = new QLabel(this);
  problem_->setObjectName(QStringLiteral("problem"));
  problem_->setWordWrap(true);
  all->addWidget(problem_);
  auto* buttons = new QHBoxLayout();
  back_ = new QPushButton(tr("&Back"), this);
  next_ = new QPushButton(tr("&Next"), this);
  close_ = new QPushButton(tr("&Close"), this);
  next_->setDefault(true);
  // While Next is not possible, Return must not close the dialog: that would discard what was entered.
  for (QPushButton* button : {back_, close_}) button->setAutoDefault(false);
  buttons->addStretch();
  for (QPushButton* button : {back_, next_, close_}) buttons->addWidget(button);
  all->addLayout(buttons);
  connect(back_, &QPushButton::clicked, this, &FitDialog::back);
  connect(next_, &QPushButton::clicked, this, &FitDialog::next);
  connect(close_, &QPushButton::clicked, this, &FitDialog::reject);
  connect(&run_->run(), &ChildRun::state_changed, this, &FitDialog::refresh);
  resize(fontMetrics().averageCharWidth() * 125, fontMetrics().height() * 38);
  refresh();
}

QWidget* FitDialog::make_source() {
  auto* page = new QWidget(this);
  auto* column = new QVBoxLayout(page);
  auto* words =
      new QLabel(tr("Runs of your own server, at several loads and lengths, make its profile. A quarter of them is "
                    "held out of the fit and shows how well it predicts."),
                 page);
  words->setWordWrap(true);
  from_files_ = new QRadioButton(tr("&Files of runs: tables, points.csv, results of load generators"), page);
  from_server_ = new QRadioButton(tr("A running &server, to which a ladder of runs is sent"), page);
  from_files_->setChecked(true);
  auto* group = new QButtonGroup(page);
  group->addButton(from_files_);
  group->addButton(from_server_);
  list_ = new QListWidget(page);
  list_->setAccessibleName(tr("Files of runs"));
  auto* add = new QPushButton(tr("&Add files…"), page);
  auto* remove = new QPushButton(tr("&Remove"), page);
  auto* row = new QHBoxLayout();
  row->addWidget(add);
  row->addWidget(remove);
  row->addStretch();
  column->addWidget(words);
  column->addWidget(from_files_);
  column->addWidget(list_, 1);
  column->addLayout(row);
  column->addWidget(from_server_);
  column->addLayout(make_server(page));
  connect(add, &QPushButton::clicked, this, [this] {
    add_files(QFileDialog::getOpenFileNames(this, tr("Files of runs"), {},
                                            tr("Runs (*.csv *.tsv *.json *.jsonl *.gz);;All files (*)")));
  });
  connect(remove, &QPushButton::clicked, this, [this] { remove_file(list_->currentRow()); });
  for (QRadioButton* button : {from_files_, from_server_})
    connect(button, &QRadioButton::toggled, this, &FitDialog::refresh);
  return page;
}

QFormLayout* FitDialog::make_server(QWidget* page) {
  auto* server = new QFormLayout();
  endpoint_ = new QLineEdit(page);
  endpoint_->setPlaceholderText(QStringLiteral("http://127.0.0.1:8000"));
  endpoint_->setAccessibleName(tr("Address of the server"));
  key_ = new QLineEdit(page);
  key_->setPlaceholderText(tr("none"));
  key_->setAccessibleName(tr("Environment variable with the server's key"));
  seconds_ = new QSpinBox(page);
  seconds_->setRange(30, 36000);
  seconds_->setValue(900);
  seconds_->setSuffix(tr(" s"));
  seconds_->setAccessibleName(tr("Time after which no further run begins"));
  users_ = new QSpinBox(page);
  users_->setRange(1, 4096);
  users_->setValue(32);
  users_->setAccessibleName(tr("Most users of the ladder"));
  server->addRow(tr("Address"), endpoint_);
  server->addRow(tr("Key in the environment variable"), key_);
  server->addRow(tr("Begin no run after"), seconds_);
  server->addRow(tr("Most users at once"), users_);
  connect(endpoint_, &QLineEdit::textChanged, this, &FitDialog::refresh);
  for (const QLineEdit* field : {endpoint_, key_})
    connect(field, &QLineEdit::textEdited, this, [this] { from_server_->setChecked(true); });
  return server;
}

void FitDialog::remove_file(int index) {
  if (index < 0) return;
  delete list_->takeItem(index);
  file_->removeItem(index);
  files_.erase(files_.begin() + index);
  name_files();
  show_file(file_->currentIndex());
  refresh();
}

QWidget* FitDialog::make_columns() {
  auto* page = new QWidget(this);
  auto* column = new QVBoxLayout(page);
  file_ = new QComboBox(page);
  file_->setAccessibleName(tr("File whose columns are shown"));
  columns_ = new ColumnTable(page);
  column->addWidget(file_);
  column->addWidget(columns_, 1);
  connect(file_, &QComboBox::currentIndexChanged, this, &FitDialog::show_file);
  connect(columns_, &ColumnTable::changed, this, &FitDialog::refresh);
  return page;
}

QWidget* FitDialog::make_engine() {
  auto* page = new QWidget(this);
  auto* form = new QFormLayout(page);
  form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
  const auto line = [&](const QString& label, const QString& hint) {
    auto* made = new QLineEdit(page);
    made->setAccessibleName(label);
    made->setPlaceholderText(hint);
    form->addRow(label, made);
    connect(made, &QLineEdit::textChanged, this, &FitDialog::refresh);
    return made;
  };
  name_ = line(tr("Name of your engine"), tr("my-vllm"));
  like_ = new QComboBox(page);
  like_->setAccessibleName(tr("Engine that yours resembles"));
  like_->addItem(tr("as the runs or the server state"), QString());
  for (const std::string& name : bench_.catalogue()->names("engines")) {
    if (bench_.catalogue()->ships("engines", name)) like_->addItem(qs(name), qs(name));
  }
  form->addRow(tr("It resembles"), like_);
  model_ = line(tr("Model"), tr("as the runs or the server state; or a config.json"));
  offer_models();
  hardware_ =
      line(tr("Hardware"), tr("as the runs state; an instance, or \"h100-sxm x 1\"; unknown hardware is fitted too"));
  tp_ = line(tr("TP degree"), tr("as the runs state, else 1"));
  dtype_ = new QComboBox(page);
  dtype_->setAccessibleName(tr("Number format of the weights"));
  dtype_->addItem(tr("as the runs or the server state"), QString());
  for (const char* const name : {"fp16", "bf16", "fp8", "int8", "int4", "fp32"}) dtype_->addItem(qs(name), qs(name));
  form->addRow(tr("Weights"), dtype_);
  fit_hardware_ = new QCheckBox(tr("Fit the hardware too, although the catalogue has it"), page);
  form->addRow(QString(), fit_hardware_);
  memory_ = line(tr("Memory of fitted hardware"), tr("80GB; only for hardware that the catalogue lacks"));
  return page;
}

// Completes the names of the catalogue; a model that it lacks is described by its config.json.
void FitDialog::offer_models() {
  QStringList names;
  for (const std::string& name : bench_.catalogue()->names("models")) names << qs(name);
  auto* completer = new QCompleter(names, this);
  completer->setFilterMode(Qt::MatchContains);
  completer->setCaseSensitivity(Qt::CaseInsensitive);
  model_->setCompleter(completer);
  const QAction* choose = model_->addAction(style()->standardIcon(QStyle::SP_DirOpenIcon), QLineEdit::TrailingPosition);
  connect(choose, &QAction::triggered, this, [this] {
    const QString file = QFileDialog::getOpenFileName(this, tr("Choose the model's config.json"), {},
                                                      tr("Models (*.json);;All files (*)"));
    if (!file.isEmpty()) model_->setText(file);
  });
}

void FitDialog::add_files(const QStringList& files) {
  file_problem_.clear();
  for (const QString& file : files) {
    try {
      auto request = std::make_unique<ImportRequest>(import_request(utf8(QFileInfo(file).absoluteFilePath())));
      files_.push_back(std::move(request));
      list_->addItem(file);
      file_->addItem(QString());
    } catch (const std::exception& error) {
      file_problem_ = qs(error.what());
    }
  }
  name_files();
  if (!files.isEmpty()) from_files_->setChecked(true);
  refresh();
}

// Names each file by as much of the end of its path as distinguishes it: runs in folders of their own often have files
// of the same name.
void FitDialog::name_files() {
  const auto end_of = [this](std::size_t i, int parts) { return qs(files_[i]->file).section(QChar(u'/'), -parts, -1); };
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const auto shared = [&](int parts) {
      for (std::size_t k = 0; k < files_.size(); ++k) {
        if (files_[k]->file != files_[i]->file && end_of(k, parts) == end_of(i, parts)) return true;
      }
      return false;
    };
    int parts = 1;
    while (shared(parts)) ++parts;
    file_->setItemText(static_cast<int>(i), end_of(i, parts));
  }
}

void FitDialog::choose_server(const QString& address) {
  from_server_->setChecked(true);
  endpoint_->setText(address);
}

void FitDialog::show_file(int index) {
  const bool known = index >= 0 && index < static_cast<int>(files_.size());
  columns_->setVisible(known);
  if (known) columns_->show_request(files_[static_cast<std::size_t>(index)].get());
}

QString FitDialog::problem() const {
  const bool server = from_server_->isChecked();
  switch (pages_->currentIndex()) {
    case kSource:
      if (!file_problem_.isEmpty()) return file_problem_;
      if (server) return endpoint_->text().trimmed().isEmpty() ? tr("State the address of the server.") : QString();
      return files_.empty() ? tr("Add at least one file.") : QString();
    case kColumnsPage:
      for (std::size_t i = 0; i < files_.size(); ++i) {
        if (const QString why = import_problem(*files_[i]); !why.isEmpty())
          return QStringLiteral("%1: %2").arg(file_->itemText(static_cast<int>(i)), why);
      }
      return {};
    case kEngine: return name_->text().trimmed().isEmpty() ? tr("Give your engine a name of its own.") : QString();
    default: return {};
  }
}

int FitDialog::page() const { return pages_->currentIndex(); }

FitQuestion FitDialog::question() const {
  const bool server = from_server_->isChecked();
  return {name_->text().trimmed(),
          like_->currentData().toString(),
          model_->text(),
          hardware_->text(),
          memory_->text(),
          dtype_->currentData().toString(),
          tp_->text(),
          fit_hardware_->isChecked(),
          server ? endpoint_->text().trimmed() : QString(),
          server ? key_->text() : QString(),
          seconds_->value(),
          users_->value()};
}

void FitDialog::next() {
  if (!problem().isEmpty() || page() == kFit) return;
  int to = page() + 1;
  // JSON results are recognised by their tool's names, and a server has no columns.
  const bool tables = std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file->is_table; });
  if (to == kColumnsPage && (from_server_->isChecked() || !tables)) ++to;
  pages_->setCurrentIndex(to);
  if (to == kColumnsPage) show_file(file_->currentIndex());
  if (to == kEngine) name_->setFocus();
  if (to == kFit) {
    std::vector<ImportRequest> files;
    if (!from_server_->isChecked())
      for (const auto& file : files_) files.push_back(*file);
    run_->fit(question(), files);
  }
  refresh();
}

void FitDialog::back() {
  const bool tables = std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file->is_table; });
  int to = std::max(0, page() - 1);
  if (to == kColumnsPage && (from_server_->isChecked() || !tables)) --to;
  pages_->setCurrentIndex(to);
  refresh();
}

void FitDialog::refresh() {
  if (next_ == nullptr) return;  // the pages are still being made
  const bool busy = run_->run().state() != ChildRun::State::idle;
  title_->setText(title_of(page()));
  const QString why = problem();
  problem_->setText(why.isEmpty() ? QString() : QStringLiteral("✗ ") + why);
  problem_->setVisible(!why.isEmpty());
  back_->setEnabled(page() > kSource && !busy);
  next_->setVisible(page() != kFit);
  next_->setEnabled(why.isEmpty());
  next_->setText(page() == kEngine ? tr("&Fit") : tr("&Next"));
}

// A fit that is running ends with the dialog.
void FitDialog::reject() {
  run_->cancel();
  QDialog::reject();
}

}  // namespace plimsoll::gui
