// SPDX-License-Identifier: Apache-2.0
// An interrupted sweep continues from results.sqlite, and no stale result is reused.
#include <gmock/gmock.h>

#include "study/output/outputs.h"
#include "study/output/run_files.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

class ResumeTest : public StudyFolder {
 protected:
  struct Account {
    std::size_t simulated = 0, recalled = 0;
    std::string csv, extrapolates, fleet;
  };
  // Stops after `most` simulated points; 0 runs to the end.
  Account run(const Study& study, std::size_t most = 0, bool requests = false, bool stepwise = false) const {
    Outputs outputs(study, {.folder = file("out"),
                            .requests = requests,
                            .decisions = false,
                            .timeline = false,
                            .resumable = true,
                            .stepwise = stepwise});
    RunControl control;
    Account account;
    RunSettings settings{.jobs = 1, .stepwise = stepwise, .keep_requests = requests, .control = &control};
    settings.recall = [&](PointResult& point) { return outputs.recall(point); };
    settings.on_point = [&](FinishedPoint& point) {
      if (point.recalled) return;
      outputs.add(point);
      if (++account.simulated == most) control.cancel();
    };
    const StudyResult result = run_study(study, settings);
    outputs.finish(result);
    account.recalled = outputs.recalled();
    account.extrapolates = result.points.front().extrapolates;
    if (!result.points.front().fleet.empty()) account.fleet = fleet_table(result.points.front());
    account.csv = points_csv(study.swept_keys(), result.points);
    return account;
  }
  static std::string swept(const std::string& seeds) {
    return std::string(kTinyStudy) + "sweep: {seed: [" + seeds + "]}\n";
  }
};

TEST_F(ResumeTest, ContinuesWhereItStopped) {
  const Study study = read(swept("1, 2, 3, 4, 5"));
  EXPECT_EQ(run(study, 2).simulated, 2U);
  const Account rest = run(study);
  EXPECT_EQ(rest.simulated, 3U);
  EXPECT_EQ(rest.recalled, 2U);
  EXPECT_EQ(rest.csv, points_csv(study.swept_keys(), run_study(study, {}).points));
}

TEST_F(ResumeTest, AFinishedSweepIsNotRunAgain) {
  const Study study = read(std::string(kSmallStudy) + "sweep: {deployment.tp: [1, 3]}\n");
  const Account first = run(study), second = run(study);
  EXPECT_EQ(second.recalled, 1U);  // the other point cannot run, so it is not stored
  EXPECT_EQ(first.csv, second.csv);
  EXPECT_THAT(first.csv, ::testing::HasSubstr("llama-2-7b"));
}

// A fact that only the run knows is stored too: the accelerator's kernels were not measured in the study's type.
TEST_F(ResumeTest, RemembersWhatLayBeyondTheMeasurements) {
  const Study study = read(
      "model: llama-2-7b\nhardware: {accelerator: h100-sxm, count: 1}\nengine: ideal\ndtype: int8\n"
      "workload: {load: {closed_loop: {concurrency: 2}}, lengths: {input: 16, output: 4}, requests: 4}\n");
  const Account first = run(study), second = run(study);
  EXPECT_EQ(second.recalled, 1U);
  EXPECT_THAT(first.extrapolates, ::testing::HasSubstr("no measured GEMMs in int8 on h100-sxm"));
  EXPECT_EQ(second.extrapolates, first.extrapolates);
}

// The table over time and the pictures of the page need the fleet's changes, which are not part of the metrics.
TEST_F(ResumeTest, RemembersTheFleetOverTime) {
  const Study study =
      read(std::string(kSmallStudy),
           {{"deployment", "{tp: 1, replicas: 2, failures: {mean_time_between: 1 s, restart: 100 ms}}"}});
  const Account first = run(study), second = run(study);
  EXPECT_EQ(second.recalled, 1U);
  EXPECT_THAT(first.fleet, ::testing::HasSubstr("replicas over time"));
  EXPECT_EQ(second.fleet, first.fleet);
}

TEST_F(ResumeTest, ALongerSweepTakesOverWhatItShares) {
  run(read(swept("1, 2")));
  EXPECT_EQ(run(read(swept("0, 1, 2, 3"))).recalled, 2U);
}

TEST_F(ResumeTest, WhatChangesThePointIsRunAgain) {
  run(read(swept("1, 2")));
  EXPECT_EQ(run(read(swept("1, 2"), {{"workload.requests", "21"}})).recalled, 0U);
  EXPECT_EQ(run(read(swept("1, 2"), {{"slo", "{p90_latency: 1 s}"}})).recalled, 0U);
  EXPECT_EQ(run(read(swept("1, 2")), 0, false, true).recalled, 0U) << "stepwise";
  EXPECT_EQ(run(read(swept("1, 2"))).recalled, 2U);
}

TEST_F(ResumeTest, AChangedTraceIsReadAgain) {
  const std::string yaml =
      "engine: {constant: {decode: 10 ms}}\nworkload:\n  load: {poisson: {rate: 4 /s}}\n"
      "  lengths: {trace: lengths.csv}\n  requests: 50\nsweep: {seed: [1, 2]}\n";
  write("lengths.csv", "num_prefill_tokens,num_decode_tokens\n10,5\n");
  run(read(yaml));
  EXPECT_EQ(run(read(yaml)).recalled, 2U);
  write("lengths.csv", "num_prefill_tokens,num_decode_tokens\n10,6\n");
  EXPECT_EQ(run(read(yaml)).recalled, 0U);
}

TEST_F(ResumeTest, APointWhoseFileIsGoneIsRunAgain) {
  const Study study = read(swept("1, 2"));
  run(study, 0, true);
  std::filesystem::remove(file("out/requests-1.csv"));
  EXPECT_EQ(run(study, 0, true).recalled, 1U);
  EXPECT_TRUE(std::filesystem::exists(file("out/requests-1.csv")));
}

TEST_F(ResumeTest, FilesBelongToTheirPlaceInTheSweep) {
  run(read(swept("1, 2")), 0, true);
  EXPECT_EQ(run(read(swept("2, 1")), 0, true).recalled, 0U);
}

TEST_F(ResumeTest, HalfWrittenFilesOfAKilledRunAreSweptUp) {
  const Study study = read(swept("1, 2"));
  run(study);
  write("out/requests-1.csv.4711.tmp", "id,na");
  write("out/mine.tmp", "not ours");
  run(study);
  EXPECT_FALSE(std::filesystem::exists(file("out/requests-1.csv.4711.tmp")));
  EXPECT_TRUE(std::filesystem::exists(file("out/mine.tmp")));
}

}  // namespace
}  // namespace plimsoll::study
