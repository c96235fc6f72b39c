// SPDX-License-Identifier: Apache-2.0
#include "configs/hardware_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/error.h"

namespace plimsoll::configs {
namespace {

using ::testing::HasSubstr;

const Catalogue& catalogue_of_names() {
  static const Catalogue kCatalogue(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  return kCatalogue;
}

std::string meant(const std::string& text) {
  const auto found = find_accelerators(catalogue_of_names(), text);
  return found ? found->to_text() : "nothing";
}

TEST(HardwareName, ACountStandsBeforeOrBehindTheName) {
  for (const char* const text :
       {"8xH100", "8xh100", "8 x H100", "h100 x 8", "H100x8", "8×H100", "8 * h100-sxm", " 8XH100 "}) {
    EXPECT_EQ(meant(text), "{accelerator: h100-sxm, count: 8}") << text;
  }
}

TEST(HardwareName, ANameAloneIsOne) {
  EXPECT_EQ(meant("h100"), "{accelerator: h100-sxm, count: 1}");
  EXPECT_EQ(meant("RTX 4090"), "{accelerator: rtx-4090, count: 1}") << "digits of a name are no count";
}

TEST(HardwareName, InstancesAndUnknownNamesAreNoAccelerators) {
  for (const char* const text :
       {"p5.48xlarge", "ml.p4d.24xlarge", "this-machine", "h1000", "8x", "x8", "0xh100", "", "8xH100x2"}) {
    EXPECT_EQ(meant(text), "nothing") << text;
  }
}

TEST(HardwareName, ATypoGetsTheNearestOfBothKinds) {
  const auto said = [](const std::string& name) {
    try {
      catalogue_of_names().refuse_hardware(name, {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(said("h10"), HasSubstr("did you mean 'h100'?"));
  EXPECT_THAT(said("p5.48xlrge"), HasSubstr("did you mean 'p5.48xlarge'?"));
}

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
