// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/core/answer_rows.h"

#include <algorithm>
#include <utility>

#include "gui/core/text.h"

namespace plimsoll::gui {
namespace {

bool is_certain(const SloAnswer& answer) { return answer.steady == sched::Steadiness::stable; }

// An interpolated load is not exact.
int digits(const SloAnswer& answer) { return answer.between ? 3 : 4; }

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
  if (!safe->carried) return tr("the whole 90 % band is not within the limits at any load");
  if (safe->every) return tr("the whole 90 % band is within the limits at every load");
  return tr("the whole 90 % band is within the limits up to %1").arg(load_text(safe->labels, digits(*safe)));
}

// If the answer keeps the limits with the whole band, adds the load that the prediction itself carries.
QString safe_words(const Curve& curve, const SloAnswer& answer, DrawnLimit drawn) {
  drawn.safe = false;
  const auto middle = slo_answer(curve, drawn);
  const QString band = answer.binding && !has_band(*answer.binding)
                           ? tr("%1 has no 90 % band").arg(answer.binding->name)
                           : tr("with the whole 90 % band");
  if (!middle || middle->every) return band;
  return tr("%1; the prediction itself carries %2").arg(band, load_text(middle->labels, digits(*middle)));
}

QString verdict_of(const AnswerRow& row) {
  const bool any = std::any_of(row.drawn.curve->points.begin(), row.drawn.curve->points.end(),
                               [](const LanePoint& p) { return p.stage != PointStage::estimate; });
  if (row.drawn.stale) return QStringLiteral("✗");
  if (!row.answer) return any && row.drawn.model->is_complete() ? QStringLiteral("✗") : QStringLiteral("…");
  if (!row.answer->carried) return QStringLiteral("✗");
  // A run without a steady state proves nothing: points.csv leaves slo_met blank if it is too short to tell.
  return is_certain(*row.answer) ? QStringLiteral("✓") : QStringLiteral("?");
}

QString limited_by(const AnswerRow& row, const DrawnLimit& judged) {
  const SloAnswer& answer = *row.answer;
  if (answer.saturates) return tr("unstable beyond it");
  if (!answer.carried && (!answer.binding || answer.binding->kept()))
    return tr("unstable at %1").arg(load_text(answer.labels));
  if (!answer.binding) return {};
  if (!answer.carried) {
    return tr("%1 at %2%3")
        .arg(used_words(*answer.binding), load_text(answer.labels),
             judged.safe ? tr(", at the unfavourable end of the 90 % band") : QString());
  }
  if (answer.every)
    return tr("%1 uses %2 % of its limit").arg(answer.binding->name, reader_text(100 * answer.binding->used(), 3));
  return answer.binding->name;
}

// An answer that is not certain comes from a run that is too short; unstable loads are never carried.
QString uncertain_words(const SloAnswer& answer) {
  const QString why = tr("run too short to tell");
  return answer.certain ? tr("%1; certain up to %2").arg(why, load_text(*answer.certain)) : why;
}

// Returns how many requests a run needs to tell whether the answer holds: at its point and at the one beyond it.
std::int64_t requests_needed(const Curve& curve, const SloAnswer& answer) {
  std::int64_t most = 0;
  for (std::size_t i = answer.point; i < std::min(answer.point + 2, curve.points.size()); ++i) {
    const auto& metrics = curve.points[i].row.result.metrics;
    if (metrics && metrics->steady.verdict == sched::Steadiness::too_short)
      most = std::max(most, metrics->steady.requests_needed);
  }
  return most;
}

// Counts only the study's own points, because refined points merely help to draw the curve.
void add_warnings(AnswerRow& row) {
  int unstable = 0, impossible = 0, failing = 0;
  bool estimated = false;
  for (const LanePoint& point : row.drawn.curve->points) {
    if (point.stage != PointStage::study) continue;
    const study::PointResult& result = point.row.result;
    impossible += result.infeasible.empty() ? 0 : 1;
    if (!result.metrics) continue;
    unstable += result.metrics->steady.verdict == sched::Steadiness::unstable ? 1 : 0;
    failing += result.metrics->requests_rejected + result.metrics->requests_timed_out > 0 ? 1 : 0;
    estimated = estimated || !result.extrapolates.empty();
  }
  const auto count = [&](int points, const QString& one, const QString& many) {
    if (points > 0) row.warnings << (points == 1 ? one : many.arg(points));
  };
  if (estimated) row.warnings << tr("estimated");
  if (row.answer && row.answer->carried && !is_certain(*row.answer)) row.warnings << uncertain_words(*row.answer);
  if (row.answer && row.answer->failed > 0)
    row.warnings << tr("%1 % of the requests fail").arg(reader_text(100 * row.answer->failed, 3));
  count(unstable, tr("1 point unstable"), tr("%1 points unstable"));
  count(failing, tr("requests fail at 1 point"), tr("requests fail at %1 points"));
  count(impossible, tr("1 point cannot run"), tr("%1 points cannot run"));
  if (row.footprint && row.footprint->gpus > 0)
    count(static_cast<int>(row.footprint->idle()), tr("1 GPU idle"), tr("%1 GPUs idle"));
}

void add_footprint(AnswerRow& row) {
  const std::vector<LanePoint>& points = row.drawn.curve->points;
  if (points.empty()) return;
  const LanePoint& point = row.answer ? points[row.answer->point] : points.front();
  row.footprint = footprint_of(point.row.result);
  if (row.answer && row.answer->carried && row.footprint->gpus > 0)
    row.tokens_per_s_per_gpu = row.answer->tokens_per_s / static_cast<double>(row.footprint->gpus);
}

AnswerRow row_of(const DrawnCurve& drawn, const DrawnLimit& limit, bool bands) {
  AnswerRow row;
  row.drawn = drawn;
  if (!drawn.stale) row.answer = slo_answer(*drawn.curve, limit);
  DrawnLimit judged = limit;
  // Without a band there is no safe side; the answer then says so.
  const bool unsafe = !drawn.stale && !row.answer && std::exchange(judged.safe, false);
  if (unsafe) row.answer = slo_answer(*drawn.curve, judged);
  row.verdict = verdict_of(row);
  add_footprint(row);
  if (row.answer) {
    const QString load = load_text(row.answer->labels, digits(*row.answer));
    if (row.answer->carried && !is_certain(*row.answer))
      row.requests_needed = requests_needed(*drawn.curve, *row.answer);
    if (row.answer->carried) row.load = row.answer->between ? tr("about %1").arg(load) : load;
    row.limited_by = limited_by(row, judged);
    if (row.answer->carried) {
      row.margin = unsafe        ? tr("no 90 % band yet: this is the prediction itself")
                   : judged.safe ? safe_words(*drawn.curve, *row.answer, judged)
                   : bands       ? band_words(*drawn.curve, *row.answer, judged)
                                 : QString();
    }
  } else if (row.verdict == QStringLiteral("✗")) {
    row.limited_by = drawn.stale ? tr("the scenario is invalid") : tr("no load can be simulated");
  }
  add_warnings(row);
  return row;
}

}  // namespace

