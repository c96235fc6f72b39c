// SPDX-License-Identifier: Apache-2.0
#include "study/plan/view.h"

#include "study/output/html_page.h"
#include "study/output/points_page.h"

namespace plimsoll::study::plan {

std::vector<Chart> winner_charts(const QuestionAnswer& f) {
  if (!f.answer.winner) return {};
  const Candidate& winner = f.question.candidates[*f.answer.winner];
  std::vector<PointResult> points;
  for (const CurveLoad& at : f.answer.curve.loads) {
    PointResult point = winner.point;
    point.index = points.size();
    point.swept = {Cell(at.load)};
    point.labels.load_value = at.load;
    point.metrics = at.metrics;
    point.slo = slo_figures(winner.spec.slo, at.metrics, at.metrics.steady.grows);
    points.push_back(std::move(point));
  }
  return points_charts(winner.name, {"workload.load"}, points);
}

std::string findings_html(const Study& study, std::span<const QuestionAnswer> findings) {
  HtmlPage page(study.title() + ": plan");
  const std::vector<std::string> keys = study.swept_keys();
  for (const QuestionAnswer& f : findings) {
    std::string head;
    for (std::size_t k = 0; k < keys.size(); ++k) head += (k > 0 ? ", " : "") + keys[k] + ' ' + plain_text(f.swept[k]);
    if (!head.empty()) page.heading(head);
    page.preformatted(answer_text(f));
    for (const Chart& chart : winner_charts(f)) page.picture(chart);
    if (!f.answer.order.empty()) page.heading("Deployments, best first").table(ranking_table(f, f.answer.order.size()));
    page.heading("Assumptions");
    page.list(assumptions_of(f.answer.winner ? f.question.candidates[*f.answer.winner].spec : f.question.spec,
                             study.notes()));
    if (!f.answer.winner) continue;
    for (const DeployFile& file : deploy_files_of(f.question.candidates[*f.answer.winner]))
      page.folded("Deploy with " + file.product, file.text);
  }
  return page.folded("The study", study.resolved_yaml()).text();
}

}  // namespace plimsoll::study::plan
