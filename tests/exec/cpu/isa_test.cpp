// SPDX-License-Identifier: Apache-2.0
// Runs the whole model on every instruction set. Results may differ only by rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

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

class Isa : public ::testing::TestWithParam<std::string> {};

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

INSTANTIATE_TEST_SUITE_P(Sets, Isa, ::testing::Values("avx512", "avx2", "portable"),
                         [](const auto& isa) { return isa.param; });

// The logits of a prompt, in bf16.
std::vector<float> bf16_logits(const std::string& family, const std::optional<model::CpuTuning>& tuning) {
  EngineConfig config;
  config.architecture = tiny_model(family);
  config.kv_blocks = 64;
  config.sequences = 4;
  config.threads = 2;
  config.tuning = tuning;
  Engine engine(config, *random_weights(config.architecture, 5));
  return Sequences(engine).prefill({random_tokens(1, 40, config.architecture.shape.vocab)}, 40).at(0);
}

TEST(Tuning, OfBlocksChangesNoBitOfALogit) {
  const model::CpuBlocking odd{.tiles = 3, .depth = 128, .ahead = 512, .far = true};
  const model::CpuBlockings all{.one = odd, .tile = odd, .few = odd, .many = odd};
  const model::CpuTuning tuning{.floats = all, .integers = all, .int4 = all, .threads = 1, .decode_parts = 2};
  for (const char* family : {"llama", "deepseek_v2"}) EXPECT_EQ(bf16_logits(family, tuning), bf16_logits(family, {}));
}

// Rounding activations to bf16 adds errors of 2^-9 where bf16 weights have those already: less than twice 1e-2, which
// bf16 may differ by from f32 (golden_test.cpp).
TEST(Tuning, BySomeInstructionsRoundsActivations) {
  const std::vector<const ProductKernels*> pairs = runnable_pairs(select_kernels());
  if (pairs.empty()) GTEST_SKIP() << "this machine has no instructions for bf16";
  if (std::getenv("PLIMSOLL_CPU_ISA") != nullptr) GTEST_SKIP() << "the environment chooses the instructions";
  const std::vector<float> expected = bf16_logits("llama", {});
  for (const ProductKernels* kernels : pairs) {
    const auto& names = model::kBf16ProductNames;
    const auto place = std::find(names.begin(), names.end(), kernels->name) - names.begin();
    const std::vector<float> got =
        bf16_logits("llama", model::CpuTuning{.bf16 = static_cast<model::Bf16Products>(place)});
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    EXPECT_GT(difference, 0) << kernels->name << " was not used";
    EXPECT_LT(std::sqrt(difference / norm), 2e-2) << kernels->name;
  }
}

TEST(IsaChoice, InstructionsForBf16NameTheSetThatTheyBelongTo) {
  for (const KernelSet* set : runnable_kernels()) {
    for (const ProductKernels* pairs : runnable_pairs(*set)) {
      const Choice choice(pairs->name);
      EXPECT_EQ(&select_kernels(), set);
      EXPECT_EQ(&select_bf16_products(*set, model::Bf16Products::f32), pairs);
    }
  }
}

TEST(IsaChoice, ANameOverridesTheTuning) {
  const KernelSet& fastest = *runnable_kernels().front();
  const Choice choice(fastest.name);
  for (const auto tuned : {model::Bf16Products::avx512_bf16, model::Bf16Products::amx})
    EXPECT_EQ(&select_bf16_products(fastest, tuned), &fastest);
}

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
