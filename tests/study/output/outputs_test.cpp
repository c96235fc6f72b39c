// SPDX-License-Identifier: Apache-2.0
#include "study/output/outputs.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "study/output/run_files.h"
#include "study/output/table_view.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

// Section 8 of the design, verbatim: other programs read these columns.
constexpr const char* kContract =
    "source,model,hardware,engine,dtype,tp,replicas,policy,load_kind,load_value,input_tokens_mean,output_tokens_mean,"
    "requests_completed,requests_rejected,requests_timed_out,preemptions,duration_s,requests_per_s,output_tokens_per_s,"
    "total_tokens_per_s,latency_mean_s,latency_p50_s,latency_p90_s,latency_p95_s,latency_p99_s,ttft_mean_s,ttft_p50_s,"
    "ttft_p90_s,ttft_p99_s,tpot_mean_s,tpot_p50_s,tpot_p90_s,tpot_p99_s,itl_mean_s,itl_p50_s,itl_p99_s,"
    "latency_per_token_p90_s,latency_per_token_mean_s,ttft_p95_s,itl_p95_s,batch_mean,kv_used_mean,kv_used_peak,"
    "kv_wasted_mean,slo_attainment,stable,usd_per_million_output_tokens,extrapolates,latency_mean_s_lo,latency_mean_s_"
    "hi,"
    "ttft_mean_s_lo,ttft_mean_s_hi,tpot_mean_s_lo,tpot_mean_s_hi,latency_per_token_p90_s_lo,latency_per_token_p90_s_hi,"
    "output_tokens_per_s_lo,output_tokens_per_s_hi,time_weights_s,time_kv_s,time_compute_s,time_allreduce_s,time_host_"
    "s,"
    "time_queue_s,time_preempt_s,time_other_s,latency_mean_ci95_s,output_tokens_per_s_ci95,in_system_mean,queue_mean,"
    "kv_internal_mean,kv_reserved_unused_mean,kv_external_mean,kv_last_block_mean,instances,usd_per_hour";
constexpr const char* kAdded =
    ",instance_hours,usd,replicas_mean,replica_starts,replica_failures,stable_reason,requests_needed,"
    "slo_met,ttft_first_wave_mean_s,ttft_steady_mean_s,ttft_steady_p99_s,latency_steady_mean_s,"
    "arrival_cv,turnaround_s\n";  // added later, at the end

TEST(PointsCsv, HasTheColumnsOfTheContract) {
  EXPECT_EQ(points_csv({}, {}), std::string(kContract) + kAdded);
  EXPECT_EQ(points_csv({"deployment.tp"}, {}), std::string("deployment.tp,") + kContract + kAdded);
}

TEST(Cells, AreWrittenShortAndQuoted) {
  EXPECT_EQ(csv_line({0.1, std::int64_t{3}, true, std::string("a,\"b\""), std::monostate{}}),
            "0.1,3,true,\"a,\"\"b\"\"\",\n");
  EXPECT_EQ(json_text(Cell()), "null");
  EXPECT_EQ(json_text(Cell(std::string("a\nb"))), "\"a\\nb\"");
  EXPECT_EQ(plain_text(number_cell(std::nan(""))), "");
  EXPECT_EQ(number_text(-0.0), "0");
}

class OutputsTest : public StudyFolder {
 protected:
  StudyResult run(const Study& study, const OutputChoice& choice) {
    Outputs outputs(study, choice);
    RunSettings settings{
        .keep_requests = choice.requests, .keep_decisions = choice.decisions, .keep_steps = choice.timeline};
    settings.on_point = [&](FinishedPoint& point) { outputs.add(point); };
    StudyResult result = run_study(study, settings);
    outputs.finish(result);
    return result;
  }
};

TEST_F(OutputsTest, TheResolvedStudyGivesTheSamePoints) {
  write("lengths.csv", "num_prefill_tokens,num_decode_tokens\n10,5\n20,3\n7,9\n");
  const std::string yaml = std::string(
      "study: pairs\nengine: {constant: {decode: 10 ms}}\nworkload:\n"
      "  load: {poisson: {rate: 4 /s}}\n  lengths: {trace: lengths.csv}\n  requests: 50\n"
      "sweep: {workload.rate: [1 /s, 3 /s], deployment.replicas: [1, 2]}\n");
  run(read(yaml, {{"seed", "7"}}), {.folder = file("first")});
  run(Study(file("first/study.yaml"), {}, shipped_catalogue()), {.folder = file("second/deeper")});
  const std::string points = read_text(file("first/points.csv"));
  EXPECT_EQ(std::count(points.begin(), points.end(), '\n'), 5);
  EXPECT_EQ(points, read_text(file("second/deeper/points.csv")));
}

// A file is found from any folder, even if only a swept value or an entry of `models` names it.
TEST_F(OutputsTest, TheResolvedStudyFindsSweptFiles) {
  write("short.csv", "num_prefill_tokens,num_decode_tokens\n10,5\n");
  write("long.csv", "num_prefill_tokens,num_decode_tokens\n100,50\n");
  const std::string head =
      "study: pairs\nengine: {constant: {decode: 10 ms}}\nmodel: llama-2-7b\nworkload:\n"
      "  load: {poisson: {rate: 1 /s}}\n  lengths: {trace: short.csv}\n  requests: 20\n";
  for (const char* const tail :
       {"sweep: {workload.lengths.trace: [short.csv, long.csv]}\n",
        "sweep: {workload: {lengths: {trace: [short.csv, long.csv]}}}\n",
        "models: [{model: llama-2-7b}, {model: llama-2-13b, workload.lengths.trace: long.csv}]\n"}) {
    const StudyResult first = run(read(head + tail), {.folder = file("first")});
    const StudyResult again =
        run(Study(file("first/study.yaml"), {}, shipped_catalogue()), {.folder = file("second/deeper")});
    ASSERT_EQ(again.points.size(), 2U) << tail;
    EXPECT_EQ(again.points[1].metrics->output_tokens_mean, 50) << tail;
    EXPECT_EQ(again.points[1].metrics->output_tokens_per_s, first.points[1].metrics->output_tokens_per_s) << tail;
  }
}

