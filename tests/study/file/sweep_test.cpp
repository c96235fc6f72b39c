// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "model/error.h"
#include "study/run/resolve.h"
#include "study/run/run_study.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> swept_texts(const Study& study) {
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < study.point_count(); ++i) {
    std::string row;
    for (const Cell& cell : study.swept_values(i)) row += plain_text(cell) + ' ';
    rows.push_back(row);
  }
  return rows;
}

class SweepTest : public StudyFolder {};

TEST_F(SweepTest, TheLastKeyRunsFastest) {
  const Study study =
      read(std::string(kSmallStudy) + "sweep: {deployment.tp: [4, 1], workload.concurrency: [1, 2, 8]}\n");
  EXPECT_THAT(study.swept_keys(), ElementsAre("deployment.tp", "workload.concurrency"));
  EXPECT_THAT(swept_texts(study), ElementsAre("4 1 ", "4 2 ", "4 8 ", "1 1 ", "1 2 ", "1 8 "));
  EXPECT_EQ(study.point(5).deployment.tp, 1);
  EXPECT_EQ(load::load_value(study.point(5).workload.load), 8);
}

TEST_F(SweepTest, AFileNeedBeValidOnlyWithItsSweep) {
  std::string yaml = kSmallStudy;
  yaml.replace(yaml.find("concurrency: 4"), 14, "think: 1 s    ");
  EXPECT_THROW(static_cast<void>(read(yaml)), InputError);
  EXPECT_EQ(read(yaml + "sweep: {workload.concurrency: [1, 2]}\n").point_count(), 2U);
}

TEST_F(SweepTest, AnotherLoadReplacesTheFirst) {
  const Study study = read(std::string(kTinyStudy) + "sweep: {workload.load.poisson.rate: [1 /s, 2 /s]}\n");
  EXPECT_EQ(load::load_kind(study.point(1).workload.load), "poisson");
  EXPECT_EQ(load::load_value(study.point(1).workload.load), 2);
}

TEST_F(SweepTest, AnotherNameOfASettingReplacesTheFirst) {
  const Study study =
      read(std::string(kTinyStudy), {{"scheduler.MAX_BATCH_SIZE", "7"}, {"scheduler.max_running", "9"}});
  EXPECT_EQ(study.point(0).policy.max_running, 9);
}

TEST_F(SweepTest, APropertyWithDotsCanBeSet) {
  const Study study = read(std::string(kTinyStudy), {{"scheduler.option.max_rolling_batch_size", "7"}});
  EXPECT_EQ(study.point(0).policy.max_running, 7);
}

TEST_F(SweepTest, SettingASweptKeyPinsIt) {
  const std::string yaml = std::string(kSmallStudy) + "sweep: {deployment.tp: [1, 2], workload.concurrency: [1, 2]}\n";
  const Study study = read(yaml, {{"deployment.tp", "4"}, {"workload.load.closed_loop.concurrency", "3"}});
  EXPECT_EQ(study.point_count(), 1U);
  EXPECT_EQ(study.point(0).deployment.tp, 4);
}

TEST_F(SweepTest, ASweepMayBeSet) {
  const Study study = read(kSmallStudy, {{"sweep.deployment.tp", "[1, 2]"}});
  EXPECT_THAT(swept_texts(study), ElementsAre("1 ", "2 "));
}

TEST_F(SweepTest, APointThatCannotExistIsARowWithoutFigures) {
  const StudyResult result = run_study(read(std::string(kSmallStudy) + "sweep: {deployment.tp: [1, 3]}\n"), {});
  ASSERT_EQ(result.points.size(), 2U);
  EXPECT_TRUE(result.points[0].metrics.has_value());
  EXPECT_FALSE(result.points[1].metrics.has_value());
  EXPECT_THAT(result.points[1].infeasible, ::testing::HasSubstr("32 attention heads"));
  EXPECT_EQ(point_row(result.points[1]).size(), point_columns({"deployment.tp"}).size());
}

TEST_F(SweepTest, ASinglePointThatCannotExistIsAnError) {
  EXPECT_THROW(static_cast<void>(run_study(read(kSmallStudy, {{"deployment.tp", "3"}}), {})), InputError);
}

TEST_F(SweepTest, TheResultDoesNotDependOnTheNumberOfJobs) {
  const Study study =
      read(std::string(kTinyStudy) + "sweep: {workload.concurrency: [1, 2, 3, 4, 5, 6, 7, 8], seed: [1, 2]}\n");
  const std::string one = points_csv(study.swept_keys(), run_study(study, {.jobs = 1}).points);
  const std::string four = points_csv(study.swept_keys(), run_study(study, {.jobs = 4}).points);
  EXPECT_EQ(one, four);
}

TEST_F(SweepTest, CancelKeepsWhatIsFinished) {
  const Study study = read(std::string(kTinyStudy) + "sweep: {seed: [1, 2, 3, 4]}\n");
  RunControl control;
  RunSettings settings{.jobs = 1, .control = &control};
  settings.on_point = [&](FinishedPoint& point) {
    if (point.result.index == 1) control.cancel();
  };
  const StudyResult result = run_study(study, settings);
  EXPECT_TRUE(result.cancelled);
  EXPECT_EQ(result.points.size(), 2U);
}

}  // namespace
}  // namespace plimsoll::study
