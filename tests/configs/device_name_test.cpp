// SPDX-License-Identifier: Apache-2.0
// Matches the names that drivers report with accelerators of the catalogue.
#include "configs/device_name.h"

#include <gtest/gtest.h>

namespace plimsoll::configs {
namespace {

// Names as NVIDIA's driver reports them.
TEST(DeviceName, IsTheAcceleratorOfTheSameWords) {
  EXPECT_TRUE(is_same_device("NVIDIA H200 (sm_90)", "h200-sxm"));
  EXPECT_TRUE(is_same_device("NVIDIA H100 80GB HBM3 (sm_90)", "h100-sxm"));
  EXPECT_TRUE(is_same_device("NVIDIA H100 PCIe (sm_90)", "h100-pcie"));
  EXPECT_TRUE(is_same_device("NVIDIA H100 NVL (sm_90)", "h100-nvl"));
  EXPECT_TRUE(is_same_device("NVIDIA A100-SXM4-80GB (sm_80)", "a100-sxm-80gb"));
  EXPECT_TRUE(is_same_device("NVIDIA A100-PCIE-40GB (sm_80)", "a100-pcie-40gb"));
  EXPECT_TRUE(is_same_device("NVIDIA A10G (sm_86)", "a10g"));
  EXPECT_TRUE(is_same_device("NVIDIA GeForce RTX 4090 (sm_89)", "rtx-4090"));
  EXPECT_TRUE(is_same_device("Tesla V100-SXM2-16GB (sm_70)", "v100-sxm2-16gb"));
}

TEST(DeviceName, IsNoOtherOfItsFamily) {
  EXPECT_FALSE(is_same_device("NVIDIA GeForce RTX 4090 (sm_89)", "rtx-3090"));
  EXPECT_FALSE(is_same_device("NVIDIA A100-SXM4-80GB (sm_80)", "a100-pcie-80gb"));
  EXPECT_FALSE(is_same_device("NVIDIA A100-SXM4-80GB (sm_80)", "a100-sxm-40gb"));
  EXPECT_FALSE(is_same_device("NVIDIA A100 80GB PCIe (sm_80)", "a100-sxm-80gb"));
  EXPECT_FALSE(is_same_device("NVIDIA H100 NVL (sm_90)", "h100-sxm"));
  EXPECT_FALSE(is_same_device("NVIDIA H100 NVL (sm_90)", "h100-pcie"));
  EXPECT_FALSE(is_same_device("NVIDIA A10G (sm_86)", "a10"));
  EXPECT_FALSE(is_same_device("NVIDIA L40S (sm_89)", "l4"));
  EXPECT_FALSE(is_same_device("NVIDIA H200 (sm_90)", ""));
}

}  // namespace
}  // namespace plimsoll::configs
