// SPDX-License-Identifier: Apache-2.0
#include "configs/this_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/catalogue.h"
#include "tests/scratch.h"

namespace plimsoll::configs {
namespace {

using ::testing::HasSubstr;

std::string accelerator(const char* indent, int gflops) {
  const std::string pad = indent, coefficients = ": {compute: 0.8, memory: 0.8, p: 2, t0: 5 us}\n";
  std::string text = pad + "fp32: " + std::to_string(gflops) + " GFLOP/s\n" + pad + "memory: 24 GB\n" + pad +
                     "memory_bandwidth: 30 GB/s\n" + pad + "efficiency:\n";
  for (const char* op : {"gemm", "moe_gemm", "prefill_attention", "decode_attention", "pointwise"})
    text += pad + "  " + op + coefficients;
  return text + pad + "  kernel_gap: 1 us\n" + pad + "  source: measured\n" + pad + "calibrated: true\n" + pad +
         "source: probes\n";
}

std::string machine(const std::string& version = "2", const std::string& fingerprint = machine_fingerprint()) {
  return "plimsoll_calibration: " + version + "\nfingerprint: " + fingerprint +
         "\nmachine: \"two cores\"\ncores: 2\ndevice: cpu\nshares:\n- ranks: 1\n  dtype: bf16\n  accelerator:\n" +
         accelerator("    ", 200) + "- ranks: 2\n  dtype: bf16\n  accelerator:\n" + accelerator("    ", 90) +
         "engine:\n  host: {step: 20 us, overlap: none}\n  memory: {fraction: 0.8}\n  scheduler: {policy: vllm_v1}\n"
         "  calibrated: true\n  calibrated_on: here\n";
}

ThisMachine read(const std::string& text) { return read_this_machine(Document::from_text(text, "machine.yaml")); }

TEST(ThisMachine, HasAnAcceleratorForEveryNumberOfRanksThatWasCalibrated) {
  const ThisMachine m = read(machine());
  EXPECT_EQ(share_of(m, 1).accelerator->fp32.value, 200e9);
  EXPECT_EQ(share_of(m, 2).accelerator->fp32.value, 90e9);
  EXPECT_TRUE(share_of(m, 2).accelerator->calibrated);
  ASSERT_NE(m.engine, nullptr);
  EXPECT_EQ(m.engine->id, "plimsoll-cpu");
}

// Four ranks on a machine calibrated for two: each gets half of a share, which is marked as not measured.
TEST(ThisMachine, DividesTheNearestForOtherNumbers) {
  const auto four = share_of(read(machine()), 4).accelerator;
  EXPECT_EQ(four->fp32.value, 45e9);
  EXPECT_EQ(four->memory_bandwidth.value, 15e9);
  EXPECT_FALSE(four->calibrated);
  EXPECT_THAT(four->fit_source, HasSubstr("2 ranks at once"));
}

// bf16 replaces types that were not measured, and the result states this. fp16 runs as bf16, so it counts as measured.
TEST(ThisMachine, SaysWhichTypeWasCalibrated) {
  const ThisMachine m = read(machine());
  EXPECT_TRUE(share_of(m, 1, model::DType::fp16).accelerator->calibrated);
  const auto f32 = share_of(m, 2, model::DType::fp32).accelerator;
  EXPECT_FALSE(f32->calibrated);
  EXPECT_EQ(f32->fp32.value, 90e9);
  EXPECT_THAT(f32->fit_source, HasSubstr("calibrated in bf16, not in fp32"));
}

TEST(ThisMachine, RefusesSharesThatDoNotBeginWithOneRank) {
  std::string text = machine();
  text.replace(text.find("- ranks: 1"), 10, "- ranks: 3");
  EXPECT_THAT(problem_of([&] { (void)read(text); }), HasSubstr("beginning with 1"));
}

TEST(ThisMachine, RefusesOtherVersionsAndOtherMachines) {
  EXPECT_THAT(problem_of([] { (void)read(machine("1")); }),
              HasSubstr("machine.yaml:1:23: found version 1, expected 2"));
  EXPECT_THAT(problem_of([] { (void)read(machine("2", "a-pdp-11")); }),
              HasSubstr("this calibration is of another machine: found 'a-pdp-11'"));
}

// Every field has another value than by default.
model::CpuTuning unusual_tuning() {
  const auto blocking = [](std::int64_t i) {
    return model::CpuBlocking{.tiles = 2 + i, .depth = 128 * (i + 1), .ahead = 100 + i, .far = i % 2 == 0};
  };
  const auto blockings = [&](std::int64_t i) {
    return model::CpuBlockings{
        .one = blocking(i), .tile = blocking(i + 1), .few = blocking(i + 2), .many = blocking(i + 3)};
  };
  return {.floats = blockings(0),
          .integers = blockings(4),
          .int4 = blockings(8),
          .bf16 = model::Bf16Products::amx,
          .threads = 7,
          .decode_parts = 3};
}

TEST(ThisMachine, ReadsBackTheTuningOfTheKernels) {
  const auto tuning = [](const std::string& text) { return tuning_of(Document::from_text(text, "machine.yaml")); };
  EXPECT_FALSE(tuning(machine()).has_value());
  EXPECT_EQ(tuning(machine() + "kernels:\n" + tuning_yaml(unusual_tuning(), "  ")), unusual_tuning());
}

// Older versions tuned 8 bits alone and a single row alone, and ran 4 bits and a tile of several rows alike.
TEST(ThisMachine, ReadsATuningWithoutInt4AndTiles) {
  std::string text = machine() + "kernels:\n" + tuning_yaml(unusual_tuning(), "  ");
  text.erase(text.find("  int4:\n"));
  for (std::size_t at = 0; (at = text.find("    tile:")) != std::string::npos;)
    text.erase(at, text.find('\n', at) + 1 - at);
  model::CpuTuning expected = unusual_tuning();
  expected.floats.tile = expected.floats.one;
  expected.integers.tile = expected.integers.one;
  expected.int4 = expected.integers;
  EXPECT_EQ(tuning_of(Document::from_text(text, "machine.yaml")), expected);
}

TEST(ThisMachine, RefusesATuningThatCannotBe) {
  const std::string good = machine() + "kernels:\n" + tuning_yaml(unusual_tuning(), "  ");
  const std::pair<const char*, const char*> replacements[] = {
      {"bf16: amx", "bf16: mmx"},     {"depth: 128", "depth: 100"},  {"depth: 256", "depth: 200"},
      {"tiles: 2", "tiles: 0"},       {"threads: 7", "threads: -1"}, {"threads: 7", "threads: 1025"},
      {"decode_parts: 3", "parts: 3"}};
  for (const auto& [from, to] : replacements) {
    std::string text = good;
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), std::string(from).size(), to);
    EXPECT_THAT(problem_of([&] { (void)read(text); }), HasSubstr("machine.yaml:")) << to;
  }
}

TEST(ThisMachine, RefusesCoefficientsThatCannotBe) {
  std::string text = machine();
  text.replace(text.find("memory_bandwidth: 30 GB/s"), 25, "memory_bandwidth: -3 GB/s");
  EXPECT_THAT(problem_of([&] { (void)read(text); }), HasSubstr("machine.yaml:"));
  text = machine();
  text.replace(text.find("compute: 0.8"), 12, "compute: .nan");
  EXPECT_THAT(problem_of([&] { (void)read(text); }), HasSubstr("machine.yaml:"));
  text = machine();
  text.replace(text.find("      moe_gemm"), 14, "      gemm_moe");
  EXPECT_THAT(problem_of([&] { (void)read(text); }), HasSubstr("gemm_moe"));
}

TEST(ThisMachine, AFingerprintCanBeAFileName) {
  EXPECT_THAT(machine_fingerprint(), ::testing::MatchesRegex("[a-z0-9-]+"));
}

}  // namespace
}  // namespace plimsoll::configs
