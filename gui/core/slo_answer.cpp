// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/slo_answer.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "gui/core/text.h"
#include "study/file/cell.h"
#include "study/run/slo_text.h"

namespace plimsoll::gui {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

std::string column_name(sched::Slo::Metric metric, const std::string& which) {
  constexpr std::array<const char*, 5> kWhat = {"latency", "ttft", "tpot", "itl", "latency_per_token"};
  return std::string(kWhat[static_cast<std::size_t>(metric)]) + "_" + which + "_s";
}

double requests_of(const sched::PointMetrics& m) {
  return static_cast<double>(m.requests_completed + m.requests_rejected + m.requests_timed_out);
}

double failed_of(const sched::PointMetrics& m) {
  return static_cast<double>(m.requests_rejected + m.requests_timed_out) / std::max(1.0, requests_of(m));
}

// Returns true if the requests that failed, taken as infinitely late, reach the quantile that the column shows. A
// study's SLO counts them in this way, except for the gaps between tokens.
bool failures_reach(const std::string& column, const sched::PointMetrics& m) {
  if (column.starts_with("itl_")) return m.requests_completed == 0;
  const bool per_request = column.starts_with("latency_") || column.starts_with("ttft_") || column.starts_with("tpot_");
  if (!per_request || failed_of(m) <= 0) return false;
  const std::size_t at = column.rfind("_p");
  // Without a percentile the column is a mean, which a single failure makes infinite.
  if (at == std::string::npos || std::isdigit(static_cast<unsigned char>(column[at + 2])) == 0) return true;
  const double quantile = std::strtod(column.c_str() + at + 2, nullptr) / 100;
  return quantile * (requests_of(m) - 1) > static_cast<double>(m.requests_completed - 1);
}

PointLimit limit_of(const study::SloFigure& figure) {
  PointLimit out{qs(study::slo_heading(figure)), figure.unit, figure.limit, figure.value, figure.at_least, {}, true};
  // The name begins with the statistic: "p90 ttft", "mean tpot".
  if (figure.metric) out.column = column_name(*figure.metric, figure.name.substr(0, figure.name.find(' ')));
  return out;
}

PointLimit limit_of(const PointRow& row, const DrawnLimit& drawn) {
  const Metric& metric = *drawn.metric;
  const bool seconds = std::string_view(metric.id).ends_with("_s") && std::string_view(metric.group) == "latency";
  const double scale = seconds ? metric.scale : 1;
  const auto value = value_of(row, metric);
  PointLimit out{qs(metric.label),
                 seconds ? "s" : metric.unit,
                 drawn.most / scale,
                 value ? *value / scale : kInfinite,
                 false,
                 metric.id,
                 drawn.log_scale};
  if (row.result.metrics && failures_reach(out.column, *row.result.metrics)) out.value = kInfinite;
  return out;
}

std::optional<double> band_edge(const PointRow& row, const PointLimit& limit) {
  const auto index = column_index(limit.column + "_hi");
  if (limit.column.empty() || !index) return {};
  const auto* edge = std::get_if<double>(&row.cells[*index]);
  return edge != nullptr ? std::optional(*edge) : std::nullopt;
}

/// A point within every limit or beyond one.
struct Judged {
  const LanePoint* point = nullptr;
  std::size_t index = 0;  // in the curve
  std::vector<PointLimit> limits;
  bool kept = false;
};

const PointLimit* most_used(const std::vector<PointLimit>& limits) {
  const auto most = std::max_element(limits.begin(), limits.end(),
                                     [](const PointLimit& a, const PointLimit& b) { return a.used() < b.used(); });
  return most == limits.end() ? nullptr : &*most;
}

sched::Steadiness steadiness(const Judged& judged) { return judged.point->row.result.metrics->steady.verdict; }

bool is_unstable(const Judged& judged) { return steadiness(judged) == sched::Steadiness::unstable; }

double throughput(const Judged& judged) { return judged.point->row.result.metrics->output_tokens_per_s; }

// Returns the part of the way from `within` to `beyond`, 0 to 1, at which the limit is reached; nullopt if the values
// do not show it.
std::optional<double> part_at(const PointLimit& within, const PointLimit& beyond) {
  if (beyond.kept() || !std::isfinite(within.value) || !std::isfinite(beyond.value) || within.name != beyond.name)
    return {};
  if (within.value == within.limit) return 0.0;
  if (!within.log_scale) return (within.limit - within.value) / (beyond.value - within.value);
  if (!(within.value > 0 && beyond.value > 0 && within.limit > 0)) return {};
  return std::log(within.limit / within.value) / std::log(beyond.value / within.value);
}

// Moves the answer from `within` towards `beyond`, to the first limit that is reached on a straight line between them.
// Load, throughput and cost are interpolated accordingly.
void cross(SloAnswer& answer, const Judged& within, const Judged& beyond) {
  std::optional<double> part;
  for (std::size_t i = 0; i < std::min(within.limits.size(), beyond.limits.size()); ++i) {
    const PointLimit& limit = beyond.limits[i];
    if (limit.kept()) continue;
    const auto at = part_at(within.limits[i], limit);
    // If the value becomes infinite, the limit may be missed right after the last point within it.
    if (!at) {
      answer.binding = limit;
      return;
    }
    if (part && *at >= *part) continue;
    part = at;
    answer.binding = limit;
  }
  answer.saturates = !part && is_unstable(beyond);
  const Metric& cost = *find_metric("usd_per_million_output_tokens");
  const double l0 = answer.labels.load_value, l1 = beyond.point->row.result.labels.load_value;
  const double t0 = throughput(within), t1 = throughput(beyond);
  if (!part || l0 <= 0 || l1 <= 0 || t0 <= 0 || t1 <= 0) return;
  // Interpolate geometrically, because loads and throughputs grow by factors.
  const auto between = [&](double a, double b) { return a * std::pow(b / a, *part); };
  answer.between = true;
  answer.labels.load_value = between(l0, l1);
  // There is no fraction of a client: round down to stay within the limit.
  if (answer.labels.load().quantity == load::LoadQuantity::clients)
    answer.labels.load_value = std::floor(answer.labels.load_value);
  answer.tokens_per_s = between(t0, t1);
  const auto c0 = value_of(within.point->row, cost), c1 = value_of(beyond.point->row, cost);
  answer.usd_per_million.reset();
  if (c0 && c1 && *c0 > 0 && *c1 > 0) answer.usd_per_million = between(*c0, *c1);
}

std::vector<Judged> judged_points(const Curve& curve, const DrawnLimit& drawn, BandSide side, bool& all) {
  std::vector<Judged> out;
  for (const LanePoint& point : curve.points) {
    if (point.stage == PointStage::estimate || !point.row.result.metrics) {
      all = false;
      continue;
    }
    const auto index = static_cast<std::size_t>(&point - curve.points.data());
    Judged judged{&point, index, limits_of(point.row, drawn, side), false};
    if ((drawn.safe || side == BandSide::unfavourable) &&
        std::none_of(judged.limits.begin(), judged.limits.end(),
                     [&](const PointLimit& limit) { return band_edge(point.row, limit).has_value(); })) {
      all = false;  // nothing is known of this load
      continue;
    }
    judged.kept = !is_unstable(judged) &&
                  std::all_of(judged.limits.begin(), judged.limits.end(), [](const auto& l) { return l.kept(); });
    all = all && judged.kept;
    out.push_back(std::move(judged));
  }
  return out;
}

void set_point(SloAnswer& answer, const Judged& judged) {
  const sched::PointMetrics& m = *judged.point->row.result.metrics;
  answer.labels = judged.point->row.result.labels;
  answer.point = judged.index;
  answer.tokens_per_s = m.output_tokens_per_s;
  answer.failed = failed_of(m);
  answer.steady = m.steady.verdict;
  answer.usd_per_million = value_of(judged.point->row, *find_metric("usd_per_million_output_tokens"));
  if (const PointLimit* most = most_used(judged.limits)) answer.binding = *most;
}

}  // namespace

