// SPDX-License-Identifier: Apache-2.0
// Measurements generated from a known roofline and known ratios: the fit must find the roofline and predict the ratios.
#include "calibration/kernel_fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "calibration/kernel_calibrate.h"

namespace plimsoll::calibration {
namespace {

using model::KernelKey;
using model::KernelOp;

model::Accelerator device() {
  model::Accelerator a;
  a.id = "h100-sxm";
  a.fp16 = a.bf16 = FlopsPerSecond(1e15);
  a.memory_bandwidth = BytesPerSecond(3e12);
  a.last_level_cache = Bytes(50e6);
  return a;
}

const model::OpCoefficients kTrue{
    .compute_efficiency = 0.75, .memory_efficiency = 0.85, .p = 2.4, .t0 = Seconds(5e-6), .residual = nullptr};

// Products over a grid of shapes; each takes exp(ratio) times the time of the roofline.
std::vector<KernelMeasurement> measurements(const std::function<double(const KernelKey&, std::uint32_t)>& ratio) {
  std::vector<KernelMeasurement> rows;
  const model::Accelerator a = device();
  for (std::uint32_t n = 512; n <= 16384; n *= 2) {
    for (std::uint32_t k = 512; k <= 16384; k *= 2) {
      for (std::uint32_t m = 1; m <= 8192; m *= 4) {
        KernelMeasurement row;
        row.device = "NVIDIA H100 80GB HBM3";
        row.dtype = "bfloat16";
        row.kernel = "made";
        row.key = {n, k};
        row.column = m;
        const model::KernelWork work = model::kernel_work(KernelOp::gemm, row.key, m, 2);
        row.seconds = model::kernel_roofline(KernelOp::gemm, kTrue, {{a.bf16, a.memory_bandwidth}}, work) *
                      std::exp(ratio(row.key, m));
        row.line = rows.size() + 2;
        rows.push_back(row);
      }
    }
  }
  return rows;
}

std::vector<const KernelMeasurement*> pointers(const std::vector<KernelMeasurement>& rows) {
  std::vector<const KernelMeasurement*> out;
  for (const KernelMeasurement& row : rows) out.push_back(&row);
  return out;
}

TEST(KernelFit, FindsTheRooflineThatMadeTheTimes) {
  const auto rows = measurements([](const KernelKey&, std::uint32_t) { return 0.0; });
  const model::KernelTable table = fit_kernel_table(pointers(rows), device());
  EXPECT_NEAR(table.coefficients.compute_efficiency, 0.75, 0.01);
  EXPECT_NEAR(table.coefficients.memory_efficiency, 0.85, 0.01);
  EXPECT_NEAR(table.coefficients.p, 2.4, 0.05);
  EXPECT_NEAR(table.coefficients.t0.count(), 5e-6, 0.1e-6);
  EXPECT_LT(table.roofline_error, 0.005);
  EXPECT_EQ(table.points, static_cast<std::int64_t>(rows.size()));
}

// Ratios vary smoothly with the shape and have a step along the rows. Neighbours predict left-out shapes; the roofline
// alone errs by the size of the ratios.
TEST(KernelFit, PredictsShapesThatAreLeftOut) {
  const auto rows = measurements([](const KernelKey& key, std::uint32_t m) {
    return 0.15 * std::sin(0.8 * std::log2(key[0])) + 0.1 * std::cos(0.5 * std::log2(key[1])) + (m >= 64 ? 0.1 : 0.0);
  });
  const model::KernelTable table = fit_kernel_table(pointers(rows), device());
  EXPECT_GT(table.roofline_error, 0.06);
  EXPECT_LT(table.out_of_fit, 0.03);
  EXPECT_EQ(table.in_fit, 0);
}

TEST(KernelFit, IsTheSameEveryTimeInAnyOrder) {
  const auto rows = measurements(
      [](const KernelKey& key, std::uint32_t m) { return 0.1 * std::sin(static_cast<double>(key[0] + m)); });
  auto forth = pointers(rows), back = forth;
  std::reverse(back.begin(), back.end());
  const model::KernelTable a = fit_kernel_table(forth, device()), b = fit_kernel_table(back, device());
  EXPECT_EQ(model::kernel_file_bytes({}, {a}), model::kernel_file_bytes({}, {b}));
}

// A single time that is three times too long is replaced by its neighbours' prediction, but counts in the error.
TEST(KernelFit, ReplacesOutliersOfProducts) {
  auto rows = measurements([](const KernelKey&, std::uint32_t) { return 0.0; });
  for (std::size_t i = 5; i < rows.size(); i += 29) rows[i].seconds *= 3;
  const model::KernelTable table = fit_kernel_table(pointers(rows), device());
  EXPECT_GT(table.replaced, static_cast<std::int64_t>(rows.size() / 29) / 2);
  EXPECT_GT(table.in_fit, 0);  // the replaced measurement counts in the error
}

// A shape that is twice as slow in every row is kept, and helps to predict similar shapes. Single disturbed times are
// still replaced.
TEST(KernelFit, KeepsAShapeThatDiffersInAllItsRows) {
  auto rows =
      measurements([](const KernelKey& key, std::uint32_t) { return key[0] == 512 && key[1] == 16384 ? 0.7 : 0.0; });
  for (std::size_t i = 5; i < rows.size(); i += 29) rows[i].seconds *= 3;
  const model::KernelTable table = fit_kernel_table(pointers(rows), device());
  EXPECT_GT(table.replaced, 0);
  const auto site = std::find(table.sites.begin(), table.sites.end(), KernelKey{512, 16384});
  const auto first = static_cast<std::size_t>(site - table.sites.begin());
  ASSERT_LT(first, table.sites.size());
  for (std::size_t c = 0; c < table.columns.size(); ++c) EXPECT_NEAR(table.at(first, c), 0.7, 0.1) << table.columns[c];
}

// A 50 MB cache serves experts four times faster than memory. The fit finds this factor and predicts left-out layouts.
// For experts that were not read from a cache, it finds none.
TEST(KernelFit, FindsTheCacheThatBenchmarksOfExpertsReadFrom) {
  const auto times = [](const model::WarmCache& cache) {
    std::vector<KernelMeasurement> rows;
    for (std::uint32_t hidden = 1024; hidden <= 8192; hidden *= 2) {
      for (std::uint32_t tp = 1; tp <= 64; tp *= 2) {
        for (std::uint32_t tokens = 1; tokens <= 4096; tokens *= 4) {
          KernelMeasurement row;
          row.op = KernelOp::moe;
          row.dtype = "bfloat16";
          row.kernel = "made";
          row.key = {hidden, 4096, 2, 16, 101, tp, 1};
          row.column = tokens;
          const model::KernelWork work = model::kernel_work(KernelOp::moe, row.key, tokens, 2);
          row.seconds =
              model::kernel_roofline(KernelOp::moe, kTrue, {{device().bf16, device().memory_bandwidth}, cache}, work);
          rows.push_back(row);
        }
      }
    }
    return rows;
  };
  const model::KernelTable warm = fit_kernel_table(pointers(times({Bytes(50e6), 4})), device());
  EXPECT_EQ(warm.cache.bytes.value, 50e6);
  EXPECT_NEAR(warm.cache.speedup, 4, 0.2);
  EXPECT_NEAR(warm.coefficients.memory_efficiency, 0.85, 0.02);  // that of memory, not a mixture with the cache
  EXPECT_LT(warm.out_of_fit, 0.01);
  EXPECT_EQ(fit_kernel_table(pointers(times({})), device()).cache.bytes.value, 0);
}

TEST(KernelFit, NeedsAPeak) {
  model::Accelerator a = device();
  a.fp16 = a.bf16 = FlopsPerSecond(0);
  const auto rows = measurements([](const KernelKey&, std::uint32_t) { return 0.0; });
  EXPECT_THROW((void)fit_kernel_table(pointers(rows), a), InputError);
}

// Only whole configurations are held out: attention at all batch sizes, experts at all skews, all rows of a product.
TEST(HoldOut, KeepsConfigurationsTogether) {
  KernelMeasurement row;
  row.op = KernelOp::decode_attention;
  int held = 0;
  for (std::uint32_t heads = 1; heads <= 64; ++heads) {
    row.key = {1, heads, 1, 128};
    const bool first = is_held_out(row, 4);
    held += first ? 1 : 0;
    for (const std::uint32_t batch : {2U, 64U}) {
      row.key[0] = batch;
      row.column = 100 * batch;
      EXPECT_EQ(is_held_out(row, 4), first);
    }
    EXPECT_FALSE(is_held_out(row, 0));
  }
  EXPECT_GT(held, 6);  // of 64, one in four
  EXPECT_LT(held, 28);
}

}  // namespace
}  // namespace plimsoll::calibration
