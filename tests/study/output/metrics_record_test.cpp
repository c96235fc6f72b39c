// SPDX-License-Identifier: Apache-2.0
#include "study/output/metrics_record.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <limits>

#include "model/error.h"
#include "study/run/run_study.h"
#include "tests/study/study_file.h"

namespace plimsoll::study {
namespace {

// Returns a double of any bits except a NaN, which equals nothing.
double any_double() {
  const auto value = std::bit_cast<double>(*rc::gen::arbitrary<std::uint64_t>());
  return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
}
std::optional<double> perhaps() { return *rc::gen::arbitrary<bool>() ? std::optional(any_double()) : std::nullopt; }

RC_GTEST_PROP(MetricsRecord, ComesBackToTheLastBit, ()) {
  sched::PointMetrics metrics;
  metrics.input_tokens_mean = any_double();
  metrics.requests_completed = *rc::gen::arbitrary<std::int64_t>();
  metrics.latency = {perhaps(), perhaps(), perhaps(), perhaps(), perhaps()};
  metrics.latency_per_token.p99 = perhaps();
  metrics.slo_attainment = perhaps();
  metrics.rejections = {{"kv_capacity", *rc::gen::arbitrary<std::int64_t>()}, {"max_model_len", 3}};
  metrics.slo_values = {any_double(), any_double()};
  metrics.steady = {.verdict = *rc::gen::element(sched::Steadiness::stable, sched::Steadiness::unstable,
                                                 sched::Steadiness::too_short),
                    .grows = *rc::gen::arbitrary<bool>(),
                    .reason = *rc::gen::element<std::string>("", "a, b, and c"),
                    .requests_needed = *rc::gen::arbitrary<std::int64_t>()};
  metrics.kv_last_block_mean = perhaps();
  metrics.time_other_s = any_double();
  if (*rc::gen::arbitrary<bool>()) {
    metrics.pools = sched::PoolMetrics{.transfer_mean = perhaps(),
                                       .transfer_p99 = perhaps(),
                                       .staging_blocks_peak = *rc::gen::arbitrary<std::int64_t>(),
                                       .local_prefill_share = any_double(),
                                       .time_queue_prefill = any_double(),
                                       .time_prefill = any_double(),
                                       .time_transfer = any_double(),
                                       .time_queue_decode = any_double(),
                                       .time_decode = any_double(),
                                       .prefill_busy = any_double(),
                                       .decode_busy = any_double(),
                                       .prefill_instance_s = perhaps()};
  }
  RC_ASSERT(read_metrics_record(metrics_record(metrics)) == metrics);
}

class SimulatedRecordTest : public StudyFolder {};

// A simulated point fills all fields that the property above leaves unset.
TEST_F(SimulatedRecordTest, KeepsASimulatedPoint) {
  const StudyResult result = run_study(read(kSmallStudy), {});
  const sched::PointMetrics& metrics = *result.points.at(0).metrics;
  EXPECT_EQ(read_metrics_record(metrics_record(metrics)), metrics);
}

TEST(MetricsRecordText, ThatIsCutOrForeignIsRefused) {
  const std::string whole = metrics_record({});
  EXPECT_EQ(read_metrics_record(whole), sched::PointMetrics{});
  EXPECT_THROW(static_cast<void>(read_metrics_record(whole.substr(0, whole.size() / 2))), DeviceError);
  EXPECT_THROW(static_cast<void>(read_metrics_record(whole + "1,")), DeviceError);
  EXPECT_THROW(static_cast<void>(read_metrics_record("")), DeviceError);
}

// The line of a fleet follows that of the metrics: both are recognised, and every row is read back.
TEST(MetricsRecord, AFleetComesBackRowByRow) {
  std::vector<sched::FleetRow> fleet(2);
  fleet[0].serving = 1;
  fleet[1].time = 12'000'000'001;
  fleet[1].starting = 2;
  fleet[1].serving = 3;
  fleet[1].draining = 4;
  fleet[1].failed = 5;
  fleet[1].instances = 6;
  const auto back = read_fleet_record(fleet_record(fleet));
  ASSERT_TRUE(back);
  ASSERT_EQ(back->size(), 2U);
  EXPECT_EQ(fleet_record(*back), fleet_record(fleet));
  EXPECT_EQ(back->at(1).time, 12'000'000'001);
  EXPECT_EQ(back->at(1).instances, 6);
  EXPECT_FALSE(read_fleet_record("outside the fitted range"));
}

}  // namespace
}  // namespace plimsoll::study
