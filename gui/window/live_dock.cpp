// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/live_dock.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDateTime>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>
#include <algorithm>
#include <cstdlib>
#include <thread>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

const QString kThisMachine = QStringLiteral("this-machine");

// Returns a warning if other programs use so much of the machine that the run would measure them too; else empty.
QString busy_note() {
  constexpr double kBusyShare = 0.25;  // of the cores, before the run begins
  double load = 0;
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  if (getloadavg(&load, 1) != 1 || load < kBusyShare * cores) return {};
  return LiveDock::tr("was measured on a busy machine: load average %1 on %2 cores")
      .arg(reader_text(load, 2), reader_text(cores));
}

}  // namespace

LiveDock::LiveDock(Workbench& bench, QWidget* parent) : RunDock(bench, parent) {
  hint_ = new QLabel(this);
  hint_->setWordWrap(true);
  device_ = new QComboBox(this);
  device_->setAccessibleName(tr("Device to measure on"));
  device_->addItem(tr("This machine's CPU"), QStringLiteral("cpu"));
  device_->addItem(tr("This machine's GPU"), QStringLiteral("cuda"));
  endpoint_ = new QLineEdit(this);
  endpoint_->setPlaceholderText(tr("or a server: http://127.0.0.1:8000"));
  endpoint_->setAccessibleName(tr("Server to measure"));
  endpoint_->setToolTip(
      tr("Address of a server that speaks OpenAI's, TGI's or LMI's interface; empty: measure this machine"));
  endpoint_->setClearButtonEnabled(true);
  key_ = new QLineEdit(this);
  key_->setPlaceholderText(tr("environment variable with its key"));
  key_->setAccessibleName(tr("Environment variable with the server's key"));
  as_is_ = new QCheckBox(tr("Measure a scenario for other hardware"), this);
  as_is_->setToolTip(
      tr("Measure here a scenario that names other hardware (--as-is); its curves then do not show the points"));
  as_is_->setAccessibleDescription(as_is_->toolTip());
  seconds_ = new QSpinBox(this);
  seconds_->setRange(5, 3600);
  seconds_->setValue(60);
  seconds_->setSuffix(tr(" s"));
  seconds_->setAccessibleName(tr("Time to calibrate"));
  auto* label = new QLabel(tr("Calibrate for"), this);
  label->setBuddy(seconds_);
  auto* time = new QHBoxLayout();
  time->addWidget(label);
  time->addWidget(seconds_, 1);
  column_->insertWidget(0, hint_);
  column_->insertWidget(1, device_);
  column_->insertWidget(2, endpoint_);
  column_->insertWidget(3, key_);
  column_->insertWidget(4, as_is_);
  column_->insertLayout(5, time);
  connect(
      add_button(tr("&This machine"),
                 tr("Turn the scenario into one for this machine: hardware, engine and a model that a CPU can run")),
      &QPushButton::clicked, this, &LiveDock::use_this_machine);
  connect(add_button(tr("&Measure"),
                     tr("Run the scenario's points on this machine or on the server, in a process of its own")),
          &QPushButton::clicked, this, &LiveDock::measure);
  connect(add_button(tr("Cali&brate"),
                     tr("Measure this machine's speed, to base predictions on it; with a server's address, "
                        "fit a profile of its engine")),
          &QPushButton::clicked, this, &LiveDock::calibrate);
  connect(
      add_button(tr("Fit an en&gine…"), tr("Fit a profile of your own engine to files of runs or to a running server")),
      &QPushButton::clicked, this, [this] { Q_EMIT fit_wanted(endpoint_->text().trimmed()); });
  connect(&run_, &ChildRun::point, this, [this](const PointRow& row) {
    rows_.push_back(row);
    // Pass all points so far, because each call replaces the run of this folder.
    bench_.session().set_run({name_, note_, rows_, utf8(folder())});
  });
  connect(&bench.session(), &Session::changed, this, &LiveDock::refresh);
  connect(endpoint_, &QLineEdit::textChanged, this, &LiveDock::refresh);
  refresh();
}

