// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/decision_dock.h"

#include <QApplication>
#include <QClipboard>
#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QJsonArray>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QTableWidget>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <numeric>
#include <utility>

#include "gui/core/plan_question.h"
#include "gui/core/text.h"
#include "gui/window/plan_panel.h"
#include "gui/window/view.h"
#include "gui/window/wheel_guard.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

struct RankingColumn {
  const char *key, *title;
};
// The columns of the ranking. All other figures are in the explanation and in the copied table.
const std::vector<RankingColumn>& columns() {
  static const std::vector<RankingColumn> all = {
      {"rank", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "#")},
      {"hardware", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "instance")},
      {"meets_slo", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "SLO")},
      {"tp", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "TP")},
      {"replicas", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "replicas")},
      {"scheduler.max_running", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "batch")},
      {"objective", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "objective")},
      {"margin", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "margin")},
      {"output_tokens_per_s", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "tokens/s")},
      {"usd_per_hour", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "USD/h")},
      {"usd_per_million_output_tokens", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "USD/M tokens")},
      {"gpus", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "GPUs")},
      {"latency_p90_s", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "p90 latency (s)")},
      {"stage", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "stage")},
      {"deployment", QT_TRANSLATE_NOOP("plimsoll::gui::DecisionDock", "deployment")},
  };
  return all;
}

// Returns a column's value, from the row or from the study settings of the deployment.
QJsonValue value_of(const QJsonObject& deployment, const char* key) {
  if (std::string_view(key) == "margin") {
    const QJsonValue used = deployment.value(QStringLiteral("slo_used"));
    return used.isDouble() ? QJsonValue(100 * (1 - used.toDouble())) : QJsonValue();
  }
  const QJsonValue own = deployment.value(QLatin1String(key));
  if (!own.isUndefined()) return own;
  const QString setting = deployment.value(QStringLiteral("settings")).toObject().value(QLatin1String(key)).toString();
  bool number = false;
  const double value = setting.toDouble(&number);
  return number ? QJsonValue(value) : QJsonValue(setting);
}

QString shown(const QJsonValue& value, const char* key) {
  if (value.isBool()) return value.toBool() ? QStringLiteral("✓") : QStringLiteral("✗");
  if (std::string_view(key) == "margin" && value.isDouble())
    return reader_text(value.toDouble(), 2) + QStringLiteral(" %");
  if (value.isDouble()) return reader_text(value.toDouble(), 4);
  return value.toString();
}

// The planner's words are those of a study: "p90 ttft".
QString in_capitals(QString words) {
  for (const QString& word : {QStringLiteral("ttft"), QStringLiteral("tpot"), QStringLiteral("itl")})
    words.replace(word, word.toUpper());
  return words;
}

constexpr int kObjective = 6;  // the objective column; its title becomes its unit once that is known
constexpr int kSloColumn = 2;
constexpr int kPrice = 9;  // the price column, which the objective of a search for the least cost repeats

// Returns whether a look is better than another: within the SLO, then by the objective, then by the margin.
bool goes_before(const QJsonObject& a, const QJsonObject& b) {
  const auto meets = [](const QJsonObject& one) { return one.value(QStringLiteral("meets_slo")).toBool(); };
  if (meets(a) != meets(b)) return meets(a);
  const QJsonValue oa = a.value(QStringLiteral("objective")), ob = b.value(QStringLiteral("objective"));
  const QString unit = a.value(QStringLiteral("objective_unit")).toString();
  if (meets(a) && oa.isDouble() && ob.isDouble() && oa.toDouble() != ob.toDouble()) {
    const bool more = unit.contains(QStringLiteral("tokens/s"));
    return more ? oa.toDouble() > ob.toDouble() : oa.toDouble() < ob.toDouble();
  }
  const auto used = [](const QJsonObject& one) { return one.value(QStringLiteral("slo_used")).toDouble(1e9); };
  return used(a) < used(b);
}

void set_deployment(Scenario& scenario, const QJsonObject& deployment) {
  const QJsonObject settings = deployment.value(QStringLiteral("settings")).toObject();  // path in the study, value
  for (auto it = settings.begin(); it != settings.end(); ++it)
    set_field(scenario, utf8(it.key()), it.value().toString());
  // Answers of older versions have no settings; use their columns.
  if (!settings.isEmpty()) return;
  for (const auto& [key, path] : {std::pair("tp", "deployment.tp"), std::pair("replicas", "deployment.replicas"),
                                  std::pair("hardware", "hardware"), std::pair("dtype", "dtype")}) {
    const QJsonValue value = deployment.value(QLatin1String(key));
    if (value.isDouble())
      set_field(scenario, path, qs(study::number_text(value.toDouble())));
    else if (value.isString() && !value.toString().isEmpty())
      set_field(scenario, path, value.toString());
  }
}

}  // namespace

