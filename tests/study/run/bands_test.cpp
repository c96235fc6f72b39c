// SPDX-License-Identifier: Apache-2.0
#include "study/run/bands.h"

#include <gtest/gtest.h>

#include "study/run/resolve.h"
#include "study/run/run_study.h"
#include "study/file/study.h"

namespace plimsoll::study {
namespace {

// A closed loop of one user at TP 1: every time is a sum of step times, so that a factor on all of them is one on latency.
constexpr const char* kStudy =
    "model: llama-2-7b\ndtype: fp16\nhardware: {accelerator: a100-sxm-40gb, count: 1}\nengine: ideal\n"
    "workload: {load: {closed_loop: {concurrency: 1}}, lengths: {input: 64, output: 32}, requests: 8}\n";

load::Scenario scenario_with(const model::TimeUncertainty& u) {
  const Study study(configs::Document::from_text(kStudy, "study"), "study", {}, std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root()));
  ResolvedPoint point = resolve_point(study, 0);
  auto engine = std::make_shared<model::EngineProfile>(*point.scenario->engine);
  engine->uncertainty = u;
  point.scenario->engine = engine;
  return *point.scenario;
}

sched::PointMetrics with_bands(const model::TimeUncertainty& u, bool extrapolates) {
  const load::Scenario scenario = scenario_with(u);
  sched::PointMetrics metrics = sim::simulate(scenario).metrics;
  add_bands(scenario, extrapolates, metrics);
  return metrics;
}

TEST(Bands, AFactorOnEveryStepIsOneOnTimesThatDoNotQueue) {
  const sched::PointMetrics m = with_bands({.decode_low = 0.9, .decode_high = 1.2, .prefill_low = 0.8, .prefill_high = 1.5}, false);
  // Stamps are rounded to nanoseconds, a step takes milliseconds.
  EXPECT_NEAR(*m.tpot_mean_band.low / *m.tpot.mean, 0.9, 1e-6);
  EXPECT_NEAR(*m.tpot_mean_band.high / *m.tpot.mean, 1.2, 1e-6);
  EXPECT_NEAR(*m.ttft_mean_band.low / *m.ttft.mean, 0.8, 1e-6);
  EXPECT_NEAR(*m.ttft_mean_band.high / *m.ttft.mean, 1.5, 1e-6);
  EXPECT_LT(*m.output_tokens_per_s_band.low, m.output_tokens_per_s / 1.2 * 1.001);
  EXPECT_GT(*m.output_tokens_per_s_band.high, m.output_tokens_per_s / 0.9 * 0.999);
}

// Outside what was fitted the factors are squared.
TEST(Bands, ExtrapolationWidensThem) {
  const sched::PointMetrics m = with_bands({.decode_low = 0.9, .decode_high = 1.2, .prefill_low = 0.8, .prefill_high = 1.5}, true);
  EXPECT_NEAR(*m.tpot_mean_band.low / *m.tpot.mean, 0.81, 1e-6);
  EXPECT_NEAR(*m.tpot_mean_band.high / *m.tpot.mean, 1.44, 1e-6);
}

TEST(Bands, AProfileWithoutErrorsOfItsOwnHasWideOnes) {
  load::Scenario scenario = scenario_with({});
  auto engine = std::make_shared<model::EngineProfile>(*scenario.engine);
  engine->uncertainty.reset();
  const model::TimeUncertainty u = band_factors(*engine, false);
  EXPECT_LT(u.decode_low, 0.8);
  EXPECT_GT(u.decode_high, 1.3);
}

// At its slow end a load just below capacity is beyond it: no latency bounds it, but a throughput does.
TEST(Bands, BeyondCapacityThereIsNoUpperBound) {
  std::string text = kStudy;
  text.replace(text.find("{closed_loop: {concurrency: 1}}"), 31, "{constant: {rate: 2 /s}}");
  text += "scheduler: {policy: none}\n";
  const auto catalogue = std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  text.replace(text.find("requests: 8"), 11, "requests: 400");
  const Study study(configs::Document::from_text(text, "study"), "study", {}, catalogue);
  ResolvedPoint point = resolve_point(study, 0);
  sched::PointMetrics metrics = sim::simulate(*point.scenario).metrics;
  ASSERT_TRUE(metrics.stable);
  auto engine = std::make_shared<model::EngineProfile>(*point.scenario->engine);
  engine->uncertainty = model::TimeUncertainty{.decode_low = 0.9, .decode_high = 4, .prefill_low = 0.9, .prefill_high = 4};
  point.scenario->engine = engine;
  add_bands(*point.scenario, false, metrics);
  EXPECT_TRUE(metrics.latency_mean_band.low.has_value());
  EXPECT_FALSE(metrics.latency_mean_band.high.has_value());
}

}  // namespace
}  // namespace plimsoll::study
