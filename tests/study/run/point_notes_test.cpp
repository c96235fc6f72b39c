// SPDX-License-Identifier: Apache-2.0
// What a run says of a point beside its figures: whether it keeps the SLO, and what it rests on.
#include <gmock/gmock.h>

#include <limits>

#include "study/run/run_study.h"
#include "study/run/slo_text.h"
#include "study/output/table_view.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PointNotesTest : public StudyFolder {};

// Requests of 5 tokens of 10 ms, two at a time without waiting: 50 ms each.
TEST_F(PointNotesTest, EveryBoundThatIsMissedIsNamed) {
  const Study study = read(std::string(kTinyStudy) + "slo: {p90_latency: 40 ms, mean_tpot: 20 ms, min_output_tokens_per_s: 1000}\n");
  const StudyResult result = run_study(study, {});
  ASSERT_TRUE(result.points.at(0).missed_slo.has_value());
  EXPECT_THAT(*result.points[0].missed_slo, HasSubstr("p90 latency 50 ms of at most 40 ms"));
  EXPECT_THAT(*result.points[0].missed_slo, HasSubstr("of at least 1000 /s"));
  EXPECT_THAT(*result.points[0].missed_slo, Not(HasSubstr("tpot")));
  EXPECT_THAT(points_table("", {}, result.points), HasSubstr("SLO missed"));
}

TEST_F(PointNotesTest, AKeptSloIsSaidAndNoneIsNot) {
  const Study kept = read(std::string(kTinyStudy) + "slo: {p90_latency: 60 ms}\n");
  EXPECT_THAT(points_table("", {}, run_study(kept, {}).points), HasSubstr("SLO kept"));
  const Study none = read(kTinyStudy);
  EXPECT_THAT(points_table("", {}, run_study(none, {}).points), Not(HasSubstr("SLO")));
}

// The first of two requests fits, the second is four tokens too long.
TEST_F(PointNotesTest, RefusalsAreCountedByTheirCode) {
  const Study study = read(
      "model: demo-llama-40m\ndtype: bf16\nhardware: {accelerator: l40s, count: 1}\nengine: vllm-0.12\n"
      "scheduler: {max_total: 100}\n"
      "workload: {load: {script: \"A:90+5 B:99+5\"}}\n");
  EXPECT_THAT(points_table("", {}, run_study(study, {}).points), HasSubstr("1 rejected (max_total_tokens)"));
}

TEST(MissedSlo, NothingMeasuredKeepsNothing) {
  sched::Slo slo;
  slo.bounds.push_back({sched::Slo::Metric::ttft, 0.95, 1});
  EXPECT_EQ(missed_slo(slo, {}, false), "p95 ttft of at most 1 s (nothing was measured)");
}

// A figure without bound is no figure: what made it so is said.
TEST(MissedSlo, WhatIsBeyondMeasureSaysWhy) {
  sched::Slo slo;
  slo.bounds.push_back({sched::Slo::Metric::ttft, 0.99, 2});
  sched::PointMetrics metrics;
  metrics.slo_values = {std::numeric_limits<double>::infinity()};
  metrics.requests_timed_out = 5;
  EXPECT_EQ(missed_slo(slo, metrics, false), "p99 ttft of at most 2 s (too many requests fail)");
  EXPECT_EQ(missed_slo(slo, metrics, true), "p99 ttft of at most 2 s (the queue grows without end)");
}

// Requests of 5 tokens of 10 ms: 50 ms each.
TEST_F(PointNotesTest, WhetherTheSloIsMetIsTheLastColumn) {
  EXPECT_EQ(point_columns({}).back(), "slo_met");
  const auto met = [&](const std::string& slo) { return plain_text(point_row(run_study(read(kTinyStudy + slo), {}).points.at(0)).back()); };
  EXPECT_EQ(met("slo: {p90_latency: 60 ms}\n"), "true");
  EXPECT_EQ(met("slo: {p90_latency: 40 ms}\n"), "false");
  EXPECT_EQ(met(""), "") << "without an SLO there is no answer";
}

// A p4d has eight GPUs, and a replica of tp 2 takes two.
TEST_F(PointNotesTest, GpusWithoutReplicasAreSaid) {
  const auto idle = [&](const Overrides& overrides) { return unused_gpus(run_study(read(kSmallStudy, overrides), {}).points.at(0)); };
  EXPECT_THAT(idle({{"deployment.tp", "2"}}), HasSubstr("6 of the 8 GPUs of ml.p4d.24xlarge are not used, but paid"));
  EXPECT_THAT(idle({{"deployment.tp", "2"}, {"deployment.replicas", "5"}}), HasSubstr("6 of the 16 GPUs of 2 x ml.p4d.24xlarge"));
  EXPECT_EQ(idle({{"deployment.tp", "8"}}), "");
  EXPECT_EQ(unused_gpus(run_study(read(kTinyStudy), {}).points.at(0)), "") << "no hardware is stated";
  EXPECT_THAT(points_table("", {}, run_study(read(kSmallStudy), {}).points), HasSubstr("idle GPUs"));
}

// The profile was fitted on at most 128 users; an open loop far beyond capacity fills batches of hundreds.
TEST_F(PointNotesTest, LargeBatchesOfAnOpenLoopAreBeyondTheFit) {
  const auto reason = [&](const char* rate) {
    const Study study = read(std::string("model: llama-3.1-8b\ndtype: bf16\nhardware: p5.4xlarge\nengine: vllm-0.12\n"
                                         "workload: {load: {poisson: {rate: ") + rate + "}}, lengths: {input: 256, output: 256}, requests: 1500}\n");
    return run_study(study, {}).points.at(0).extrapolates;
  };
  EXPECT_EQ(reason("1 /s"), "");
  EXPECT_THAT(reason("200 /s"), HasSubstr("batches of more than 128 sequences"));
}

}  // namespace
}  // namespace plimsoll::study
