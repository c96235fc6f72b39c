// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/scenario_dock.h"

#include <QAbstractItemView>
#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineEdit>
#include <QRegularExpression>
#include <QScrollArea>
#include <QScrollBar>
#include <QSignalBlocker>
#include <QSlider>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "configs/quantity.h"
#include "gui/core/pool_form.h"
#include "gui/core/scenario.h"
#include "gui/core/text.h"
#include "gui/window/palette.h"
#include "gui/window/slo_panel.h"
#include "gui/window/wheel_guard.h"
#include "model/error.h"
#include "study/file/read_point.h"

namespace plimsoll::gui {
namespace {

QLabel* problem_label(QWidget* parent) {
  auto* label = new QLabel(parent);
  label->setObjectName(QStringLiteral("problem"));
  label->setWordWrap(true);
  label->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  label->setFocusPolicy(Qt::NoFocus);
  label->hide();
  return label;
}

QString first_loads(const QString& kind) {
  return study::load_field(utf8(kind), "rate").empty() ? QStringLiteral("1, 2, 4, 8, 16, 32, 64, 128, 256")
                                                       : QStringLiteral("0.5, 1, 2, 4, 8, 16");
}

// An empty label takes no space in the form.
void show_text(QLabel& label, const QString& text) {
  label.setText(text.isEmpty() ? QString() : QStringLiteral("✗ ") + text);
  label.setVisible(!text.isEmpty());
}

}  // namespace

Field::Field(FieldSpec spec, QWidget* parent) : QWidget(parent), spec_(std::move(spec)) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(1);
  label_ = new QLabel(spec_.label, this);
  label_->setToolTip(spec_.help);
  box_ = new QComboBox(this);
  box_->setEditable(true);
  box_->setInsertPolicy(QComboBox::NoInsert);
  box_->addItems(spec_.choices);
  // Names are completed, numbers are not: 3 is not the beginning of 32.
  const bool numbers = std::all_of(spec_.choices.begin(), spec_.choices.end(), [](const QString& choice) {
    return configs::parse_number(utf8(choice)).has_value();
  });
  if (numbers) box_->setCompleter(nullptr);
  box_->setToolTip(spec_.help);
  box_->setAccessibleName(spec_.label);
  box_->setAccessibleDescription(spec_.help);
  box_->lineEdit()->setAccessibleName(spec_.label);
  box_->lineEdit()->setPlaceholderText(unset_text());
  box_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box_->setMinimumContentsLength(spec_.slider ? 7 : 12);
  label_->setBuddy(box_);
  column->addWidget(label_);
  auto* row = new QHBoxLayout();
  row->setSpacing(6);
  if (spec_.slider) {
    slider_ = new QSlider(Qt::Horizontal, this);
    slider_->setRange(0, static_cast<int>(spec_.choices.size()) - 1);
    slider_->setPageStep(1);
    slider_->setTickPosition(QSlider::TicksBelow);
    slider_->setAccessibleName(spec_.label);
    slider_->setToolTip(spec_.help);
    row->addWidget(slider_, 1);
    connect(slider_, &QSlider::valueChanged, this, [this](int at) { Q_EMIT entered(spec_.path, spec_.choices[at]); });
    connect(slider_, &QSlider::sliderReleased, this, &Field::released);
  }
  row->addWidget(box_, spec_.slider ? 0 : 1);
  column->addLayout(row);
  problem_ = problem_label(this);
  column->addWidget(problem_);
  connect(box_, &QComboBox::activated, this, [this](int index) { enter(box_->itemText(index)); });
  connect(box_->lineEdit(), &QLineEdit::editingFinished, this, [this] { enter(box_->currentText()); });
}

// Leaving a field without a change is not an edit. Only the texts show a change: the box's index does not follow
// typing, and completing a word resets the line's own flag.
void Field::enter(const QString& text) {
  if (text == shown_) return;
  shown_ = text;
  Q_EMIT entered(spec_.path, text);
  // Each entered value is a step of its own; only the values of a drag merge.
  Q_EMIT released();
}

bool Field::is_typing() const { return box_->lineEdit()->hasFocus() && box_->currentText() != shown_; }

void Field::place_slider(const QString& text) {
  if (slider_ == nullptr) return;
  const QSignalBlocker quiet(slider_);
  // An empty field shows its default on the slider.
  const auto exact = spec_.choices.indexOf(text.isEmpty() ? default_.value : text);
  if (exact >= 0) {
    slider_->setValue(static_cast<int>(exact));
    return;
  }
  bool ok = false;
  const double value = (text.isEmpty() ? default_.value : text).toDouble(&ok);
  int nearest = text.isEmpty() && spec_.unset_is_most ? slider_->maximum() : 0;
  for (int i = 0; ok && i < spec_.choices.size(); ++i) {
    // For a value between two choices, use the lower one.
    if (spec_.choices[i].toDouble() <= value) nearest = i;
  }
  slider_->setValue(nearest);
}

