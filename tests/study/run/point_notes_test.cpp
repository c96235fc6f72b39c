// SPDX-License-Identifier: Apache-2.0
// The notes on a point besides its figures: whether it meets the SLO, and what the figures are based on.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "study/output/table_view.h"
#include "study/run/resolve.h"
#include "study/run/run_study.h"
#include "study/run/slo_text.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class PointNotesTest : public StudyFolder {};

// Requests of 5 tokens of 10 ms run two at a time without waiting: 50 ms each.
TEST_F(PointNotesTest, EveryBoundThatIsMissedIsNamed) {
  const Study study =
      read(std::string(kTinyStudy) + "slo: {p90_latency: 40 ms, mean_tpot: 20 ms, min_output_tokens_per_s: 1000}\n");
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

// The first of two requests fits; the second is four tokens too long.
TEST_F(PointNotesTest, RefusalsAreCountedByTheirCode) {
  const Study study = read(
      "model: demo-llama-40m\ndtype: bf16\nhardware: {accelerator: l40s, count: 1}\nengine: vllm-0.12\n"
      "scheduler: {max_total: 100}\n"
      "workload: {load: {script: \"A:90+5 B:99+5\"}}\n");
  EXPECT_THAT(points_table("", {}, run_study(study, {}).points),
              AllOf(HasSubstr("1 rejected (max_total_tokens): a"), HasSubstr("raise scheduler.max_total")));
}

// 8 users send at once and prefill one after the other or together; after that, each prompt arrives when another
// request has ended. The parts must add up to the whole: 80 requests, 8 of them in the first wave.
TEST_F(PointNotesTest, TheFirstWaveOfAClosedLoopIsToldApart) {
  const char* const text =
      "model: qwen3-32b\ndtype: bf16\nhardware: {accelerator: h100-sxm, count: 2}\nengine: vllm-0.12\ndeployment: {tp: "
      "2}\n"
      "workload: {load: {closed_loop: {concurrency: 8}}, lengths: {input: 2048, output: 256}, requests: 80}\n";
  const StudyResult result = run_study(read(text), {});
  const sched::PointMetrics& m = *result.points.at(0).metrics;
  ASSERT_TRUE(m.ttft_first_wave_mean && m.ttft_steady_mean && m.ttft_steady_p99 && m.latency_steady_mean);
  EXPECT_GT(*m.ttft_first_wave_mean, 1.5 * *m.ttft_steady_mean);
  EXPECT_NEAR(80 * *m.ttft.mean, 8 * *m.ttft_first_wave_mean + 72 * *m.ttft_steady_mean, 1e-9);
  EXPECT_LT(*m.ttft_steady_p99, *m.ttft.p99);
  EXPECT_THAT(points_table("", {}, result.points), HasSubstr("after the first wave"));
  const StudyResult open = run_study(read(text, {{"workload.load", "{poisson: {rate: 1 /s}}"}}), {});
  EXPECT_FALSE(open.points.at(0).metrics->ttft_steady_mean.has_value());
}

// Steps of 8192 tokens admit prompts of 8192 tokens only as a whole: if anything else runs, there is no room for one.
TEST_F(PointNotesTest, APromptAsLongAsAStepIsExplainedWithTheKey) {
  const auto starved = [&](const char* scheduler, int input = 8192) {
    const Study study = read(
        fmt::format("model: qwen3-32b\ndtype: fp8\nhardware: {{accelerator: h100-sxm, count: 8}}\nengine: trtllm-1.0\n"
                    "deployment: {{tp: 8}}\nscheduler: {}\n"
                    "workload: {{load: {{closed_loop: {{concurrency: 32}}}}, lengths: {{input: {}, output: 64}}}}\n",
                    scheduler, input));
    return resolve_point(study, 0).result.starved;
  };
  EXPECT_EQ(
      starved("{step_token_budget: 8192}"),
      "a prompt of 8192 tokens fits a step of 8192 only while no other sequences run, so TTFT includes the wait for "
      "others to finish; raise scheduler.step_token_budget to 8223 or more or set scheduler.chunked: true");
  EXPECT_THAT(starved("{step_token_budget: 8200}"), HasSubstr("at most 8 other sequences"));
  EXPECT_THAT(starved("{step_token_budget: 4096}"), HasSubstr("never fits a step of 4096"));
  EXPECT_EQ(starved("{step_token_budget: 8223}"), "");
  EXPECT_EQ(starved("{step_token_budget: 8192, chunked: true}"), "");
  EXPECT_EQ(starved("{step_token_budget: 8192}", 1024), "");
}

TEST(MissedSlo, NothingMeasuredKeepsNothing) {
  sched::Slo slo;
  slo.bounds.push_back({sched::Slo::Metric::ttft, 0.95, 1});
  EXPECT_EQ(missed_slo(slo, {}, false), "p95 ttft of at most 1 s (nothing was measured)");
}

// An infinite figure is not shown as a number; the message states its cause.
TEST(MissedSlo, WhatIsBeyondMeasureSaysWhy) {
  sched::Slo slo;
  slo.bounds.push_back({sched::Slo::Metric::ttft, 0.99, 2});
  sched::PointMetrics metrics;
  metrics.slo_values = {std::numeric_limits<double>::infinity()};
  metrics.requests_timed_out = 5;
  EXPECT_EQ(missed_slo(slo, metrics, false), "p99 ttft of at most 2 s (too many requests fail)");
  EXPECT_EQ(missed_slo(slo, metrics, true), "p99 ttft of at most 2 s (the queue grows without end)");
}

// Requests of 5 tokens of 10 ms take 50 ms each.
TEST_F(PointNotesTest, AColumnSaysWhetherTheSloIsMet) {
  const std::vector<std::string> columns = point_columns({});
  const auto column = static_cast<std::size_t>(std::find(columns.begin(), columns.end(), "slo_met") - columns.begin());
  const auto met = [&](const std::string& slo) {
    return plain_text(point_row(run_study(read(kTinyStudy + slo), {}).points.at(0)).at(column));
  };
  EXPECT_EQ(met("slo: {p90_latency: 60 ms}\n"), "true");
  EXPECT_EQ(met("slo: {p90_latency: 40 ms}\n"), "false");
  EXPECT_EQ(met(""), "") << "without an SLO there is no answer";
}

// A p4d has eight GPUs, and a replica at TP 2 uses two.
TEST_F(PointNotesTest, GpusWithoutReplicasAreSaid) {
  const auto idle = [&](const Overrides& overrides) {
    return unused_gpus(run_study(read(kSmallStudy, overrides), {}).points.at(0));
  };
  EXPECT_THAT(idle({{"deployment.tp", "2"}}),
              HasSubstr("6 of the 8 GPUs of ml.p4d.24xlarge are not used, but paid for"));
  EXPECT_THAT(idle({{"deployment.tp", "2"}, {"deployment.replicas", "5"}}),
              HasSubstr("6 of the 16 GPUs of 2 x ml.p4d.24xlarge"));
  EXPECT_EQ(idle({{"deployment.tp", "8"}}), "");
  EXPECT_EQ(unused_gpus(run_study(read(kTinyStudy), {}).points.at(0)), "") << "no hardware is stated";
  EXPECT_THAT(points_table("", {}, run_study(read(kSmallStudy), {}).points), HasSubstr("idle GPUs"));
}

// The profile was fitted on 8 to 128 users. An open loop far beyond capacity fills batches of hundreds, and one with
// rare requests has one sequence at a time.
TEST_F(PointNotesTest, LargeBatchesOfAnOpenLoopAreBeyondTheFit) {
  const auto reason = [&](const char* rate) {
    const Study study = read(
        std::string("model: qwen3-32b\ndtype: bf16\nhardware: {accelerator: h100-sxm, count: 2}\nengine: vllm-0.12\n"
                    "deployment: {tp: 2}\nworkload: {load: {poisson: {rate: ") +
        rate + "}}, lengths: {input: 1024, output: 128}, requests: 500}\n");
    return run_study(study, {}).points.at(0).extrapolates;
  };
  EXPECT_EQ(reason("6 /s"), "");  // about 2.5 s each, so 15 at a time
  EXPECT_THAT(reason("0.1 /s"), HasSubstr("a mean batch of less than 8 sequences"));
  EXPECT_THAT(reason("200 /s"), HasSubstr("a mean batch of more than 128 sequences"));
}

}  // namespace
}  // namespace plimsoll::study
