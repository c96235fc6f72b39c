// SPDX-License-Identifier: Apache-2.0
// Formats an answer for readers and for other programs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "study/file/cell.h"
#include "study/output/chart.h"
#include "study/output/deployment_flags.h"
#include "study/output/table_view.h"
#include "study/plan/answer.h"

namespace plimsoll::study::plan {

/// A question with its answer. `swept` are the values of the study's sweep that lead to this question.
struct QuestionAnswer {
  Question question;
  Answer answer;
  std::vector<Cell> swept;
};

/// Text for the terminal: the answer, the details of the winner, and the best `rows` candidates.
[[nodiscard]] std::string finding_text(const QuestionAnswer& finding, std::size_t rows);
/// Return the parts of that text: everything above the table, and the table of the best `rows`.
[[nodiscard]] std::string answer_text(const QuestionAnswer& finding);
[[nodiscard]] TextTable ranking_table(const QuestionAnswer& finding, std::size_t rows);
/// Returns which candidate comes nearest, if none meets the SLO.
[[nodiscard]] std::string nearest_text(const QuestionAnswer& finding);

/// ranking.csv: one row per candidate, best first, then those that were not simulated.
[[nodiscard]] std::vector<std::string> ranking_columns(const std::vector<std::string>& swept_keys,
                                                       PoolColumns pools = PoolColumns::no);
/// Returns whether the question's tables have the columns of pools, at their end.
[[nodiscard]] PoolColumns pool_columns_of(const Question& question);
[[nodiscard]] std::string ranking_csv(const std::vector<std::string>& swept_keys,
                                      std::span<const QuestionAnswer> findings);
/// The same rows as members of JSON objects, and the rest of the answer: winner, its curve, sensitivity (docs/plan.md).
[[nodiscard]] std::vector<std::string> ranking_members(const std::vector<std::string>& swept_keys,
                                                       const QuestionAnswer& finding);
/// Returns the same members for a candidate's first run, before the answer is known: rank, tie and verdict are null.
[[nodiscard]] std::string look_members(const std::vector<std::string>& swept_keys, const QuestionAnswer& finding,
                                       const Candidate& candidate, const sched::PointMetrics& run);
[[nodiscard]] std::string answer_members(const QuestionAnswer& finding);
/// Everything as a JSON array with one object per question.
[[nodiscard]] std::string findings_json(const std::vector<std::string>& swept_keys,
                                        std::span<const QuestionAnswer> findings);
/// curve.csv: the winner at increasing loads.
[[nodiscard]] std::string curve_csv(const QuestionAnswer& finding);

/// The files that start one replica of the candidate; their heading states how many replicas to start.
[[nodiscard]] std::vector<DeployFile> deploy_files_of(const Candidate& candidate);

/// Returns the cost in USD/h, by the mean number of instances in use if these come and go; nullopt without a price.
[[nodiscard]] std::optional<double> cost_of(const Candidate& candidate, const SloVerdict& standing);
/// Returns the cost of a million tokens at this rate; nullopt without a price or without tokens.
[[nodiscard]] std::optional<double> usd_per_million(std::optional<double> usd_per_hour, double tokens_per_s);

// An answer as a page with pictures: report.html of `plan`.

/// Charts of the winner at increasing loads: the metrics that the SLO limits, or the latency, and the throughput. Empty
/// without a winner.
[[nodiscard]] std::vector<Chart> winner_charts(const QuestionAnswer& finding);
/// A page with every question and its answer, its winner's curves, all deployments and the assumptions.
[[nodiscard]] std::string findings_html(const Study& study, std::span<const QuestionAnswer> findings);

}  // namespace plimsoll::study::plan
