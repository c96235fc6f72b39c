// SPDX-License-Identifier: Apache-2.0
#include "study/run/bands.h"

#include <gtest/gtest.h>

#include <cmath>

#include "study/file/study.h"
#include "study/run/resolve.h"
#include "study/run/run_study.h"

namespace plimsoll::study {
namespace {

// A closed loop with one user at TP 1: every time is a sum of step times, so a factor on all steps is the same factor
// on latency.
constexpr const char* kStudy =
    "model: llama-2-7b\ndtype: fp16\nhardware: {accelerator: a100-sxm-40gb, count: 1}\nengine: ideal\n"
    "workload: {load: {closed_loop: {concurrency: 1}}, lengths: {input: 64, output: 32}, requests: 8}\n";

load::Scenario scenario_with(const model::TimeUncertainty& u, const std::string& text = kStudy) {
  const Study study(configs::Document::from_text(text, "study"), "study", {},
                    std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root()));
  ResolvedPoint point = resolve_point(study, 0);
  point.scenario->uncertainty = u;
  return *point.scenario;
}

sched::PointMetrics with_bands(const model::TimeUncertainty& u) {
  const load::Scenario scenario = scenario_with(u);
  sched::PointMetrics metrics = sim::simulate(scenario).metrics;
  add_bands(scenario, false, metrics);
  return metrics;
}

TEST(Bands, AFactorOnEveryStepIsOneOnTimesThatDoNotQueue) {
  const sched::PointMetrics m =
      with_bands({.decode_low = 0.9, .decode_high = 1.2, .prefill_low = 0.8, .prefill_high = 1.5});
  // Times are rounded to nanoseconds; a step takes milliseconds.
  EXPECT_NEAR(*m.tpot_mean_band.low / *m.tpot.mean, 0.9, 1e-6);
  EXPECT_NEAR(*m.tpot_mean_band.high / *m.tpot.mean, 1.2, 1e-6);
  EXPECT_NEAR(*m.ttft_mean_band.low / *m.ttft.mean, 0.8, 1e-6);
  EXPECT_NEAR(*m.ttft_mean_band.high / *m.ttft.mean, 1.5, 1e-6);
  EXPECT_LT(*m.output_tokens_per_s_band.low, m.output_tokens_per_s / 1.2 * 1.001);
  EXPECT_GT(*m.output_tokens_per_s_band.high, m.output_tokens_per_s / 0.9 * 0.999);
}

// With several users, tokens wait for others' prompts. Errors of steps with and without prompts are independent, so the
// squares of the logarithms of what each does alone add up: clearly less than both at once.
TEST(Bands, IndependentErrorsOfBothKindsOfStepsAddUpAsSquares) {
  std::string text = kStudy;
  text.replace(text.find("concurrency: 1"), 14, "concurrency: 8");
  text.replace(text.find("input: 64"), 9, "input: 900");
  text.replace(text.find("requests: 8"), 11, "requests: 80");
  const auto high = [&](double decode, double prefill) {
    const load::Scenario scenario =
        scenario_with({.decode_low = 1, .decode_high = decode, .prefill_low = 1, .prefill_high = prefill}, text);
    sched::PointMetrics metrics = sim::simulate(scenario).metrics;
    add_bands(scenario, false, metrics);
    return std::log(*metrics.tpot_mean_band.high / *metrics.tpot.mean);
  };
  const double decode = high(1.2, 1), prefill = high(1, 1.5), both = high(1.2, 1.5);
  EXPECT_GT(decode, 0.02);
  EXPECT_GT(prefill, 0.02);
  EXPECT_NEAR(both / std::hypot(decode, prefill), 1, 0.1);
  EXPECT_LT(both, 0.9 * (decode + prefill));
}

// Beyond the fit, bands come from the errors of left-out groups. For two departures from the fit, the squares of the
// logarithms add up: 0.3 and 0.4 give 0.5.
TEST(Bands, BeyondTheFitTheyAreThoseOfGroupsLeftOut) {
  model::EngineProfile engine;
  engine.uncertainty =
      model::TimeUncertainty{.decode_low = 0.95, .decode_high = 1.05, .prefill_low = 0.9, .prefill_high = 1.1};
  engine.uncertainty_beyond[model::Beyond::tp] = {
      .decode_low = std::exp(-0.3), .decode_high = std::exp(0.3), .prefill_low = 0.5, .prefill_high = 2};
  engine.uncertainty_beyond[model::Beyond::model] = {
      .decode_low = std::exp(-0.4), .decode_high = 1, .prefill_low = 1, .prefill_high = 1};
  EXPECT_DOUBLE_EQ(band_factors(engine, {}).decode_low, 0.95);
  EXPECT_DOUBLE_EQ(band_factors(engine, {model::Beyond::tp}).decode_high, std::exp(0.3));
  const model::TimeUncertainty both = band_factors(engine, {model::Beyond::tp, model::Beyond::model});
  EXPECT_NEAR(both.decode_low, std::exp(-0.5), 1e-12);
  EXPECT_NEAR(both.decode_high, std::exp(0.3), 1e-12);
  EXPECT_NEAR(both.prefill_high, 2, 1e-12);
  // Another version has the same errors as another model. Nothing is known about pipelining, so it has the widest
  // errors of all.
  EXPECT_DOUBLE_EQ(band_factors(engine, {model::Beyond::version}).decode_low, std::exp(-0.4));
  EXPECT_DOUBLE_EQ(band_factors(engine, {model::Beyond::version}).prefill_high, 1.1);  // at least that of the fit
  const model::TimeUncertainty pipeline = band_factors(engine, {model::Beyond::pipeline});
  EXPECT_DOUBLE_EQ(pipeline.decode_low, std::exp(-0.4));
  EXPECT_DOUBLE_EQ(pipeline.prefill_high, 2);
}

TEST(Bands, AProfileWithoutErrorsOfItsOwnHasWideOnes) {
  const model::TimeUncertainty u = band_factors(model::EngineProfile{}, {});
  EXPECT_LT(u.decode_low, 0.8);
  EXPECT_GT(u.decode_high, 1.3);
}

// With slow times, a load just below capacity exceeds it: no latency has an upper bound, but throughput does.
TEST(Bands, BeyondCapacityThereIsNoUpperBound) {
  std::string text = kStudy;
  text.replace(text.find("{closed_loop: {concurrency: 1}}"), 31, "{constant: {rate: 2 /s}}");
  text += "scheduler: {policy: none}\n";
  const auto catalogue = std::make_shared<const configs::Catalogue>(configs::Catalogue::default_root());
  text.replace(text.find("requests: 8"), 11, "requests: 400");
  const Study study(configs::Document::from_text(text, "study"), "study", {}, catalogue);
  ResolvedPoint point = resolve_point(study, 0);
  sched::PointMetrics metrics = sim::simulate(*point.scenario).metrics;
  ASSERT_EQ(metrics.steady.verdict, sched::Steadiness::stable);
  point.scenario->uncertainty =
      model::TimeUncertainty{.decode_low = 0.9, .decode_high = 4, .prefill_low = 0.9, .prefill_high = 4};
  add_bands(*point.scenario, false, metrics);
  EXPECT_TRUE(metrics.latency_mean_band.low.has_value());
  EXPECT_FALSE(metrics.latency_mean_band.high.has_value());
}

}  // namespace
}  // namespace plimsoll::study