bool LiveDock::is_this_machine() const {
  return field_value(bench_.session().scenario(), "hardware").text == kThisMachine;
}

void LiveDock::refresh() {
  const QString hardware = field_value(bench_.session().scenario(), "hardware").text;
  const bool server = !endpoint_->text().trimmed().isEmpty();
  as_is_->setEnabled(!is_this_machine() && !server);
  device_->setEnabled(!server);
  key_->setEnabled(server);
  hint_->setText(
      server ? tr("Sends the scenario's load to the server, in real time. Points appear as they finish.")
      : is_this_machine()
          ? tr("Runs the scenario's points here, in real time, with the simulator's own scheduler. Points appear as "
               "they finish.")
          : tr("The scenario is for %1. “This machine” turns it into one that can be measured and predicted here.")
                .arg(hardware));
}

void LiveDock::use_this_machine() {
  bench_.session().edit(tr("Use this machine"), {}, [](SessionState& s) {
    Scenario& scenario = s.scenarios[s.current];
    set_field(scenario, "hardware", kThisMachine);
    set_field(scenario, "engine", QStringLiteral("plimsoll-cpu"));
    set_field(scenario, "model", QStringLiteral("demo-llama-40m"));
    set_field(scenario, "dtype", QStringLiteral("bf16"));
    set_field(scenario, "deployment.tp", QStringLiteral("1"));
    set_field(scenario, "deployment.replicas", QStringLiteral("1"));
    // Settings for the former hardware would not fit the memory of this machine.
    set_edit(scenario, "scheduler", "{}");
    set_edit(scenario, "workload.lengths", "{input: 64, output: 32}");
    set_load(scenario, QStringLiteral("closed_loop"), QStringLiteral("1, 2, 4, 8, 16"));
    set_field(scenario, "workload.requests", QStringLiteral("24"));
  });
  if (run_.state() == ChildRun::State::idle) state().clear();  // the refusal concerned the previous scenario
}

void LiveDock::measure() {
  if (run_.state() != ChildRun::State::idle) return;
  try {
    make_folder();
    name_ = tr("measured %1").arg(QDateTime::currentDateTime().toString(QStringLiteral("yyyy-MM-dd HH:mm:ss")));
    note_ = endpoint_->text().trimmed().isEmpty() ? busy_note() : QString();
    QStringList options{QStringLiteral("--requests"), QStringLiteral("--out"), folder()};
    if (const QString server = endpoint_->text().trimmed(); !server.isEmpty()) {
      options << QStringLiteral("--endpoint") << server;
      if (const QString key = key_->text().trimmed(); !key.isEmpty()) options << QStringLiteral("--api-key-env") << key;
    } else {
      options << QStringLiteral("--timeline") << QStringLiteral("--device") << device_->currentData().toString();
      if (as_is_->isEnabled() && as_is_->isChecked()) options << QStringLiteral("--as-is");
    }
    start(QStringLiteral("measure"), options, bench_.study_text());
  } catch (const std::exception& error) {
    refuse(qs(error.what()));
  }
}

void LiveDock::calibrate() {
  // To calibrate for a server means to fit a profile of its engine, which needs more than this dock's fields.
  if (const QString server = endpoint_->text().trimmed(); !server.isEmpty()) {
    Q_EMIT fit_wanted(server);
    return;
  }
  start(QStringLiteral("calibrate"),
        {QStringLiteral("--device"), device_->currentData().toString(), QStringLiteral("--seconds"),
         QString::number(seconds_->value())},
        {});
}

void LiveDock::clear() { rows_.clear(); }

// A new calibration changes the predictions for this machine, so the catalogue is loaded again.
void LiveDock::finished(const QString& verb, int exit_code, const QString& text) {
  RunDock::finished(verb, exit_code, text);
  if (verb != QStringLiteral("calibrate") || exit_code != 0 || !text.isEmpty()) return;
  bench_.reload_catalogue();
  state().setText(tr("✓ calibrated; predictions for this machine now use the result"));
}

}  // namespace plimsoll::gui
