// SPDX-License-Identifier: Apache-2.0
#include "validation/live_validation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/simulate.h"

namespace plimsoll::validation {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<configs::Catalogue> catalogue_of(double factor) {
  auto catalogue = std::make_shared<configs::Catalogue>(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  configs::ThisMachine machine;
  machine.cores = 2;
  model::Accelerator a = *catalogue->accelerator("generic-cpu");
  a.memory = a.memory_visible = Bytes(16e9);
  machine.shares.push_back({.accelerator = std::make_shared<const model::Accelerator>(a)});
  machine.interconnect = catalogue->interconnect("shared-memory");
  catalogue->set_machine("cpu", slowed(machine, factor));
  return catalogue;
}

study::Study study_on(double factor) {
  const char* text =
      "model: demo-llama-40m\ndtype: bf16\nhardware: this-machine\nengine: plimsoll-cpu\n"
      "workload:\n  load: {closed_loop: {concurrency: 1}}\n  lengths: {input: 64, output: 16}\n  requests: 8\n"
      "sweep:\n  workload.concurrency: [1, 2, 3, 4]\n";
  return study::Study(configs::Document::from_text(text, "live.yaml"), "live.yaml", {}, catalogue_of(factor));
}

// A machine that takes twice as long is also slower in its all-reduces, including those of a share's own link.
TEST(SlowedMachine, SlowsEveryLink) {
  model::Interconnect link;
  link.all_reduce.push_back({.ranks = 2, .segments = {}, .points = {{Bytes(1024), Seconds(3e-6)}}});
  configs::ThisMachine machine;
  machine.shares.push_back({.ranks = 2,
                            .accelerator = std::make_shared<model::Accelerator>(),
                            .interconnect = std::make_shared<model::Interconnect>(link)});
  machine.interconnect = std::make_shared<model::Interconnect>(link);
  const configs::ThisMachine slow = slowed(machine, 2);
  EXPECT_DOUBLE_EQ(slow.shares[0].interconnect->all_reduce[0].points[0].time.count(), 6e-6);
  EXPECT_DOUBLE_EQ(slow.interconnect->all_reduce[0].points[0].time.count(), 6e-6);
}

// The "measurement" is a simulation on a machine that is slower by a known factor.
LiveSettings settings_for(double truth) {
  LiveSettings settings;
  settings.measure = [truth](const study::PointResult& point, const load::Scenario&, const sim::RunOptions& options) {
    const study::Study other = study_on(truth);
    return sim::simulate(*study::resolve_point(other, point.index).scenario, options);
  };
  settings.quiet.probe = [] { return exec::SteadyRates{30e9, 200e9}; };
  settings.with_device_time = study_on;
  return settings;
}

TEST(LiveValidation, AMachineThatIsAsPredictedHasNoError) {
  const LiveValidation v = validate_live(study_on(1), settings_for(1));
  ASSERT_EQ(v.points.size(), 4U);
  for (const LiveMetric& metric : live_metrics()) {
    const ErrorSummary e = live_errors(v, metric);
    EXPECT_EQ(e.count, 4U);
    EXPECT_LT(e.mean, 1e-9) << metric.name;
  }
}

// The factor is fitted to half of the points; the errors are those of the other half.
TEST(LiveValidation, FitsTheDeviceOnAPartAndPredictsTheRest) {
  LiveSettings settings = settings_for(1.5);
  const ErrorSummary before = live_errors(validate_live(study_on(1), settings), live_metrics()[0]);
  EXPECT_EQ(before.count, 4U);
  EXPECT_GT(before.mean, 0.3);
  settings.fit_part = 0.5;
  const LiveValidation v = validate_live(study_on(1), settings);
  EXPECT_NEAR(v.device_factor, 1.5, 0.02);
  const ErrorSummary after = live_errors(v, live_metrics()[0]);
  EXPECT_EQ(after.count, 2U);
  EXPECT_LT(after.mean, 0.01);
  EXPECT_THAT(live_text(v), HasSubstr("2 fitted"));
}

TEST(LiveValidation, PointsThatAreNotQuietAreExcludedAndCounted) {
  LiveSettings settings = settings_for(1);
  int probes = 0;
  settings.quiet.most_attempts = 2;
  // Quiet before and after the first point, then noisy.
  settings.quiet.probe = [&probes] {
    return ++probes <= 2 ? exec::SteadyRates{30e9, 200e9} : exec::SteadyRates{20e9, 200e9};
  };
  const LiveValidation v = validate_live(study_on(1), settings);
  EXPECT_EQ(live_errors(v, live_metrics()[0]).count, 1U);
  EXPECT_THAT(live_text(v), HasSubstr("excluded: 3 not quiet"));
  EXPECT_THAT(live_csv(v), HasSubstr("tpot_mean_s"));
}

// The pools send KV ten times as fast as the study states. The measured speed is what the prediction uses, so the time
// of a transfer is predicted without an error; by the study's it would be far off.
TEST(LiveValidation, TransfersArePredictedAtTheMeasuredSpeed) {
  const study::Study study(
      configs::Document::from_text(
          "model: demo-llama-40m\ndtype: bf16\nhardware: this-machine\nengine: plimsoll-cpu\n"
          "deployment: {pools: {prefill: {replicas: 1}, decode: {replicas: 1}}, transfer: {bandwidth: 0.1 GB/s}}\n"
          "scheduler: {kv_blocks: 2000}\n"
          "workload: {load: {poisson: {rate: 4 /s}}, lengths: {input: 96, output: 8}, requests: 20}\n",
          "pools.yaml"),
      "pools.yaml", {}, catalogue_of(1));
  const auto measured = [](const load::Scenario& scenario) {
    load::TransferConfig transfer = scenario.pools->transfer;
    transfer.source_rate = transfer.target_rate = 1e9;
    transfer.launch_s = 2e-3;
    return transfer;
  };
  LiveSettings settings = settings_for(1);
  settings.measure = [&](const study::PointResult&, const load::Scenario& scenario, const sim::RunOptions& options) {
    load::Scenario faster = scenario;
    load::Pools pools = *scenario.pools;
    pools.transfer = measured(scenario);
    faster.pools = std::make_shared<const load::Pools>(pools);
    return sim::simulate(faster, options);
  };
  const auto error = [&](const LiveValidation& v) { return live_errors(v, live_metrics(v).back()); };
  EXPECT_GT(error(validate_live(study, settings)).mean, 1);
  settings.transfer = measured;
  const LiveValidation v = validate_live(study, settings);
  EXPECT_EQ(error(v).count, 1U);
  EXPECT_LT(error(v).mean, 1e-9);
  EXPECT_THAT(live_text(v), HasSubstr("KV leaves the prefill pool at 1 GB/s after 2 ms; the predictions use this"));
  const double transfer = v.points.front().simulated.metrics.value().pools.value().transfer_mean.value();
  EXPECT_GT(transfer, 2e-3);
  EXPECT_THAT(live_text(v), HasSubstr(fmt::format(" {:.4g}  +0.0 % |", 1e3 * transfer)))
      << "in ms, as the heading says";
  EXPECT_THAT(live_csv(v), HasSubstr("transfer_s_mean"));
}

}  // namespace
}  // namespace plimsoll::validation
