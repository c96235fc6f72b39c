// SPDX-License-Identifier: GPL-3.0-or-later
// The last page of the wizard: the fit and its errors.
#include <QComboBox>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QHeaderView>
#include <QJsonArray>
#include <QLabel>
#include <QPushButton>
#include <QRegularExpression>
#include <QTableWidget>
#include <QVBoxLayout>
#include <algorithm>
#include <map>

#include "gui/core/text.h"
#include "gui/plot/plot_view.h"
#include "gui/window/fit_dialog.h"
#include "model/error.h"

namespace plimsoll::gui {
namespace {

QString metric_words(const QString& column) {
  const Metric* metric = find_metric(utf8(column));
  return metric != nullptr ? qs(metric->label) : column;
}

QString error_words(const QJsonObject& error) {
  if (error.isEmpty()) return QStringLiteral("–");
  return FitRun::tr("%1 % (90 %: %2 %, n = %3)")
      .arg(reader_text(100 * error.value(QStringLiteral("median")).toDouble(), 3),
           reader_text(100 * error.value(QStringLiteral("p90")).toDouble(), 3))
      .arg(error.value(QStringLiteral("count")).toInt());
}

}  // namespace

FitRun::FitRun(Workbench& bench, QWidget* parent) : RunDock(bench, parent) {
  verdict_ = new QLabel(this);
  verdict_->setWordWrap(true);
  verdict_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  errors_ = new QTableWidget(0, 3, this);
  errors_->setAccessibleName(tr("Errors in and out of the fit"));
  errors_->setHorizontalHeaderLabels({tr("metric"), tr("median error in the fit"), tr("on runs not fitted")});
  errors_->verticalHeader()->hide();
  errors_->setEditTriggers(QAbstractItemView::NoEditTriggers);
  errors_->setTabKeyNavigation(false);
  errors_->setShowGrid(false);
  errors_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  errors_->setMinimumHeight(6 * (fontMetrics().height() + 8));
  metric_ = new QComboBox(this);
  metric_->setAccessibleName(tr("Metric of the picture"));
  parity_ = make_plot_view(this).release();
  parity_->set_name(tr("Predicted against measured, in and out of the fit"));
  parity_->setMinimumHeight(180);
  use_ = new QPushButton(tr("&Use it in the scenario"), this);
  use_->setToolTip(tr("The fitted engine, and the fitted hardware if there is one, become the scenario's"));
  const int before_log = column_->count() - 1;
  column_->insertWidget(before_log, verdict_);
  column_->insertWidget(before_log + 1, errors_);
  column_->insertWidget(before_log + 2, metric_);
  column_->insertWidget(before_log + 3, parity_, 3);
  column_->addWidget(use_);
  connect(&run_, &ChildRun::object, this, [this](const QString& type, const QJsonObject& line) {
    if (type == QStringLiteral("fit")) show_fit(line);
  });
  connect(metric_, &QComboBox::activated, this, &FitRun::show_metric);
  connect(use_, &QPushButton::clicked, this, &FitRun::use);
  clear();
}

void FitRun::clear() {
  fit_ = {};
  verdict_->clear();
  errors_->setRowCount(0);
  metric_->clear();
  for (QWidget* widget :
       {static_cast<QWidget*>(errors_), static_cast<QWidget*>(metric_), static_cast<QWidget*>(parity_)})
    widget->hide();
  use_->setEnabled(false);
}

void FitRun::fit(const FitQuestion& question, const std::vector<ImportRequest>& files) {
  if (run_.state() != ChildRun::State::idle) return;
  question_ = question;
  QStringList options{QStringLiteral("--engine"), question.name};
  const auto add = [&](const char* option, const QString& value) {
    if (!value.trimmed().isEmpty()) options << QStringLiteral("--") + qs(option) << value.trimmed();
  };
  try {
    make_folder();
    add("like", question.like);
    add("hardware", question.hardware);
    add("dtype", question.dtype);
    add("model", question.model);
    add("tp", question.tp);
    add("memory", question.memory);
    if (question.fit_hardware) options << QStringLiteral("--fit-hardware");
    if (!question.endpoint.isEmpty()) {
      add("endpoint", question.endpoint);
      add("api-key-env", question.key_variable);
      add("seconds", QString::number(question.seconds));
      add("users", QString::number(question.users));
    } else {
      options << QStringLiteral("--from");
      int number = 0;
      for (const ImportRequest& file : files) {
        // Each file gets a folder of its own. The profile states file names as its source, and files from different
        // folders may have the same name.
        QDir(folder()).mkpath(QString::number(++number));
        const QString name =
            QStringLiteral("%1/%2/%3.csv").arg(folder()).arg(number).arg(QFileInfo(qs(file.file)).completeBaseName());
        QFile out(name);
        const QByteArray text = QByteArray::fromStdString(study::imported_csv(import_runs(file).points));
        if (!out.open(QIODevice::WriteOnly) || out.write(text) != text.size())
          throw DeviceError(utf8(tr("%1 cannot be written: %2").arg(name, out.errorString())));
        options << name;
      }
    }
    start(QStringLiteral("calibrate"), options, {});
  } catch (const std::exception& error) {
    refuse(qs(error.what()));
  }
}

void FitRun::show_fit(const QJsonObject& line) {
  fit_ = line;
  std::map<QString, std::pair<QJsonObject, QJsonObject>> by_metric;
  QStringList order;
  for (const QJsonValue& one : line.value(QStringLiteral("errors")).toArray()) {
    const QJsonObject error = one.toObject();
    const QString metric = error.value(QStringLiteral("metric")).toString();
    if (!order.contains(metric)) order << metric;
    auto& [in, out] = by_metric[metric];
    (error.value(QStringLiteral("fitted")).toBool() ? in : out) = error;
  }
  errors_->setRowCount(static_cast<int>(order.size()));
  for (int row = 0; row < order.size(); ++row) {
    const auto& [in, out] = by_metric[order[row]];
    errors_->setItem(row, 0, new QTableWidgetItem(metric_words(order[row])));
    errors_->setItem(row, 1, new QTableWidgetItem(error_words(in)));
    errors_->setItem(row, 2, new QTableWidgetItem(error_words(out)));
    metric_->addItem(metric_words(order[row]), order[row]);
  }
  verdict_->setText(tr("Like %1. %2 runs are fitted, %3 are held out. The 90 % bands hold %4 % of the figures of runs "
                       "that the fit did "
                       "not see.")
                        .arg(line.value(QStringLiteral("like")).toString())
                        .arg(line.value(QStringLiteral("runs")).toInt())
                        .arg(line.value(QStringLiteral("held_out")).toInt())
                        .arg(reader_text(100 * line.value(QStringLiteral("coverage")).toDouble(), 3)));
  for (QWidget* widget :
       {static_cast<QWidget*>(errors_), static_cast<QWidget*>(metric_), static_cast<QWidget*>(parity_)})
    widget->show();
  show_metric();
  say(line.value(QStringLiteral("text")).toString());
}

void FitRun::show_metric() {
  const QString column = metric_->currentData().toString();
  const Metric* metric = find_metric(utf8(column));
  const double scale = metric != nullptr ? metric->scale : 1;
  const QString unit = metric != nullptr ? qs(metric->unit) : QString();
  PlotContent content;
  content.x = {tr("measured (%1)").arg(unit), true};
  content.y = {tr("predicted (%1)").arg(unit), true};
  PlotSeries fitted, held_out, equal;
  fitted.name = tr("in the fit");
  held_out.name = tr("not fitted");
  held_out.colour = 1;
  fitted.line = held_out.line = LineLook::none;
  equal.name = tr("equal");
  equal.line = LineLook::faded;
  equal.markers = false;
  double least = 0, most = 0;
  for (const QJsonValue& one : fit_.value(QStringLiteral("figures")).toArray()) {
    const QJsonObject figure = one.toObject();
    if (figure.value(QStringLiteral("metric")).toString() != column) continue;
    const double x = scale * figure.value(QStringLiteral("measured")).toDouble();
    const double y = scale * figure.value(QStringLiteral("predicted")).toDouble();
    if (!(x > 0 && y > 0)) continue;
    least = least > 0 ? std::min({least, x, y}) : std::min(x, y);
    most = std::max({most, x, y});
    PlotSeries& series = figure.value(QStringLiteral("fitted")).toBool() ? fitted : held_out;
    series.points.push_back({x, y, PointLook::filled, figure.value(QStringLiteral("run")).toString(), 0, 0});
  }
  if (most > 0) equal.points = {{least, least, PointLook::filled, {}, 0, 0}, {most, most, PointLook::filled, {}, 0, 0}};
  for (PlotSeries* series : {&fitted, &held_out}) series->label = series->name;
  content.series = {std::move(equal), std::move(fitted), std::move(held_out)};
  parity_->set_content(std::move(content));
}

QString in_words_of_the_form(QString message) {
  static const QRegularExpression list(QStringLiteral(" \\(plimsoll list \\w+\\)"));
  const std::pair<const char*, QString> fields[] = {{"--engine", FitDialog::tr("Name of your engine")},
                                                    {"--like", FitDialog::tr("It resembles")},
                                                    {"--model", FitDialog::tr("Model")},
                                                    {"--hardware", FitDialog::tr("Hardware")},
                                                    {"--tp", FitDialog::tr("TP degree")},
                                                    {"--dtype", FitDialog::tr("Weights")},
                                                    {"--memory", FitDialog::tr("Memory of fitted hardware")},
                                                    {"--seconds", FitDialog::tr("Begin no run after")}};
  for (const auto& [option, label] : fields) {
    const QRegularExpression whole(qs(option) + QStringLiteral("(?![\\w-])"));
    message.replace(whole, QStringLiteral("“%1”").arg(label));
  }
  return message.remove(list);
}

void FitRun::finished(const QString& verb, int exit_code, const QString& text) {
  RunDock::finished(verb, exit_code, in_words_of_the_form(text));
  if (exit_code != 0 || !text.isEmpty() || fit_.isEmpty()) return;
  use_->setEnabled(true);
  bench_.reload_catalogue();  // it has the new profile
  state().setText(
      tr("✓ fitted; the engine “%1” is in your catalogue").arg(fit_.value(QStringLiteral("engine")).toString()));
}

void FitRun::use() {
  bench_.session().edit(tr("Use the fitted engine"), {}, [this](SessionState& state) {
    Scenario& scenario = state.scenarios[state.current];
    set_engine(scenario, fit_.value(QStringLiteral("engine")).toString());
    const QString accelerator = fit_.value(QStringLiteral("accelerator")).toString();
    if (!question_.model.trimmed().isEmpty()) set_field(scenario, "model", question_.model.trimmed());
    if (!question_.dtype.isEmpty()) set_field(scenario, "dtype", question_.dtype);
    const QString stated = question_.tp.trimmed();
    if (accelerator.isEmpty() && stated.isEmpty()) return;
    // Hardware that only the runs describe has as many GPUs as they used.
    const QString tp = stated.isEmpty() ? QStringLiteral("1") : stated;
    set_field(scenario, "deployment.tp", tp);
    if (accelerator.isEmpty()) return;
    set_field(scenario, "hardware", QStringLiteral("{accelerator: %1, count: %2}").arg(accelerator, tp));
    set_field(scenario, "deployment.replicas", QStringLiteral("1"));
  });
}

QString FitRun::verdict() const { return verdict_->text(); }

void FitRun::set_theme(const Theme& theme) { parity_->set_theme(theme); }

}  // namespace plimsoll::gui
