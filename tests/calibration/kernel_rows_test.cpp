// SPDX-License-Identifier: Apache-2.0
// Tables of measured kernels are recognised by their columns; errors state file, line and column.
#include "calibration/kernel_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/model/kernels.h"

namespace plimsoll::calibration {
namespace {

using model::KernelOp;
using ::testing::HasSubstr;

const std::string kGemm = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n";
const std::string kAttention =
    "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,"
    "attn_dtype,"
    "kv_cache_dtype,step,window_size,latency\n";
const std::string kMoe =
    "framework,version,device,op_name,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_"
    "tp_size,"
    "moe_ep_size,distribution,latency\n";
const std::string kReduce = "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n";

KernelRows read(const std::string& text) {
  const model::KernelFolder folder;
  return read_kernel_rows(folder.write(text, "table.csv"));
}
std::string problem(const std::string& text) {
  try {
    (void)read(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(KernelRows, ReadsProductsInMilliseconds) {
  const KernelRows rows = read(kGemm + "VLLM,0.24.0,NVIDIA H200,gemm,cublas,fp8,16,4096,1024,0.0125\n");
  ASSERT_EQ(rows.kernels.size(), 1U);
  const KernelMeasurement& m = rows.kernels.front();
  EXPECT_EQ(m.op, KernelOp::gemm);
  EXPECT_EQ(m.dtype, "fp8");
  EXPECT_EQ(m.kernel, "cublas");
  EXPECT_EQ(m.key, (model::KernelKey{4096, 1024}));
  EXPECT_EQ(m.column, 16U);
  EXPECT_DOUBLE_EQ(m.seconds, 12.5e-6);
  EXPECT_EQ(m.line, 2U);
}

// float16 and half run the kernels of bfloat16. The context of a decode is isl + step; for a prefill, step is the
// number of cached tokens.
TEST(KernelRows, ReadsAttention) {
  const KernelRows rows = read(kAttention +
                               "V,1,H,generation_attention,fa,8,1,32,4,128,1,float16,fp8,127,0,0.02\n"
                               "V,1,H,context_attention,fa,2,512,32,4,128,1,bfloat16,bfloat16,256,0,0.02\n"
                               "V,1,H,context_attention,fa,2,512,32,4,128,1,bfloat16,bfloat16,0,128,0.02\n");
  ASSERT_EQ(rows.kernels.size(), 2U);
  EXPECT_EQ(rows.kernels[0].op, KernelOp::decode_attention);
  EXPECT_EQ(rows.kernels[0].dtype, "bfloat16");
  EXPECT_EQ(rows.kernels[0].kv_dtype, "fp8");
  EXPECT_EQ(rows.kernels[0].key, (model::KernelKey{8, 32, 4, 128}));
  EXPECT_EQ(rows.kernels[0].column, 128U);
  EXPECT_EQ(rows.kernels[1].column, 512U);
  EXPECT_EQ(rows.kernels[1].past, 256U);
  EXPECT_EQ(rows.not_modelled.at("context_attention with a window"), 1U);
}

TEST(KernelRows, ReadsExpertsAndAllReduces) {
  const KernelRows experts = read(kMoe + "V,1,H,moe,t,bfloat16,64,4096,14336,2,8,4,2,power_law_1.2,0.3\n");
  ASSERT_EQ(experts.kernels.size(), 1U);
  EXPECT_EQ(experts.kernels[0].key, (model::KernelKey{4096, 14336, 2, 8, 120, 4, 2}));
  const KernelRows reduces =
      read(kReduce + "T,2,H,all_reduce,NCCL,half,4,1024,0.01\nT,2,H,all_gather,NCCL,half,4,1024,0.01\n");
  ASSERT_EQ(reduces.all_reduces.size(), 1U);
  EXPECT_EQ(reduces.all_reduces[0].bytes, 2048);  // message_size counts elements
  EXPECT_EQ(reduces.not_modelled.at("all_gather"), 1U);
}

TEST(KernelRows, FaultsAreNamedWithTheirPlace) {
  EXPECT_THAT(problem(""), HasSubstr("is empty"));
  EXPECT_THAT(problem("a,b\n1,2\n"),
              HasSubstr("table.csv:1: these are not the columns of a table of measured kernels"));
  const std::string start = kGemm + "V,1,H,gemm,c,bfloat16,";
  EXPECT_THAT(problem(start + "16,64,64,nan\n"), HasSubstr("table.csv:2: latency: found 'nan'"));
  EXPECT_THAT(problem(start + "16,64,64,-1\n"), HasSubstr("latency: found '-1', expected milliseconds above 0"));
  EXPECT_THAT(problem(start + "0,64,64,1\n"), HasSubstr("m: found '0', expected a whole number from 1"));
  EXPECT_THAT(problem(start + "16,64.5,64,1\n"), HasSubstr("n: found '64.5'"));
  EXPECT_THAT(problem(start + "16,64,1\n"), HasSubstr("found 9 fields, expected 10"));
  EXPECT_THAT(problem(kGemm + "V,1,H,gemm,c,fp3,16,64,64,1\n"),
              HasSubstr("gemm_dtype: found 'fp3', allowed: bfloat16"));
  EXPECT_THAT(problem(kMoe + "V,1,H,moe,t,bfloat16,64,64,64,9,8,1,1,balanced,1\n"), HasSubstr("topk: 9 of 8 experts"));
}

TEST(KernelRows, KnowsItsTablesFromTablesOfPoints) {
  EXPECT_TRUE(is_kernel_header("device,latency,gemm_dtype,m,n,k"));
  EXPECT_FALSE(is_kernel_header("model,hardware,engine,input_tokens,output_tokens,load_kind,load_value"));
  EXPECT_FALSE(is_kernel_table("/nowhere.csv"));
}

}  // namespace
}  // namespace plimsoll::calibration