DecisionDock::DecisionDock(Workbench& bench, QWidget* parent) : RunDock(bench, parent) {
  make_panel();
  for (QLabel** label : {&asks_, &best_, &why_}) {
    *label = new QLabel(this);
    (*label)->setWordWrap(true);
    (*label)->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  }
  make_ranking();
  files_ = new QComboBox(this);
  files_->setAccessibleName(tr("Which product's flags"));
  copy_ = new QPushButton(tr("&Copy"), this);
  copy_->setToolTip(tr("Copy the winner's flags or file to the clipboard"));
  use_ = new QPushButton(tr("&Use it"), this);
  use_->setToolTip(tr("The selected deployment becomes the scenario's"));
  auto* last = new QHBoxLayout();
  last->addWidget(files_, 1);
  last->addWidget(copy_);
  last->addWidget(use_);
  column_->insertWidget(2, asks_);
  column_->insertWidget(column_->count() - 1, best_);
  column_->insertWidget(column_->count() - 1, ranking_, 4);
  column_->insertWidget(column_->count() - 1, why_);
  column_->insertLayout(column_->count() - 1, last);
  connect_all();
  clear();
  show_results(false);
  refresh();
}

// The form folds away when a search starts, so that the ranking gets its room.
void DecisionDock::make_panel() {
  fold_ = new QToolButton(this);
  fold_->setText(tr("Search"));
  fold_->setCheckable(true);
  fold_->setChecked(true);
  fold_->setAutoRaise(true);
  fold_->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  fold_->setArrowType(Qt::DownArrow);
  fold_->setToolTip(tr("Show or hide the search and its best answer"));
  // On a small screen the form scrolls.
  form_ = new QScrollArea(this);
  panel_ = new PlanPanel(bench_, form_);
  form_->setWidget(panel_);
  leave_wheel_to_form(*panel_);
  form_->setWidgetResizable(true);
  form_->setFrameShape(QFrame::NoFrame);
  form_->setFocusPolicy(Qt::NoFocus);
  form_->setMinimumHeight(3 * fontMetrics().height());
  column_->insertWidget(0, fold_);
  column_->insertWidget(1, form_, 3);
  connect(fold_, &QToolButton::toggled, this, [this](bool open) {
    fold_->setArrowType(open ? Qt::DownArrow : Qt::RightArrow);
    form_->setVisible(open);
    if (open) panel_->refresh();
  });
}

void DecisionDock::make_ranking() {
  ranking_ = new QTableWidget(this);
  ranking_->setAccessibleName(tr("Deployments, best first"));
  ranking_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  ranking_->setSelectionBehavior(QAbstractItemView::SelectRows);
  ranking_->setSelectionMode(QAbstractItemView::SingleSelection);
  ranking_->setTabKeyNavigation(false);
  ranking_->setAlternatingRowColors(true);
  ranking_->verticalHeader()->hide();
  ranking_->verticalHeader()->setDefaultSectionSize(fontMetrics().height() + 8);
}

void DecisionDock::connect_all() {
  connect(add_button(tr("Pl&an"), tr("Find the best deployment of the current scenario")), &QPushButton::clicked, this,
          &DecisionDock::plan);
  connect(&run_, &ChildRun::object, this, &DecisionDock::add);
  connect(ranking_, &QTableWidget::currentCellChanged, this, [this](int row) { explain(row); });
  connect(ranking_, &QTableWidget::cellActivated, this, [this](int row) { use(row); });
  connect(copy_, &QPushButton::clicked, this, &DecisionDock::copy_file);
  connect(use_, &QPushButton::clicked, this, [this] { use(ranking_->currentRow()); });
  connect(&bench_.session(), &Session::changed, this, &DecisionDock::refresh);
}

void DecisionDock::refresh() {
  // Deriving the question reads the study, so do it only while the dock is visible.
  if (!isVisible()) return;
  if (fold_->isChecked()) panel_->refresh();
  ask();
  if (asked_.empty() || run_.state() != ChildRun::State::idle) return;
  state().setText(asked_ == key() ? verdict_ : tr("⚠ The question has changed since. Plan again."));
}

