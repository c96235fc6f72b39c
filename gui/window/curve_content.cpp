// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/curve_content.h"

#include <QCoreApplication>
#include <QRegularExpression>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

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
  out.look = point.stage == PointStage::study ? PointLook::filled : PointLook::small;
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

/// The highest load that a curve carries within the limit.
struct CapacityAtLimit {
  double load = 0, tokens_per_s = 0;
  std::optional<double> usd_per_million;
  bool between = false;  // whether it is interpolated between two simulated points, or at one of them
};

// Returns where the drawn line from `within` to `beyond` crosses the limit: a straight line on the y axis, linear or
// logarithmic. Load, throughput and cost are interpolated accordingly. Returns nullopt if no line is drawn between
// them.
std::optional<CapacityAtLimit> crossing(const LanePoint& within, const LanePoint& beyond, const ContentChoice& choice) {
  const Metric &tokens = *find_metric("output_tokens_per_s"), &cost = *find_metric("usd_per_million_output_tokens");
  const auto y0 = value_of(within.row, *choice.y), y1 = value_of(beyond.row, *choice.y);
  const auto t0 = value_of(within.row, tokens), t1 = value_of(beyond.row, tokens);
  const double l0 = within.row.result.labels.load_value, l1 = beyond.row.result.labels.load_value;
  if (!y0 || !y1 || !t0 || !t1 || *y1 <= choice.limit || *t0 <= 0 || *t1 <= 0 || l0 <= 0 || l1 <= 0 ||
      (choice.log_y && *y0 <= 0))
    return {};
  const auto part_of = [&](double y) {
    return choice.log_y ? std::log(y / *y0) / std::log(*y1 / *y0) : (y - *y0) / (*y1 - *y0);
  };
  const double part = part_of(choice.limit);
  // Interpolate geometrically, because loads and throughputs grow by factors.
  const auto between = [part](double a, double b) { return a * std::pow(b / a, part); };
  CapacityAtLimit out{between(l0, l1), between(*t0, *t1), {}, true};
  const auto c0 = value_of(within.row, cost), c1 = value_of(beyond.row, cost);
  if (c0 && c1 && *c0 > 0 && *c1 > 0) out.usd_per_million = between(*c0, *c1);
  return out;
}

// Returns the load up to which the curve's y metric stays within the limit. If throughput falls before that, returns
// the load with the highest throughput.
QString within_limit(const Curve& curve, const ContentChoice& choice) {
  const LanePoint *best = nullptr, *next = nullptr;  // next: the simulated point after the best one
  bool all = true;
  for (const LanePoint& point : curve.points) {
    if (point.stage == PointStage::estimate || !point.row.result.metrics) {
      all = false;
      continue;
    }
    const auto y = value_of(point.row, *choice.y);
    const bool within = y && *y <= choice.limit;
    all = all && within;
    if (within && (best == nullptr ||
                   point.row.result.metrics->output_tokens_per_s > best->row.result.metrics->output_tokens_per_s)) {
      best = &point;
      next = nullptr;
    } else if (best != nullptr && next == nullptr) {
      next = &point;
    }
  }
  if (best == nullptr) return tr("✗ never within");
  const auto cost = value_of(best->row, *find_metric("usd_per_million_output_tokens"));
  CapacityAtLimit carried{best->row.result.labels.load_value, best->row.result.metrics->output_tokens_per_s, cost,
                          false};
  if (const auto crossed = next != nullptr ? crossing(*best, *next, choice) : std::nullopt) carried = *crossed;
  study::PointLabels labels = best->row.result.labels;
  // There is no fraction of a client: round down to stay within the limit.
  labels.load_value = carried.between && counts_clients(labels) ? std::floor(carried.load) : carried.load;
  const int digits = carried.between ? 3 : 4;
  QString text = (all               ? tr("✓ every load, %1 at %2 tokens/s")
                  : carried.between ? tr("✓ about %1, %2 tokens/s")
                                    : tr("✓ %1, %2 tokens/s"))
                     .arg(load_text(labels, digits), reader_text(carried.tokens_per_s, digits));
  if (carried.usd_per_million) text += tr(", %1 USD/M tokens").arg(reader_text(*carried.usd_per_million, 3));
  return text;
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
  // If all points are estimates, hatching them all would show nothing.
  const bool doubt = choice.bands && bench.curves().extrapolates_in_part();
  for (std::size_t c = 0; c < bench.curves().curves().size(); ++c) {
    PlotSeries series =
        series_of(bench.curves().curves()[c], choice, curve_name(bench, bench.curves().curves()[c]), doubt);
    series.colour = c;
    add(out, std::move(series), {SeriesSource::Kind::curve, c}, choice);
  }
  if (choice.measured) add_measured(bench, choice, out);
  if (choice.knees) add_knees(bench, choice, out);
  if (choice.bands) add_bands(bench, choice, out);
  add_pins(bench, choice, out);
  if (choice.limit > 0) {
    out.content.lines.push_back({0, Qt::Horizontal, choice.limit,
                                 QStringLiteral("SLO %1 %2").arg(reader_text(choice.limit, 3), qs(choice.y->unit)),
                                 true, true});
  }
  out.content.message = message_of(bench);
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

QString validity_text(const Workbench& bench) {
  static const QRegularExpression details(QStringLiteral(" \\((?:[^()]|\\([^()]*\\))*\\)"));
  const QString why = bench.curves().extrapolates().remove(details);
  if (why.isEmpty()) return {};
  return bench.curves().extrapolates_in_part() ? tr("⚠ Hatched points are extrapolated: %1").arg(why)
                                               : tr("⚠ All points are estimates: %1").arg(why);
}

QString limit_answer(const Workbench& bench, const ContentChoice& choice) {
  if (choice.limit <= 0) return {};
  QStringList answers;
  for (const Curve& curve : bench.curves().curves())
    answers << curve_name(bench, curve) + QStringLiteral(": ") + within_limit(curve, choice);
  const auto& other = bench.session().state().compared;
  if (other) {
    const QString& scenario = bench.session().state().scenarios[*other].name;
    for (const Curve& curve : bench.compared().curves()) {
      answers << (curve.name.isEmpty() ? scenario : QStringLiteral("%1, %2").arg(scenario, curve.name)) +
                     QStringLiteral(": ") + within_limit(curve, choice);
    }
  }
  return answers.join(QStringLiteral(" · "));
}

}  // namespace plimsoll::gui