void Field::show_value(const FieldValue& value) {
  const QSignalBlocker quiet(box_);
  // Never overwrite what the user is typing.
  if (!is_typing()) {
    shown_ = value.text;
    box_->setEditText(value.text);
    box_->lineEdit()->setCursorPosition(0);
  }
  QFont font = this->font();
  font.setBold(value.edited);  // the label is bold, because a bold value would need a wider field
  label_->setFont(font);
  place_slider(value.text);
}

// A field beside a slider is narrow, so its tool tip names the origin of the default.
void Field::show_default(const FieldDefault* value) {
  const FieldDefault now = value != nullptr ? *value : FieldDefault();
  if (now == default_) return;
  default_ = now;
  const bool known = !now.value.isEmpty();
  box_->lineEdit()->setPlaceholderText(!known ? unset_text() : spec_.slider ? now.value : default_text(now));
  const QString help = known ? tr("%1. Now %2").arg(spec_.help, default_text(now)) : spec_.help;
  box_->setToolTip(help);
  box_->setAccessibleDescription(help);
  // A default moves the slider only while no value is stated.
  if (box_->lineEdit()->text().isEmpty()) place_slider({});
}

void Field::show_problem(const QString& text) { show_text(*problem_, text); }

ScenarioDock::ScenarioDock(Workbench& bench, QWidget* parent) : QWidget(parent), bench_(bench) {
  auto* outer = new QVBoxLayout(this);
  outer->setContentsMargins(0, 0, 0, 0);
  scroll_ = new QScrollArea(this);
  scroll_->setWidgetResizable(true);
  scroll_->setFrameShape(QFrame::NoFrame);
  scroll_->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll_->setFocusPolicy(Qt::NoFocus);
  outer->addWidget(scroll_);
  auto* inner = new QWidget(scroll_);
  column_ = new QVBoxLayout(inner);
  column_->setContentsMargins(8, 4, 8, 8);
  column_->setSpacing(2);
  scroll_->setWidget(inner);
  scenarios_ = new ScenarioList(bench_, inner);
  column_->addWidget(scenarios_);
  problem_ = problem_label(inner);
  column_->addWidget(problem_);
  const FieldGroups fields = field_groups(*bench_.catalogue());
  add_fields(*make_group(tr("Model and machine"), QStringLiteral("machine"), true), fields.machine);
  FoldGroup* deployment = make_group(tr("Deployment"), QStringLiteral("deployment"), true);
  add_fields(*deployment, fields.deployment);
  make_pools(*deployment, fields.pools);
  load_ = make_group(tr("Load"), QStringLiteral("load"), true);
  make_load(*load_);
  make_group(tr("SLO"), QStringLiteral("slo"), true)->content().addWidget(new SloPanel(bench_, this));
  add_fields(*make_group(tr("Requests"), QStringLiteral("requests"), true), fields.workload);
  advanced_ = make_group(tr("Advanced"), QStringLiteral("advanced"), false);
  add_fields(*advanced_, fields.advanced);
  make_hidden();
  column_->addStretch();
  leave_wheel_to_form(*inner);
  // Make room, so that the scroll bar covers nothing of the form. Folded groups count too: unfolding one must not
  // widen the form.
  int width = 0;
  for (const Field* field : fields_) width = std::max(width, field->minimumSizeHint().width());
  inner->adjustSize();
  scroll_->setMinimumWidth(std::max(inner->minimumSizeHint().width(), width + 32) +
                           scroll_->verticalScrollBar()->sizeHint().width());
}

FoldGroup* ScenarioDock::make_group(const QString& title, const QString& key, bool open) {
  auto* group = new FoldGroup(title, key, open, this);
  groups_.push_back(group);
  column_->addWidget(group);
  return group;
}

void ScenarioDock::add_group(const QString& title, const QString& key, QWidget* content) {
  auto* group = new FoldGroup(title, key, true, this);
  group->content().addWidget(content);
  groups_.push_back(group);
  column_->insertWidget(column_->indexOf(load_) + 1, group);
  leave_wheel_to_form(*group);
}

void ScenarioDock::reveal(const QString& path) {
  Field* wanted = field(path);
  if (wanted == nullptr) return;
  for (FoldGroup* group : groups_) {
    if (group->isAncestorOf(wanted)) group->set_open(true);
  }
  layout()->activate();
  scroll_->ensureWidgetVisible(wanted);
  wanted->box()->setFocus();
  wanted->box()->lineEdit()->selectAll();
}

