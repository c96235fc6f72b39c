// SPDX-License-Identifier: Apache-2.0
// Models with integer weights: integers of a checkpoint are used unchanged, other weights are rounded on load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "exec/engine.h"
#include "model/memory_plan.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"
#include "tests/scratch.h"

namespace plimsoll::exec {
namespace {

using ::testing::HasSubstr;

bool is_in_a_layer(TensorKind kind) {
  using enum TensorKind;
  return kind == q || kind == k || kind == v || kind == attention_out || kind == gate || kind == up || kind == down ||
         kind == expert_gate || kind == expert_up || kind == expert_down;
}

// Random weights as a quantised checkpoint holds them: the matrices of the layers are integers, with scales and zeros
// that depend on the place. read() returns what they stand for.
class Quantised final : public WeightSource {
 public:
  Quantised(const model::Architecture& architecture, int bits, std::int64_t group, bool zeros)
      : architecture_(architecture), random_(random_weights(architecture, 5)), format_{bits, group, zeros} {}

  [[nodiscard]] std::optional<IntegerFormat> integers(const TensorRef& tensor) const override {
    if (is_in_a_layer(tensor.kind)) return format_;
    return {};
  }
  void read(const TensorRef& tensor, const TensorSlice& slice, float* out) const override {
    random_->read(tensor, slice, out);
    if (!is_in_a_layer(tensor.kind)) return;
    for (std::int64_t i = 0; i < slice.rows * slice.columns; ++i) {
      const Element e = element(slice, i, out[i]);
      out[i] = static_cast<float>(e.q - e.zero) * e.scale;
    }
  }
  void read_integers(const TensorRef& tensor, const TensorSlice& slice, const IntegerRows& out) const override {
    std::vector<float> floats(static_cast<std::size_t>(slice.rows * slice.columns));
    random_->read(tensor, slice, floats.data());
    const std::int64_t groups = format_.groups(slice.columns);
    for (std::int64_t i = 0; i < slice.rows * slice.columns; ++i) {
      const Element e = element(slice, i, floats[static_cast<std::size_t>(i)]);
      const std::int64_t group =
          i / slice.columns * groups + (format_.group == 0 ? 0 : i % slice.columns / format_.group);
      out.q[i] = static_cast<std::int8_t>(e.q);
      out.scale[group] = e.scale;
      out.zero[group] = static_cast<std::int16_t>(e.zero);
    }
  }
  void check(const model::Architecture&) const override {}

 private:
  struct Element {
    int q, zero;
    float scale;
  };
  [[nodiscard]] Element element(const TensorSlice& slice, std::int64_t i, float weight) const {
    const std::int64_t row = slice.row + i / slice.columns;
    const std::int64_t group = format_.group == 0 ? 0 : (slice.column + i % slice.columns) / format_.group;
    const int most = format_.bits == 4 ? 7 : 127;
    // Weights have a deviation of 0.02: the integers reach over about two of them. Powers of two times small numbers
    // are exact in f16.
    const float scale = (format_.bits == 4 ? 0x1p-7F : 0x1p-11F) * static_cast<float>(4 + (row + group) % 4) / 4;
    const int zero = format_.zeros ? static_cast<int>((row + 2 * group) % 5) - 2 : 0;
    const int q = std::clamp(static_cast<int>(std::lround(weight / scale)) + zero, -most - 1, most);
    return {q, zero, scale};
  }

