// SPDX-License-Identifier: Apache-2.0
// A file is read as it was written, and no other file is accepted: every way in which a file of measured kernels can be
// wrong is reported.
#include "model/kernel_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/error.h"
#include "tests/model/kernels.h"

namespace plimsoll::model {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string problem_of_table(const KernelTable& table) {
  const KernelFolder folder;
  const KernelFile file(folder.write({table}));
  return problem_of([&] { (void)file.kernel(0); });
}

TEST(Crc32, IsThatOfZlib) {
  EXPECT_EQ(crc32_of("123456789"), 0xCBF43926U);  // the check value of the polynomial's catalogue entry
  EXPECT_EQ(crc32_of(""), 0U);
}

TEST(KernelFile, GivesBackWhatWasWritten) {
  const KernelFolder folder;
  KernelTable gemm = square_table();
  const KernelTable decode = attention_table(KernelOp::decode_attention);
  gemm.cache = {Bytes(48e6), 2.5};
  const KernelFile file(folder.write({gemm, decode}));
  EXPECT_EQ(file.head().accelerator, "test");
  EXPECT_EQ(file.head().date, "2026-11-21");
  ASSERT_EQ(file.entries().size(), 2U);
  EXPECT_TRUE(file.has(KernelOp::decode_attention));
  EXPECT_FALSE(file.has(KernelOp::moe));
  const KernelTable& read = file.kernel(0).table();
  EXPECT_EQ(read.sites, gemm.sites);
  EXPECT_EQ(read.columns, gemm.columns);
  EXPECT_EQ(read.coefficients.p, 2.5);
  EXPECT_EQ(read.coefficients.t0.count(), 4e-6);
  EXPECT_EQ(read.cold_efficiency, 0.9);
  EXPECT_EQ(read.metric.scale, gemm.metric.scale);
  EXPECT_EQ(read.cache.bytes.value, 48e6);
  EXPECT_EQ(read.cache.speedup, 2.5);
  for (std::size_t i = 0; i < gemm.log_ratio.size(); ++i) {
    if (std::isnan(gemm.log_ratio[i]))
      EXPECT_TRUE(std::isnan(read.log_ratio[i]));
    else
      EXPECT_NEAR(read.log_ratio[i], gemm.log_ratio[i], 0.5 / 4096);  // half a quantum
  }
  EXPECT_EQ(file.kernel(1).table().kv_dtype, "bfloat16");
}

TEST(KernelFile, RefusesWhatIsNoneOrOfAnotherVersion) {
  const KernelFolder folder;
  EXPECT_THAT(problem_of([&] { KernelFile("/nowhere/h100.kernels"); }),
              HasSubstr("/nowhere/h100.kernels: no such file"));
  const std::string text = folder.write(std::string("efficiency: yes, please, a whole lot of it"));
  EXPECT_THAT(problem_of([&] { KernelFile{text}; }), HasSubstr("is not a file of measured kernels"));
  std::string bytes = kernel_file_bytes({"test", "", ""}, {square_table()});
  for (const int version : {2, 4}) {  // version 2 did not state all_pairs
    bytes[8] = static_cast<char>(version);
    const std::string other = folder.write(bytes);
    EXPECT_THAT(problem_of([&] { KernelFile{other}; }), HasSubstr(other + ": is version " + std::to_string(version) +
                                                                  " of the format; this program reads version 3"));
  }
}

// Whichever byte changes, wherever the file ends: opening it or asking for the table fails, with file and table.
TEST(KernelFile, RefusesDamageWhereverItIs) {
  const KernelFolder folder;
  const std::string good = kernel_file_bytes({"test", "s", "d"}, {square_table()});
  const auto problem = [&](const std::string& bytes) {
    const std::string path = folder.write(bytes);
    return problem_of([&] { (void)KernelFile(path).kernel(0); });
  };
  EXPECT_EQ(problem(good), "no error");
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    EXPECT_THAT(problem(bad), HasSubstr("test.kernels")) << "byte " << at;
  }
  for (std::size_t size = 0; size < good.size(); size += 7)
    EXPECT_THAT(problem(good.substr(0, size)), HasSubstr("test.kernels")) << size;
  std::string last = good;
  last.back() = static_cast<char>(last.back() ^ 1);
  EXPECT_THAT(problem(last), HasSubstr("table gemm bfloat16 (test): is damaged: its checksum is wrong"));
}

// Matching checksums do not make numbers valid.
TEST(KernelFile, RefusesNumbersThatCannotBe) {
  KernelTable t = square_table();
  t.coefficients.memory_efficiency = std::nan("");
  EXPECT_THAT(problem_of_table(t),
              AllOf(HasSubstr("table gemm bfloat16 (test)"), HasSubstr("memory efficiency nan is not in (0, 1]")));
  t = square_table();
  t.coefficients.memory_efficiency = -0.5;
  EXPECT_THAT(problem_of_table(t), HasSubstr("memory efficiency -0.5 is not in (0, 1]"));
  t = square_table();
  t.coefficients.t0 = Seconds(-1e-6);
  EXPECT_THAT(problem_of_table(t), HasSubstr("is negative or not finite"));
  t = square_table();
  t.columns = {1, 256, 16};
  EXPECT_THAT(problem_of_table(t), HasSubstr("columns do not ascend"));
  t = square_table();
  t.sites[2][0] = 0;
  EXPECT_THAT(problem_of_table(t), HasSubstr("a dimension of 0"));
  t = square_table();
  t.dtype = "fp3";
  EXPECT_THAT(problem_of_table(t), HasSubstr("type 'fp3' is not known"));
}

// Of two kernels for the same products the larger table is used, unless only the other one has the shape.
TEST(KernelFile, FindsTheKernelThatKnowsTheShape) {
  const KernelFolder folder;
  KernelTable few = square_table();
  few.kernel = "few";
  few.sites = {{65536, 65536}};
  few.log_ratio = {0, 0, 0};
  const KernelFile file(folder.write({few, square_table()}));
  EXPECT_EQ(file.find(KernelOp::gemm, "bfloat16", "", {2048, 2048})->table().kernel, "test");
  EXPECT_EQ(file.find(KernelOp::gemm, "bfloat16", "", {65536, 65536})->table().kernel, "few");
  EXPECT_EQ(file.find(KernelOp::gemm, "fp8", "", {2048, 2048}), nullptr);
}

TEST(MeasuredKernel, LaysAttentionOutByBatchAndContext) {
  const MeasuredKernel kernel(attention_table(KernelOp::decode_attention));
  const auto grid = kernel.grid(8, 8, 64);
  EXPECT_EQ(grid->x, (std::vector<double>{0, 1, 2}));  // log2 of 1, 2, 4 sequences
  EXPECT_EQ(grid->y, (std::vector<double>{6, 10}));
  ASSERT_EQ(grid->log_ratio.size(), 6U);
  EXPECT_NEAR(grid->log_ratio[0], 0.2, 1e-6);
  EXPECT_NEAR(grid->log_ratio[2], 0.3, 0.02);  // two sequences lie halfway between one and four
  EXPECT_NEAR(grid->log_ratio[5], 0.3, 1e-6);
  EXPECT_EQ(kernel.grid(8, 8, 64), grid);  // computed only once
}

}  // namespace
}  // namespace plimsoll::model