void ScenarioDock::add_fields(FoldGroup& group, const std::vector<FieldSpec>& specs) {
  for (const FieldSpec& spec : specs) {
    auto* field = new Field(spec, &group);
    group.content().addWidget(field);
    fields_.push_back(field);
    connect(field, &Field::entered, this,
            [this](const QString& path, const QString& text) { bench_.set_value(path, text); });
    if (spec.path == QStringLiteral("hardware")) {
      auto* pick = new QToolButton(&group);
      pick->setText(tr("Choose from a table…"));
      pick->setToolTip(tr("By GPU, count, memory, links, cloud and price (Ctrl+H)"));
      group.content().addWidget(pick);
      connect(pick, &QToolButton::clicked, this, &ScenarioDock::hardware_wanted);
    }
    // A new drag of the same slider must be a separate undo step.
    connect(field, &Field::released, this, [this] { bench_.session().end_merge(); });
  }
}

// With pools, their own fields replace those of the one pool.
void ScenarioDock::make_pools(FoldGroup& group, const std::vector<FieldSpec>& specs) {
  pools_ = new QCheckBox(tr("Separate prefill and decode"), &group);
  pools_->setToolTip(tr("Some replicas compute the prompts; their KV is sent to others, which produce the answers"));
  group.content().addWidget(pools_);
  add_fields(group, specs);
  connect(pools_, &QCheckBox::clicked, this, [this](bool on) {
    bench_.session().edit(on ? tr("Split into pools") : tr("Join the pools"), {},
                          [&](SessionState& s) { set_pools(s.scenarios[s.current], on); });
  });
}

void ScenarioDock::refresh_pools() {
  const bool on = states_pools(bench_.session().scenario());
  pools_->setChecked(on);
  for (Field* field : fields_) {
    const QString& path = field->spec().path;
    const bool of_one = path == QStringLiteral("deployment.tp") || path == QStringLiteral("deployment.replicas");
    const bool of_pools = path.startsWith(QStringLiteral("deployment.pools.")) ||
                          path.startsWith(QStringLiteral("deployment.transfer.")) ||
                          path == QStringLiteral("deployment.local_prefill");
    if (of_one || of_pools) field->setVisible(on == of_pools);
  }
}

// Settings without a field would otherwise act unseen.
void ScenarioDock::make_hidden() {
  hidden_ = new QLabel(this);
  hidden_->setWordWrap(true);
  hidden_->setTextFormat(Qt::RichText);
  hidden_->setTextInteractionFlags(Qt::LinksAccessibleByMouse | Qt::LinksAccessibleByKeyboard);
  hidden_->setAccessibleName(tr("Other settings of the study"));
  column_->addWidget(hidden_);
  connect(hidden_, &QLabel::linkActivated, this, [this](const QString& path) {
    bench_.session().edit(tr("Remove %1").arg(path), {},
                          [&](SessionState& s) { remove_setting(s.scenarios[s.current], utf8(path)); });
  });
}

void ScenarioDock::refresh_hidden() {
  QStringList words;
  for (const OtherSetting& setting : other_settings(bench_.session().scenario())) {
    const QString path = qs(setting.path).toHtmlEscaped();
    // The scheduler's settings are known by their own names, whatever the section.
    const QString name = QString(path).remove(QRegularExpression(QStringLiteral("^scheduler\\.|^deployment\\.")));
    words << QStringLiteral("%1 = %2 <a href=\"%3\">✕</a>").arg(name, qs(setting.value).toHtmlEscaped(), path);
  }
  const QString text = tr("Other settings of the study: %1").arg(words.join(QStringLiteral(", ")));
  if (hidden_->text() != text) hidden_->setText(text);
  hidden_->setVisible(!words.isEmpty());
}

void ScenarioDock::make_load(FoldGroup& group) {
  kind_ = new QComboBox(&group);
  kind_->setAccessibleName(tr("Kind of load"));
  for (const std::string& kind : editable_load_kinds()) kind_->addItem(load_kind_label(qs(kind)), qs(kind));
  values_ = new QLineEdit(&group);
  values_->setAccessibleName(tr("Values of the load"));
  values_->setToolTip(tr("Clients or requests per second, separated by commas: each is a point of the curve"));
  load_problem_ = problem_label(&group);
  group.content().addWidget(kind_);
  group.content().addWidget(values_);
  follows_ = new QCheckBox(tr("Find the loads automatically"), &group);
  follows_->setToolTip(
      tr("From a small load up to saturation or the first load that misses the SLO; repeated after each change"));
  group.content().addWidget(follows_);
  group.content().addWidget(load_problem_);
  connect(follows_, &QCheckBox::clicked, &bench_, &Workbench::follow_load);
  connect(kind_, &QComboBox::activated, this, &ScenarioDock::enter_load);
  connect(values_, &QLineEdit::editingFinished, this, [this] {
    if (values_->isModified()) enter_load();
  });
}

