// SPDX-License-Identifier: Apache-2.0
#include "calibration/machine_calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "configs/this_machine.h"

namespace plimsoll::calibration {
namespace {

MachineCalibration example() {
  MachineCalibration c;
  c.description = "AVX2, 2 threads";
  c.date = "2026-11-21";
  c.command = "plimsoll calibrate";
  c.cores = 2;
  for (const std::int32_t ranks : {1, 2}) {
    ShareCalibration share;
    share.ranks = ranks;
    share.read_bandwidth = 30e9;
    share.multiply_add = 200e9;
    model::Accelerator& a = share.accelerator;
    a.fp32 = a.fp16 = a.bf16 = FlopsPerSecond(200e9 / ranks);
    a.memory = a.memory_visible = Bytes(16e9);
    a.memory_bandwidth = BytesPerSecond(30e9 / ranks);
    for (auto& k : a.coefficients)
      k = {.compute_efficiency = 0.8, .memory_efficiency = 0.75, .p = 2.5, .t0 = Seconds(3e-6), .residual = nullptr};
    auto table = std::make_shared<model::ResidualTable>();
    table->x = {0, 3.321928, 4};
    table->y = {18, 20};
    table->log_ratio = {0.1, -0.05, 0, 0.2, 0.01, 0.3};
    a.coefficients[0].residual = table;
    a.source = "probes";
    a.fit_source = "a test";
    if (ranks == 2) share.interconnect.all_reduce.push_back({2, {{Seconds(12e-6), BytesPerSecond(8e9)}}});
    share.interconnect.source = "measured";
    a.pointwise_kinds["sample"] = {
        .compute_efficiency = 1, .memory_efficiency = 0.1, .p = 1, .t0 = Seconds(7e-6), .residual = nullptr};
    c.shares.push_back(std::move(share));
  }
  c.rates = {28e9, 190e9};
  c.kernels = exec::TunedMachine{
      .tuning = {.bf16 = model::Bf16Products::avx512_bf16, .threads = 3},
      .read_bandwidth = 31e9,
      .multiply_add = 201e9,
      .products = {{.name = "avx512-bf16, 1 row", .reads = true, .fraction = 0.94, .chosen = {.ahead = 2048}},
                   {.name = "avx512-bf16, 64 rows",
                    .fraction = 1.8,
                    .chosen = {.tiles = 16, .depth = 512, .far = true},
                    .gain = 1.07}}};
  c.engine.host_step = Seconds(20e-6);
  c.engine.host_sequence = Seconds(1.5e-6);
  c.engine.calibrated_on = "a test";
  return c;
}

TEST(MachineFile, ReadsBackWhatWasCalibrated) {
  const configs::ThisMachine machine =
      configs::read_this_machine(configs::Document::from_text(machine_yaml(example()), "machine.yaml"));
  ASSERT_EQ(machine.shares.size(), 2U);
  const model::Accelerator& a = *machine.shares[1].accelerator;
  EXPECT_TRUE(a.calibrated);
  EXPECT_DOUBLE_EQ(a.fp32.value, 100e9);
  EXPECT_DOUBLE_EQ(a.memory_bandwidth.value, 15e9);
  const model::OpCoefficients& gemm = a.coefficients[0];
  EXPECT_DOUBLE_EQ(gemm.memory_efficiency, 0.75);
  EXPECT_DOUBLE_EQ(gemm.t0.count(), 3e-6);
  ASSERT_NE(gemm.residual, nullptr);
  EXPECT_EQ(gemm.residual->x, (std::vector<double>{0, 3.321928, 4}));
  EXPECT_EQ(gemm.residual->log_ratio, (std::vector<double>{0.1, -0.05, 0, 0.2, 0.01, 0.3}));
  EXPECT_DOUBLE_EQ(a.pointwise_kinds.at("sample").t0.count(), 7e-6);
  EXPECT_DOUBLE_EQ(machine.read_bandwidth, 28e9);
  EXPECT_DOUBLE_EQ(machine.multiply_add, 190e9);
  EXPECT_EQ(configs::tuning_of(configs::Document::from_text(machine_yaml(example()), "machine.yaml")),
            example().kernels->tuning);
  ASSERT_NE(machine.shares[1].interconnect, nullptr);
  EXPECT_DOUBLE_EQ(machine.shares[1].interconnect->all_reduce.at(0).segments.at(0).latency.count(), 12e-6);
  ASSERT_NE(machine.engine, nullptr);
  EXPECT_DOUBLE_EQ(machine.engine->host_sequence.count(), 1.5e-6);
  EXPECT_EQ(machine.engine->overlap, model::HostOverlap::none);
}

// The report says how near each product is to its limit, and by which choice.
TEST(MachineReport, PrintsWhatTheProbeOfTheKernelsChose) {
  const std::string report = machine_report(example());
  for (const char* text :
       {"read 31.0 GB/s", "multiply-add 201 GFLOP/s", "3 threads", "0.94 of reading", "2048 bytes ahead",
        "1.80 of the multiply-adds", "16 tiles, 512 deep, into the second cache", "x 1.07 faster than by default"})
    EXPECT_NE(report.find(text), std::string::npos) << text << "\n" << report;
}

// A calibration from a busy machine is used but not called calibrated: every prediction states why.
TEST(MachineFile, ACalibrationThatWasNotQuietIsNone) {
  MachineCalibration busy = example();
  busy.rates_spread = 0.34;
  const configs::ThisMachine machine =
      configs::read_this_machine(configs::Document::from_text(machine_yaml(busy), "machine.yaml"));
  EXPECT_FALSE(machine.shares[0].accelerator->calibrated);
  EXPECT_NE(machine.shares[0].accelerator->fit_source.find("one probe in five differs by more than 34 %"),
            std::string::npos);
}

// Predictions from calibrations of busy machines were wrong by hundreds of per cent, so these are refused with the
// reason. A calibration of a quiet machine, or of a GPU without held-out forwards, is kept.
TEST(MachineFile, AFitThatPredictsNothingIsNotWorthKeeping) {
  MachineCalibration calibration;
  ShareCalibration& share = calibration.shares.emplace_back();
  EXPECT_EQ(calibration_problem(calibration), "");
  share.held_out.count = 6;
  share.held_out.median = 0.06;
  EXPECT_EQ(calibration_problem(calibration), "");
  share.held_out.median = 3.1;
  EXPECT_NE(calibration_problem(calibration).find("310 %"), std::string::npos);
}

TEST(AllReduceFit, FindsTheTwoSegmentsThatMadeTheSamples) {
  std::vector<AllReduceSample> samples;
  for (double bytes = 1e3; bytes < 1e8; bytes *= 2)
    samples.push_back({bytes, std::min(10e-6 + bytes / 20e9, 35e-6 + bytes / 40e9)});
  const auto segments = fit_all_reduce(samples);
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_NEAR(segments[0].latency.count(), 10e-6, 1e-7);
  EXPECT_NEAR(segments[0].bandwidth.value, 20e9, 4e8);
  EXPECT_NEAR(segments[1].bandwidth.value, 40e9, 4e8);
}

// If one line explains all times, there is one segment. A cost that does not depend on the bytes must not become a
// bandwidth of 0.
TEST(AllReduceFit, KeepsToOneSegmentWhereItSuffices) {
  const auto one = fit_all_reduce({{1e3, 1e-5}, {1e4, 1e-5}, {1e5, 1e-5}, {1e6, 1e-5}});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_NEAR(one[0].latency.count(), 1e-5, 1e-9);
  EXPECT_GT(one[0].bandwidth.value, 1e12);
}

}  // namespace
}  // namespace plimsoll::calibration