// Shows the question for the planner. Returns false, with the reason shown, if there is none.
bool DecisionDock::ask() {
  QString missing;
  try {
    asks_->setText(plan_question(bench_.session().scenario(), bench_.session().state().view).words);
  } catch (const InputError& error) {
    missing = tr("To plan, %1.").arg(qs(error.text()));
    asks_->setText(missing);
  }
  hold(missing);
  return missing.isEmpty();
}

void DecisionDock::showEvent(QShowEvent* event) {
  RunDock::showEvent(event);
  refresh();
}

// Returns the key of the question; empty if nothing can be asked.
std::string DecisionDock::key() const {
  try {
    return question_key(bench_.session().scenario(), bench_.session().state().view);
  } catch (const InputError&) {
    return {};
  }
}

// Plans in a child process from a copy of the study, so the answer does not depend on edits made meanwhile.
void DecisionDock::plan() {
  if (!ask()) return;
  try {
    const Scenario planned = plan_scenario(bench_.session().scenario(), bench_.session().state().view);
    if (start(QStringLiteral("plan"), {}, make_study(planned, bench_.catalogue()).resolved_yaml())) {
      asking_ = key();
      fold_->setChecked(false);
      show_results(true);
    }
  } catch (const std::exception& error) {
    refuse(qs(error.what()));
  }
}

// Before the first search, the form gets the room of the results.
void DecisionDock::show_results(bool shown) {
  for (QWidget* part : std::initializer_list<QWidget*>{best_, ranking_, why_, files_, copy_, use_})
    part->setVisible(shown);
  show_log(shown);
  form_->setSizePolicy(QSizePolicy::Preferred, shown ? QSizePolicy::Maximum : QSizePolicy::Expanding);
}

void DecisionDock::clear() {
  deployments_.clear();
  asked_.clear();
  deploy_ = {};
  tried_ = 0;
  provisional_ = true;
  best_->clear();
  why_->clear();
  files_->clear();
  clear_ranking();
  copy_->setEnabled(false);
  use_->setEnabled(false);
}

void DecisionDock::clear_ranking() {
  deployments_.clear();
  ranking_->setSortingEnabled(false);
  ranking_->clear();
  ranking_->setRowCount(0);
  ranking_->setColumnHidden(kPrice, false);
  ranking_->setColumnCount(static_cast<int>(columns().size()));
  QStringList titles;
  for (const RankingColumn& column : columns()) titles << tr(column.title);
  ranking_->setHorizontalHeaderLabels(titles);
  fit_columns();
}

void DecisionDock::add(const QString& type, const QJsonObject& line) {
  if (type == QStringLiteral("candidate")) add_look(line);
  if (type == QStringLiteral("ranking")) {
    // The final order replaces the first looks.
    if (std::exchange(provisional_, false)) clear_ranking();
    add_deployment(line);
  }
  if (type == QStringLiteral("answer")) show_answer(line);
}

// Places a first look among the others. Each shows its place so far in brackets.
void DecisionDock::add_look(const QJsonObject& line) {
  ++tried_;
  if (!provisional_) return;
  add_deployment(line);
  show_so_far();
}

void DecisionDock::show_so_far() {
  std::vector<std::size_t> order(deployments_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](std::size_t a, std::size_t b) { return goes_before(deployments_[a], deployments_[b]); });
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i + 1;
  for (int row = 0; row < ranking_->rowCount(); ++row) {
    const auto index = static_cast<std::size_t>(ranking_->item(row, 0)->data(Qt::UserRole).toULongLong());
    auto* rank = new SortedItem(QStringLiteral("(%1)").arg(place[index]), static_cast<double>(place[index]));
    rank->setData(Qt::UserRole, static_cast<qulonglong>(index));
    rank->setToolTip(tr("Provisional rank, from a first short simulation at the study's load"));
    ranking_->setItem(row, 0, rank);
  }
  ranking_->sortItems(0, Qt::AscendingOrder);
  if (ranking_->rowCount() < 2) fit_columns();
  best_->setText(tr("%1 deployments simulated so far. Leading: %2")
                     .arg(tried_)
                     .arg(deployments_[order.front()].value(QStringLiteral("deployment")).toString()));
}

// No rank of a cancelled search is final.
void DecisionDock::mark_cancelled() {
  for (int row = 0; row < ranking_->rowCount(); ++row) {
    for (const int column : {0, kSloColumn}) {
      QTableWidgetItem* item = ranking_->item(row, column);
      if (item->text().isEmpty() || item->text().endsWith(QChar(u'?'))) continue;
      item->setText(item->text() + QStringLiteral(" ?"));
      item->setToolTip(tr("Not final: the search was cancelled"));
    }
  }
}