void ScenarioDock::enter_load() {
  try {
    values_->setModified(false);
    const QString kind = kind_->currentData().toString();
    // A load of another kind is not edited here; leaving it needs a first value.
    if (kind == foreign_) return;
    if (!foreign_.isEmpty() && values_->text().isEmpty()) values_->setText(first_loads(kind));
    bench_.change_load(kind, values_->text());
    show_text(*load_problem_, {});
  } catch (const InputError& error) {
    show_text(*load_problem_, qs(error.text()));
  }
}

Field* ScenarioDock::field(const QString& path) const {
  const auto found =
      std::find_if(fields_.begin(), fields_.end(), [&](const Field* f) { return f->spec().path == path; });
  return found == fields_.end() ? nullptr : *found;
}

std::vector<Command> ScenarioDock::commands(const QString& typed, const std::function<void(const QString&)>& go) {
  std::vector<Command> out;
  for (const Field* field : fields_) {
    const FieldSpec& spec = field->spec();
    if (field->isHidden()) continue;  // of the other kind of deployment
    const auto found = commands_of({spec.label, spec.path, spec.choices}, typed, go,
                                   [this](const QString& path, const QString& value) {
                                     bench_.set_value(path, value);
                                     bench_.session().end_merge();
                                   });
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

void ScenarioDock::refresh() {
  scenarios_->refresh();
  refresh_pools();
  refresh_load();
  refresh_hidden();
  const Scenario& scenario = bench_.session().scenario();
  const FieldReader fields(scenario);
  for (Field* field : fields_) field->show_value(fields.value(utf8(field->spec().path)));
  refresh_findings();
}

void ScenarioDock::refresh_load() {
  const LoadField load = load_field(bench_.session().scenario());
  const auto editable = editable_load_kinds();
  const bool known =
      load.kind.isEmpty() || std::find(editable.begin(), editable.end(), utf8(load.kind)) != editable.end();
  // A kind of load that one number does not describe, such as a trace, is listed only while the scenario has it.
  const QString foreign = known ? QString() : load.kind;
  if (foreign != foreign_) {
    while (kind_->count() > static_cast<int>(editable.size())) kind_->removeItem(kind_->count() - 1);
    if (!known) kind_->addItem(load_kind_label(foreign), foreign);
    foreign_ = foreign;
  }
  kind_->setCurrentIndex(kind_->findData(load.kind));
  if (!values_->hasFocus() || !values_->isModified()) values_->setText(load.values);
  values_->setCursorPosition(0);
  values_->setEnabled(known);
  follows_->setEnabled(known);
  follows_->setChecked(bench_.session().scenario().finds_load);
  values_->setPlaceholderText(known ? QString() : tr("the study's own load"));
}

// Shows what the simulation reported: which field caused a failure, and the defaults that it used.
void ScenarioDock::refresh_findings() {
  refresh_problems();
  const FieldDefaults& defaults = bench_.curves().outline().defaults;
  for (Field* field : fields_) {
    const auto found = defaults.find(utf8(field->spec().path));
    field->show_default(bench_.failure() || found == defaults.end() ? nullptr : &found->second);
  }
}

// Shows a failure at the field that caused it, if one did.
void ScenarioDock::refresh_problems() {
  for (Field* field : fields_) field->show_problem({});
  QString general;
  if (const auto& failure = bench_.failure()) {
    Field* culprit = nullptr;
    for (Field* field : fields_) {
      if (failure->place.startsWith(QStringLiteral("--set ") + field->spec().path + QChar(u'=')) ||
          failure->place.startsWith(QStringLiteral("--set sweep.") + field->spec().path + QChar(u'='))) {
        culprit = field;
      }
    }
    if (culprit != nullptr) {
      culprit->show_problem(failure->text);
      // A folded group would hide the problem.
      for (FoldGroup* group : groups_) {
        if (group->isAncestorOf(culprit)) group->set_open(true);
      }
    } else {
      general = failure->text;
    }
  } else {
    const auto reasons = bench_.curves().impossible();
    if (!reasons.empty()) {
      // Points that cannot run usually need another TP degree, so the reason is shown there.
      Field* tp =
          field(pools_->isChecked() ? QStringLiteral("deployment.pools.decode.tp") : QStringLiteral("deployment.tp"));
      (tp != nullptr ? tp->show_problem(reasons.front()) : void());
    }
  }
  show_text(*problem_, general);
}

}  // namespace plimsoll::gui
