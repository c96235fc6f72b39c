// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/curve_content.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "gui/core/slo_answer.h"
#include "gui/core/text.h"
#include "gui/window/curve_words.h"
#include "study/run/curve_shape.h"

namespace plimsoll::gui {
namespace {

PlotPoint plot_point(const LanePoint& point, const ContentChoice& choice, const QString& name, const QPointF& at) {
  PlotPoint out;
  out.x = at.x();
  out.y = at.y();
  out.look = !failed_text(point.row.result).isEmpty() ? PointLook::crossed
             : point.stage == PointStage::study       ? PointLook::filled
                                                      : PointLook::small;
  out.tip = point_tip(point.row, name, point.stage == PointStage::study ? QString() : stage_name(point.stage));
  const auto& metrics = point.row.result.metrics;
  const std::string_view id = choice.y->id;
  if (choice.bands && metrics && id == "latency_mean_s")
    out.error = metrics->latency_mean_ci95_s.value_or(0) * choice.y->scale;
  if (choice.bands && metrics && id == "output_tokens_per_s") out.error = metrics->output_tokens_per_s_ci95.value_or(0);
  return out;
}

PlotSeries series_of(const Curve& curve, const ContentChoice& choice, const QString& name, bool doubt) {
  PlotSeries series;
  series.name = name;
  bool estimated = false;
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const auto x = value_of(curve.points[i].row, *choice.x), y = value_of(curve.points[i].row, *choice.y);
    if (!x || !y) continue;
    series.points.push_back(plot_point(curve.points[i], choice, name, {*x, *y}));
    series.points.back().id = i;
    series.points.back().doubtful = doubt && !curve.points[i].row.result.extrapolates.empty();
    estimated = estimated || curve.points[i].stage == PointStage::estimate;
  }
  // Dashed as long as the curve contains estimates.
  if (estimated) series.line = LineLook::dashed;
  return series;
}

void add(CurveContent& out, PlotSeries series, SeriesSource source, const ContentChoice& choice) {
  // A hidden series stays in the list without points, so that the legend keeps its button.
  if (choice.hidden.contains(series.name)) {
    series.points.clear();
  }
  out.content.series.push_back(std::move(series));
  out.sources.push_back(source);
}

void add_previous(const Workbench& bench, const ContentChoice& choice, CurveContent& out) {
  // Previous curves disappear as soon as enough new points are visible.
  const std::vector<Scenario>& scenarios = bench.session().state().scenarios;
  for (std::size_t s = 0; s < scenarios.size(); ++s) {
    const CurveModel* model = scenarios[s].shown ? bench.curves_of(s) : nullptr;
    if (model == nullptr) continue;
    for (std::size_t c = 0; c < model->previous().size(); ++c) {
      PlotSeries series = series_of(model->previous()[c], choice, tr("before"), false);
      series.line = LineLook::faded;
      series.markers = false;
      add(out, std::move(series), {SeriesSource::Kind::previous, s, c}, choice);
    }
  }
}

void add_curve(const DrawnCurve& drawn, const ContentChoice& choice, bool labelled, CurveContent& out) {
  // If all points are estimates, hatching them all would show nothing.
  const bool doubt = choice.bands && drawn.model->extrapolates_in_part();
  PlotSeries series = series_of(*drawn.curve, choice, drawn.name, doubt);
  series.colour = drawn.colour;
  if (labelled) series.label = drawn.name;
  if (drawn.stale) {
    series.line = LineLook::faded;
    series.markers = false;
  }
  add(out, std::move(series), {SeriesSource::Kind::curve, drawn.scenario, drawn.index}, choice);
}

void add_measured(const Workbench& bench, const ContentChoice& choice, const std::vector<DrawnCurve>& drawn,
                  CurveContent& out) {
  const auto points = measured_points(bench, drawn);
  for (const DrawnCurve& curve : drawn) {
    PlotSeries measured;
    measured.colour = curve.colour;
    measured.line = LineLook::none;
    bool published = false;
    QString tool;
    for (const auto& [owner, point] : points) {
      if (owner != &curve) continue;
      const auto x = value_of(*point.row, *choice.x), y = value_of(*point.row, *choice.y);
      // Measured tables have few metrics; a point must have both of those shown.
      if (!x || !y) continue;
      published = published || point.table->published;
      if (!point.table->tool.isEmpty()) tool = point.table->tool;
      measured.points.push_back(
          {*x, *y, PointLook::hollow, point_tip(*point.row, curve.name, point.table->name), 0, 0});
    }
    // The points of a hidden curve are hidden with it.
    if (measured.points.empty() || choice.hidden.contains(curve.name)) continue;
    measured.name = curve.name + (published        ? tr(", published")
                                  : tool.isEmpty() ? tr(", measured")
                                                   : QStringLiteral(", ") + tool);
    add(out, std::move(measured), {SeriesSource::Kind::measured, curve.scenario, curve.index}, choice);
  }
}

void add_knee(const DrawnCurve& drawn, const ContentChoice& choice, bool labelled, CurveContent& out) {
  std::vector<study::CurvePoint> shape;
  std::vector<const LanePoint*> from;
  for (const LanePoint& point : drawn.curve->points) {
    const auto& m = point.row.result.metrics;
    if (!m || m->steady.grows || point.stage == PointStage::estimate) continue;
    shape.push_back({point.row.result.labels.load_value, m->output_tokens_per_s,
                     m->latency_per_token.p90.value_or(m->latency.p90.value_or(0))});
    from.push_back(&point);
  }
  // The knee is determined from throughput and latency, whichever axes are shown.
  const auto bend = study::knee(shape);
  if (!bend) return;
  const auto x = value_of(from[*bend]->row, *choice.x), y = value_of(from[*bend]->row, *choice.y);
  if (!x || !y) return;
  const QString label = tr("knee at %1").arg(load_text(from[*bend]->row.result.labels));
  out.content.marks.push_back({*x, *y, drawn.colour, labelled ? label : QString(), MarkLook::knee});
}

/// A band relative to the curve, at one load.
struct BandRatio {
  double load = 0, low = 1, high = 1;
};

// Refined points have no band of their own. The ratios to the curve are interpolated linearly in between.
std::optional<BandRatio> ratio_at(const std::vector<BandRatio>& known, double load) {
  const auto after =
      std::lower_bound(known.begin(), known.end(), load, [](const BandRatio& r, double at) { return r.load < at; });
  if (after == known.end()) return {};
  if (after->load == load) return *after;
  // Bands are not extrapolated beyond the first and the last one.
  if (after == known.begin()) return {};
  const BandRatio& before = *(after - 1);
  const double part = (load - before.load) / (after->load - before.load);
  return BandRatio{load, std::lerp(before.low, after->low, part), std::lerp(before.high, after->high, part)};
}

// Adds the 90 % band of the prediction for points that have one.
void add_band(const DrawnCurve& drawn, const ContentChoice& choice, CurveContent& out) {
  const auto low = column_index(std::string(choice.y->id) + "_lo"),
             high = column_index(std::string(choice.y->id) + "_hi");
  // Only some metrics have bands.
  if (!low || !high) return;
  PlotBand band{drawn.colour, {}};
  std::vector<BandRatio> known;
  for (const LanePoint& point : drawn.curve->points) {
    const auto y = value_of(point.row, *choice.y);
    const auto* l = std::get_if<double>(&point.row.cells[*low]);
    const auto* h = std::get_if<double>(&point.row.cells[*high]);
    if (y && *y > 0 && l && h)
      known.push_back({point.row.result.labels.load_value, *l * choice.y->scale / *y, *h * choice.y->scale / *y});
  }
  std::sort(known.begin(), known.end(), [](const BandRatio& a, const BandRatio& b) { return a.load < b.load; });
  for (const LanePoint& point : drawn.curve->points) {
    const auto x = value_of(point.row, *choice.x), y = value_of(point.row, *choice.y);
    const auto ratio = ratio_at(known, point.row.result.labels.load_value);
    if (x && y && ratio) band.spans.push_back({*x, ratio->low * *y, ratio->high * *y});
  }
  if (!band.spans.empty()) out.content.bands.push_back(std::move(band));
}

void add_pins(const Workbench& bench, const DrawnCurve& drawn, const ContentChoice& choice, CurveContent& out) {
  const SessionState& state = bench.session().state();
  for (const Pin& pin : state.pins) {
    // A pin names its curve, because curves change their order with the sweep.
    if (pin.scenario != state.scenarios[drawn.scenario].name || pin.curve != drawn.curve->name) continue;
    const LanePoint* point = drawn.model->find(drawn.index, pin.load);
    const auto x = point ? value_of(point->row, *choice.x) : std::nullopt,
               y = point ? value_of(point->row, *choice.y) : std::nullopt;
    if (!x || !y) continue;
    out.content.marks.push_back({*x, *y, drawn.colour,
                                 tr("%1: %2 %3, %4 %5")
                                     .arg(load_text(point->row.result.labels), reader_text(*x, 4), qs(choice.x->unit),
                                          reader_text(*y, 4), qs(choice.y->unit))});
  }
}

// Draws the scenarios' own limits on the shown metrics, equal ones once. The line that the user drags replaces those on
// its metric.
void add_study_limits(const std::vector<DrawnCurve>& drawn, const ContentChoice& choice, CurveContent& out) {
  std::set<std::pair<std::string, double>> seen;
  for (const DrawnCurve& curve : drawn) {
    for (const sched::Slo::Bound& bound : curve.model->outline().slo.bounds) {
      const std::string column = column_of(bound);
      const bool on_y = column == choice.y->id, on_x = column == choice.x->id;
      if ((!on_y && !on_x) || (on_y && choice.limit > 0) || !seen.emplace(column, bound.limit).second) continue;
      const Metric& metric = on_y ? *choice.y : *choice.x;
      const double limit = bound.limit * metric.scale;
      out.content.lines.push_back({1, on_y ? Qt::Horizontal : Qt::Vertical, limit,
                                   QStringLiteral("SLO %1 %2").arg(reader_text(limit, 3), qs(metric.unit)), false,
                                   true});
    }
  }
}

// Marks where the curve leaves a limit that has no line in this plot, because neither axis shows its metric.
void add_limit_marks(const DrawnCurve& drawn, const ContentChoice& choice, bool labelled, CurveContent& out) {
  const DrawnLimit limit{choice.y, choice.limit, choice.log_y, choice.margin, choice.safe};
  for (const LimitCrossing& crossing : limit_crossings(*drawn.curve, limit)) {
    if (crossing.limit.column == choice.y->id || crossing.limit.column == choice.x->id) continue;
    const PointRow &a = drawn.curve->points[crossing.within].row, &b = drawn.curve->points[crossing.beyond].row;
    const auto x0 = value_of(a, *choice.x), x1 = value_of(b, *choice.x);
    const auto y0 = value_of(a, *choice.y), y1 = value_of(b, *choice.y);
    if (!x0 || !x1 || !y0 || !y1) continue;
    // Interpolates along the drawn line, which is straight on the axes' scales.
    const auto between = [&](double from, double to, bool log) {
      return log && from > 0 && to > 0 ? from * std::pow(to / from, crossing.part) : std::lerp(from, to, crossing.part);
    };
    PlotMark mark{between(*x0, *x1, choice.log_x), between(*y0, *y1, choice.log_y), drawn.colour, {}, MarkLook::limit};
    if (labelled) mark.label = limit_words(crossing.limit);
    out.content.marks.push_back(std::move(mark));
  }
}

// Marks at the edge of the plot where the curve first has a point that cannot be drawn.
void add_failure(const DrawnCurve& drawn, const ContentChoice& choice, bool named, CurveContent& out) {
  for (const LanePoint& point : drawn.curve->points) {
    const study::PointResult& result = point.row.result;
    const bool fails = !result.infeasible.empty() || (result.metrics && result.metrics->steady.grows);
    const auto x = value_of(point.row, *choice.x);
    if (!fails || (x && value_of(point.row, *choice.y))) continue;
    const QString kind = result.metrics ? tr("unstable") : tr("cannot run");
    const QString name = named ? drawn.name + QStringLiteral(", ") : QString();
    out.content.failures.push_back({x, drawn.colour, tr("✗ %1%2: %3").arg(name, load_text(result.labels), kind)});
    return;
  }
}

// Returns why a plot has no points, once everything that could be drawn has arrived.
QString empty_reason(const Workbench& bench, const ContentChoice& choice, const CurveContent& content) {
  const auto& scenarios = bench.session().state().scenarios;
  if (std::none_of(scenarios.begin(), scenarios.end(), [](const Scenario& s) { return s.shown; }))
    return tr("Every scenario is hidden. Tick one in the list to show it.");
  for (std::size_t s = 0; s < scenarios.size(); ++s) {
    const CurveModel* model = bench.curves_of(s);
    const bool done = bench.failure_of(s) != nullptr || (model != nullptr && model->is_complete());
    if (scenarios[s].shown && !done) return {};
  }
  for (std::size_t i = 0; i < content.sources.size(); ++i) {
    const bool curve = content.sources[i].kind == SeriesSource::Kind::curve;
    if (curve && choice.hidden.contains(content.content.series[i].name))
      return tr("The curves are hidden. Tick or click their names to show them.");
    if (!content.content.series[i].points.empty()) return {};
  }
  const auto notes = failure_notes(bench);
  if (!notes.empty()) return notes.front();
  return tr("No point has a value for both %1 and %2.").arg(axis_title(*choice.x), axis_title(*choice.y));
}

// Returns why nothing is drawn. As long as some curve is valid and has points, reasons are shown beside the field and
// below the plot instead.
QString message_of(const Workbench& bench, const std::vector<DrawnCurve>& drawn) {
  QString reason;
  for (const DrawnCurve& curve : drawn) {
    const bool runs = std::any_of(curve.curve->points.begin(), curve.curve->points.end(),
                                  [](const LanePoint& p) { return p.row.result.metrics.has_value(); });
    if (runs && !curve.stale) return {};
    const auto reasons = curve.model->impossible();
    if (!curve.stale && reason.isEmpty() && !reasons.empty()) reason = reasons.front();
  }
  return bench.failure() ? bench.failure()->text : reason;
}

void add_curves(const Workbench& bench, const ContentChoice& choice, const std::vector<DrawnCurve>& drawn,
                CurveContent& out) {
  const bool several = drawn.size() > 1;
  const bool labelled = drawn.size() < 3;  // with more curves the labels of marks would overlap
  // The edited scenario's curves are drawn last, over the others.
  for (const bool current : {false, true}) {
    for (const DrawnCurve& curve : drawn) {
      if (curve.current == current) add_curve(curve, choice, several, out);
    }
  }
  if (choice.measured) add_measured(bench, choice, drawn, out);
  for (const DrawnCurve& curve : drawn) {
    if (curve.stale || choice.hidden.contains(curve.name)) continue;
    if (choice.knees) add_knee(curve, choice, labelled, out);
    if (choice.bands) add_band(curve, choice, out);
    add_pins(bench, curve, choice, out);
    add_failure(curve, choice, several, out);
    add_limit_marks(curve, choice, labelled, out);
  }
}

}  // namespace

