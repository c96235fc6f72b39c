// SPDX-License-Identifier: Apache-2.0
// The whole model on the CUDA backend: the tests of the CPU's engine (tests/exec/engine_test.cpp), and graphs.
#include <algorithm>
#include <cmath>

#include "exec/engine.h"
#include "model/error.h"
#include "model/tp_layout.h"
#include "tests/exec/cuda/gpu.h"
#include "tests/exec/reference_model.h"
#include "tests/exec/sequences.h"

namespace plimsoll::exec {
namespace {

// f32 rounds to 6e-8; sums of a few hundred terms and a dozen ops add up to about 1e-6 of the norm.
constexpr double kF32 = 1e-5;
// Weights, activations and KV are rounded to 2^-9 = 2e-3 about a dozen times; errors partly average out in long sums.
constexpr double kBf16 = 1e-2;
// Rounding also changes the weights of nearly tied experts in every layer: 1.3e-2 was observed.
constexpr double kBf16Experts = 2e-2;
// With a norm behind each block as well as before it, a layer rounds twice as often; the errors add like random steps.
constexpr double kManyNorms = 1.42;

EngineConfig config_of(const model::Architecture& architecture, model::DType dtype = model::DType::fp32,
                       std::int32_t tp = 1) {
  EngineConfig config = tiny_config(architecture, tp);
  config.device = DeviceKind::cuda;
  config.communicator = CommunicatorKind::loopback;
  config.weight_dtype = config.kv_dtype = dtype;
  config.step_rows = 16;  // less than the tests use: the workspace grows
  config.graphs = false;
  return config;
}

std::vector<Tokens> prompts_of(const model::Architecture& a) {
  return {random_tokens(1, 19, a.shape.vocab), random_tokens(2, 1, a.shape.vocab), random_tokens(3, 33, a.shape.vocab)};
}

double relative_l2(const std::vector<float>& got, const Eigen::MatrixXd& expected) {
  double difference = 0;
  for (Eigen::Index i = 0; i < expected.rows(); ++i) {
    for (Eigen::Index j = 0; j < expected.cols(); ++j)
      difference +=
          std::pow(static_cast<double>(got[static_cast<std::size_t>(i * expected.cols() + j)]) - expected(i, j), 2);
  }
  return std::sqrt(difference) / expected.norm();
}

class CudaFamily : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { PLIMSOLL_NEEDS_GPU(); }

  double worst_error(const EngineConfig& config, std::int64_t chunk = 0) {
    Engine engine(config, *weights);
    const auto got = Sequences(engine).prefill(prompts, chunk);
    double worst = 0;
    for (std::size_t i = 0; i < prompts.size(); ++i)
      worst = std::max(worst, relative_l2(got[i], reference_logits(architecture, *weights, prompts[i])));
    return worst;
  }

  double middle_row_error(const EngineConfig& config) {
    Engine engine(config, *weights);
    const auto got = Sequences(engine).prefill(prompts);
    std::vector<double> errors;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const Eigen::MatrixXd expected = reference_logits(architecture, *weights, prompts[i]);
      const Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> logits(
          got[i].data(), expected.rows(), expected.cols());
      for (Eigen::Index row = 0; row < expected.rows(); ++row)
        errors.push_back((logits.row(row).cast<double>() - expected.row(row)).norm() / expected.row(row).norm());
    }
    const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
    std::nth_element(errors.begin(), middle, errors.end());
    return *middle;
  }

  // Norms over the queries of all heads run on one rank only.
  [[nodiscard]] std::vector<std::int32_t> degrees(std::vector<std::int32_t> all) const {
    if (model::has_wide_qk_norm(architecture.shape)) all.resize(1);
    return all;
  }

  model::Architecture architecture = tiny_model(GetParam());
  std::unique_ptr<WeightSource> weights = random_weights(architecture, 5);
  std::vector<Tokens> prompts = prompts_of(architecture);
};

TEST_P(CudaFamily, computes_the_reference_at_every_tp_degree) {
  for (const std::int32_t tp : degrees({1, 2, 4}))
    EXPECT_LT(worst_error(config_of(architecture, model::DType::fp32, tp)), kF32) << "tp " << tp;
}

// The choice between tied experts may flip. That changes the rows of single tokens, so with experts the row in the
// middle of all is judged.
TEST_P(CudaFamily, bf16_stays_near_f32) {
  for (const std::int32_t tp : degrees({1, 2})) {
    const EngineConfig config = config_of(architecture, model::DType::bf16, tp);
    if (architecture.shape.moe)
      EXPECT_LT(middle_row_error(config), kBf16Experts) << "tp " << tp;
    else
      EXPECT_LT(worst_error(config), kBf16 * (model::norms_per_layer(architecture.shape) == 4 ? kManyNorms : 1))
          << "tp " << tp;
  }
}

