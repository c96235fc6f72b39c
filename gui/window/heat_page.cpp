// SPDX-License-Identifier: GPL-3.0-or-later
#include <QComboBox>
#include <QLabel>
#include <QStandardItemModel>
#include <QVBoxLayout>

#include "gui/core/text.h"
#include "gui/window/bar_page.h"
#include "gui/window/curve_words.h"
#include "gui/window/flow_layout.h"
#include "gui/window/heat_grid.h"

namespace plimsoll::gui {
namespace {

// The map's points have no 90 % bands, so it judges the prediction itself.
DrawnLimit limit_of_map(const ViewState& view) {
  DrawnLimit drawn = drawn_limit(view);
  drawn.safe = false;
  return drawn;
}

// Returns a value of the scenario, or its default; 0 if it is swept or not known.
std::int64_t single_value(const Workbench& bench, const char* path) {
  const FieldValue field = field_value(bench.session().scenario(), path);
  if (field.swept) return 0;
  const FieldDefaults& defaults = bench.curves().outline().defaults;
  const auto found = defaults.find(path);
  const QString text = field.text.isEmpty() && found != defaults.end() ? found->second.value : field.text;
  return text.toLongLong();
}

}  // namespace

HeatPage::HeatPage(Workbench& bench, QWidget* parent) : View(bench, parent) {
  caption_ = new QLabel(this);
  caption_->setWordWrap(true);
  metric_ = new QComboBox(this);
  metric_->setAccessibleName(tr("Metric of the map"));
  for (const Metric& metric : metrics()) metric_->addItem(axis_title(metric), qs(metric.id));
  metric_->setCurrentIndex(metric_->findData(QStringLiteral("output_tokens_per_s")));
  metric_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  metric_->setMinimumContentsLength(24);
  at_ = new QComboBox(this);
  at_->setAccessibleName(tr("At which load"));
  at_->addItems({tr("at one load"), tr("at the largest load within the SLO")});
  grid_ = new HeatGrid(this);
  auto* bar = new QWidget(this);
  auto* choices = new FlowLayout(bar);
  choices->addWidget(metric_);
  choices->addWidget(at_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->addWidget(bar);
  column->addWidget(caption_);
  column->addWidget(grid_, 1);
  connect(metric_, &QComboBox::activated, this, &HeatPage::refresh);
  connect(grid_, &HeatGrid::said, this, &HeatPage::message);
  connect(grid_, &HeatGrid::chosen, this, &HeatPage::use);
  // A cancelled task delivers nothing.
  connect(&bench_.tasks(), &TaskLane::finished, this, [this] {
    if (waiting_ && !bench_.tasks().busy())
      grid_->show_map({}, tr("The map was cancelled. It starts again when a value changes."));
  });
  connect(at_, &QComboBox::activated, this, [this] {
    chosen_ = true;
    refresh();
  });
}

// If there is an SLO line, the map shows the load carried within it, unless the user chose otherwise.
bool HeatPage::is_within() {
  const bool limited = has_limit(bench_, drawn_limit(bench_.session().state().view));
  auto* items = qobject_cast<QStandardItemModel*>(at_->model());
  items->item(1)->setEnabled(limited);
  if (!chosen_ || !limited) at_->setCurrentIndex(limited ? 1 : 0);
  at_->setToolTip(limited ? QString()
                          : tr("State an SLO in Curves to see the load that each deployment carries "
                               "within it"));
  return at_->currentIndex() == 1;
}

void HeatPage::prepare() {
  const ViewState& view = bench_.session().state().view;
  const LoadField load = load_field(bench_.session().scenario());
  const QStringList values = load.values.split(QChar(u','));
  // A map that is not limited by the SLO is at one load: that of the selected point, else the scenario's middle one.
  double at = bench_.selection() ? bench_.selection()->load : values[values.size() / 2].trimmed().toDouble();
  if (!(at > 0)) at = values.back().trimmed().toDouble();
  SessionState alone;
  alone.scenarios = {bench_.session().scenario()};
  const bool within = is_within();
  const std::string judged = view.y + std::to_string(view.limit) + " " + std::to_string(view.margin);
  const std::string key = session_text(alone) + (within ? judged : std::to_string(at));
  // An equal map is not simulated again, even while it is still being simulated.
  if (key == key_) return;
  key_ = key;
  waiting_ = true;
  grid_->show_map({}, tr("Simulating the map…"));
  bench_.tasks().start(tr("TP by batch"),
                       [this, key, at, within, limit = limit_of_map(view), scenario = bench_.session().scenario(),
                        catalogue = bench_.catalogue()](study::RunControl& control) {
                         HeatMap map;
                         QString failure;
                         try {
                           map = within ? simulate_heat_map_within(scenario, catalogue, limit, control)
                                        : simulate_heat_map(scenario, catalogue, at, control);
                         } catch (const std::exception& error) {
                           failure = qs(error.what());
                         }
                         return std::function<void()>([this, key, map, failure] {
                           // The scenario has changed meanwhile; another map will follow.
                           if (key != key_) return;
                           waiting_ = false;
                           grid_->show_map(map, failure);
                           refresh();
                         });
                       });
}

void HeatPage::refresh() {
  if (isVisible()) prepare();
  const ViewState& view = bench_.session().state().view;
  const DrawnLimit drawn = limit_of_map(view);
  grid_->show_metric(*find_metric(utf8(metric_->currentData().toString())), drawn);
  grid_->show_own(single_value(bench_, "deployment.tp"), single_value(bench_, "scheduler.max_running"));
  if (grid_->map().cells.empty()) return;
  QString slo = limits_text(bench_, drawn);
  if (view.safe && !slo.isEmpty()) slo += tr(" (the prediction itself, without its 90 % band)");
  const auto& scenarios = bench_.session().state().scenarios;
  const QString whose = scenarios.size() > 1 ? tr("%1: ").arg(bench_.session().scenario().name) : QString();
  QString text = grid_->map().load > 0
                     ? tr("%1; a point selected in Curves changes it%2")
                           .arg(load_of_map(), slo.isEmpty() ? QString() : tr(". ✗: not within %1").arg(slo))
                     : tr("what each deployment carries within %1, as in Curves").arg(slo);
  if (grid_->best()) text += tr(". ★: the best");
  if (grid_->own()) text += tr(". Dashed frame: the scenario's own");
  caption_->setText(whose + text);
}

// Returns "32 clients", worded as for the curves' points if there are any.
QString HeatPage::load_of_map() const {
  study::PointLabels labels;
  labels.load_kind = utf8(load_field(bench_.session().scenario()).kind);
  labels.load_value = grid_->map().load;
  return load_text(labels);
}

// Applies a cell's deployment to the scenario, as the Decision dock does with a ranked one.
void HeatPage::use(int tp, int batch) {
  bench_.session().edit(tr("Use TP %1, batch limit %2").arg(tp).arg(batch), {}, [&](SessionState& s) {
    Scenario& scenario = s.scenarios[s.current];
    set_field(scenario, "deployment.tp", QString::number(tp));
    set_field(scenario, "scheduler.max_running", QString::number(batch));
  });
  Q_EMIT message(tr("The scenario now has TP %1 and batch limit %2").arg(tp).arg(batch));
}

void HeatPage::set_theme(const Theme& theme) { grid_->set_theme(theme); }

PictureParts HeatPage::picture() const { return {{grid_}, {metric_->currentText(), caption_->text()}}; }

TableData HeatPage::table() const {
  TableData table{{tr("TP"), tr("batch limit"), metric_->currentText(), tr("why not")}, {}};
  const HeatMap& map = grid_->map();
  for (std::size_t i = 0; i < map.cells.size(); ++i) {
    const auto value = grid_->value(i);
    table.rows.push_back({QString::number(map.tp[i / map.batch.size()]),
                          QString::number(map.batch[i % map.batch.size()]),
                          value ? qs(study::number_text(*value)) : QString(), map.cells[i].reason});
  }
  return table;
}

}  // namespace plimsoll::gui