QString load_text(const study::PointLabels& labels, int digits) {
  const bool clients = labels.load().quantity == load::LoadQuantity::clients;
  const bool rate = labels.load().quantity == load::LoadQuantity::requests_per_s;
  const QString value = reader_text(labels.load_value, digits);
  if (clients) return labels.load_value == 1 ? tr("1 client") : tr("%1 clients").arg(value);
  return rate ? tr("%1 requests/s").arg(value) : tr("load %1").arg(value);
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

double PointLimit::used() const {
  if (!std::isfinite(value)) return kInfinite;
  if (at_least) return value > 0 ? limit / value : kInfinite;
  return limit > 0 ? value / limit : (value > 0 ? kInfinite : 0);
}

std::string column_of(const sched::Slo::Bound& bound) {
  return column_name(bound.metric,
                     bound.quantile < 0 ? "mean" : "p" + study::number_text(std::round(bound.quantile * 1e5) / 1e3));
}

std::vector<PointLimit> limits_of(const PointRow& row, const DrawnLimit& drawn, BandSide side) {
  std::vector<PointLimit> out;
  for (const study::SloFigure& figure : row.result.slo) out.push_back(limit_of(figure));
  if (drawn.metric != nullptr && drawn.most > 0) {
    PointLimit line = limit_of(row, drawn);
    const auto same =
        std::find_if(out.begin(), out.end(), [&](const PointLimit& l) { return l.column == line.column; });
    if (same == out.end()) {
      out.push_back(std::move(line));
    } else {
      same->limit = line.limit;
      same->log_scale = line.log_scale;
    }
  }
  for (PointLimit& limit : out) {
    limit.limit *= limit.at_least ? 1 + drawn.margin : 1 - drawn.margin;
    const bool outer = drawn.safe || side == BandSide::unfavourable;
    const auto edge = outer ? band_edge(row, limit) : std::nullopt;
    if (edge && std::isfinite(limit.value)) limit.value = *edge;
  }
  return out;
}

bool keeps_limits(const PointRow& row, const DrawnLimit& drawn) {
  const auto limits = limits_of(row, drawn);
  return row.result.metrics && std::all_of(limits.begin(), limits.end(), [](const auto& l) { return l.kept(); });
}

QString limit_words(const PointLimit& limit) {
  return QStringLiteral("%1 %2 %3")
      .arg(limit.name, limit.at_least ? QStringLiteral("≥") : QStringLiteral("≤"),
           qs(study::limit_text(limit.limit, limit.unit)));
}

QString used_words(const PointLimit& limit) {
  const QString bound = qs(study::limit_text(limit.limit, limit.unit));
  if (!std::isfinite(limit.value))
    return tr("%1 of at most %2 (requests fail, or the queue grows without end)").arg(limit.name, bound);
  return (limit.at_least ? tr("%1 %2 of at least %3") : tr("%1 %2 of at most %3"))
      .arg(limit.name, qs(study::limit_text(limit.value, limit.unit)), bound);
}

double refinement_limit(const DrawnLimit& drawn) {
  const bool per_token = drawn.metric != nullptr && std::string_view(drawn.metric->id) == "latency_per_token_p90_s";
  return per_token ? drawn.most / drawn.metric->scale : 0;
}

std::optional<SloAnswer> slo_answer(const Curve& curve, const DrawnLimit& drawn, BandSide side) {
  bool all = true;
  const std::vector<Judged> points = judged_points(curve, drawn, side, all);
  if (points.empty()) return {};
  // next: the point after the best one; certain: the best one with a steady state
  const Judged *best = nullptr, *next = nullptr, *nearest = nullptr, *certain = nullptr;
  double least = 0;
  for (const Judged& judged : points) {
    const PointLimit* most = most_used(judged.limits);
    const double used = most != nullptr ? most->used() : 0;
    if (nearest == nullptr || used < least) {
      nearest = &judged;
      least = used;
    }
    const bool stable = judged.kept && steadiness(judged) == sched::Steadiness::stable;
    if (stable && (certain == nullptr || throughput(judged) > throughput(*certain))) certain = &judged;
    if (judged.kept && (best == nullptr || throughput(judged) > throughput(*best))) {
      best = &judged;
      next = nullptr;
    } else if (best != nullptr && next == nullptr) {
      next = &judged;
    }
  }
  SloAnswer answer;
  set_point(answer, best != nullptr ? *best : *nearest);
  answer.carried = best != nullptr;
  answer.every = best != nullptr && all;
  if (best != nullptr && next != nullptr && !next->kept) cross(answer, *best, *next);
  if (best != nullptr && certain != best && certain != nullptr) answer.certain = certain->point->row.result.labels;
  return answer;
}

DrawnLimit drawn_limit(const ViewState& view) {
  return {find_metric(view.y), view.limit, view.log_y, view.margin, view.safe};
}

std::vector<LimitCrossing> limit_crossings(const Curve& curve, const DrawnLimit& drawn) {
  bool all = true;
  const std::vector<Judged> points = judged_points(curve, drawn, BandSide::middle, all);
  std::vector<LimitCrossing> out;
  const std::size_t limits = points.empty() ? 0 : points.front().limits.size();
  for (std::size_t k = 0; k < limits; ++k) {
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
      if (points[i].limits.size() <= k || points[i + 1].limits.size() <= k) continue;
      const PointLimit &within = points[i].limits[k], &beyond = points[i + 1].limits[k];
      const auto part = within.kept() ? part_at(within, beyond) : std::nullopt;
      if (!part) continue;
      out.push_back({beyond, points[i].index, points[i + 1].index, *part});
      break;
    }
  }
  return out;
}

}  // namespace plimsoll::gui