TEST_P(CudaFamily, prefill_in_pieces_and_small_blocks_computes_the_reference) {
  EngineConfig config = config_of(architecture);
  config.block_tokens = 4;
  EXPECT_LT(worst_error(config, 5), kF32);
}

// The first decode of a bucket runs op by op, the second is captured, later ones are replayed. Three sequences are
// padded to four rows.
TEST_P(CudaFamily, graphs_decode_what_single_ops_decode) {
  const auto decode = [&](bool graphs) {
    EngineConfig config = config_of(architecture);
    config.graphs = graphs;
    Engine engine(config, *weights);
    Sequences sequences(engine);
    (void)sequences.prefill(prompts);
    return sequences.decode(7);
  };
  EXPECT_EQ(decode(true), decode(false));
}

TEST_P(CudaFamily, decoding_continues_the_prompt_greedily) {
  EngineConfig config = config_of(architecture);
  config.graphs = true;
  Engine engine(config, *weights);
  Sequences sequences(engine);
  (void)sequences.prefill(prompts);
  expect_greedy(architecture, *weights, prompts, sequences.decode(4));
}

// 300 tokens are cut into parts whose last block adds them up. The parts' counters must be as before after every step,
// launched one by one and replayed. The second sequence is short: its parts are empty.
TEST(CudaEngine, a_long_sequence_in_parts_decodes_alike_step_after_step) {
  PLIMSOLL_NEEDS_GPU();
  model::Architecture a = tiny_model("llama");
  a.shape.layers = 1;
  a.shape.heads = 2;
  a.shape.kv_heads = 1;
  a.shape.head_dim = a.rope.rotary_dim = 64;
  const auto weights = random_weights(a, 5);
  const std::vector<Tokens> prompts{random_tokens(1, 300, a.shape.vocab), random_tokens(2, 20, a.shape.vocab)};
  const auto decode = [&](bool graphs) {
    EngineConfig config = config_of(a, model::DType::bf16);
    config.graphs = graphs;
    Engine engine(config, *weights);
    Sequences sequences(engine);
    (void)sequences.prefill(prompts);
    return sequences.decode(5);
  };
  const std::vector<Tokens> eager = decode(false);
  EXPECT_EQ(decode(true), eager);

  // What a prefill of everything so far would choose next: no parts are added up there.
  Tokens all = prompts[0];
  all.insert(all.end(), eager[0].begin(), eager[0].end());
  const Eigen::MatrixXd logits = reference_logits(a, *weights, all);
  for (std::size_t step = 0; step < eager[0].size(); ++step) {
    const auto row = logits.row(static_cast<Eigen::Index>(prompts[0].size() + step) - 1);
    EXPECT_GT(row(eager[0][step]), row.maxCoeff() - 0.03 * row.cwiseAbs().maxCoeff()) << "step " << step;
  }
}

// One rank per GPU, or two on one GPU if NCCL allows it.
TEST(CudaEngine, two_ranks_of_nccl_compute_what_one_rank_does) {
  PLIMSOLL_NEEDS_GPU();
  if (const std::string problem = nccl_problem(2); !problem.empty()) GTEST_SKIP() << problem;
  const model::Architecture a = tiny_model("llama");
  const auto weights = random_weights(a, 5);
  EngineConfig config = config_of(a, model::DType::fp32, 2);
  config.communicator = CommunicatorKind::nccl;
  const std::vector<Tokens> prompts = prompts_of(a);
  Engine engine(config, *weights);
  const auto got = Sequences(engine).prefill(prompts);
  for (std::size_t i = 0; i < prompts.size(); ++i)
    EXPECT_LT(relative_l2(got[i], reference_logits(a, *weights, prompts[i])), kF32);
}

TEST(CudaEngine, says_how_much_memory_all_ranks_of_a_gpu_need_together) {
  PLIMSOLL_NEEDS_GPU();
  const model::Architecture a = tiny_model("llama");
  const auto weights = random_weights(a, 5);
  EngineConfig config = config_of(a, model::DType::fp32, 2);
  config.kv_blocks = std::int64_t{1} << 36;  // more than any GPU has
  try {
    const Engine engine(config, *weights);
    FAIL() << "must be refused";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find(", 2 times), "), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaFamily, ::testing::ValuesIn(tiny_gpu_families()),
                         [](const auto& family) { return family.param; });

}  // namespace
}  // namespace plimsoll::exec