std::vector<MeasuredPoint> measured_points(const Workbench& bench, const std::vector<DrawnCurve>& drawn) {
  std::vector<const CurveModel*> models;
  for (const DrawnCurve& curve : drawn) {
    if (std::find(models.begin(), models.end(), curve.model) == models.end())
      models.insert(curve.current ? models.begin() : models.end(), curve.model);
  }
  std::vector<MeasuredPoint> out;
  std::set<const PointRow*> seen;
  for (const CurveModel* model : models) {
    std::vector<const PointRow*> rows;
    for (const OverlayPoint& point : overlay_points(*model, bench.tables())) {
      const auto curve = std::find_if(drawn.begin(), drawn.end(),
                                      [&](const DrawnCurve& d) { return d.model == model && d.index == point.curve; });
      if (curve == drawn.end() || seen.contains(point.row)) continue;
      out.push_back({&*curve, point});
      rows.push_back(point.row);
    }
    seen.insert(rows.begin(), rows.end());
  }
  return out;
}

CurveContent curve_content(const Workbench& bench, const ContentChoice& choice) {
  const std::vector<DrawnCurve> drawn = bench.drawn();
  CurveContent out;
  out.content.x = {axis_title(*choice.x), choice.log_x, true};
  out.content.y = {axis_title(*choice.y), choice.log_y, true};
  add_previous(bench, choice, out);
  add_curves(bench, choice, drawn, out);
  if (choice.limit > 0) {
    out.content.lines.push_back({0, Qt::Horizontal, choice.limit,
                                 QStringLiteral("SLO %1 %2").arg(reader_text(choice.limit, 3), qs(choice.y->unit)),
                                 true, true});
  }
  add_study_limits(drawn, choice, out);
  out.content.settled = !bench.is_busy();
  out.content.message = message_of(bench, drawn);
  if (out.content.message.isEmpty()) out.content.message = empty_reason(bench, choice, out);
  return out;
}

