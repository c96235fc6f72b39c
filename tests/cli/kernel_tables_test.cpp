// SPDX-License-Identifier: Apache-2.0
// calibrate --from and validate TABLE, run as a user does.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/command_fixture.h"

namespace plimsoll::study {
namespace {

using ::testing::HasSubstr;

class KernelTablesTest : public CommandTest {
 protected:
  // Products that take 5 us plus the larger of memory time at 2.5 TB/s and arithmetic time at 600 TFLOP/s.
  std::string write_table() const {
    std::string text = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n";
    for (int n = 10; n <= 14; ++n) {
      for (int m = 0; m <= 12; m += 3) {
        const double rows = 1 << m, columns = 1 << n, depth = 4096;
        const double time = 5e-6 + std::max(2 * (columns * depth + rows * (columns + depth)) / 2.5e12,
                                            2 * rows * columns * depth / 600e12);
        text +=
            fmt::format("V,1,NVIDIA H100 80GB HBM3,gemm,made,bfloat16,{},{},{},{}\n", 1 << m, 1 << n, 4096, 1e3 * time);
      }
    }
    return write("table.csv", text);
  }
};

TEST_F(KernelTablesTest, CalibratesAndPredictsWithTheResult) {
  const std::string table = write_table(), out = file("calibration");
  const Outcome fit = run("calibrate --from " + table + " --out " + out + " --source 'made up'");
  EXPECT_EQ(fit.exit, 0) << fit.output;
  EXPECT_THAT(fit.output, HasSubstr("h100-sxm: made up; v 1 on NVIDIA H100 80GB HBM3"));
  EXPECT_THAT(fit.output, HasSubstr("gemm bfloat16 made: 25 points"));
  // The accelerator's file refers to kernels of a server, so these are copied too. Accelerators that merely borrow its
  // kernels are not more calibrated than before, so their files are not written.
  EXPECT_TRUE(std::filesystem::exists(out + "/accelerators/h100-sxm.trtllm.kernels"));
  EXPECT_FALSE(std::filesystem::exists(out + "/accelerators/gaudi2.yaml"));
  const Outcome check = run("validate " + table + " --calibration " + out + " --max-error 0.1");
  EXPECT_EQ(check.exit, 0) << check.output;                          // the fitted rows: only rounding differs
  EXPECT_EQ(run("validate " + table + " --max-error 0.1").exit, 4);  // the real H100 is different
  const Outcome csv = run("validate " + table + " --calibration " + out + " --format csv");
  EXPECT_THAT(csv.output, HasSubstr("accelerator,op,dtype,kernel_source,n,unseen,extrapolates,derived,mean,median,p90,"
                                    "bias,unseen_mean\nh100-sxm,gemm,bfloat16,made,25,0,0,0,"));
  const Outcome text = run("calibrate --export " + out + "/accelerators/h100-sxm.kernels");
  EXPECT_THAT(text.output, HasSubstr("op,dtype,kv_dtype,kernel,n,k,m,log_ratio\ngemm,bfloat16,,made,1024,4096,1,"));
}

TEST_F(KernelTablesTest, RefusesDamagedFilesByName) {
  const std::string table = write_table(), out = file("calibration"), kernels = out + "/accelerators/h100-sxm.kernels";
  ASSERT_EQ(run("calibrate --from " + table + " --out " + out).exit, 0);
  std::string bytes = read_text(kernels);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  std::ofstream(kernels, std::ios::binary) << bytes;
  const Outcome damaged = run("validate " + table + " --calibration " + out);
  EXPECT_EQ(damaged.exit, 2);
  EXPECT_THAT(damaged.output,
              HasSubstr("h100-sxm.kernels: table gemm bfloat16 (made): is damaged: its checksum is wrong"));
  std::ofstream(kernels, std::ios::binary) << "nonsense, but long enough to be read";
  const Outcome other = run("validate " + table + " --calibration " + out);
  EXPECT_EQ(other.exit, 2);
  EXPECT_THAT(other.output, HasSubstr("h100-sxm.kernels: is not a file of measured kernels"));
  EXPECT_EQ(run("calibrate --export " + kernels).exit, 2);
}

TEST_F(KernelTablesTest, RefusesTablesThatAreNone) {
  const Outcome unknown =
      run("calibrate --from " + write("bad.csv", "device,latency,gemm_dtype,m,n,k\nAbacus,1,bfloat16,1,64,64\n") +
          " --out " + file("x"));
  EXPECT_EQ(unknown.exit, 2);
  EXPECT_THAT(unknown.output, HasSubstr("bad.csv:2"));
  EXPECT_THAT(run("calibrate --from " + write_table()).output, HasSubstr("needs --out DIR"));
}

}  // namespace
}  // namespace plimsoll::study