void DecisionDock::add_deployment(const QJsonObject& line) {
  ranking_->setSortingEnabled(false);  // a row must not move before it is complete
  const int row = ranking_->rowCount();
  ranking_->insertRow(row);
  for (int c = 0; c < static_cast<int>(columns().size()); ++c) {
    const RankingColumn& column = columns()[static_cast<std::size_t>(c)];
    const QJsonValue value = value_of(line, column.key);
    auto* item =
        new SortedItem(shown(value, column.key), value.isDouble() ? std::optional(value.toDouble()) : std::nullopt);
    item->setToolTip(line.value(QStringLiteral("deployment")).toString());
    // Sorting moves rows, so each row keeps the index of its deployment.
    item->setData(Qt::UserRole, static_cast<qulonglong>(deployments_.size()));
    ranking_->setItem(row, c, item);
  }
  const QString unit = line.value(QStringLiteral("objective_unit")).toString();
  if (deployments_.empty() && !unit.isEmpty()) {
    ranking_->horizontalHeaderItem(kObjective)->setText(unit);
    ranking_->setColumnHidden(kPrice, unit == ranking_->horizontalHeaderItem(kPrice)->text());
  }
  deployments_.push_back(line);
}

void DecisionDock::show_answer(const QJsonObject& line) {
  const QJsonObject winner = line.value(QStringLiteral("winner")).toObject();
  if (winner.isEmpty() && line.value(QStringLiteral("cancelled")).toBool()) {
    best_->setText(tr("No answer yet: the search was cancelled. The ranking shows the deployments simulated so far."));
  } else if (winner.isEmpty()) {
    best_->setText(tr("✗ No deployment of this search meets the SLO. The ranking shows what limits each deployment."));
  } else {
    const bool cancelled = line.value(QStringLiteral("cancelled")).toBool();
    QString text = (cancelled ? tr("? Best so far, because the search was cancelled: %1") : tr("✓ Best: %1"))
                       .arg(winner.value(QStringLiteral("deployment")).toString());
    const QJsonObject capacity = winner.value(QStringLiteral("capacity")).toObject();
    if (!capacity.isEmpty()) {
      text += QStringLiteral("\n") + tr("Carries %1 %2 within the SLO")
                                         .arg(reader_text(capacity.value(QStringLiteral("load")).toDouble(), 4),
                                              capacity.value(QStringLiteral("unit")).toString());
    }
    if (const QString margin = margin_text(1); !margin.isEmpty()) text += QStringLiteral("\n") + margin;
    text += thin_margin(1);
    const QString price = winner.value(QStringLiteral("price")).toString();
    if (!price.isEmpty()) text += QStringLiteral("\n") + tr("Price: %1").arg(price);
    for (const QJsonValue& one : line.value(QStringLiteral("sensitivity")).toArray()) {
      const QJsonObject s = one.toObject();
      // Report only changes that give another winner.
      if (s.value(QStringLiteral("same")).toBool()) continue;
      text += QStringLiteral("\n") + tr("%1: %2 would win")
                                         .arg(s.value(QStringLiteral("change")).toString(),
                                              s.value(QStringLiteral("winner")).toString(tr("none of the nearest")));
    }
    best_->setText(text);
    deploy_ = winner.value(QStringLiteral("deploy")).toObject();
    for (auto it = deploy_.begin(); it != deploy_.end(); ++it) files_->addItem(it.key());
    copy_->setEnabled(files_->count() > 0);
  }
  if (line.value(QStringLiteral("cancelled")).toBool()) mark_cancelled();
  say(line.value(QStringLiteral("text")).toString());
  show_log_from_top();
  fit_columns();
  ranking_->setSortingEnabled(true);
  ranking_->sortByColumn(0, Qt::AscendingOrder);
  if (ranking_->rowCount() > 0) ranking_->setCurrentCell(0, 0);
}

// Warns if the deployment of a rank has almost nothing to spare; empty if it has.
QString DecisionDock::thin_margin(int rank) const {
  constexpr double kThin = 0.95;  // predictions of latency are seldom better than 5 %
  for (const QJsonObject& deployment : deployments_) {
    if (deployment.value(QStringLiteral("rank")).toInt() != rank) continue;
    if (deployment.value(QStringLiteral("slo_used")).toDouble() < kThin) return {};
    return QStringLiteral("\n") +
           tr("⚠ Little to spare: choose a safety margin in the SLO of the form and plan again.");
  }
  return {};
}