std::vector<CurveResidual> residuals_of(const Workbench& bench, const std::vector<DrawnCurve>& drawn, const Metric& x,
                                        const Metric& y) {
  std::vector<CurveResidual> out;
  for (const MeasuredPoint& measured : measured_points(bench, drawn)) {
    for (const Residual& r : residuals(*measured.drawn->model, {measured.point}, x, y))
      out.push_back({measured.drawn, r});
  }
  return out;
}

validation::ErrorSummary summary_of(const std::vector<CurveResidual>& residuals) {
  std::vector<Residual> all;
  for (const CurveResidual& one : residuals) all.push_back(one.residual);
  return summary_of(all);
}

PlotContent residual_content(const Workbench& bench, const ContentChoice& choice) {
  const std::vector<DrawnCurve> drawn = bench.drawn();
  PlotContent content;
  content.x = {QString(), choice.log_x, true};
  content.x.labels = false;
  content.y = {tr("error (%)"), false, true, true};
  content.settled = !bench.is_busy();
  const auto all = residuals_of(bench, drawn, *choice.x, *choice.y);
  for (const DrawnCurve& curve : drawn) {
    if (choice.hidden.contains(curve.name)) continue;
    PlotSeries series;
    series.name = curve.name;
    series.colour = curve.colour;
    series.line = LineLook::none;
    for (const auto& [owner, r] : all) {
      if (owner != &curve) continue;
      series.points.push_back(
          {r.x, 100 * r.relative(), PointLook::filled,
           tr("%1\nmeasured %2 %4\npredicted %3 %4")
               .arg(series.name, reader_text(r.measured, 4), reader_text(r.predicted, 4), qs(choice.y->unit)),
           0, 0});
    }
    content.series.push_back(std::move(series));
  }
  return content;
}

QString residual_summary(const Workbench& bench, const ContentChoice& choice) {
  const std::vector<DrawnCurve> drawn = bench.drawn();
  const std::vector<CurveResidual> all = residuals_of(bench, drawn, *choice.x, *choice.y);
  const validation::ErrorSummary summary = summary_of(all);
  if (summary.count == 0) return {};
  const QString text = tr("Error of %1: MAPE %2 %, bias %3 %, n = %4")
                           .arg(in_sentence(*choice.y))
                           .arg(100 * summary.mean, 0, 'f', 1)
                           .arg(100 * summary.bias, 0, 'f', 1)
                           .arg(summary.count);
  const auto count = [&](bool inside) {
    return std::count_if(all.begin(), all.end(),
                         [&](const CurveResidual& one) { return one.residual.in_band == inside; });
  };
  const auto inside = count(true), banded = inside + count(false);
  // Bands arrive after the curve, and not every metric has one.
  return banded == 0 ? text : tr("%1, %2 of %3 in the 90 % band").arg(text).arg(inside).arg(banded);
}

}  // namespace plimsoll::gui
