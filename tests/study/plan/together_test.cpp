// SPDX-License-Identifier: Apache-2.0
#include "study/plan/together.h"

#include <gmock/gmock.h>

#include "model/error.h"
#include "tests/study/plan/plan_study.h"

namespace plimsoll::study::plan {
namespace {

using ::testing::HasSubstr;

class TogetherTest : public StudyFolder {
 protected:
  [[nodiscard]] std::vector<QuestionAnswer> find(const std::string& yaml) {
    study_ = std::make_unique<Study>(read(yaml));
    std::vector<QuestionAnswer> findings;
    for (std::size_t i = 0; i < study_->point_count(); ++i) {
      findings.push_back({.question = make_question(*study_, i), .answer = {}, .swept = study_->swept_values(i)});
      Trials trials(findings.back().question, {});
      findings.back().answer =
          find_best(findings.back().question, trials, {.examine_winner = false, .fewest_on_each = true});
    }
    return findings;
  }
  std::unique_ptr<Study> study_;
};

constexpr const char* kTwoModels =
    "study: two\nhardware: ml.p4d.24xlarge\nengine: tgi-1.1\n"
    "models:\n"
    "  - {model: llama-2-7b, workload.rate: 10 /s}\n"
    "  - {model: llama-2-13b, workload.rate: 5 /s, slo: {p90_latency: 3 s}}\n"
    "workload:\n  load: {poisson: {rate: 1 /s}}\n  lengths: {input: 64, output: 32}\n  requests: 300\n"
    "slo: {p90_latency: 2 s}\n"
    "search: {instances: [ml.g5.2xlarge, ml.p4d.24xlarge], tp: [1, 2], replicas: [1, 2, 3, 4], objective: cost}\n";

TEST_F(TogetherTest, EachModelIsAPointOfTheStudy) {
  const Study study = read(kTwoModels);
  ASSERT_EQ(study.point_count(), 2U);
  EXPECT_EQ(study.point(0).shape->id, "llama-2-7b");
  EXPECT_EQ(load::load_value(study.point(0).workload.load), 10);
  EXPECT_EQ(study.point(0).slo.bounds.at(0).limit, 2);
  EXPECT_EQ(study.point(1).shape->id, "llama-2-13b");
  EXPECT_EQ(load::load_value(study.point(1).workload.load), 5);
  EXPECT_EQ(study.point(1).slo.bounds.at(0).limit, 3);
}

// 13B does not fit a 24 GB A10G. One A100 machine of 8 has room for the few GPUs of both models: it is paid once.
TEST_F(TogetherTest, OneMachineIsPaidForOnce) {
  const std::vector<QuestionAnswer> findings = find(kTwoModels);
  const std::vector<SharedHost> hosts = share_instances(findings);
  ASSERT_EQ(hosts.size(), 2U);
  EXPECT_EQ(hosts[0].hardware, "ml.p4d.24xlarge");
  EXPECT_THAT(hosts[1].impossible, ::testing::StartsWith("llama-2-13b cannot be there: ")) << "it does not fit";
  std::int64_t gpus = 0;
  for (std::size_t f = 0; f < findings.size(); ++f)
    gpus += findings[f].question.candidates[hosts[0].candidates[f]].gpus;
  ASSERT_LE(gpus, 8);
  EXPECT_EQ(hosts[0].instances.size(), 1U);
  EXPECT_DOUBLE_EQ(hosts[0].usd_per_hour.value(), findings[0].question.spec.hardware.usd_per_hour.value());
  EXPECT_THAT(shared_text(findings, hosts), HasSubstr("ml.p4d.24xlarge x 1"));
  EXPECT_THAT(shared_csv(findings, hosts), HasSubstr("hardware,instances,usd_per_hour,llama-2-7b,llama-2-13b,verdict"));
}

// No candidate with fewer GPUs on that machine meets the SLO: the chosen one has the fewest.
TEST_F(TogetherTest, TheFewestGpusAreTaken) {
  const std::vector<QuestionAnswer> findings = find(kTwoModels);
  for (const QuestionAnswer& finding : findings) {
    const std::size_t chosen = finding.answer.fewest_gpus.at("ml.p4d.24xlarge");
    for (std::size_t i = 0; i < finding.answer.entries.size(); ++i) {
      const Entry& entry = finding.answer.entries[i];
      const bool fewer = finding.question.candidates[i].gpus < finding.question.candidates[chosen].gpus;
      if (fewer && entry.stage == Stage::confirmed &&
          finding.question.candidates[i].spec.hardware.label == "ml.p4d.24xlarge") {
        EXPECT_FALSE(entry.standing.meets) << finding.question.candidates[i].name;
      }
    }
  }
}

TEST_F(TogetherTest, AnEntryWithoutAModelIsRefused) {
  EXPECT_THROW(static_cast<void>(read("study: x\nhardware: ml.p4d.24xlarge\nmodels: [{workload.rate: 1 /s}]\n"
                                      "workload: {load: {poisson: {rate: 1 /s}}, lengths: {input: 8, output: 8}}\n")),
               InputError);
}

}  // namespace
}  // namespace plimsoll::study::plan