// Returns how much of its limit the deployment of a rank uses; empty if it is not known.
QString DecisionDock::margin_text(int rank) const {
  for (const QJsonObject& deployment : deployments_) {
    const QJsonValue used = deployment.value(QStringLiteral("slo_used"));
    if (deployment.value(QStringLiteral("rank")).toInt() != rank || !used.isDouble()) continue;
    return tr("%1 uses %2 % of its limit")
        .arg(in_capitals(deployment.value(QStringLiteral("slo_check")).toString()),
             reader_text(100 * used.toDouble(), 3));
  }
  return {};
}

// Fits columns to their contents, up to 40 characters: a long explanation would push all others out of sight.
void DecisionDock::fit_columns() {
  ranking_->resizeColumnsToContents();
  const int widest = 40 * fontMetrics().averageCharWidth();
  for (int c = 0; c < ranking_->columnCount(); ++c)
    ranking_->setColumnWidth(c, std::min(ranking_->columnWidth(c), widest));
}

void DecisionDock::finished(const QString& verb, int exit_code, const QString& text) {
  RunDock::finished(verb, exit_code, text);
  // Exit code 4: the search is complete, but no deployment meets the SLO.
  if (exit_code == 4 && text.isEmpty()) state().setText(tr("✓ done: nothing meets the SLO"));
  // Without an answer, the first looks stay and count as not final.
  if (provisional_ && ranking_->rowCount() > 0) mark_cancelled();
  // refresh() shows this text again whenever the form returns to the question that was answered.
  verdict_ = state().text();
  asked_ = text.isEmpty() && (exit_code == 0 || exit_code == 4) ? asking_ : std::string();
}

const QJsonObject* DecisionDock::deployment_at(int row) const {
  const QTableWidgetItem* item = row >= 0 ? ranking_->item(row, 0) : nullptr;
  const auto index = item != nullptr ? item->data(Qt::UserRole).toULongLong() : deployments_.size();
  return index < deployments_.size() ? &deployments_[index] : nullptr;
}

void DecisionDock::explain(int row) {
  const QJsonObject* deployment = deployment_at(row);
  use_->setEnabled(deployment != nullptr);
  if (deployment == nullptr) return;
  QString text = deployment->value(QStringLiteral("deployment")).toString();
  const QString verdict = deployment->value(QStringLiteral("verdict")).toString();
  if (!verdict.isEmpty()) text += QStringLiteral(": ") + verdict;
  const QString margin = margin_text(deployment->value(QStringLiteral("rank")).toInt(-1));
  if (!margin.isEmpty()) text += QStringLiteral("; ") + margin;
  why_->setText(text);
}

void DecisionDock::use(int row) {
  apply(row, [this](const auto& change) {
    bench_.session().edit(tr("Use a deployment"), {}, [&](SessionState& s) { change(s.scenarios[s.current]); });
  });
}

void DecisionDock::add_scenario(int row) {
  apply(row, [this](const auto& change) {
    bench_.add_copy(tr("Add the plan's answer"), [&](Scenario& copy) {
      copy.name = tr("planned");
      change(copy);
    });
  });
}

// Passes the change of a scenario into a row's deployment to `edit`, which makes it.
void DecisionDock::apply(int row, const std::function<void(const ScenarioChange&)>& edit) {
  const QJsonObject* deployment = deployment_at(row);
  if (deployment == nullptr) return;
  // Read this before the edit, which changes the question.
  const bool current = asked_ == key();
  edit([deployment](Scenario& scenario) { set_deployment(scenario, *deployment); });
  // The form no longer sweeps the values that the deployment was chosen from, but the answer is still valid.
  if (current) asked_ = key();
  refresh();
}

void DecisionDock::copy_file() { QApplication::clipboard()->setText(deploy_.value(files_->currentText()).toString()); }

QString DecisionDock::answer() const { return best_->text(); }

TableData DecisionDock::table() const {
  TableData table;
  for (const QJsonObject& deployment : deployments_) {
    for (const QString& key : deployment.keys()) {
      // Skip fields of the progress protocol; the others belong to the deployment.
      const bool own = key == QStringLiteral("v") || key == QStringLiteral("t_s") || key == QStringLiteral("type");
      if (!own && !table.headers.contains(key)) table.headers << key;
    }
  }
  for (const QJsonObject& deployment : deployments_) {
    QStringList row;
    for (const QString& key : table.headers) {
      const QJsonValue value = deployment.value(key);
      row << (value.isDouble() ? qs(study::number_text(value.toDouble()))
              : value.isBool() ? qs(value.toBool() ? "true" : "false")
                               : value.toString());
    }
    table.rows.push_back(row);
  }
  return table;
}

}  // namespace plimsoll::gui
