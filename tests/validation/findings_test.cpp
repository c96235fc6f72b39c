// SPDX-License-Identifier: Apache-2.0
// The shipped studies must reproduce the findings of the AWS posts: orderings and ratios, not single figures.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "study/file/study.h"
#include "study/run/run_study.h"

namespace plimsoll {
namespace {

using Points = std::vector<study::PointResult>;

std::shared_ptr<const configs::Catalogue> catalogue() {
  static const auto shared = std::make_shared<const configs::Catalogue>(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  return shared;
}

Points run_file(const std::string& name, const study::Overrides& overrides = {}) {
  const study::Study s(std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies/" + name, overrides, catalogue());
  return study::run_study(s, {}).points;
}

Points run_text(const std::string& text) {
  const study::Study s(configs::Document::from_text(text, "study"), "study", {}, catalogue());
  return study::run_study(s, {}).points;
}

double throughput(const study::PointResult& p) { return p.metrics->output_tokens_per_s; }

double best(const Points& points, const std::string& policy) {
  double value = 0;
  for (const study::PointResult& p : points)
    if (p.labels.policy == policy) value = std::max(value, throughput(p));
  return value;
}

const study::PointResult& at(const Points& points, const std::string& policy, double load) {
  return *std::find_if(points.begin(), points.end(),
                       [&](const auto& p) { return p.labels.policy == policy && p.labels.load_value == load; });
}

// LMI post, 32 -> 128 tokens: continuous batching has several times the throughput of dynamic batching. The post's
// factor of ten applies to goodput, if requests wait so long for a dynamic batch that they exceed the limit of 60 s.
TEST(LmiPost, RollingBeatsDynamicWhenOutputsAreLong) {
  const Points points = run_file("lmi-falcon-40b.yaml");
  EXPECT_GE(best(points, "rolling") / best(points, "dynamic"), 4);
  EXPECT_GT(at(points, "dynamic", 64).metrics->requests_timed_out, 0);
  EXPECT_GE(throughput(at(points, "rolling", 64)) / throughput(at(points, "dynamic", 64)), 10);
}

// 256 -> 32 tokens: prefills dominate (all-reduces of whole prompts over PCIe) and the advantage shrinks. The post's
// factor of two is for goodput: its dynamic run had a p90 latency of 59 s, close to the 60 s limit.
TEST(LmiPost, RollingBeatsDynamicLessWhenInputsAreLong) {
  const Points points = run_file("lmi-falcon-40b-prefill.yaml");
  const double ratio = best(points, "rolling") / best(points, "dynamic");
  EXPECT_GT(ratio, 1.5);
  EXPECT_LT(ratio, 4);
  EXPECT_GT(throughput(at(points, "rolling", 128)) / throughput(at(points, "dynamic", 128)), 2);
}

// vLLM post: contiguous reservation wastes 60-80 % of what it reserves, paging under 4 %, on the same lengths.
TEST(KvWaste, ContiguousAgainstPaged) {
  const Points points = run_file("kv-waste.yaml");
  ASSERT_EQ(points.size(), 2U);
  const auto wasted = [](const study::PointResult& p) {
    return *p.metrics->kv_internal_mean + *p.metrics->kv_reserved_unused_mean + *p.metrics->kv_external_mean +
           *p.metrics->kv_last_block_mean;
  };
  EXPECT_GT(wasted(points[0]), 0.6);
  EXPECT_LT(wasted(points[0]), 0.8);
  EXPECT_LT(wasted(points[1]), 0.04);
}

std::string jumpstart(const std::string& hardware, const std::string& deployment, int input, const std::string& loads) {
  return "model: llama-2-7b\nhardware: " + hardware + "\nengine: tgi-1.1\ndeployment: " + deployment +
         "\nscheduler: {max_concurrent: 512, max_total: 4096, max_input: 4095, max_batch_prefill_tokens: 4096}\n"
         "workload: {load: {jumpstart: {concurrency: 1}}, lengths: {input: " +
         std::to_string(input) +
         ", output: 256}}\n"
         "sweep: {workload.concurrency: " +
         loads + "}\n";
}

double peak(const Points& points) {
  double value = 0;
  for (const study::PointResult& p : points) value = std::max(value, throughput(p));
  return value;
}

// JumpStart post: on the eight GPUs of a p4d, eight replicas of TP 1 carry far more than one of TP 8.
TEST(JumpStartPost, EightReplicasOfTp1BeatOneOfTp8) {
  const char* const loads = "[64, 256, 512, 1024, 2048]";
  const double many = peak(run_text(jumpstart("ml.p4d.24xlarge", "{tp: 1, replicas: 8}", 256, loads)));
  const double one = peak(run_text(jumpstart("ml.p4d.24xlarge", "{tp: 8, replicas: 1}", 256, loads)));
  EXPECT_GT(many, 2 * one);
}

// JumpStart post: on a p4d, TP 4 is the best single replica of 7B. With more GPUs, host time and all-reduces consume
// the gain.
TEST(JumpStartPost, FourGpusMakeTheBestSingleReplica) {
  const auto best = [](int tp) {
    return peak(run_text(
        jumpstart("ml.p4d.24xlarge", "{tp: " + std::to_string(tp) + ", replicas: 1}", 256, "[128, 256, 512]")));
  };
  const double four = best(4);
  for (const int tp : {1, 2, 8}) EXPECT_GT(four, best(tp)) << tp;
}

// The knee (here the load at which latency has doubled) moves right as the number of instances grows.
TEST(JumpStartPost, TheKneeMovesRightWithInstances) {
  const auto knee = [](int instances) {
    const Points points = run_text(jumpstart("ml.g5.2xlarge", "{tp: 1, replicas: " + std::to_string(instances) + "}",
                                             256, "[1, 2, 4, 8, 16, 32, 64, 128]"));
    for (const study::PointResult& p : points)
      if (*p.metrics->latency_per_token.p90 > 2 * *points.front().metrics->latency_per_token.p90)
        return p.labels.load_value;
    return 1e9;
  };
  EXPECT_LT(knee(1), knee(2));
  EXPECT_LT(knee(2), knee(4));
}

// With longer contexts, fewer sequences fill the memory, so the batch that can run together shrinks.
TEST(JumpStartPost, LongerContextsLowerTheConcurrency) {
  const auto batch = [](int input) {
    return run_text(jumpstart("ml.g5.2xlarge", "{tp: 1}", input, "[64]")).front().metrics->batch_mean;
  };
  EXPECT_GT(batch(256), 5 * batch(3840));
}

}  // namespace
}  // namespace plimsoll
