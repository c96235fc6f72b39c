// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/curve_content.h"

#include <QCoreApplication>
#include <QRegularExpression>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "gui/core/slo_answer.h"
#include "gui/core/text.h"
#include "study/run/curve_shape.h"

namespace plimsoll::gui {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("plimsoll::gui::CurveContent", text); }

QString number(const PointRow& row, const char* metric) {
  const Metric* m = find_metric(metric);
  const auto value = m ? value_of(row, *m) : std::nullopt;
  return value ? reader_text(*value, 4) : QStringLiteral("–");
}

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
  const CurveModel& model = bench.curves();
  for (std::size_t c = 0; c < model.previous().size(); ++c) {
    PlotSeries series = series_of(model.previous()[c], choice, tr("before"), false);
    series.line = LineLook::faded;
    series.markers = false;
    add(out, std::move(series), {SeriesSource::Kind::previous, c}, choice);
  }
}

void add_measured(const Workbench& bench, const ContentChoice& choice, CurveContent& out) {
  const auto points = overlay_points(bench.curves(), bench.tables());
  for (std::size_t c = 0; c < bench.curves().curves().size(); ++c) {
    PlotSeries measured;
    measured.colour = c;
    measured.line = LineLook::none;
    bool published = false;
    QString tool;
    for (const OverlayPoint& point : points) {
      const auto x = value_of(*point.row, *choice.x), y = value_of(*point.row, *choice.y);
      // Measured tables have few metrics; a point must have both of those shown.
      if (point.curve != c || !x || !y) continue;
      published = published || point.table->published;
      if (!point.table->tool.isEmpty()) tool = point.table->tool;
      measured.points.push_back(
          {*x, *y, PointLook::hollow,
           point_tip(*point.row, curve_name(bench, bench.curves().curves()[c]), point.table->name), 0, 0});
    }
    if (measured.points.empty()) continue;
    measured.name = curve_name(bench, bench.curves().curves()[c]) + (published        ? tr(", published")
                                                                     : tool.isEmpty() ? tr(", measured")
                                                                                      : QStringLiteral(", ") + tool);
    add(out, std::move(measured), {SeriesSource::Kind::measured, c}, choice);
  }
}