bool has_limit(const Workbench& bench, const DrawnLimit& drawn) {
  if (drawn.most > 0) return true;
  const auto curves = bench.drawn();
  return std::any_of(curves.begin(), curves.end(), [](const DrawnCurve& c) { return !c.model->outline().slo.empty(); });
}

std::vector<AnswerRow> answer_rows(const Workbench& bench, const DrawnLimit& drawn, bool bands) {
  std::vector<AnswerRow> rows;
  for (const DrawnCurve& curve : bench.drawn()) rows.push_back(row_of(curve, drawn, bands));
  return rows;
}

namespace {

bool is_better(const SloAnswer& a, const SloAnswer& b) {
  if (a.usd_per_million.has_value() != b.usd_per_million.has_value()) return a.usd_per_million.has_value();
  return a.usd_per_million ? *a.usd_per_million < *b.usd_per_million : a.tokens_per_s > b.tokens_per_s;
}

// Returns the best of the rows that carry a load, of the certain ones alone or of all; nullptr if there is none.
const AnswerRow* best_of(const std::vector<AnswerRow>& rows, bool certain) {
  const AnswerRow* best = nullptr;
  for (const AnswerRow& row : rows) {
    const bool counts = row.answer && row.answer->carried && (!certain || is_certain(*row.answer));
    if (counts && (best == nullptr || is_better(*row.answer, *best->answer))) best = &row;
  }
  return best;
}

}  // namespace

const AnswerRow* best_row(const std::vector<AnswerRow>& rows) {
  const AnswerRow* certain = best_of(rows, true);
  return certain != nullptr ? certain : best_of(rows, false);
}

const AnswerRow* possibly_better_row(const std::vector<AnswerRow>& rows) {
  const AnswerRow* any = best_of(rows, false);
  return any == best_row(rows) ? nullptr : any;
}

QString possibly_better_words(const AnswerRow& row) {
  return row.answer->usd_per_million ? tr("%1 may be cheaper: %2 USD/M tokens, but its run is too short to tell")
                                           .arg(row.drawn.name, reader_text(*row.answer->usd_per_million, 3))
                                     : tr("%1 may carry more: %2 tokens/s, but its run is too short to tell")
                                           .arg(row.drawn.name, reader_text(row.answer->tokens_per_s, 3));
}

QString answer_words(const AnswerRow& row) {
  if (!row.answer) return row.verdict == QStringLiteral("…") ? row.verdict : tr("✗ %1").arg(row.limited_by);
  const SloAnswer& answer = *row.answer;
  if (!answer.carried) return tr("✗ never within: %1").arg(row.limited_by);
  QString text = row.verdict + QChar(u' ') +
                 (answer.every ? tr("every load, %1 at").arg(row.load) : row.load + QChar(u',')) +
                 tr(" %1 tokens/s").arg(reader_text(answer.tokens_per_s, digits(answer)));
  if (answer.usd_per_million) text += tr(", %1 USD/M tokens").arg(reader_text(*answer.usd_per_million, 3));
  QStringList more;
  if (!is_certain(answer)) more << uncertain_words(answer);
  if (answer.failed > 0) more << tr("%1 % of the requests fail").arg(reader_text(100 * answer.failed, 3));
  if (answer.binding || answer.saturates)
    more << (answer.every ? row.limited_by : tr("limited by %1").arg(row.limited_by));
  if (!row.margin.isEmpty()) more << row.margin;
  return more.isEmpty() ? text : text + QStringLiteral("; ") + more.join(QStringLiteral("; "));
}

}  // namespace plimsoll::gui
