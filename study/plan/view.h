// SPDX-License-Identifier: Apache-2.0
// An answer for readers and for other programs.
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

/// A question with its answer; `swept` are the values of the study's sweep that make it this question.
struct QuestionAnswer {
  Question question;
  Answer answer;
  std::vector<Cell> swept;
};

/// For the terminal: the answer, the winner from all sides, and the best `rows` candidates.
[[nodiscard]] std::string finding_text(const QuestionAnswer& finding, std::size_t rows);
/// Its parts: everything above the table, the table of the best `rows`.
[[nodiscard]] std::string answer_text(const QuestionAnswer& finding);
[[nodiscard]] TextTable ranking_table(const QuestionAnswer& finding, std::size_t rows);
/// Where nothing meets the SLO: what comes nearest.
[[nodiscard]] std::string nearest_text(const QuestionAnswer& finding);

/// ranking.csv: one row a candidate, best first, then those that were not simulated.
[[nodiscard]] std::vector<std::string> ranking_columns(const std::vector<std::string>& swept_keys);
[[nodiscard]] std::string ranking_csv(const std::vector<std::string>& swept_keys,
                                      std::span<const QuestionAnswer> findings);
/// The same rows as members of JSON objects, and what else the answer says: winner, its curve, sensitivity
/// (docs/plan.md).
[[nodiscard]] std::vector<std::string> ranking_members(const std::vector<std::string>& swept_keys,
                                                       const QuestionAnswer& finding);
[[nodiscard]] std::string answer_members(const QuestionAnswer& finding);
/// Everything as a JSON array of one object a question.
[[nodiscard]] std::string findings_json(const std::vector<std::string>& swept_keys,
                                        std::span<const QuestionAnswer> findings);
/// curve.csv: the winner under more and more load.
[[nodiscard]] std::string curve_csv(const QuestionAnswer& finding);

/// What starts a replica of the candidate, headed by how many there are of it.
[[nodiscard]] std::vector<DeployFile> deploy_files_of(const Candidate& candidate);

/// USD/h: of the instances in use in the mean, where they come and go; nullopt without a price.
[[nodiscard]] std::optional<double> cost_of(const Candidate& candidate, const SloVerdict& standing);
/// What a million tokens cost at this rate; nullopt without a price or without tokens.
[[nodiscard]] std::optional<double> usd_per_million(std::optional<double> usd_per_hour, double tokens_per_s);

// An answer as a page with pictures: report.html of plan.

/// The winner under more and more load: what the SLO limits, or the latency, and the throughput. Empty without a
/// winner.
[[nodiscard]] std::vector<Chart> winner_charts(const QuestionAnswer& finding);
/// Every question with its answer, its winner's curves, all deployments and what the figures rest on.
[[nodiscard]] std::string findings_html(const Study& study, std::span<const QuestionAnswer> findings);

}  // namespace plimsoll::study::plan