void add_knees(const Workbench& bench, const ContentChoice& choice, CurveContent& out) {
  for (std::size_t c = 0; c < bench.curves().curves().size(); ++c) {
    const Curve& curve = bench.curves().curves()[c];
    std::vector<study::CurvePoint> shape;
    std::vector<const LanePoint*> from;
    for (const LanePoint& point : curve.points) {
      const auto& m = point.row.result.metrics;
      if (!m || m->steady.grows || point.stage == PointStage::estimate) continue;
      shape.push_back({point.row.result.labels.load_value, m->output_tokens_per_s,
                       m->latency_per_token.p90.value_or(m->latency.p90.value_or(0))});
      from.push_back(&point);
    }
    const auto bend = study::knee(shape);
    // The knee is determined from throughput and latency, whichever axes are shown.
    if (!bend || choice.hidden.contains(curve_name(bench, curve))) continue;
    const auto x = value_of(from[*bend]->row, *choice.x), y = value_of(from[*bend]->row, *choice.y);
    const bool few = bench.curves().curves().size() < 3;  // with more curves the labels would overlap
    if (x && y)
      out.content.marks.push_back(
          {*x, *y, c,
           few ? tr("knee at %1").arg(reader_text(from[*bend]->row.result.labels.load_value, 4)) : QString()});
  }
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
void add_bands(const Workbench& bench, const ContentChoice& choice, CurveContent& out) {
  const auto low = column_index(std::string(choice.y->id) + "_lo"),
             high = column_index(std::string(choice.y->id) + "_hi");
  // Only some metrics have bands.
  if (!low || !high) return;
  for (std::size_t c = 0; c < bench.curves().curves().size(); ++c) {
    PlotBand band{c, {}};
    std::vector<BandRatio> known;
    for (const LanePoint& point : bench.curves().curves()[c].points) {
      const auto y = value_of(point.row, *choice.y);
      const auto* l = std::get_if<double>(&point.row.cells[*low]);
      const auto* h = std::get_if<double>(&point.row.cells[*high]);
      if (y && *y > 0 && l && h)
        known.push_back({point.row.result.labels.load_value, *l * choice.y->scale / *y, *h * choice.y->scale / *y});
    }
    std::sort(known.begin(), known.end(), [](const BandRatio& a, const BandRatio& b) { return a.load < b.load; });
    for (const LanePoint& point : bench.curves().curves()[c].points) {
      const auto x = value_of(point.row, *choice.x), y = value_of(point.row, *choice.y);
      const auto ratio = ratio_at(known, point.row.result.labels.load_value);
      if (x && y && ratio) band.spans.push_back({*x, ratio->low * *y, ratio->high * *y});
    }
    if (!band.spans.empty()) out.content.bands.push_back(std::move(band));
  }
}

void add_pins(const Workbench& bench, const ContentChoice& choice, CurveContent& out) {
  for (const Pin& pin : bench.session().state().pins) {
    if (pin.scenario != bench.session().scenario().name) continue;
    for (std::size_t c = 0; c < bench.curves().curves().size(); ++c) {
      // A pin names its curve, because curves change their order with the sweep.
      if (bench.curves().curves()[c].name != pin.curve) continue;
      const LanePoint* point = bench.curves().find(c, pin.load);
      const auto x = point ? value_of(point->row, *choice.x) : std::nullopt,
                 y = point ? value_of(point->row, *choice.y) : std::nullopt;
      if (x && y)
        out.content.marks.push_back(
            {*x, *y, c, tr("load %1: %2, %3").arg(reader_text(pin.load, 4), reader_text(*x, 4), reader_text(*y, 4))});
    }
  }
}

bool counts_clients(const study::PointLabels& labels) { return labels.load().quantity == load::LoadQuantity::clients; }

DrawnLimit drawn_limit(const ContentChoice& choice) { return {choice.y, choice.limit, choice.log_y}; }

bool has_band(const PointLimit& limit) {
  return !limit.column.empty() && column_index(limit.column + "_hi").has_value();
}

// Says how much of the answer the whole 90 % band confirms, so that a limit can be kept with a margin.
QString band_words(const Curve& curve, const SloAnswer& answer, const DrawnLimit& drawn) {
  if (!answer.binding) return {};
  if (!has_band(*answer.binding)) return tr("no 90 % band for %1").arg(answer.binding->name);
  const auto safe = slo_answer(curve, drawn, BandSide::unfavourable);
  // The bands are computed after the curve.
  if (!safe) return {};
  if (!safe->carried) return tr("at no load is the whole 90 % band within");
  if (safe->every) return tr("the whole 90 % band is within at every load");
  return tr("the whole 90 % band is within up to %1").arg(load_text(safe->labels, safe->between ? 3 : 4));
}

// Returns the load up to which the curve keeps every limit, which limit ends it, and what is uncertain about it.
QString answer_words(const Curve& curve, const ContentChoice& choice) {
  const DrawnLimit drawn = drawn_limit(choice);
  const auto answer = slo_answer(curve, drawn);
  if (!answer) return curve.points.empty() ? tr("…") : tr("✗ no load can be simulated");
  if (!answer->carried) {
    return tr("✗ never within: %1 at %2")
        .arg(answer->binding ? used_words(*answer->binding) : QString(), load_text(answer->labels));
  }
  const int digits = answer->between ? 3 : 4;
  // A run without a steady state proves nothing: points.csv leaves slo_met blank if it is too short to tell.
  const bool certain = answer->steady == sched::Steadiness::stable;
  QString text = (certain ? QStringLiteral("✓ ") : QStringLiteral("? ")) +
                 (answer->every     ? tr("every load, %1 at %2 tokens/s")
                  : answer->between ? tr("about %1, %2 tokens/s")
                                    : tr("%1, %2 tokens/s"))
                     .arg(load_text(answer->labels, digits), reader_text(answer->tokens_per_s, digits));
  if (answer->usd_per_million) text += tr(", %1 USD/M tokens").arg(reader_text(*answer->usd_per_million, 3));
  QStringList more;
  if (!certain) {
    more << (answer->steady == sched::Steadiness::too_short ? tr("run too short to tell whether it keeps up")
                                                            : tr("unstable at this load"));
  }
  if (answer->failed > 0) more << tr("%1 % of the requests fail").arg(reader_text(100 * answer->failed, 3));
  if (answer->binding && answer->every)
    more << tr("%1 uses %2 % of its limit").arg(answer->binding->name, reader_text(100 * answer->binding->used(), 3));
  else if (answer->binding)
    more << tr("limited by %1").arg(answer->binding->name);
  if (const QString band = choice.bands ? band_words(curve, *answer, drawn) : QString(); !band.isEmpty()) more << band;
  return more.isEmpty() ? text : text + QStringLiteral("; ") + more.join(QStringLiteral("; "));
}

// Draws the study's own limits on the shown metrics. The line that the user drags replaces the one on its metric.
void add_study_limits(const Workbench& bench, const ContentChoice& choice, CurveContent& out) {
  for (const sched::Slo::Bound& bound : bench.curves().outline().slo.bounds) {
    const std::string column = column_of(bound);
    const bool on_y = column == choice.y->id, on_x = column == choice.x->id;
    if ((!on_y && !on_x) || (on_y && choice.limit > 0)) continue;
    const Metric& metric = on_y ? *choice.y : *choice.x;
    const double limit = bound.limit * metric.scale;
    out.content.lines.push_back({1, on_y ? Qt::Horizontal : Qt::Vertical, limit,
                                 QStringLiteral("SLO %1 %2").arg(reader_text(limit, 3), qs(metric.unit)), false, true});
  }
}

// Marks at the edge of the plot where each curve first has a point that cannot be drawn.
void add_failures(const Workbench& bench, const ContentChoice& choice, CurveContent& out) {
  const auto& curves = bench.curves().curves();
  for (std::size_t c = 0; c < curves.size(); ++c) {
    if (choice.hidden.contains(curve_name(bench, curves[c]))) continue;
    for (const LanePoint& point : curves[c].points) {
      const study::PointResult& result = point.row.result;
      const bool fails = !result.infeasible.empty() || (result.metrics && result.metrics->steady.grows);
      const auto x = value_of(point.row, *choice.x);
      if (!fails || (x && value_of(point.row, *choice.y))) continue;
      const QString kind = result.metrics ? tr("unstable") : tr("cannot run");
      const QString name = curves.size() > 1 ? curve_name(bench, curves[c]) + QStringLiteral(", ") : QString();
      out.content.failures.push_back({x, c, tr("✗ %1%2: %3").arg(name, load_text(result.labels), kind)});
      break;
    }
  }
}

// Says why a plot has no points, once all that could be drawn has arrived.
QString empty_reason(const Workbench& bench, const ContentChoice& choice, const CurveContent& content) {
  if (!bench.curves().is_complete()) return {};
  for (std::size_t i = 0; i < content.sources.size(); ++i) {
    const bool current = content.sources[i].kind == SeriesSource::Kind::curve;
    if (current && choice.hidden.contains(content.content.series[i].name))
      return tr("The curves are hidden. Click their names in the legend to show them.");
    if (!content.content.series[i].points.empty()) return {};
  }
  const auto notes = failure_notes(bench);
  if (!notes.empty()) return notes.front();
  return tr("No point has a value for both %1 and %2.").arg(axis_title(*choice.x), axis_title(*choice.y));
}

QString message_of(const Workbench& bench) {
  if (bench.failure()) return bench.failure()->text;
  const auto reasons = bench.curves().impossible();
  const auto& curves = bench.curves().curves();
  const bool any = std::any_of(curves.begin(), curves.end(), [](const Curve& curve) {
    return std::any_of(curve.points.begin(), curve.points.end(),
                       [](const LanePoint& p) { return p.row.result.metrics.has_value(); });
  });
  // As long as some points run, the reasons are shown beside the field instead.
  if (!reasons.empty() && !any) return reasons.front();
  return {};
}

}  // namespace

