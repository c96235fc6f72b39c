// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/curves_view.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenu>
#include <QSignalBlocker>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/core/slo_form.h"
#include "gui/core/text.h"
#include "gui/window/curve_content.h"
#include "gui/window/curve_words.h"
#include "gui/window/enclosure.h"
#include "gui/window/flow_layout.h"

namespace plimsoll::gui {
namespace {

// Long enough for the plot to be painted first, too short to be noticed.
constexpr int kRestMs = 8;
// During a drag, the answer changes at most twenty times a second.
constexpr int kRestEveryMs = 50;

}  // namespace

CurvesView::CurvesView(Workbench& bench, QWidget* parent) : View(bench, parent) {
  plot_ = make_plot_view(this).release();
  plot_->set_name(tr("Latency against throughput; arrow keys walk along the points"));
  plot_->setMinimumHeight(130);
  residuals_ = make_plot_view(this).release();
  residuals_->set_name(tr("Residuals: predicted against measured, in percent"));
  residuals_->setFixedHeight(80);
  card_ = new AnswerCard(this);
  summary_ = new QLabel(this);
  summary_->setWordWrap(true);
  summary_->setToolTip(tr("A negative bias: on average, the prediction is lower than the measurement"));
  notes_ = new QLabel(this);
  notes_->setWordWrap(true);
  notes_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  auto* inside = new QWidget();
  auto* all = new QVBoxLayout(inside);
  all->setContentsMargins(6, 6, 6, 6);
  all->setSpacing(2);
  all->addWidget(make_bar());
  all->addWidget(plot_, 1);
  all->addWidget(summary_);
  all->addWidget(residuals_);
  all->addWidget(card_);
  all->addWidget(notes_);
  auto* outside = new QVBoxLayout(this);
  outside->setContentsMargins(0, 0, 0, 0);
  outside->addWidget(new Enclosure(inside, this));
  rest_.setSingleShot(true);
  rest_.setTimerType(Qt::PreciseTimer);
  connect(&rest_, &QTimer::timeout, this, &CurvesView::refresh_rest);
  connect(plot_, &PlotView::activated, this, &CurvesView::activate);
  connect(plot_, &PlotView::hovered, this,
          [this](const QString& tip) { Q_EMIT message(QString(tip).replace(QChar(u'\n'), QStringLiteral(" · "))); });
  connect(plot_, &PlotView::line_moved, this,
          [this](int, double value, bool finished) { move_limit(value, finished); });
  connect(plot_, &PlotView::range_changed, this, [this] { residuals_->follow_x(plot_->x_range()); });
  connect(card_, &AnswerCard::changed, this, &CurvesView::refresh);
  connect(card_, &AnswerCard::longer_runs_wanted, &bench_, &Workbench::lengthen_runs);
  connect(card_, &AnswerCard::chosen, &bench_, &Workbench::choose_scenario);
}

QComboBox* CurvesView::metric_box(const QString& name, bool x) {
  auto* box = new QComboBox(this);
  for (const Metric& metric : metrics()) {
    box->addItem(axis_title(metric), qs(metric.id));
    box->setItemData(box->count() - 1, qs(metric.definition), Qt::ToolTipRole);
  }
  box->setAccessibleName(name);
  box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  box->setMinimumContentsLength(23);
  box->setMaxVisibleItems(20);
  connect(box, &QComboBox::activated, this, [this, box, x](int index) {
    const std::string id = utf8(box->itemData(index).toString());
    bench_.session().edit(tr("Choose a metric"), {}, [&](SessionState& state) {
      if (x)
        state.view.x = id;
      else
        choose_y(state, id);
    });
  });
  return box;
}

// Divides throughput and load by the GPUs or the price, so that deployments of different size can be compared.
QComboBox* CurvesView::basis_box() {
  auto* box = new QComboBox(this);
  box->addItems({tr("in total"), tr("per GPU"), tr("per USD/h")});
  box->setAccessibleName(tr("Basis of throughput and load"));
  box->setToolTip(tr("Throughput and load in total, by GPU in use, or by the price of the whole instances"));
  connect(box, &QComboBox::activated, this, [this](int index) {
    bench_.session().edit(tr("Choose a basis"), {}, [&](SessionState& state) {
      const auto basis = static_cast<Basis>(index);
      if (const Metric* x = on_basis(*find_metric(state.view.x), basis)) state.view.x = x->id;
      const Metric* y = on_basis(*find_metric(state.view.y), basis);
      if (y != nullptr && y->id != state.view.y) choose_y(state, y->id);
    });
  });
  return box;
}

void CurvesView::refresh_basis() {
  const ViewState& v = bench_.session().state().view;
  const auto x = basis_of(*find_metric(v.x)), y = basis_of(*find_metric(v.y));
  basis_->setEnabled(x || y);
  basis_->setCurrentIndex(static_cast<int>(x ? *x : y.value_or(Basis::total)));
}

QCheckBox* CurvesView::flag_box(const QString& text, const QString& help, bool ViewState::*flag) {
  auto* box = new QCheckBox(text, this);
  box->setToolTip(help);
  box->setAccessibleName(help);
  connect(box, &QCheckBox::clicked, this, [this, flag](bool on) {
    bench_.set_view(tr("Change the view"), {}, [&](ViewState& view) { view.*flag = on; });
  });
  QAction* action = show_->menu()->addAction(text);
  action->setCheckable(true);
  action->setToolTip(help);
  connect(action, &QAction::triggered, box, &QCheckBox::click);
  flags_.push_back({box, action, flag});
  return box;
}

QWidget* CurvesView::make_bar() {
  auto* bar = new QWidget(this);
  auto* layout = new FlowLayout(bar);
  const auto label = [&](const QString& text, QWidget* buddy) {
    auto* made = new QLabel(text, bar);
    made->setBuddy(buddy);
    return made;
  };
  x_ = metric_box(tr("Metric of the horizontal axis"), true);
  y_ = metric_box(tr("Metric of the vertical axis"), false);
  limit_ = new QDoubleSpinBox(this);
  limit_->setRange(0, 1e9);
  limit_->setDecimals(2);
  limit_->setMaximumWidth(14 * fontMetrics().averageCharWidth());
  limit_->setSpecialValueText(tr("none"));
  limit_->setStepType(QAbstractSpinBox::AdaptiveDecimalStepType);
  limit_->setAccessibleName(tr("Limit on the vertical metric: the SLO line"));
  // Typing "120" must not apply 1 and 12 first.
  limit_->setKeyboardTracking(false);
  connect(limit_, &QDoubleSpinBox::valueChanged, this, [this](double value) { move_limit(value, true); });
  const auto pair = [&](QWidget* a, QWidget* b) {
    auto* box = new QWidget(bar);
    auto* inner = new QHBoxLayout(box);
    inner->setContentsMargins(0, 0, 0, 0);
    inner->addWidget(a);
    inner->addWidget(b);
    layout->addWidget(box);
  };
  pair(label(tr("&X"), x_), x_);
  pair(label(tr("&Y"), y_), y_);
  basis_ = basis_box();
  layout->addWidget(basis_);
  pair(label(tr("SL&O"), limit_), limit_);
  show_ = new QToolButton(bar);
  show_->setText(tr("Show"));
  show_->setAccessibleName(tr("What the chart shows"));
  show_->setPopupMode(QToolButton::InstantPopup);
  show_->setMenu(new QMenu(show_));
  layout->addWidget(flag_box(tr("log x"), tr("Logarithmic horizontal axis"), &ViewState::log_x));
  layout->addWidget(flag_box(tr("log y"), tr("Logarithmic vertical axis"), &ViewState::log_y));
  layout->addWidget(flag_box(tr("measured"), tr("Show measured and published points"), &ViewState::measured));
  layout->addWidget(flag_box(tr("residuals"), tr("Show the residual strip"), &ViewState::residuals));
  layout->addWidget(flag_box(tr("knees"), tr("Mark where each curve bends"), &ViewState::knees));
  layout->addWidget(flag_box(tr("bands"),
                             tr("Show prediction bands, confidence intervals, and where the model extrapolates"),
                             &ViewState::bands));
  layout->addWidget(show_);
  bar_ = bar;
  return bar;
}

// A second row of controls would take height from the plot. So where the check boxes do not fit, a menu takes their
// place, and the lists of metrics become narrower.
void CurvesView::arrange_bar() {
  constexpr int kLeast = 150;  // of a list of metrics, in pixels
  for (QComboBox* box : {x_, y_}) box->setMaximumWidth(QWIDGETSIZE_MAX);
  int flags = 0, others = 0;
  for (const Flag& flag : flags_) flags += flag.box->sizeHint().width() + FlowLayout::kAcross;
  for (const QWidget* item : {static_cast<QWidget*>(basis_), limit_->parentWidget(), static_cast<QWidget*>(show_)})
    others += item->sizeHint().width() + FlowLayout::kAcross;
  const int both =
      x_->parentWidget()->sizeHint().width() + y_->parentWidget()->sizeHint().width() + FlowLayout::kAcross;
  const int width = bar_->width();
  const int full = both + others + flags - show_->sizeHint().width() - FlowLayout::kAcross;
  const bool folded = full > width;
  for (const Flag& flag : flags_) flag.box->setVisible(!folded);
  show_->setVisible(folded);
  // All in one row, or at least both lists.
  const int widest = std::max(x_->sizeHint().width(), y_->sizeHint().width());
  for (const int row : {both + others, both}) {
    const int each = widest - (row - width + 1) / 2;
    if (row <= width || each < kLeast) continue;
    for (QComboBox* box : {x_, y_}) box->setMaximumWidth(each);
    return;
  }
}

void CurvesView::resizeEvent(QResizeEvent* event) {
  View::resizeEvent(event);
  arrange_bar();
  leave_rest();
}

void CurvesView::leave_rest() {
  const qint64 passed = rested_.isValid() ? rested_.elapsed() : kRestEveryMs;
  if (!rest_.isActive()) rest_.start(static_cast<int>(std::max<qint64>(kRestMs, kRestEveryMs - passed)));
}

ContentChoice CurvesView::choice() const {
  const ViewState& v = bench_.session().state().view;
  ContentChoice out{find_metric(v.x), find_metric(v.y), v.log_x,         v.log_y,  v.knees, v.measured,
                    v.bands,          v.limit,          card_->hidden(), v.margin, v.safe};
  // During a drag the limit is not part of the session yet, so it makes no undo step.
  if (dragged_limit_ > 0) out.limit = dragged_limit_;
  return out;
}

void CurvesView::refresh() {
  const ViewState& v = bench_.session().state().view;
  for (const auto& [box, action, flag] : flags_) {
    box->setChecked(v.*flag);
    action->setChecked(v.*flag);
  }
  x_->setCurrentIndex(x_->findData(qs(v.x)));
  y_->setCurrentIndex(y_->findData(qs(v.y)));
  refresh_basis();
  const ContentChoice now = choice();
  {
    // Show the limit without emitting its signal, which would count as an edit.
    const QSignalBlocker quiet(limit_);
    limit_->setValue(now.limit);
    limit_->setSuffix(QChar(u' ') + qs(now.y->unit));
  }
  CurveContent curves = curve_content(bench_, now);
  sources_ = std::move(curves.sources);
  plot_->set_content(std::move(curves.content));
  leave_rest();
}

void CurvesView::complete() {
  if (!rest_.isActive()) return;
  rest_.stop();
  refresh_rest();
}

void CurvesView::refresh_rest() {
  rested_.start();
  const bool settled = !bench_.is_busy();
  const ViewState& v = bench_.session().state().view;
  const ContentChoice now = choice();
  const QString summary = now.measured ? residual_summary(bench_, now) : QString();
  // Without measured points the strip would only waste space. It does not leave for a moment during a drag.
  const bool wanted = !summary.isEmpty() || (!settled && residuals_->isVisible());
  const bool strip = v.residuals && wanted && has_room();
  residuals_->setVisible(strip);
  summary_->setVisible(strip);
  if (strip) {
    residuals_->set_content(residual_content(bench_, now));
    residuals_->follow_x(plot_->x_range());
    if (summary_->text() != summary) summary_->setText(summary);
  }
  DrawnLimit drawn = drawn_limit(v);
  drawn.most = now.limit;
  card_->show_rows(answer_rows(bench_, drawn, now.bands), limits_text(bench_, drawn), settled);
  refresh_notes(settled);
}

// Returns whether the plot would be high enough above the residuals. Between the two bounds nothing changes: showing
// them costs a few pixels of spacing, so a single bound could switch them on and off in turn.
bool CurvesView::has_room() const {
  constexpr int kHide = 290, kShow = 310;  // of the plot and the residuals together, in pixels
  return residuals_->isHidden() ? plot_->height() >= kShow
                                : plot_->height() + summary_->height() + residuals_->height() >= kHide;
}

// Shows why rows of the user's tables are not in the chart, and what the curves are based on.
void CurvesView::refresh_notes(bool settled) {
  QStringList lines;
  const QString validity = validity_text(bench_);
  if (!validity.isEmpty()) lines << validity;
  for (const QString& note : failure_notes(bench_)) lines << note;
  if (choice().measured) {
    std::vector<const CurveModel*> models;
    for (const DrawnCurve& drawn : bench_.drawn()) {
      if (models.empty() || models.back() != drawn.model) models.push_back(drawn.model);
    }
    for (const QString& note : overlay_notes(models, bench_.tables())) lines << note;
  }
  show_row(*notes_, !lines.isEmpty(), settled);
  notes_->setToolTip(bench_.curves().extrapolates());
  // Setting the same text again would clear the user's selection.
  if (notes_->text() != lines.join(QChar(u'\n'))) notes_->setText(lines.join(QChar(u'\n')));
}

void CurvesView::set_theme(const Theme& theme) {
  theme_ = &theme;
  plot_->set_theme(theme);
  residuals_->set_theme(theme);
  card_->set_theme(theme);
  refresh();
  complete();
}

QString CurvesView::notes() const { return notes_->text(); }

TableData CurvesView::table() const { return curve_table(bench_, choice()); }

PictureParts CurvesView::picture() const {
  PictureParts parts{{plot_}, {card_->headline(), card_->limits()}};
  if (!residuals_->isHidden()) {
    parts.charts.push_back(residuals_);
    parts.text << summary_->text();
  }
  parts.text << validity_text(bench_).split(QChar(u'\n'));
  return parts;
}

void CurvesView::reset_zoom() { plot_->reset_zoom(); }
void CurvesView::zoom_back() { plot_->zoom_back(); }

void CurvesView::activate(std::size_t series, std::size_t point, Qt::KeyboardModifiers modifiers) {
  // Measured points and greyed curves cannot be selected.
  if (series >= sources_.size() || sources_[series].kind != SeriesSource::Kind::curve) return;
  const SeriesSource source = sources_[series];
  const CurveModel* model = bench_.curves_of(source.scenario);
  if (model == nullptr || source.curve >= model->curves().size()) return;
  const Curve& curve = model->curves()[source.curve];
  const std::size_t id = plot_->content().series[series].points[point].id;
  // The curve may have been replaced since the plot was drawn.
  if (id >= curve.points.size()) return;
  const double load = curve.points[id].row.result.labels.load_value;
  if (modifiers & Qt::ShiftModifier) {
    bench_.toggle_pin({bench_.session().state().scenarios[source.scenario].name, curve.name, load});
    return;
  }
  // The other views show details of the edited scenario.
  bench_.choose_scenario(source.scenario);
  bench_.select({source.curve, load});
}

// A drag redraws the line at every step and becomes one undo step at its end.
void CurvesView::move_limit(double value, bool finished) {
  dragged_limit_ = finished ? -1 : value;
  if (finished)
    bench_.session().edit(tr("Move the SLO line"), QStringLiteral("limit"),
                          [&](SessionState& state) { move_slo_line(state, value); });
  else
    refresh();
}

}  // namespace plimsoll::gui
