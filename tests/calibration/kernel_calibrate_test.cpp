// SPDX-License-Identifier: Apache-2.0
// Converts a table of kernels to an accelerator that predicts it, and back.
#include "calibration/kernel_calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "calibration/kernel_compare.h"
#include "tests/model/kernels.h"

namespace plimsoll::calibration {
namespace {

using ::testing::HasSubstr;

const std::string kRoot = std::string(PLIMSOLL_SOURCE_DIR) + "/configs";
constexpr const char* kDevice = "NVIDIA H100 80GB HBM3";

// Products of an imaginary H100: 5 us, plus the larger of memory time at 2.5 TB/s and arithmetic time at 600 TFLOP/s.
double seconds(double m, double n, double k) {
  return 5e-6 + std::max(2 * (n * k + m * (n + k)) / 2.5e12, 2 * m * n * k / 600e12);
}

std::string products(bool odd) {
  std::string text = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n";
  for (int n = 10; n <= 15; ++n) {
    for (int k = 10; k <= 14; ++k) {
      if ((n + k) % 2 != (odd ? 1 : 0)) continue;
      for (int m = 0; m <= 12; m += 2) {
        text += fmt::format("V,1,{},gemm,made,bfloat16,{},{},{},{}\n", kDevice, 1 << m, 1 << n, 1 << k,
                            1e3 * seconds(1 << m, 1 << n, 1 << k));
      }
    }
  }
  return text;
}

std::string reduces() {
  std::string text = "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n";
  for (const int ranks : {2, 8}) {
    for (int size = 8; size <= 20; ++size) {
      const double disturbed = ranks == 2 && size == 12 ? 5 : 1;
      text += fmt::format("T,2,{},all_reduce,NCCL,half,{},{},{}\n", kDevice, ranks, 1 << size,
                          disturbed * (0.004 * ranks + 1e-8 * (1 << size)));
    }
  }
  return text;
}

class KernelCalibration : public ::testing::Test {
 protected:
  KernelRows read(const std::string& text, const std::string& name) {
    return read_kernel_rows(folder_.write(text, name));
  }
  void write(const std::vector<FittedAccelerator>& fitted) {
    for (const auto& [name, bytes] : calibrated_files(fitted.front(), configs::Catalogue(kRoot))) {
      std::filesystem::create_directories(std::filesystem::path(folder_.path()) /
                                          std::filesystem::path(name).parent_path());
      folder_.write(bytes, name);
    }
  }
  [[nodiscard]] std::unique_ptr<const configs::Catalogue> calibrated() const {
    auto catalogue = std::make_unique<configs::Catalogue>(kRoot);
    catalogue->set_calibration(folder_.path());
    return catalogue;
  }
  model::KernelFolder folder_;
};

// Fits every other shape, like the black squares of a chessboard. The remaining shapes are predicted and flagged as
// unseen.
TEST_F(KernelCalibration, PredictsWhatItWasNotGiven) {
  const std::vector<KernelRows> given{read(products(false), "given.csv"), read(reduces(), "reduces.csv")};
  const auto fitted =
      fit_kernels(given, configs::Catalogue(kRoot),
                  {.source = "made up", .date = "2026-11-21", .command = {}, .hold_out = 0, .progress = {}});
  ASSERT_EQ(fitted.size(), 1U);
  EXPECT_EQ(fitted.front().id, "h100-sxm");
  EXPECT_THAT(fitted.front().head.source, HasSubstr("made up; "));
  write(fitted);
  const auto catalogue = calibrated();
  const KernelReport seen = compare_kernels({given.front()}, *catalogue);
  ASSERT_EQ(summarise(seen).size(), 1U);
  EXPECT_LT(summarise(seen).front().errors.mean, 0.0002);  // the rounding of the file: 1/8192 at most
  EXPECT_EQ(summarise(seen).front().unseen, 0U);
  const KernelReport unseen = compare_kernels({read(products(true), "other.csv")}, *catalogue);
  const KernelSummary summary = summarise(unseen).front();
  EXPECT_EQ(summary.unseen, summary.errors.count);
  EXPECT_LT(summary.errors.mean, 0.04);
  EXPECT_GT(summary.errors.mean, 0.0002);
  EXPECT_EQ(summary.outside, 0U);
}

TEST_F(KernelCalibration, KeepsAllReducesAsMeasuredButForDisturbedOnes) {
  const std::vector<KernelRows> given{read(reduces(), "reduces.csv")};
  const auto fitted =
      fit_kernels(given, configs::Catalogue(kRoot),
                  {.source = "made up", .date = "2026-11-21", .command = {}, .hold_out = 0, .progress = {}});
  ASSERT_EQ(fitted.front().all_reduce.size(), 2U);
  EXPECT_EQ(fitted.front().all_reduce[0].points.size(), 12U);  // one of 13 took five times its neighbours' time
  EXPECT_EQ(fitted.front().all_reduce[1].points.size(), 13U);
  write(fitted);
  const auto link = calibrated()->interconnect("nvswitch-h100");
  EXPECT_NEAR(model::all_reduce_time(*link, Bytes(3 * 1024.), 8).count(), 32e-6 + 1e-11 * 1536,
              1e-8);  // linear between 1 and 2 KiB elements
  EXPECT_NEAR(model::all_reduce_time(*link, Bytes(2 * 4096.), 2).count(), 8e-6 + 1e-11 * 4096,
              2e-8);  // the dropped size
}

// Comments and values that are not fitted stay; a second fit changes nothing.
TEST_F(KernelCalibration, ReplacesOnlyWhatWasFitted) {
  const auto fitted =
      fit_kernels({read(products(false), "given.csv")}, configs::Catalogue(kRoot),
                  {.source = "made up", .date = "2026-11-21", .command = {}, .hold_out = 0, .progress = {}});
  const std::string before =
      "# SPDX-License-Identifier: Apache-2.0\nname: H100\nbf16: 989.5 TFLOP/s\nefficiency:\n"
      "  gemm: {compute: 0.1, memory: 0.1, p: 2, t0: 1 us}\n  pointwise: {compute: 0.5, memory: 0.75, p: 3, t0: 3 "
      "us}\n  source: guessed\n"
      "calibrated: false\nnote: kept\nsource: kept\n";
  const std::string once = accelerator_text(before, fitted.front());
  EXPECT_EQ(accelerator_text(once, fitted.front()), once);
  EXPECT_THAT(once, HasSubstr("  pointwise: {compute: 0.5, memory: 0.75, p: 3, t0: 3 us}\n"));
  EXPECT_THAT(once, HasSubstr("kernels:\n  file: h100-sxm.kernels\n"));
  EXPECT_THAT(once, HasSubstr("note: kept\nsource: kept\n"));
  EXPECT_THAT(once, Not(HasSubstr("compute: 0.1,")));
  EXPECT_THAT(once, HasSubstr("calibrated: false\n"));  // attention was not measured
}

TEST_F(KernelCalibration, RefusesAFileThatLacksAnOpOrIsAnotherOnes) {
  const auto fitted =
      fit_kernels({read(products(false), "given.csv")}, configs::Catalogue(kRoot),
                  {.source = "made up", .date = "2026-11-21", .command = {}, .hold_out = 0, .progress = {}});
  write(fitted);
  const std::string yaml = calibrated_files(fitted.front(), configs::Catalogue(kRoot))[1].second;
  const auto problem = [&](const std::string& from, const std::string& to) {
    std::string text = yaml;
    text.replace(text.find(from), from.size(), to);
    folder_.write(text, "accelerators/h100-sxm.yaml");
    try {
      (void)calibrated()->accelerator("h100-sxm");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(problem("ops: [gemm]", "ops: [gemm]"), "no error");
  EXPECT_THAT(problem("ops: [gemm]", "ops: [gemm, moe]"),
              HasSubstr("h100-sxm.kernels holds no measured moe: calibrate again"));
  EXPECT_THAT(problem("file: h100-sxm.kernels", "file: lost.kernels"),
              HasSubstr("lost.kernels: no such file of measured kernels"));
  std::filesystem::copy_file(std::filesystem::path(folder_.path()) / "accelerators/h100-sxm.kernels",
                             std::filesystem::path(folder_.path()) / "accelerators/h200-sxm.kernels");
  EXPECT_THAT(problem("file: h100-sxm.kernels", "file: h200-sxm.kernels"),
              HasSubstr("holds kernels of another accelerator, h100-sxm"));
}

// The error for a damaged kernel file states the file's name, and the file can be written again.
TEST_F(KernelCalibration, NeedsNoKernelsToWriteThem) {
  const std::vector<KernelRows> given{read(products(false), "given.csv")};
  write(fit_kernels(given, configs::Catalogue(kRoot),
                    {.source = "made up", .date = "2026-11-21", .command = {}, .hold_out = 0, .progress = {}}));
  folder_.write("nonsense", "accelerators/h100-sxm.kernels");
  EXPECT_THROW((void)calibrated()->accelerator("h100-sxm"), InputError);
  configs::Catalogue alone(kRoot);
  alone.set_calibration(folder_.path());
  alone.leave_kernels_out();
  EXPECT_EQ(alone.accelerator("h100-sxm")->kernels, nullptr);
}

// Every shipped table is readable, states its source, and predicts left-out shapes better than the roofline alone.
TEST(ShippedKernels, AreWholeAndSayWhereTheyComeFrom) {
  const configs::Catalogue catalogue(kRoot);
  for (const char* const id : {"a100-sxm-40gb", "a100-sxm-80gb", "b200-sxm", "h100-sxm", "h200-sxm", "l40s"}) {
    const auto accelerator = catalogue.accelerator(id);
    ASSERT_NE(accelerator->kernels, nullptr) << id;
    EXPECT_TRUE(accelerator->calibrated) << id;
    const model::KernelFile& file = *accelerator->kernels;
    EXPECT_THAT(file.head().source, HasSubstr("NVIDIA")) << id;
    EXPECT_EQ(file.head().date.size(), 10U) << id;
    for (std::size_t i = 0; i < file.entries().size(); ++i) {
      const model::KernelTable& table = file.kernel(i).table();
      EXPECT_GT(table.points, 0) << id;
      EXPECT_LT(table.out_of_fit, table.roofline_error) << id << ' ' << model::name(table.op) << ' ' << table.kernel;
    }
  }
}

TEST(KernelFileText, ListsEveryMeasurement) {
  const model::KernelFolder folder;
  const std::string text = kernel_file_text(model::KernelFile(folder.write({model::square_table()})));
  EXPECT_THAT(text, HasSubstr("# table: gemm bfloat16  test"));
  EXPECT_THAT(text, HasSubstr("op,dtype,kv_dtype,kernel,n,k,m,log_ratio\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3 + 4 + 1 + 11);  // head, table, columns, measurements
}

}  // namespace
}  // namespace plimsoll::calibration
