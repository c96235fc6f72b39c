// SPDX-License-Identifier: Apache-2.0
#include "configs/hardware_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/error.h"

namespace plimsoll::configs {
namespace {

using ::testing::HasSubstr;

const Catalogue& catalogue() {
  static const Catalogue kCatalogue(std::string(PLIMSOLL_SOURCE_DIR) + "/configs");
  return kCatalogue;
}

std::string meant(const std::string& text) {
  const auto found = find_accelerators(catalogue(), text);
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
      catalogue().refuse_hardware(name, {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(said("h10"), HasSubstr("did you mean 'h100'?"));
  EXPECT_THAT(said("p5.48xlrge"), HasSubstr("did you mean 'p5.48xlarge'?"));
}

}  // namespace
}  // namespace plimsoll::configs
