// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/window/curve_words.h"

#include <QRegularExpression>
#include <algorithm>
#include <map>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

QString number(const PointRow& row, const char* metric) {
  const Metric* m = find_metric(metric);
  const auto value = m ? value_of(row, *m) : std::nullopt;
  return value ? reader_text(*value, 4) : QStringLiteral("–");
}

QString limits_of_curve(const Curve& curve, const DrawnLimit& drawn) {
  for (const LanePoint& point : curve.points) {
    if (point.stage == PointStage::estimate || !point.row.result.metrics) continue;
    QStringList words;
    for (const PointLimit& limit : limits_of(point.row, drawn)) words << limit_words(limit);
    return words.join(QStringLiteral(", "));
  }
  return {};
}

// Says by how much the limits are to be kept; empty without a margin.
QString margin_words(const DrawnLimit& drawn) {
  if (drawn.safe) return tr(" (by the whole 90 % band)");
  return drawn.margin > 0 ? tr(" (less a margin of %1 %)").arg(reader_text(100 * drawn.margin, 3)) : QString();
}

void add_notes_of(const DrawnCurve& drawn, std::vector<QString>& notes) {
  // All points of a curve that fail in the same way get one note, because the fractions differ from load to load.
  std::map<QString, std::pair<QString, QStringList>> by_kind;
  for (const LanePoint& point : drawn.curve->points) {
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
    notes.push_back(tr("✗ %1, %2%3: %4").arg(drawn.name, loads.front(), more, text));
  }
}

// Returns the distinct models of the drawn curves with the name of their scenario.
std::vector<std::pair<QString, const CurveModel*>> models_of(const Workbench& bench) {
  std::vector<std::pair<QString, const CurveModel*>> out;
  for (const DrawnCurve& drawn : bench.drawn()) {
    if (out.empty() || out.back().second != drawn.model)
      out.emplace_back(bench.session().state().scenarios[drawn.scenario].name, drawn.model);
  }
  return out;
}

}  // namespace

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

std::vector<QString> failure_notes(const Workbench& bench) {
  std::vector<QString> notes;
  const std::vector<Scenario>& scenarios = bench.session().state().scenarios;
  for (std::size_t s = 0; s < scenarios.size(); ++s) {
    const LaneFailure* failure = scenarios[s].shown ? bench.failure_of(s) : nullptr;
    // The edited scenario's own failure is shown at its field.
    if (failure != nullptr && s != bench.session().state().current)
      notes.push_back(tr("✗ %1: %2").arg(scenarios[s].name, failure->text));
  }
  for (const DrawnCurve& drawn : bench.drawn()) {
    if (!drawn.stale) add_notes_of(drawn, notes);
  }
  return notes;
}

QString validity_text(const Workbench& bench) {
  static const QRegularExpression details(QStringLiteral(" \\((?:[^()]|\\([^()]*\\))*\\)"));
  const auto models = models_of(bench);
  std::map<QString, QStringList> scenarios;  // by what is said of them
  for (const auto& [name, model] : models) {
    const QString why = model->extrapolates().remove(details);
    if (why.isEmpty()) continue;
    scenarios[model->extrapolates_in_part() ? tr("⚠ Hatched points are extrapolated: %1").arg(why)
                                            : tr("⚠ All points are estimates: %1").arg(why)]
        << name;
  }
  QStringList lines;
  for (const auto& [text, names] : scenarios) {
    const bool all = static_cast<std::size_t>(names.size()) == models.size();
    lines << (all ? text : tr("%1 (%2)").arg(text, names.join(QStringLiteral(", "))));
  }
  return lines.join(QChar(u'\n'));
}

QString limit_answer(const Workbench& bench, const DrawnLimit& drawn, bool bands) {
  if (!has_limit(bench, drawn)) return {};
  QStringList answers;
  for (const AnswerRow& row : answer_rows(bench, drawn, bands)) {
    // Curves of an earlier state of the scenario do not answer for the present one.
    if (!row.drawn.stale) answers << row.drawn.name + QStringLiteral(": ") + answer_words(row);
  }
  return answers.join(QStringLiteral(" · "));
}

QString limits_text(const Workbench& bench, const DrawnLimit& drawn) {
  std::vector<std::pair<QString, QStringList>> found;  // limits, the scenarios that have them
  for (const DrawnCurve& curve : bench.drawn()) {
    const QString limits = limits_of_curve(*curve.curve, drawn);
    if (limits.isEmpty()) continue;
    auto known = std::find_if(found.begin(), found.end(), [&](const auto& entry) { return entry.first == limits; });
    if (known == found.end()) known = found.insert(found.end(), {limits, {}});
    const QString& name = bench.session().state().scenarios[curve.scenario].name;
    if (!known->second.contains(name)) known->second << name;
  }
  if (found.empty()) return {};
  if (found.size() == 1) return found.front().first + margin_words(drawn);
  QStringList words;
  for (const auto& [limits, names] : found) words << tr("%1: %2").arg(names.join(QStringLiteral(", ")), limits);
  return words.join(QStringLiteral("; ")) + margin_words(drawn);
}

QString in_sentence(const Metric& metric) {
  const QString label = qs(metric.label);
  // The labels begin with a capital; abbreviations keep theirs.
  return label.size() > 1 && label[1].isLower() ? label[0].toLower() + label.mid(1) : label;
}

}  // namespace plimsoll::gui