QString curve_name(const Workbench& bench, const Curve& curve) {
  return curve.name.isEmpty() ? bench.session().scenario().name : curve.name;
}

QString load_text(const study::PointLabels& labels, int digits) {
  const bool rate = labels.load().quantity == load::LoadQuantity::requests_per_s;
  const QString value = reader_text(labels.load_value, digits);
  return counts_clients(labels) ? tr("%1 clients").arg(value)
         : rate                 ? tr("%1 requests/s").arg(value)
                                : tr("load %1").arg(value);
}

QString point_tip(const PointRow& row, const QString& name, const QString& kind) {
  const study::PointLabels& l = row.result.labels;
  QString text = name + (kind.isEmpty() ? QString() : QStringLiteral(" (%1)").arg(kind));
  text +=
      QStringLiteral("\n%1 %2").arg(qs(l.load_kind).replace(QChar(u'_'), QChar(u' ')), reader_text(l.load_value, 5));
  const auto line = [&](const QString& label, const char* metric, const char* unit) {
    const QString value = number(row, metric);
    if (value != QStringLiteral("–")) text += QStringLiteral("\n%1 %2 %3").arg(label, value, qs(unit));
  };
  line(tr("throughput"), "output_tokens_per_s", "tokens/s");
  line(tr("latency per token p90"), "latency_per_token_p90_s", "ms");
  line(tr("latency p50"), "latency_p50_s", "s");
  line(tr("latency p95"), "latency_p95_s", "s");
  line(tr("latency p99"), "latency_p99_s", "s");
  line(tr("TTFT p90"), "ttft_p90_s", "ms");
  line(tr("cost"), "usd_per_million_output_tokens", "USD/M tokens");
  if (row.result.metrics) text += QStringLiteral("\nn = %1").arg(row.result.metrics->requests_completed);
  if (const QString failed = failed_text(row.result); !failed.isEmpty()) text += QStringLiteral("\n✗ ") + failed;
  if (row.result.missed_slo && !row.result.missed_slo->empty())
    text += QStringLiteral("\n") + tr("✗ SLO: %1").arg(qs(*row.result.missed_slo).left(120));
  if (row.result.metrics && !row.result.metrics->steady.reason.empty()) {
    text += QStringLiteral("\n") + qs(study::steady_text(row.result.metrics->steady)).left(120);
  }
  if (!row.result.extrapolates.empty())
    text += QStringLiteral("\n") + tr("estimate: %1").arg(qs(row.result.extrapolates).left(90));
  return text;
}