  model::Architecture architecture_;
  std::unique_ptr<WeightSource> random_;
  IntegerFormat format_;
};

EngineConfig config_of(const model::Architecture& architecture, model::DType weights, std::int32_t tp = 1) {
  EngineConfig config;
  config.architecture = architecture;
  config.tp = tp;
  config.weight_dtype = weights;
  config.kv_dtype = model::DType::fp32;
  config.kv_blocks = 64;
  config.sequences = 4;
  config.step_rows = 64;
  config.threads = 2;
  config.poison = true;
  return config;
}

std::vector<float> logits_of(const EngineConfig& config, const WeightSource& weights) {
  Engine engine(config, weights);
  return Sequences(engine).prefill({random_tokens(1, 23, config.architecture.shape.vocab)}, 9).at(0);
}

double distance(const std::vector<float>& got, const std::vector<float>& expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return got.size() == expected.size() ? std::sqrt(difference / norm) : INFINITY;
}

// A checkpoint's storage as its config.json states it.
model::Architecture stored_in(model::Architecture a, model::DType dtype) {
  a.shape.checkpoint.emplace();
  a.shape.checkpoint->dtype = dtype;
  return a;
}

std::string problem_in(const EngineConfig& config, const WeightSource& weights) {
  return problem_of([&] { const Engine engine(config, weights); });
}

class IntegerFamily : public ::testing::TestWithParam<std::string> {};

// The matrices' integers are exact and the activations have 16 bits. Embedding and LM head are rounded to bf16, which
// moves results by less than 1 %; rounding 4-bit weights again would move them by 10 %.
TEST_P(IntegerFamily, ComputesACheckpointsIntegersAsTheFloatsTheyStandFor) {
  for (const model::DType dtype : {model::DType::int4, model::DType::int8}) {
    for (const bool zeros : {false, true}) {
      const model::Architecture a = stored_in(tiny_model(GetParam()), dtype);
      const Quantised weights(a, dtype == model::DType::int4 ? 4 : 8, 32, zeros);
      const std::vector<float> floats = logits_of(config_of(a, model::DType::fp32), weights);
      EXPECT_LT(distance(logits_of(config_of(a, dtype), weights), floats), 1e-2) << model::name(dtype);
    }
  }
}

// A scale for each row of the whole matrix belongs to every rank that has columns of the row.
TEST_P(IntegerFamily, RanksShareRowsWithOneScale) {
  const model::Architecture a = stored_in(tiny_model(GetParam()), model::DType::int8);
  const Quantised weights(a, 8, 0, true);
  if (const std::string problem = problem_in(config_of(a, model::DType::int8, 2), weights); problem != "no error")
    GTEST_SKIP() << problem;
  const std::vector<float> one = logits_of(config_of(a, model::DType::int8), weights);
  EXPECT_LT(distance(logits_of(config_of(a, model::DType::int8, 2), weights), one), 1e-4);
}

// Weights rounded to 8 bits have errors of 1/300 of their size, to 4 bits of 1/11. Layers add them up. Embedding and
// head in bf16 add 1/500, whatever the layers have: more than their 8 bits where layers count for little (Granite).
TEST_P(IntegerFamily, RoundsFloatsOnLoad) {
  const model::Architecture a = tiny_model(GetParam());
  if (a.shape.moe) GTEST_SKIP() << "a router that is nearly tied may choose other experts";
  const auto weights = random_weights(a, 5);
  const std::vector<float> floats = logits_of(config_of(a, model::DType::fp32), *weights);
  const double eight = distance(logits_of(config_of(a, model::DType::int8), *weights), floats);
  const double four = distance(logits_of(config_of(a, model::DType::int4), *weights), floats);
  EXPECT_LT(eight, 2e-2);
  EXPECT_LT(four, 0.3);
  EXPECT_GT(four, 1.5 * eight) << "4 bits were not used";
}

INSTANTIATE_TEST_SUITE_P(Families, IntegerFamily, ::testing::ValuesIn(tiny_families()),
                         [](const auto& family) { return family.param; });

TEST(IntegerEngineTest, RanksThatHoldWholeGroupsComputeTheSame) {
  model::Architecture a = stored_in(tiny_model("llama"), model::DType::int4);
  a.shape.intermediate = 192;
  const Quantised weights(a, 4, 32, true);
  const std::vector<float> one = logits_of(config_of(a, model::DType::int4), weights);
  EXPECT_LT(distance(logits_of(config_of(a, model::DType::int4, 2), weights), one), 1e-4);
}

TEST(IntegerEngineTest, RefusesToCutGroups) {
  const model::Architecture a = stored_in(tiny_model("llama"), model::DType::int4);  // MLP width 176
  const Quantised weights(a, 4, 32, true);
  EXPECT_THAT(problem_in(config_of(a, model::DType::int4, 2), weights),
              HasSubstr("layer 0 down: tp 2 gives a rank 88 columns, which cuts groups of 32"));
  // Rounded on load from a source of floats: the same groups.
  const model::Architecture plain = tiny_model("llama");
  EXPECT_THAT(problem_in(config_of(plain, model::DType::int8, 2), *random_weights(plain, 1)),
              HasSubstr("which cuts groups of 32"));
  // Without integers there are no groups.
  EXPECT_EQ(problem_in(config_of(a, model::DType::bf16, 2), weights), "no error");
}

// Groups of 16 have no kernel: the weights are widened to bf16 and not rounded again.
TEST(IntegerEngineTest, WidensGroupsThatNoKernelRuns) {
  const model::Architecture a = stored_in(tiny_model("llama"), model::DType::int4);
  const Quantised weights(a, 4, 16, true);
  const std::vector<float> floats = logits_of(config_of(a, model::DType::fp32), weights);
  EXPECT_LT(distance(logits_of(config_of(a, model::DType::int4), weights), floats), 1e-2);
}

TEST(IntegerEngineTest, MatricesThatTheCheckpointKeepsWideAreNotRounded) {
  model::Architecture a = stored_in(tiny_model("llama"), model::DType::int4);
  a.shape.checkpoint->wide = {"down", "qkv"};
  const Quantised weights(a, 4, 32, false);
  const std::vector<float> floats = logits_of(config_of(a, model::DType::fp32), weights);
  EXPECT_LT(distance(logits_of(config_of(a, model::DType::int4), weights), floats), 1e-2);
}

// 4.5 and 8.5 bits for the matrices of the layers, 2 bytes for embedding, head and norms.
TEST(IntegerEngineTest, MemoryIsThatOfTheStoredWeights) {
  const model::Architecture a = tiny_model("llama");
  const double matrices = 2 * (4 * 64 * 64 + 3 * 64 * 176), others = 2 * 97 * 64 + 5 * 64;
  EXPECT_DOUBLE_EQ(engine_memory(config_of(a, model::DType::int4)).weights, matrices * 4.5 / 8 + others * 2);
  EXPECT_DOUBLE_EQ(engine_memory(config_of(a, model::DType::int8)).weights, matrices * 8.5 / 8 + others * 2);
  EXPECT_EQ(model::stored_shape(a.shape, model::DType::bf16), a.shape);
}

TEST(IntegerEngineTest, RefusesIntegersWhereTheyDoNotRun) {
  const model::Architecture a = tiny_model("llama");
  EngineConfig config = config_of(a, model::DType::int8);
  config.device = DeviceKind::cuda;
  EXPECT_THAT(problem_in(config, *random_weights(a, 1)), HasSubstr("on a CPU also in int8 or int4"));
  config = config_of(a, model::DType::bf16);
  config.kv_dtype = model::DType::int8;
  EXPECT_THAT(problem_in(config, *random_weights(a, 1)), HasSubstr("KV in fp32 or bf16; found bf16 and int8"));
}

}  // namespace
}  // namespace plimsoll::exec
