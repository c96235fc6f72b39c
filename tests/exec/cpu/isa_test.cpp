// SPDX-License-Identifier: Apache-2.0
// The whole model on every instruction set: results may differ only by rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "exec/cpu/kernels.h"
#include "exec/engine.h"
#include "model/error.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"

namespace plimsoll::exec {
namespace {

// Sets the environment variable for one test.
class Choice {
 public:
  explicit Choice(const std::string& isa) { setenv("PLIMSOLL_CPU_ISA", isa.c_str(), 1); }
  ~Choice() { unsetenv("PLIMSOLL_CPU_ISA"); }
};

class Isa : public testing::TestWithParam<std::string> {};

TEST_P(Isa, EveryFamilyComputesTheReference) {
  bool runs = false;
  for (const KernelSet* set : runnable_kernels()) runs = runs || GetParam() == set->name;
  if (!runs) GTEST_SKIP() << "this machine does not run " << GetParam();
  const Choice choice(GetParam());
  for (const std::string& family : tiny_families()) {
    EngineConfig config;
    config.architecture = tiny_model(family);
    config.weight_dtype = config.kv_dtype = model::DType::fp32;
    config.kv_blocks = 64;
    config.sequences = 4;
    config.threads = 2;
    config.poison = true;
    const auto weights = random_weights(config.architecture, 5);
    Engine engine(config, *weights);
    const Tokens prompt = random_tokens(1, 23, config.architecture.shape.vocab);
    const std::vector<float> got = Sequences(engine).prefill({prompt}, 9).at(0);
    const Eigen::MatrixXd expected = reference_logits(config.architecture, *weights, prompt);
    double difference = 0;
    for (Eigen::Index i = 0; i < expected.rows(); ++i)
      for (Eigen::Index j = 0; j < expected.cols(); ++j)
        difference +=
            std::pow(static_cast<double>(got[static_cast<std::size_t>(i * expected.cols() + j)]) - expected(i, j), 2);
    EXPECT_LT(std::sqrt(difference) / expected.norm(), 1e-5) << family;  // as in engine_test.cpp
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Isa, testing::Values("avx512", "avx2", "portable"),
                         [](const auto& isa) { return isa.param; });

TEST(IsaChoice, ANameThatIsNoneIsRefusedWithThoseThatRun) {
  const Choice choice("mmx");
  try {
    (void)select_kernels();
    FAIL() << "mmx is no kernel set";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("portable"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace plimsoll::exec
