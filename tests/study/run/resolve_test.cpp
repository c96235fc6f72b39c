// SPDX-License-Identifier: Apache-2.0
#include "study/run/resolve.h"

#include "study/output/memory_table.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

class ResolveTest : public StudyFolder {
 protected:
  [[nodiscard]] ResolvedPoint resolve(const Overrides& overrides) const { return resolve_point(read(kSmallStudy, overrides), 0); }
};

TEST_F(ResolveTest, CostCountsWholeInstances) {
  // 9 replicas of TP 2: four fit the eight GPUs of an instance, so three instances at 37.688 USD/h (SageMaker, 2025-04).
  const ResolvedPoint point = resolve({{"deployment.tp", "2"}, {"deployment.replicas", "9"}});
  EXPECT_EQ(point.result.instances, 3);
  EXPECT_DOUBLE_EQ(*point.result.usd_per_hour, 3 * 37.688);
}

TEST_F(ResolveTest, OnDemandPricesDependOnTheDate) {
  // p4d.24xlarge: 32.77 USD/h in 2025-04, 21.96 in 2026-07.
  EXPECT_NEAR(*resolve({{"hardware", "p4d.24xlarge"}, {"price_date", "2025-04"}}).result.usd_per_hour, 32.77, 0.01);
  EXPECT_NEAR(*resolve({{"hardware", "p4d.24xlarge"}}).result.usd_per_hour, 21.96, 0.01);
}

TEST_F(ResolveTest, MaxMeansAllAcceleratorsOfAnInstance) {
  EXPECT_EQ(resolve({{"deployment.tp", "max"}}).scenario->tp, 8);
}

TEST_F(ResolveTest, StatedBlocksReplaceThePool) {
  EXPECT_EQ(resolve({{"scheduler.kv_blocks", "77"}}).scenario->kv.blocks, 77);
}

TEST_F(ResolveTest, ALargerShareOfMemoryGivesMoreBlocks) {
  const auto blocks = [&](const char* fraction) { return resolve({{"scheduler.mem_fraction", fraction}}).scenario->kv.blocks; };
  EXPECT_LT(blocks("0.5"), blocks("0.9"));
}

TEST_F(ResolveTest, UncalibratedFiguresAreFlagged) {
  const ResolvedPoint point = resolve({{"hardware", "{accelerator: l4, count: 1}"}});
  EXPECT_NE(point.result.extrapolates.find("l4"), std::string::npos);
  EXPECT_EQ(point.result.labels.hardware, "l4 x 1");
  EXPECT_FALSE(point.result.usd_per_hour.has_value());
}

TEST_F(ResolveTest, AConstantEngineNeedsNeitherModelNorHardware) {
  const ResolvedPoint point = resolve_point(read(kTinyStudy), 0);
  ASSERT_TRUE(point.scenario.has_value());
  EXPECT_TRUE(point.result.extrapolates.empty());
}

// The arithmetic of the JumpStart post: Llama 2 7B in fp16 on A10G (24 GB, 70 TFLOP/s, 600 GB/s) holds four sequences of
// 4096 tokens, its critical batch is 116, and naive attention does 62 operations a byte.
TEST_F(ResolveTest, MemoryRepeatsTheJumpStartPost) {
  const MemoryTable table = memory_table(read(kSmallStudy, {{"hardware", "ml.g5.2xlarge"}, {"scheduler.max_total", "4096"}}));
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_EQ(table.rows[0].max_kv_batch, 4);
  EXPECT_EQ(table.rows[0].critical_batch, 116);
  EXPECT_EQ(static_cast<int>(table.rows[0].attention_intensity), 62);
}

TEST_F(ResolveTest, MemoryHasARowForEachDeployment) {
  const MemoryTable table =
      memory_table(read(std::string(kSmallStudy) + "sweep: {deployment.tp: [1, 2], workload.concurrency: [1, 2, 4]}\n"));
  EXPECT_EQ(table.swept_keys, std::vector<std::string>{"deployment.tp"});
  EXPECT_EQ(table.rows.size(), 2U);
}

TEST(ShippedStudies, CanAllBeRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(PLIMSOLL_SOURCE_DIR) + "/configs/studies")) {
    SCOPED_TRACE(entry.path().string());
    const Study study(entry.path().string(), {}, shipped_catalogue());
    for (std::size_t i = 0; i < study.point_count(); ++i) EXPECT_FALSE(resolve_point(study, i).impossible.has_value());
    ++count;
  }
  EXPECT_GE(count, 7);
}

}  // namespace
}  // namespace plimsoll::study
