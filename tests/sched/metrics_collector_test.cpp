// SPDX-License-Identifier: Apache-2.0
#include "sched/metrics_collector.h"

#include <gtest/gtest.h>

#include <limits>

namespace plimsoll::sched {
namespace {

constexpr Nanos kSecond = 1'000'000'000;

/// Returns a completed request; times are in whole seconds.
RequestResult completed(Nanos sent, Nanos first, Nanos end, Tok output) {
  return {.sent = sent * kSecond,
          .first_token = first * kSecond,
          .end = end * kSecond,
          .input = 10,
          .output = output,
          .generated = output};
}

RequestResult failed(Outcome outcome, Nanos sent) {
  return {.sent = sent * kSecond,
          .end = (sent + 1) * kSecond,
          .input = 10,
          .output = 10,
          .generated = 7,
          .outcome = outcome};
}

/// Adds one request per second, each of two seconds, for a single server: half of the offered load is served.
void add_overload(MetricsCollector& out) {
  for (Nanos i = 0; i < 100; ++i) {
    RequestResult result = completed(i, 2 * i + 1, 2 * i + 2, 2);
    result.queue_s = static_cast<double>(i);
    out.add(result);
  }
  out.end_run({0, 200, 0, 0}, {.kind = OfferedLoad::Kind::open, .last_sent_s = 99, .rate = 1, .gap_scv = 0});
}

MetricsCollector streaming(Slo slo = {}, double warmup = 0) { return {std::move(slo), Seconds(warmup), false}; }

// 50 000 requests of a closed loop, 30 of them its first wave, are more than are kept: every fourth is. Histograms have
// bins of 0.2 %; sums and counts are exact. With half of them the bounded one keeps everything, and nothing differs.
TEST(MetricsCollector, BoundedMemoryKeepsTheFigures) {
  const Slo slo{.bounds = {{Slo::Metric::ttft, 0.9, 1}, {Slo::Metric::latency, -1, 100}},
                .min_output_tokens_per_s = {},
                .min_requests_per_s = {},
                .max_timeout_rate = {},
                .min_goodput = {}};
  for (const int requests : {16'000, 50'000}) {
    MetricsCollector whole = streaming(slo), bounded = streaming(slo);
    bounded.bound_memory();
    std::uint64_t draw = 1;
    for (int i = 0; i < requests; ++i) {
      draw = draw * 6364136223846793005U + 1442695040888963407U;
      const Nanos sent = Nanos{i} * kSecond / 10, ttft = kSecond / 100 + static_cast<Nanos>(draw >> 35U);
      RequestResult result{.sent = sent, .first_token = sent + ttft, .end = sent + 3 * ttft, .input = 5, .output = 9};
      result.first_wave = i < 30;
      for (MetricsCollector* const each : {&whole, &bounded}) each->add(result);
    }
    const OfferedLoad load{.kind = OfferedLoad::Kind::closed, .last_sent_s = 0.1 * requests, .clients = 30};
    for (MetricsCollector* const each : {&whole, &bounded}) each->end_run({0, 0.1 * requests, 1, 1}, load);
    const PointMetrics a = whole.metrics(), b = bounded.metrics();
    if (requests < 16'384) {
      EXPECT_EQ(a, b);
      continue;
    }
    EXPECT_EQ(a.requests_completed, b.requests_completed);
    EXPECT_EQ(a.steady, b.steady);
    EXPECT_DOUBLE_EQ(a.output_tokens_per_s, b.output_tokens_per_s);
    EXPECT_NEAR(*a.ttft.mean / *b.ttft.mean, 1, 1e-9);
    EXPECT_NEAR(*a.ttft_first_wave_mean / *b.ttft_first_wave_mean, 1, 1e-9);
    for (const auto quantiles : {&PointMetrics::ttft, &PointMetrics::latency, &PointMetrics::tpot}) {
      EXPECT_NEAR(*(a.*quantiles).p50 / *(b.*quantiles).p50, 1, 0.002);
      EXPECT_NEAR(*(a.*quantiles).p99 / *(b.*quantiles).p99, 1, 0.002);
    }
    for (std::size_t i = 0; i < slo.bounds.size(); ++i) EXPECT_NEAR(a.slo_values[i] / b.slo_values[i], 1, 0.002);
    EXPECT_TRUE(b.latency_mean_ci95_s && b.output_tokens_per_s_ci95);
  }
}

TEST(MetricsCollector, OfNothingAreBlank) {
  const PointMetrics point = streaming().metrics();
  EXPECT_FALSE(point.latency.mean || point.ttft.p50 || point.tpot.p99 || point.itl.mean || point.slo_attainment);
  EXPECT_FALSE(point.latency_mean_ci95_s || point.kv_internal_mean);
  EXPECT_EQ(point.requests_per_s, 0);
  EXPECT_EQ(point.steady, SteadyState{});
}

TEST(MetricsCollector, FollowTheDefinitions) {
  MetricsCollector measurements = streaming();
  measurements.add(completed(0, 2, 10, 5));  // latency 10, TTFT 2, TPOT 8/4, 2 per token
  measurements.add(completed(5, 6, 11, 6));  // latency 6, TTFT 1, TPOT 5/5, 1 per token
  measurements.end_run({0, 20, 16, 4}, {});
  const PointMetrics point = measurements.metrics();
  EXPECT_DOUBLE_EQ(*point.latency.mean, 8);
  EXPECT_DOUBLE_EQ(*point.latency.p50, 8);  // halfway between the two
  EXPECT_DOUBLE_EQ(*point.latency.p90, 9.6);
  EXPECT_DOUBLE_EQ(*point.ttft.mean, 1.5);
  EXPECT_DOUBLE_EQ(*point.tpot.mean, 1.5);
  EXPECT_DOUBLE_EQ(*point.latency_per_token.p90, 1.9);
  EXPECT_EQ(point.requests_completed, 2);
  EXPECT_DOUBLE_EQ(point.requests_per_s, 0.1);
  EXPECT_DOUBLE_EQ(point.output_tokens_per_s, 11 / 20.0);
  EXPECT_DOUBLE_EQ(point.total_tokens_per_s, 31 / 20.0);
  EXPECT_DOUBLE_EQ(point.input_tokens_mean, 10);
  EXPECT_DOUBLE_EQ(point.output_tokens_mean, 5.5);
  EXPECT_DOUBLE_EQ(point.in_system_mean, 0.8);
  EXPECT_DOUBLE_EQ(point.queue_mean, 0.2);
}

using Metric = Slo::Metric;

Slo bounds(std::vector<Slo::Bound> all) {
  Slo slo;
  slo.bounds = std::move(all);
  return slo;
}

TEST(MetricsCollector, KnowTheStatisticOfEveryBound) {
  MetricsCollector measurements =
      streaming(bounds({{Metric::latency, 0.75, 1}, {Metric::ttft, -1, 1}, {Metric::tpot, 0.5, 1}}));
  measurements.add(completed(0, 2, 10, 5));
  measurements.add(completed(5, 6, 11, 6));
  measurements.end_run({0, 20, 16, 4}, {});
  // Three quarters of the way between latencies 6 and 10, TTFT 1 and 2, TPOT 1 and 2.
  EXPECT_EQ(measurements.metrics().slo_values, (std::vector<double>{9, 1.5, 1.5}));
}

TEST(MetricsCollector, ARequestThatFailedIsLateForEveryBound) {
  MetricsCollector measurements =
      streaming(bounds({{Metric::latency, 0.5, 1}, {Metric::latency, 0.9, 1}, {Metric::latency, -1, 1}}));
  for (Nanos latency = 1; latency <= 3; ++latency) measurements.add(completed(0, 1, latency, 5));
  measurements.add(failed(Outcome::timed_out, 0));
  measurements.add(failed(Outcome::rejected, 0));
  measurements.end_run({0, 20, 16, 4}, {});
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  // 1, 2, 3, inf, inf: the median is the third; the 0.9 quantile is between the two failed requests.
  EXPECT_EQ(measurements.metrics().slo_values, (std::vector<double>{3, kInfinite, kInfinite}));
}

TEST(MetricsCollector, BeyondCapacityNoBoundOnTimeIsMet) {
  MetricsCollector measurements = streaming(bounds({{Metric::latency_per_token, 0.5, 1}}));
  add_overload(measurements);
  EXPECT_EQ(measurements.metrics().slo_values, std::vector<double>{std::numeric_limits<double>::infinity()});
}

TEST(MetricsCollector, LatencyCountsFromTheIntendedSendTime) {
  MetricsCollector measurements = streaming();
  measurements.add(completed(3, 4, 5, 2));
  EXPECT_DOUBLE_EQ(*measurements.metrics().latency.mean, 2);
}

TEST(MetricsCollector, OneTokenHasNoTimeBetweenTokens) {
  MetricsCollector measurements = streaming();
  measurements.add(completed(0, 2, 2, 1));
  EXPECT_FALSE(measurements.metrics().tpot.mean);
  measurements.add(completed(0, 2, 5, 2));
  EXPECT_DOUBLE_EQ(*measurements.metrics().tpot.p99, 3);
}

TEST(MetricsCollector, ABatchThatReturnsAsAWholeHasNoTokenTimes) {
  MetricsCollector measurements({}, Seconds(0), true);
  measurements.add(completed(0, 2, 10, 5));
  LogHistogram itl;
  itl.add(1, 4);
  measurements.add_itl(itl);
  const PointMetrics point = measurements.metrics();
  EXPECT_DOUBLE_EQ(*point.ttft.mean, 10);
  EXPECT_EQ(point.ttft.p99, point.latency.p99);
  EXPECT_FALSE(point.tpot.mean || point.itl.mean || point.itl.p50);
}

TEST(MetricsCollector, TimesBetweenTokensComeFromTheHistograms) {
  MetricsCollector measurements = streaming();
  LogHistogram one, two;
  one.add(0.02, 98);
  two.add(0.5, 2);
  measurements.add_itl(one);
  measurements.add_itl(two);
  const PointMetrics point = measurements.metrics();
  EXPECT_NEAR(*point.itl.mean, (98 * 0.02 + 2 * 0.5) / 100, 1e-12);
  EXPECT_NEAR(*point.itl.p50, 0.02, 0.02e-3);
  EXPECT_NEAR(*point.itl.p99, 0.5, 0.5e-3);
}

TEST(MetricsCollector, FailedRequestsCountButTheirTokensDoNot) {
  MetricsCollector measurements = streaming();
  measurements.add(completed(0, 1, 2, 4));
  measurements.add(failed(Outcome::timed_out, 0));
  measurements.add(failed(Outcome::timed_out, 1));
  RequestResult refused = failed(Outcome::rejected, 1);
  refused.code = "max_model_len";
  measurements.add(refused);
  measurements.add(failed(Outcome::cancelled, 1));
  measurements.end_run({0, 4, 0, 0}, {});
  const PointMetrics point = measurements.metrics();
  EXPECT_EQ(point.requests_completed, 1);
  EXPECT_EQ(point.requests_timed_out, 2);
  EXPECT_EQ(point.requests_rejected, 1);
  EXPECT_EQ(point.rejections, (std::map<std::string, std::int64_t>{{"max_model_len", 1}}));
  EXPECT_DOUBLE_EQ(point.output_tokens_per_s, 1);
  EXPECT_DOUBLE_EQ(*point.latency.mean, 2);
}

TEST(MetricsCollector, RequestsSentDuringWarmupAreLeftOut) {
  MetricsCollector measurements = streaming({}, 5);
  measurements.add(completed(4, 5, 9, 4));
  measurements.add(failed(Outcome::rejected, 4));
  measurements.add(completed(5, 6, 7, 4));
  measurements.end_run({5, 9, 0, 0}, {});
  const PointMetrics point = measurements.metrics();
  EXPECT_EQ(point.requests_completed, 1);
  EXPECT_EQ(point.requests_rejected, 0);
  EXPECT_DOUBLE_EQ(*point.latency.mean, 2);
  EXPECT_DOUBLE_EQ(point.output_tokens_per_s, 1);
}

TEST(MetricsCollector, AttainmentAsksEveryBoundOfEveryRequest) {
  Slo slo;
  slo.bounds = {{Metric::latency, 0.9, 10}, {Metric::ttft, -1, 2}, {Metric::tpot, 0.5, 1.5}, {Metric::itl, 0.99, 1e-9}};
  MetricsCollector measurements = streaming(slo);
  measurements.add(completed(0, 2, 8, 5));  // meets all: 8 <= 10, 2 <= 2, 6/4 <= 1.5
  measurements.add(completed(0, 3, 8, 5));  // TTFT too long
  measurements.add(completed(0, 2, 9, 5));  // TPOT 7/4
  measurements.add(completed(0, 1, 1, 1));  // one token has no TPOT to violate
  measurements.add(failed(Outcome::timed_out, 0));
  EXPECT_DOUBLE_EQ(*measurements.metrics().slo_attainment, 2 / 5.0);
}

TEST(MetricsCollector, AttainmentIsBlankWithoutABoundOnRequests) {
  Slo slo;
  slo.bounds = {{Slo::Metric::itl, 0.99, 1}};
  slo.min_requests_per_s = 1;
  MetricsCollector measurements = streaming(slo);
  measurements.add(completed(0, 2, 8, 5));
  EXPECT_FALSE(measurements.metrics().slo_attainment);
}

// Requests without gaps meet a limit on ITL; but if all requests were refused, none was served in time.
TEST(MetricsCollector, AnItlLimitIsMissedWhereAllAreRefused) {
  Slo slo;
  slo.bounds = {{Slo::Metric::itl, 0.99, 1}};
  MetricsCollector refused = streaming(slo);
  refused.add(failed(Outcome::rejected, 0));
  EXPECT_EQ(refused.metrics().slo_values.at(0), std::numeric_limits<double>::infinity());
  MetricsCollector single = streaming(slo);
  single.add(failed(Outcome::rejected, 0));
  single.add(completed(0, 1, 1, 1));
  EXPECT_EQ(single.metrics().slo_values.at(0), 0);
}

TEST(MetricsCollector, TimePartsSumToTheMeanLatency) {
  MetricsCollector measurements = streaming();
  for (const Nanos end : {10, 20}) {
    RequestResult result = completed(0, 1, end, 5);
    result.queue_s = 2;
    result.preempt_s = 0.5;
    result.service = {.weights = 3, .kv = 1, .compute = 0.5, .allreduce = 0.25, .host = 0.25, .other = 0.125};
    measurements.add(result);
  }
  const PointMetrics point = measurements.metrics();
  EXPECT_DOUBLE_EQ(point.time_weights_s, 3);
  EXPECT_DOUBLE_EQ(point.time_kv_s, 1);
  EXPECT_DOUBLE_EQ(point.time_queue_s, 2);
  EXPECT_DOUBLE_EQ(point.time_preempt_s, 0.5);
  EXPECT_DOUBLE_EQ(point.time_other_s, 15 - 7.5);
}

TEST(MetricsCollector, KvIntegralsBecomeFractions) {
  MetricsCollector measurements = streaming();
  // Two replicas with pools of 100 tokens over ten seconds have 2000 token-seconds.
  const Integrals one{.busy_s = 5,
                      .batch = 20,
                      .used_tokens = 300,
                      .held_tokens = 500,
                      .internal = 50,
                      .reserved_unused = 100,
                      .external = 25,
                      .last_block = 50};
  measurements.add_replica(one, 80, 100, 3);
  measurements.add_replica({}, 10, 100, 0);
  measurements.end_run({10, 20, 0, 0}, {});
  const PointMetrics point = measurements.metrics();
  EXPECT_DOUBLE_EQ(point.kv_used_mean, 0.15);
  EXPECT_DOUBLE_EQ(point.kv_wasted_mean, 0.1);
  EXPECT_DOUBLE_EQ(point.kv_used_peak, 0.8);
  EXPECT_DOUBLE_EQ(point.batch_mean, 4);  // while a batch runs
  EXPECT_DOUBLE_EQ(*point.kv_internal_mean, 0.1);
  EXPECT_DOUBLE_EQ(*point.kv_reserved_unused_mean, 0.2);
  EXPECT_DOUBLE_EQ(*point.kv_external_mean, 0.05);
  EXPECT_DOUBLE_EQ(*point.kv_last_block_mean, 0.1);
  EXPECT_EQ(point.preemptions, 3);
}

TEST(MetricsCollector, ReplicationsArePooled) {
  MetricsCollector measurements = streaming();
  measurements.add(completed(0, 1, 2, 10));
  measurements.add_replica({.used_tokens = 100, .held_tokens = 100}, 10, 10, 0);
  measurements.end_run({0, 10, 5, 0}, {});
  measurements.add(completed(0, 1, 4, 50));
  measurements.add(completed(0, 1, 6, 60));
  measurements.add_replica({.used_tokens = 200, .held_tokens = 200}, 10, 10, 0);
  measurements.end_run({0, 30, 5, 0}, {});
  const PointMetrics point = measurements.metrics();
  EXPECT_DOUBLE_EQ(point.duration_s, 40);
  EXPECT_DOUBLE_EQ(point.output_tokens_per_s, 120 / 40.0);
  EXPECT_DOUBLE_EQ(*point.latency.mean, 4);
  EXPECT_DOUBLE_EQ(point.in_system_mean, 0.25);
  EXPECT_DOUBLE_EQ(point.kv_used_mean, 300 / 400.0);
  // Mean latencies per replication are 2 and 5, throughputs 1 and 110/30: t(1) s / sqrt(2) = 12.7062 |difference| / 2.
  EXPECT_NEAR(*point.latency_mean_ci95_s, 12.7062 * 1.5, 1e-3);
  EXPECT_NEAR(*point.output_tokens_per_s_ci95, 12.7062 * (110 / 30.0 - 1) / 2, 1e-3);
}

TEST(MetricsCollector, OneRunHasBatchMeansIntervals) {
  MetricsCollector measurements = streaming();
  for (Nanos i = 0; i < 300; ++i) measurements.add(completed(i, i + 1, i + 2 + i % 2, 10));
  measurements.end_run({0, 300, 0, 0}, {});
  const PointMetrics point = measurements.metrics();
  EXPECT_DOUBLE_EQ(*point.latency.mean, 2.5);
  EXPECT_NEAR(*point.latency_mean_ci95_s, 0, 1e-12);  // every batch of ten requests has the same mean
  EXPECT_LT(*point.output_tokens_per_s_ci95, 0.5);    // ends at the edges of the run cause small shifts
  EXPECT_GT(*point.output_tokens_per_s_ci95, 0);
}

TEST(MetricsCollector, ShortRunsHaveNoIntervals) {
  MetricsCollector measurements = streaming();
  for (Nanos i = 0; i < 40; ++i) measurements.add(completed(i, i + 1, i + 2, 10));
  measurements.end_run({0, 42, 0, 0}, {});
  EXPECT_FALSE(measurements.metrics().latency_mean_ci95_s);
  EXPECT_FALSE(measurements.metrics().output_tokens_per_s_ci95);
}

TEST(MetricsCollector, AnUnstablePointHasNoLatency) {
  Slo slo;
  slo.bounds = {{Slo::Metric::latency, 0.9, 10}};
  MetricsCollector measurements = streaming(slo);
  add_overload(measurements);
  const PointMetrics point = measurements.metrics();
  EXPECT_EQ(point.steady.verdict, Steadiness::unstable);
  EXPECT_EQ(point.steady.reason, "the backlog grows: 50 % of the offered load is served");
  EXPECT_FALSE(point.latency.mean || point.ttft.p90 || point.latency_per_token.p90 || point.slo_attainment);
  EXPECT_FALSE(point.latency_mean_ci95_s);
  EXPECT_TRUE(point.tpot.mean);
  EXPECT_DOUBLE_EQ(point.output_tokens_per_s, 1);
}

TEST(Quantile, IsType7) {
  std::vector<double> values{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 3.7);
}

}  // namespace
}  // namespace plimsoll::sched