CurveContent curve_content(const Workbench& bench, const ContentChoice& choice) {
  CurveContent out;
  out.content.x = {axis_title(*choice.x), choice.log_x, true};
  out.content.y = {axis_title(*choice.y), choice.log_y, true};
  add_previous(bench, choice, out);
  for (std::size_t c = 0; c < bench.compared().curves().size(); ++c) {
    const Curve& curve = bench.compared().curves()[c];
    const QString scenario = bench.session().state().compared
                                 ? bench.session().state().scenarios[*bench.session().state().compared].name
                                 : QString();
    PlotSeries series =
        series_of(curve, choice, curve.name.isEmpty() ? scenario : scenario + QStringLiteral(": ") + curve.name, false);
    // Offset, so that a compared curve differs from the current one of the same index.
    series.colour = c + 3;
    series.line = LineLook::dashed;
    add(out, std::move(series), {SeriesSource::Kind::compared, c}, choice);
  }
  // While the scenario is invalid, its last valid curves stay, greyed.
  const bool stale = bench.failure().has_value();
  // If all points are estimates, hatching them all would show nothing.
  const bool doubt = choice.bands && bench.curves().extrapolates_in_part();
  for (std::size_t c = 0; c < bench.curves().curves().size(); ++c) {
    PlotSeries series =
        series_of(bench.curves().curves()[c], choice, curve_name(bench, bench.curves().curves()[c]), doubt);
    series.colour = c;
    if (stale) {
      series.line = LineLook::faded;
      series.markers = false;
    }
    add(out, std::move(series), {SeriesSource::Kind::curve, c}, choice);
  }
  if (choice.measured) add_measured(bench, choice, out);
  if (!stale) {
    if (choice.knees) add_knees(bench, choice, out);
    if (choice.bands) add_bands(bench, choice, out);
    add_pins(bench, choice, out);
    add_failures(bench, choice, out);
  }
  if (choice.limit > 0) {
    out.content.lines.push_back({0, Qt::Horizontal, choice.limit,
                                 QStringLiteral("SLO %1 %2").arg(reader_text(choice.limit, 3), qs(choice.y->unit)),
                                 true, true});
  }
  add_study_limits(bench, choice, out);
  out.content.message = message_of(bench);
  if (out.content.message.isEmpty()) out.content.message = empty_reason(bench, choice, out);
  return out;
}

