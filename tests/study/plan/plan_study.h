// SPDX-License-Identifier: Apache-2.0
// Small searches for tests, with their answers.
#pragma once

#include <string>

#include "study/plan/ranking.h"
#include "study/plan/search.h"
#include "tests/study/study_file.h"

namespace plimsoll::study::plan {

/// A study, its question and its answer. They are kept together because the answer refers to the question's candidates.
struct Searched {
  std::unique_ptr<Study> study;
  Question question;
  Answer answer;

  [[nodiscard]] const Candidate& winner() const { return question.candidates.at(answer.winner.value()); }
  [[nodiscard]] std::string winner_name() const { return answer.winner ? winner().name : "nobody"; }
};

class PlanFolder : public StudyFolder {
 protected:
  [[nodiscard]] Searched search(const std::string& yaml, const Overrides& overrides = {}, int jobs = 2,
                                bool examine = false) const {
    Searched out;
    out.study = std::make_unique<Study>(read(yaml, overrides));
    out.question = make_question(*out.study, 0);
    TrialSettings settings;
    settings.jobs = jobs;
    Trials trials(out.question, settings);
    out.answer = find_best(out.question, trials, {.examine_winner = examine});
    return out;
  }
};

/// Llama 2 7B or 13B with TGI, 64 + 16 tokens so that a run takes a millisecond.
inline constexpr const char* kPlanStudy =
    "study: test\n"
    "model: llama-2-7b\n"
    "hardware: ml.p4d.24xlarge\n"
    "engine: tgi-1.1\n"
    "workload:\n"
    "  load: {poisson: {rate: 30 /s}}\n"
    "  lengths: {input: 64, output: 16}\n"
    "  requests: 300\n"
    "slo: {p90_latency: 2 s, p99_latency: 4 s}\n"
    "search:\n"
    "  instances: [ml.g5.2xlarge, ml.g5.12xlarge, ml.p4d.24xlarge]\n"
    "  tp: [1, 2, 4]\n"
    "  replicas: [1, 2, 4, 8]\n"
    "  max_running: [8, 64]\n";

/// Returns a study of a server that takes `decode` per request of one token: a queue with a closed form.
inline std::string queue_study(const std::string& load, const std::string& slo, const std::string& search) {
  return "study: queue\n"
         "engine: {constant: {prefill: 90 ms, decode: 10 ms}}\n"
         "scheduler: {policy: none}\n"
         "workload:\n  load: " +
         load +
         "\n  lengths: {input: 1, output: 1}\n  requests: 2000\n"
         "slo: " +
         slo +
         "\n"
         "search: " +
         search + "\n";
}

}  // namespace plimsoll::study::plan
