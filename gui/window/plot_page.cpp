// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/plot_page.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/core/answer_rows.h"
#include "gui/core/text.h"
#include "gui/window/curve_content.h"
#include "gui/window/curve_words.h"
#include "study/run/curve_shape.h"

namespace plimsoll::gui {

PlotPage::PlotPage(Workbench& bench, QWidget* parent) : View(bench, parent) {
  plot_ = make_plot_view(this).release();
  legend_ = new Legend(this);
  caption_ = new QLabel(this);
  caption_->setWordWrap(true);
  caption_->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  row_ = new QHBoxLayout();
  row_->addWidget(plot_, 1);
  row_->addWidget(legend_);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  column->addWidget(caption_);
  column->addLayout(row_, 1);
  connect(legend_, &Legend::changed, this, &PlotPage::refresh);
  connect(plot_, &PlotView::hovered, this,
          [this](const QString& tip) { Q_EMIT message(QString(tip).replace(QChar(u'\n'), QStringLiteral(" · "))); });
}

// The legend needs the series before the plot takes them over.
void PlotPage::refresh() {
  plot_->set_name(title());
  Page page = build(legend_->hidden());
  legend_->show_series(page.content.series, *theme_);
  plot_->set_content(std::move(page.content));
  caption_->setText(page.caption);
}

void PlotPage::resizeEvent(QResizeEvent* event) {
  View::resizeEvent(event);
  legend_->place_in(*row_, width());
}

void PlotPage::set_theme(const Theme& theme) {
  theme_ = &theme;
  plot_->set_theme(theme);
  refresh();
}

TableData PlotPage::table() const { return table_of(plot_->content()); }

PictureParts PlotPage::picture() const { return {{plot_}, {caption_->text()}}; }

ContentChoice ParetoPage::choice(const std::set<QString>& hidden) const {
  const ViewState& view = bench_.session().state().view;
  ContentChoice out;
  out.x = find_metric("tokens_per_s_per_user");
  out.y = find_metric("tokens_per_s_per_gpu");
  out.bands = false;
  out.hidden = hidden;
  out.margin = view.margin;
  out.safe = view.safe;
  return out;
}

TableData ParetoPage::table() const {
  TableData table = curve_table(bench_, choice(hidden()));
  std::set<std::pair<QString, QString>> front;  // the figures as the table has them
  for (const PlotSeries& series : plot_->content().series) {
    if (series.line != LineLook::trail) continue;
    for (const PlotPoint& point : series.points)
      front.emplace(qs(study::number_text(point.x)), qs(study::number_text(point.y)));
  }
  const auto x = table.headers.indexOf(axis_title(*find_metric("tokens_per_s_per_user"))),
             y = table.headers.indexOf(axis_title(*find_metric("tokens_per_s_per_gpu")));
  table.headers << tr("on the Pareto front");
  for (QStringList& row : table.rows) row << (front.contains({row[x], row[y]}) ? tr("yes") : QString());
  return table;
}

PlotPage::Page ParetoPage::build(const std::set<QString>& hidden) const {
  PlotContent content = curve_content(bench_, choice(hidden)).content;
  std::vector<double> x, y;
  std::vector<const PlotPoint*> points;
  for (const PlotSeries& series : content.series) {
    // The curves of all scenarios, not greyed ones or measured points.
    if (series.line != LineLook::solid) continue;
    for (const PlotPoint& point : series.points) {
      x.push_back(point.x);
      y.push_back(point.y);
      points.push_back(&point);
    }
  }
  PlotSeries front;
  front.name = tr("Pareto front");
  front.line = LineLook::trail;
  front.markers = false;
  if (!hidden.contains(front.name)) {
    for (const std::size_t i : study::pareto_front(x, y)) front.points.push_back(*points[i]);
    std::reverse(front.points.begin(), front.points.end());
  }
  content.series.insert(content.series.begin(), std::move(front));
  return {std::move(content), tr("Up and to the right is better: more tokens from each GPU, faster for each user.")};
}

// Plots against the latency that Curves shows. Against throughput, all deployments of one price would lie on one line.
ContentChoice CostPage::choice(const std::set<QString>& hidden) const {
  const ViewState& view = bench_.session().state().view;
  const Metric* shown = find_metric(view.y);
  const bool latency = std::string_view(shown->group) == "latency" && shown->better_low;
  ContentChoice out;
  out.x = latency ? shown : find_metric("latency_per_token_p90_s");
  out.y = find_metric("usd_per_million_output_tokens");
  out.log_x = out.log_y = true;
  out.measured = out.bands = false;
  out.hidden = hidden;
  out.margin = view.margin;
  out.safe = view.safe;
  return out;
}

TableData CostPage::table() const { return curve_table(bench_, choice(hidden())); }

PlotPage::Page CostPage::build(const std::set<QString>& hidden) const {
  const ViewState& view = bench_.session().state().view;
  const ContentChoice choice = this->choice(hidden);
  // The limit of Curves applies only if it is one on a latency.
  const double limit = view.y == choice.x->id ? view.limit : 0;
  PlotContent content = curve_content(bench_, choice).content;
  const DrawnLimit drawn = drawn_limit(view);
  std::vector<AnswerRow> rows = answer_rows(bench_, drawn, false);
  std::erase_if(rows, [&](const AnswerRow& row) { return hidden.contains(row.drawn.name); });
  const AnswerRow* best = best_row(rows);
  // The line of Curves replaces the study's own limit on its metric.
  if (limit > 0) std::erase_if(content.lines, [](const PlotLine& line) { return line.orientation == Qt::Vertical; });
  if (limit > 0)
    content.lines.push_back({0, Qt::Vertical, limit,
                             QStringLiteral("SLO %1 %2").arg(reader_text(limit, 3), qs(choice.x->unit)), false, true});
  if (best != nullptr && best->answer->usd_per_million) {
    QString caption =
        (has_limit(bench_, drawn)
             ? tr("Cheapest within the SLO: %1 USD per million output tokens, %2 at %3. Whole instances count.")
             : tr("Cheapest: %1 USD per million output tokens, %2 at %3. Whole instances count."))
            .arg(reader_text(*best->answer->usd_per_million, 3), best->drawn.name, best->load);
    if (const AnswerRow* rival = possibly_better_row(rows)) caption += QChar(u' ') + possibly_better_words(*rival);
    return {std::move(content), caption};
  }
  const bool priced = std::any_of(content.series.begin(), content.series.end(),
                                  [](const PlotSeries& series) { return !series.points.empty(); });
  return {std::move(content),
          priced ? tr("Nothing is within the SLO.")
                 : tr("No price is known for this hardware; state usd_per_hour, or choose an instance.")};
}

PlotPage::Page ParityPage::build(const std::set<QString>& hidden) const {
  const ViewState& view = bench_.session().state().view;
  const Metric &x = *find_metric(view.x), &y = *find_metric(view.y);
  const std::vector<DrawnCurve> drawn = bench_.drawn();
  const auto all = residuals_of(bench_, drawn, x, y);
  PlotContent content;
  content.x = {tr("measured: %1").arg(axis_title(y)), true, true};
  content.y = {tr("predicted: %1").arg(axis_title(y)), true, true};
  // The lines of equality must span all points.
  double low = 1e300, high = 0;
  for (const DrawnCurve& curve : drawn) {
    PlotSeries series;
    series.name = curve.name;
    series.colour = curve.colour;
    series.line = LineLook::none;
    for (const CurveResidual& one : all) {
      const Residual& r = one.residual;
      if (one.curve != &curve || hidden.contains(series.name)) continue;
      series.points.push_back(
          {r.measured, r.predicted, PointLook::filled,
           tr("%1, load %2\nmeasured %3\npredicted %4\nerror %5 %")
               .arg(series.name, reader_text(r.point.row->result.labels.load_value, 4), reader_text(r.measured, 4),
                    reader_text(r.predicted, 4), reader_text(100 * r.relative(), 3)),
           0, 0});
      low = std::min({low, r.measured, r.predicted});
      high = std::max({high, r.measured, r.predicted});
    }
    content.series.push_back(std::move(series));
  }
  // Adds the line predicted = factor * measured. The lines for +10 % and -10 % share a name and a legend entry.
  const auto line = [&](const QString& name, double factor, LineLook look) {
    PlotSeries series;
    series.name = name;
    series.colour = 6;
    series.line = look;
    series.markers = false;
    if (high > 0)
      series.points = {{low, low * factor, PointLook::filled, {}, 0, 0},
                       {high, high * factor, PointLook::filled, {}, 0, 0}};
    content.series.push_back(std::move(series));
  };
  line(tr("equal"), 1, LineLook::solid);
  line(tr("±10 %"), 1.1, LineLook::dashed);
  line(tr("±10 %"), 0.9, LineLook::dashed);
  const validation::ErrorSummary s = summary_of(all);
  const QString caption =
      s.count > 0 ? tr("MAPE %1 %, median %2 %, p90 %3 %, bias %4 %, n = %5")
                        .arg(100 * s.mean, 0, 'f', 1)
                        .arg(100 * s.median, 0, 'f', 1)
                        .arg(100 * s.p90, 0, 'f', 1)
                        .arg(100 * s.bias, 0, 'f', 1)
                        .arg(s.count)
                  : tr("Nothing has been measured for this scenario. Drop a table of measured points onto the window.");
  if (s.count == 0) content.message = caption;
  return {std::move(content), caption};
}

TableData ParityPage::table() const {
  const ViewState& view = bench_.session().state().view;
  const Metric &x = *find_metric(view.x), &y = *find_metric(view.y);
  TableData table{{tr("curve"), tr("load"), tr("measured: %1").arg(axis_title(y)),
                   tr("predicted: %1").arg(axis_title(y)), tr("error (%)")},
                  {}};
  const std::vector<DrawnCurve> drawn = bench_.drawn();
  for (const auto& [curve, r] : residuals_of(bench_, drawn, x, y)) {
    if (hidden().contains(curve->name)) continue;
    QStringList row{curve->name};
    for (const double value : {r.point.row->result.labels.load_value, r.measured, r.predicted, 100 * r.relative()})
      row << qs(study::number_text(value));
    table.rows.push_back(row);
  }
  return table;
}

// A cancelled task delivers nothing, so the page must notice its end.
ComparePage::ComparePage(Workbench& bench, QWidget* parent) : PlotPage(bench, parent) {
  connect(&bench_.tasks(), &TaskLane::finished, this, [this] {
    if (stage_ != Stage::waiting || bench_.tasks().busy()) return;
    stage_ = Stage::cancelled;
    PlotPage::refresh();
  });
}

void ComparePage::prepare() {
  const SessionState& state = bench_.session().state();
  if (!state.compared || *state.compared == state.current) {
    differences_.clear();
    key_.clear();
    return;
  }
  const Scenario a = state.scenarios[*state.compared], b = state.scenarios[state.current];
  const Metric* metric = find_metric(state.view.y);
  // An equal question is not simulated again.
  const std::string key = session_text({{a, b}, 0, {}, {}, {}, {}}) + metric->id;
  if (key == key_) return;
  key_ = key;
  stage_ = Stage::waiting;
  failure_.clear();
  differences_.clear();
  bench_.tasks().start(tr("Paired comparison"), [this, a, b, metric,
                                                 catalogue = bench_.catalogue()](study::RunControl& control) {
    constexpr int kReplications = 10;
    std::vector<PairedDifference> found;
    QString failure;
    try {
      found = paired_differences({make_study(a, catalogue), make_study(b, catalogue)}, *metric, kReplications, control);
    } catch (const std::exception& error) {
      failure = qs(error.what());
    }
    // Runs in the window's thread; the simulations above run in a worker thread.
    return std::function<void()>([this, found, failure] {
      differences_ = found;
      failure_ = failure;
      stage_ = Stage::done;
      PlotPage::refresh();
    });
  });
}

void ComparePage::refresh() {
  if (isVisible()) prepare();
  PlotPage::refresh();
}

QString ComparePage::why_empty() const {
  if (!bench_.session().state().compared)
    return tr(
        "Duplicate the scenario (Ctrl+D) and change the copy: this view then shows the effect, with its interval.");
  if (!failure_.isEmpty() || !differences_.empty()) return failure_;
  switch (stage_) {
    case Stage::waiting: return tr("Simulating the comparison…");
    case Stage::cancelled: return tr("The comparison was cancelled. It starts again when a value changes.");
    case Stage::done:
      return tr("The two scenarios have no load in common that both can run. Give them the same loads and sweeps.");
  }
  return {};
}

PlotPage::Page ComparePage::build(const std::set<QString>& hidden) const {
  const SessionState& state = bench_.session().state();
  const Metric& metric = *find_metric(state.view.y);
  PlotContent content;
  content.x = {tr("load (users or requests/s)"), true, true};
  content.y = {tr("change of %1 (%)").arg(in_sentence(metric)), false, true};
  for (const PairedDifference& d : differences_) {
    const QString name = d.curve.isEmpty() ? tr("difference, 95 % interval") : d.curve;
    auto series = std::find_if(content.series.begin(), content.series.end(),
                               [&](const PlotSeries& known) { return known.name == name; });
    if (series == content.series.end()) {
      series = content.series.emplace(series);
      series->name = name;
      series->colour = content.series.size() - 1;
    }
    if (hidden.contains(name)) continue;  // its button stays
    const QString interval = d.half_width ? tr("± %1 %").arg(reader_text(100 * *d.half_width, 3)) : QString();
    series->points.push_back(
        {d.load, 100 * d.mean, PointLook::filled,
         tr("%1, load %2\n%3 % %4").arg(name, reader_text(d.load, 4), reader_text(100 * d.mean, 3), interval), 0,
         100 * d.half_width.value_or(0)});
  }
  content.message = why_empty();
  const QString caption = state.compared ? tr("%1: %2 against %3; ten paired replications with common random numbers.")
                                               .arg(qs(metric.label), state.scenarios[state.current].name,
                                                    state.scenarios[*state.compared].name)
                                         : QString();
  return {std::move(content), caption};
}

}  // namespace plimsoll::gui
