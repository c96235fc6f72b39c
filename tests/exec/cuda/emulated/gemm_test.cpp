// SPDX-License-Identifier: Apache-2.0
// How the way to compute a product is chosen and stored. The emulated library (emulation/blas.cpp) proposes two ways;
// the second supports only the shape for which it was proposed.
#include "exec/cuda/gemm.h"

#include <cuda_runtime.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

namespace plimsoll::exec::cuda {
namespace {

class GemmTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(file); }
  void TearDown() override { std::filesystem::remove(file); }

  // x consists of ones, W of twos, so every element of y is 2 k.
  static float product(Gemm& gemm, std::int64_t m, bool may_measure = true) {
    constexpr std::int64_t kN = 16, kK = 8;
    const StreamOwner stream = make_stream();
    const DeviceBuffer w(kN * kK * sizeof(float), "a test"),
        x(static_cast<std::size_t>(m * kK) * sizeof(float), "a test"),
        y(static_cast<std::size_t>(m * kN) * sizeof(float), "a test");
    copy_in(w, std::vector<float>(kN * kK, 2.0F).data(), "a test");
    copy_in(x, std::vector<float>(static_cast<std::size_t>(m * kK), 1.0F).data(), "a test");
    gemm.run({.x = Element::f32, .y = Element::f32, .m = m, .n = kN, .k = kK},
             {.w = w.get(), .x = x.get(), .y = y.get()}, may_measure, stream.get());
    std::vector<float> result(static_cast<std::size_t>(m * kN));
    check(cudaMemcpyAsync(result.data(), y.get(), y.bytes(), cudaMemcpyDeviceToHost, stream.get()), "a test");
    check(cudaStreamSynchronize(stream.get()), "a test");
    return result.back();
  }

  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) / ("plimsoll_gemm_" + std::to_string(::getpid()));
};

TEST_F(GemmTest, measures_a_bucket_once_and_keeps_it) {
  {
    Gemm gemm(file);
    gemm.reserve(1 << 16);
    EXPECT_EQ(product(gemm, 12), 16);
    EXPECT_EQ(product(gemm, 12), 16);
    EXPECT_EQ(product(gemm, 15), 16);  // in the same bucket
  }
  EXPECT_EQ(load_choices(file).size(), 1U);
}

TEST_F(GemmTest, does_not_believe_a_file_whose_way_is_not_possible) {
  const GemmKey key{{.x = Element::f32, .y = Element::f32, .m = 16, .n = 16, .k = 8}};
  save_choices(file, {{key, MatmulAlgorithm{7}}});  // an unknown algorithm, which would be refused when it runs
  Gemm gemm(file);
  gemm.reserve(1 << 16);
  EXPECT_EQ(product(gemm, 16), 16);
  EXPECT_EQ(product(gemm, 16), 16);
}

TEST_F(GemmTest, runs_what_it_has_no_room_to_measure) {
  Gemm gemm(file);
  EXPECT_EQ(product(gemm, 12), 16);
  EXPECT_EQ(product(gemm, 12, false), 16);
}

}  // namespace
}  // namespace plimsoll::exec::cuda