PlotContent residual_content(const Workbench& bench, const ContentChoice& choice) {
  PlotContent content;
  content.x = {QString(), choice.log_x, true};
  content.y = {tr("error (%)"), false, true, true};
  const auto all = residuals(bench.curves(), overlay_points(bench.curves(), bench.tables()), *choice.x, *choice.y);
  for (std::size_t c = 0; c < bench.curves().curves().size(); ++c) {
    PlotSeries series;
    series.name = curve_name(bench, bench.curves().curves()[c]);
    series.colour = c;
    series.line = LineLook::none;
    if (choice.hidden.contains(series.name)) continue;
    for (const Residual& r : all) {
      if (r.point.curve != c) continue;
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
  const auto all = residuals(bench.curves(), overlay_points(bench.curves(), bench.tables()), *choice.x, *choice.y);
  const validation::ErrorSummary summary = summary_of(all);
  if (summary.count == 0) return {};
  return tr("Error of %1: MAPE %2 %, bias %3 %, n = %4")
      .arg(qs(choice.y->label).toLower())
      .arg(100 * summary.mean, 0, 'f', 1)
      .arg(100 * summary.bias, 0, 'f', 1)
      .arg(summary.count);
}

QString failed_text(const study::PointResult& point) {
  if (!point.infeasible.empty()) return qs(point.infeasible);
  if (!point.metrics) return {};
  const sched::PointMetrics& m = *point.metrics;
  QStringList said;
  if (m.steady.verdict == sched::Steadiness::unstable) said << qs(study::steady_text(m.steady));
  const double all = static_cast<double>(m.requests_completed + m.requests_rejected + m.requests_timed_out);
  const auto share = [&](std::int64_t part) { return reader_text(100 * static_cast<double>(part) / all, 3); };
  if (m.requests_rejected > 0) {
    QStringList codes;
    for (const auto& [code, count] : m.rejections) codes << qs(code);
    said << tr("%1 % of the requests rejected").arg(share(m.requests_rejected)) +
                (codes.empty() ? QString() : QStringLiteral(" (%1)").arg(codes.join(QStringLiteral(", "))));
  }
  if (m.requests_timed_out > 0) said << tr("%1 % of the requests timed out").arg(share(m.requests_timed_out));
  return said.join(QStringLiteral(", "));
}

std::vector<QString> failure_notes(const Workbench& bench) {
  std::vector<QString> notes;
  if (bench.failure()) return notes;
  for (const Curve& curve : bench.curves().curves()) {
    // One note for all points of a curve that fail in the same way: shares differ from load to load.
    std::map<QString, std::pair<QString, QStringList>> by_kind;
    for (const LanePoint& point : curve.points) {
      if (point.stage != PointStage::study) continue;
      const QString text = failed_text(point.row.result);
      if (text.isEmpty()) continue;
      static const QRegularExpression figures(QStringLiteral("[\\d.]+ %"));
      auto& [first, loads] = by_kind[QString(text).remove(figures)];
      if (loads.isEmpty()) first = text;
      loads << load_text(point.row.result.labels);
    }
    for (const auto& [kind, found] : by_kind) {
      const auto& [text, loads] = found;
      const QString more = loads.size() > 1 ? tr(" and %1 more").arg(loads.size() - 1) : QString();
      notes.push_back(tr("✗ %1, %2%3: %4").arg(curve_name(bench, curve), loads.front(), more, text));
    }
  }
  return notes;
}

QString validity_text(const Workbench& bench) {
  static const QRegularExpression details(QStringLiteral(" \\((?:[^()]|\\([^()]*\\))*\\)"));
  const QString why = bench.curves().extrapolates().remove(details);
  if (why.isEmpty()) return {};
  return bench.curves().extrapolates_in_part() ? tr("⚠ Hatched points are extrapolated: %1").arg(why)
                                               : tr("⚠ All points are estimates: %1").arg(why);
}

QString limit_answer(const Workbench& bench, const ContentChoice& choice) {
  // Curves of an earlier state of the scenario answer nothing about the present one.
  if (bench.failure()) return {};
  if (choice.limit <= 0 && bench.curves().outline().slo.empty()) return {};
  QStringList answers;
  for (const Curve& curve : bench.curves().curves())
    answers << curve_name(bench, curve) + QStringLiteral(": ") + answer_words(curve, choice);
  const auto& other = bench.session().state().compared;
  if (other) {
    const QString& scenario = bench.session().state().scenarios[*other].name;
    for (const Curve& curve : bench.compared().curves()) {
      answers << (curve.name.isEmpty() ? scenario : QStringLiteral("%1, %2").arg(scenario, curve.name)) +
                     QStringLiteral(": ") + answer_words(curve, choice);
    }
  }
  return answers.join(QStringLiteral(" · "));
}

QString limits_text(const Workbench& bench, const ContentChoice& choice) {
  for (const Curve& curve : bench.curves().curves()) {
    for (const LanePoint& point : curve.points) {
      if (point.stage == PointStage::estimate || !point.row.result.metrics) continue;
      QStringList words;
      for (const PointLimit& limit : limits_of(point.row, drawn_limit(choice))) words << limit_words(limit);
      return words.join(QStringLiteral(", "));
    }
  }
  return {};
}

}  // namespace plimsoll::gui