TEST_F(OutputsTest, OnePointOfOneReplicaHasPlainNames) {
  run(read(kTinyStudy), {.folder = file("out"), .requests = true, .decisions = true, .timeline = true});
  EXPECT_THAT(read_text(file("out/decisions.txt")), ::testing::StartsWith("1: P[r0:10]\n2: P[r1:10] D[r0]\n"));
  EXPECT_THAT(read_text(file("out/requests.csv")),
              ::testing::StartsWith(
                  "id,name,replica,arrival_s,dispatched_s,first_token_s,end_s,input_tokens,output_tokens,"
                  "generated_tokens,outcome,code,preemptions,priority\n0,r0,0,0,0,0.01,0.05,10,5,5,completed,,0,0\n"));
  const auto timeline = nlohmann::json::parse(read_text(file("out/timeline.json")));
  EXPECT_GT(timeline["traceEvents"].size(), 4U);
  EXPECT_FALSE(std::filesystem::exists(file("out/infeasible.csv")));
}

TEST_F(OutputsTest, SeveralPointsOrReplicasAreNumbered) {
  run(read(std::string(kTinyStudy) + "deployment: {replicas: 2}\nsweep: {seed: [1, 2]}\n"),
      {.folder = file("out"), .requests = true, .decisions = true});
  for (const char* const name : {"decisions-0-r0.txt", "decisions-0-r1.txt", "decisions-1-r0.txt", "decisions-1-r1.txt",
                                 "requests-0.csv", "requests-1.csv"}) {
    EXPECT_TRUE(std::filesystem::exists(file(std::string("out/") + name))) << name;
  }
}

// Two users on one replica are above the target of 1 at each of the first three points, so a second replica starts at
// 0.3 s. The 20 requests of 50 ms, two at a time, end before it serves.
TEST_F(OutputsTest, AFleetThatComesAndGoesHasItsFiles) {
  const std::string yaml =
      std::string(kTinyStudy) +
      "deployment: {autoscaling: {max: 2, target: 1, start_up: 1 s, metric: concurrency, period: 100 ms}}\n";
  const StudyResult result = run(read(yaml), {.folder = file("out")});
  const std::string rows = read_text(file("out/fleet.csv"));
  EXPECT_TRUE(rows.starts_with(
      "time_s,starting,serving,draining,failed,instances,instance_hours,usd\n0,0,1,0,0,1,0,\n0.3,1,1,0,0,2,"));
  EXPECT_NE(read_text(file("out/fleet.svg")).find("replicas over time"), std::string::npos);
  EXPECT_NE(read_text(file("out/fleet-cost.svg")).find("instance hours"), std::string::npos);
  const std::string table = points_table("fleet", {}, result.points);
  EXPECT_NE(table.find("replicas over time"), std::string::npos);
  EXPECT_EQ(points_table("fixed", {}, run(read(kTinyStudy), {}).points).find("replicas"), std::string::npos);
}

// Two studies share a folder, and both name the file of their only point requests.csv. A point whose file is no longer
// its own is run again; otherwise the folder would hold the requests of the other study.
TEST_F(OutputsTest, FilesThatAnotherStudyReplacedAreWrittenAgain) {
  const OutputChoice choice{
      .folder = file("out"), .requests = true, .decisions = true, .timeline = true, .resumable = true};
  std::size_t recalled = 0;
  const auto run_output = [&](const char* tokens) {
    const Study study = read(kSmallStudy, {{"workload.lengths.output", tokens}});
    Outputs outputs(study, choice);
    RunSettings settings{.keep_requests = true, .keep_decisions = true, .keep_steps = true};
    settings.recall = [&](PointResult& point) { return outputs.recall(point); };
    settings.on_point = [&](FinishedPoint& point) {
      if (!point.recalled) outputs.add(point);
    };
    outputs.finish(run_study(study, settings));
    recalled = outputs.recalled();
    return read_text(file("out/requests.csv")) + read_text(file("out/decisions.txt")) +
           read_text(file("out/timeline.json"));
  };
  const std::string first = run_output("8"), second = run_output("9");
  ASSERT_NE(first, second);
  EXPECT_EQ(run_output("9"), second);
  EXPECT_EQ(recalled, 1U);
  EXPECT_EQ(run_output("8"), first);
  EXPECT_EQ(recalled, 0U);
  std::filesystem::remove(file("out/timeline.json"));
  EXPECT_EQ(run_output("8"), first);
}

TEST_F(OutputsTest, WhatCannotExistIsListed) {
  const Study study = read(std::string(kSmallStudy) + "sweep: {deployment.tp: [1, 3]}\n");
  run(study, {.folder = file("out")});
  EXPECT_THAT(read_text(file("out/infeasible.csv")), ::testing::StartsWith("deployment.tp,reason\n3,"));
}

TEST_F(OutputsTest, NothingHalfWrittenIsLeft) {
  run(read(kTinyStudy), {.folder = file("out")});
  for (const auto& entry : std::filesystem::directory_iterator(file("out")))
    EXPECT_NE(entry.path().extension(), ".tmp");
}

}  // namespace
}  // namespace plimsoll::study
