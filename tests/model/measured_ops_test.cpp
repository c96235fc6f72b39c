// SPDX-License-Identifier: Apache-2.0
// How the simulator uses measured kernels: an op that was measured costs what was measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "model/op_cost.h"
#include "tests/model/kernels.h"
#include "tests/model/shapes.h"

namespace plimsoll::model {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Llama 2 7B has 32 heads of 128. square_table() is valid up to 1.5 doublings beyond 4096, which is 11 585.
KernelTable llama_attention(KernelOp op) {
  KernelTable t = attention_table(op);
  for (KernelKey& site : t.sites) site = {site[0], 32, 32, 128};
  return t;
}

class MeasuredOps : public ::testing::Test {
 protected:
  void SetUp() override {
    use({square_table(), llama_attention(KernelOp::prefill_attention), llama_attention(KernelOp::decode_attention)});
  }
  void use(const std::vector<KernelTable>& tables) {
    d_.shape = shape_named("llama-2-7b");
    d_.accelerator = with_efficiencies(a100_40());
    d_.accelerator.kernels = std::make_shared<const KernelFile>(folder_.write(tables));
  }
  // Returns the time of a product by itself, without the gap between kernels.
  [[nodiscard]] double product(std::int64_t n, std::int64_t k, std::int64_t m) const {
    const OpPricer pricer(d_.inputs());
    Op op;
    op.kind = OpKind::gemm;
    op.n = n;
    op.k = k;
    op.m = m;
    op.flops = 2.0 * static_cast<double>(n * k * m);
    op.weight_bytes = 2.0 * static_cast<double>(n * k);
    op.other_bytes = 2.0 * static_cast<double>(m * (n + k));
    return pricer.price(op).total() - pricer.kernel_gap();
  }
  // Returns what a rank's ops are listed from.
  [[nodiscard]] OpListInputs ops() const {
    return {.shape = &d_.shape,
            .weight_dtype = d_.weight_dtype,
            .kv_dtype = d_.kv_dtype,
            .tp = d_.tp,
            .pp = 1,
            .capabilities = {}};
  }
  // Returns the time of a layer's expert products on the busiest of d_.tp ranks, without gaps between kernels.
  [[nodiscard]] double experts(std::int64_t tokens, std::int32_t ep) const {
    CostInputs inputs = d_.inputs();
    inputs.ep = ep;
    const OpPricer pricer(inputs);
    double time = 0;
    for_each_op(linear_ops(ops(), tokens), [&](const Op& op) {
      if (op.kind == OpKind::moe_gemm) time += pricer.price(op).total() - pricer.kernel_gap();
    });
    return time;
  }
  // Returns the time of the op of a step with this identity.
  [[nodiscard]] double op(OpId id, std::int64_t tokens, LaunchMode mode = LaunchMode::eager) const {
    const OpPricer pricer(d_.inputs());
    double time = 0;
    for_each_op(linear_ops(ops(), tokens), [&](const Op& o) {
      if (o.id == id && time == 0) time = pricer.price(o, mode).total();
    });
    return time - pricer.kernel_gap(mode);
  }
  [[nodiscard]] static KernelTable expert_table(const char* dtype, float ratio) {
    KernelTable t = square_table();
    t.op = KernelOp::moe;
    t.dtype = dtype;
    t.metric = {.scale = {1, 1, 1, 1, 1, 1, 1, 0}, .nugget = 0.01, .neighbours = 1, .knee = 0};
    t.sites = {{4096, 14336, 2, 8, 101, 1, 1}};
    t.log_ratio = {ratio, ratio, ratio};
    return t;
  }
  [[nodiscard]] double measured(std::size_t table, const KernelKey& key, double column) const {
    const KernelTable& t = d_.accelerator.kernels->kernel(table).table();
    const MeasuredKernel& kernel = d_.accelerator.kernels->kernel(table);
    return kernel_roofline(t.op, t.coefficients, {{d_.accelerator.fp16, d_.accelerator.memory_bandwidth}},
                           kernel_work(t.op, key, column, 2)) *
           std::exp(log_ratio_at(t, *kernel.row(key), column));
  }

  KernelFolder folder_;
  Deployment d_;
};

TEST_F(MeasuredOps, AMeasuredProductCostsWhatWasMeasured) {
  EXPECT_NEAR(product(1024, 4096, 16), measured(0, {1024, 4096}, 16), 1e-12);
  EXPECT_NEAR(product(4096, 4096, 256), measured(0, {4096, 4096}, 256), 1e-12);
}

// An engine with different kernels is priced by the rooflines of the accelerator's own coefficients.
TEST_F(MeasuredOps, EnginesWithOtherKernelsUseTheRoofline) {
  const double with_tables = product(1024, 4096, 16);
  d_.engine.measured_kernels = false;
  Deployment plain{.shape = d_.shape, .accelerator = with_efficiencies(a100_40())};
  const double without = product(1024, 4096, 16);
  EXPECT_NE(with_tables, without);
  d_.engine.measured_kernels = true;
  d_.accelerator.kernels = nullptr;
  EXPECT_EQ(product(1024, 4096, 16), without);
}

// Cold weights cannot be read faster than the best rate that was seen for data far larger than the cache.
TEST_F(MeasuredOps, NoProductReadsItsWeightsFasterThanColdOnesWereRead) {
  KernelTable cached = square_table();
  std::fill(cached.log_ratio.begin(), cached.log_ratio.end(),
            -3.0F);  // twenty times faster than the roofline, as from a cache
  use({cached});
  EXPECT_NEAR(product(4096, 4096, 1), 2.0 * 4096 * 4096 / (0.9 * d_.accelerator.memory_bandwidth.value), 1e-12);
}

// Two rows take the roofline's time; one row was measured at three times as long, but can be padded to two.
TEST_F(MeasuredOps, OneRowCostsNoMoreThanTwo) {
  KernelTable table = square_table();
  table.columns = {1, 2, 256};
  table.log_ratio = {1.1F, 0, 0, 1.1F, 0, 0, 1.1F, 0, 0, -0.1F, 0, 0};
  use({table});
  EXPECT_NEAR(product(1024, 4096, 1), measured(0, {1024, 4096}, 1) * std::exp(-1.1),
              3e-9);                                                         // ratios are stored to 1/8192
  EXPECT_NEAR(product(4096, 4096, 1), measured(0, {4096, 4096}, 1), 1e-12);  // faster than two rows: used as measured
}

// Published fp8 models with experts have a scale per block. The kernel for that is used if it was measured, whatever
// other fp8 kernels take.
TEST_F(MeasuredOps, ExpertsInFp8AreBlockScaled) {
  d_.shape = shape_named("mixtral-8x7b");
  d_.weight_dtype = DType::fp8;
  d_.accelerator.fp8 = FlopsPerSecond(600e12);
  const auto step = [&](const std::vector<KernelTable>& tables) {
    d_.accelerator.kernels = std::make_shared<const KernelFile>(folder_.write(tables));
    ForwardCost cost(d_.inputs());
    return cost.forward(decode_work(d_.shape, 4, 500)).total();
  };
  const double block = step({expert_table("fp8_block", 0.5F)}), tensor = step({expert_table("fp8", 1.5F)});
  EXPECT_GT(tensor, 1.2 * block);
  EXPECT_EQ(step({expert_table("fp8", 1.5F), expert_table("fp8_block", 0.5F)}), block);
}

// Mixtral on four ranks, its experts split or spread over them: each costs what was measured for it. Spread ones wait
// for the busiest rank. A power law between 1 and 51 of 64 tokens has a deviation of 1.03 times its mean; with two
// experts a rank and the scatter of 32 pairs that is 0.75, and the largest of four ranks is 1.03 deviations above.
TEST_F(MeasuredOps, SpreadExpertsCostWhatTheBusiestRankTakes) {
  KernelTable t = expert_table("bfloat16", 0.1F);
  t.sites = {{4096, 14336, 2, 8, 101, 4, 1}, {4096, 14336, 2, 8, 101, 1, 4}};
  t.log_ratio = {0.1F, 0.1F, 0.1F, 0.4F, 0.4F, 0.4F};
  use({t});
  d_.shape = shape_named("mixtral-8x7b");
  d_.weight_dtype = DType::bf16;
  d_.tp = 4;
  for (const std::int64_t tokens : {1, 16, 256}) {
    const auto rows = static_cast<double>(tokens);
    EXPECT_NEAR(experts(tokens, 1) / measured(0, {4096, 14336, 2, 8, 101, 4, 1}, rows), 1, 1e-3) << tokens;
    EXPECT_NEAR(experts(tokens, 4) / measured(0, {4096, 14336, 2, 8, 101, 1, 4}, rows), 1, 1e-3) << tokens;
  }
  const KernelWork split = kernel_work(KernelOp::moe, {4096, 14336, 2, 8, 101, 4, 1}, 64, 2);
  const KernelWork spread = kernel_work(KernelOp::moe, {4096, 14336, 2, 8, 101, 1, 4}, 64, 2);
  EXPECT_NEAR(spread.flops / split.flops, 1.77, 0.01);
}

// The latents of queries (1536) and of keys with their rotary part (576) come from one product of 2112 columns.
TEST_F(MeasuredOps, LatentsCostWhatOneProductOfBothCosts) {
  d_.shape = shape_named("deepseek-v3");
  for (const std::int64_t rows : {1, 16, 256}) {
    const double both = op(OpId::q_down, rows) + op(OpId::kv_down, rows);
    EXPECT_NEAR(both, product(1536 + 576, 7168, rows), 1e-12) << rows;
    EXPECT_LT(both, product(1536, 7168, rows) + product(576, 7168, rows)) << rows;
  }
}

// Shared experts run beside the routed ones in a captured graph: only their 7168 x 512 weights, which share the memory
// with those of the routed experts, add to its time. In other steps they are kernels like any other.
TEST_F(MeasuredOps, SharedExpertsOfAGraphCostTheirBytesAlone) {
  KernelTable routed = expert_table("bfloat16", 0);
  routed.sites = {{7168, 2048, 8, 256, 101, 8, 1}};
  use({square_table(), routed});
  d_.shape = shape_named("deepseek-v3");
  d_.weight_dtype = DType::bf16;
  d_.tp = 8;
  const double reading = 2.0 * 7168 * 512 / d_.accelerator.memory_bandwidth.value;
  const double beside = op(OpId::shared_gate_up, 1, LaunchMode::graph), alone = op(OpId::shared_gate_up, 1);
  EXPECT_GE(beside, reading);
  EXPECT_LT(beside, reading / 0.6);  // as efficient as the table's products, 0.7
  EXPECT_GT(alone, beside + 4e-6);   // the table's fixed time
  EXPECT_EQ(op(OpId::shared_down, 1), product(7168, 256, 1));
  EXPECT_EQ(op(OpId::q_up, 1, LaunchMode::graph), op(OpId::q_up, 1));
}

// A server's own kernels count for the shapes that were measured with them, and for no others.
TEST_F(MeasuredOps, AnEnginesOwnExpertsCountWhereTheyWereMeasured) {
  KernelTable shared = expert_table("bfloat16", 0), own = expert_table("bfloat16", 0.5F);
  shared.sites = {{4096, 14336, 2, 8, 101, 4, 1}};
  own.sites = {{4096, 14336, 2, 8, 101, 1, 4}};
  use({shared});
  d_.shape = shape_named("mixtral-8x7b");
  d_.weight_dtype = DType::bf16;
  d_.tp = 4;
  const double split = experts(16, 1), spread = experts(16, 4);
  d_.accelerator.own_kernels["the server"] = std::make_shared<const KernelFile>(
      folder_.write(kernel_file_bytes({"test", "a test", "2026-11-22"}, {own}), "test.own.kernels"));
  d_.engine.own_kernels = "the server";
  EXPECT_EQ(experts(16, 1), split);
  EXPECT_NEAR(experts(16, 4) / spread, std::exp(0.5), 1e-3);
}

// Weights of four bits without a table use the measured 16-bit kernel with a quarter of the bytes. fp8 tables of
// another accelerator do not apply to one without fp8 units.
TEST_F(MeasuredOps, TypesWithoutMeasurementsAreNoSlowerThan16Bits) {
  KernelTable narrow = square_table();
  narrow.dtype = "fp8";
  narrow.log_ratio.assign(narrow.log_ratio.size(), 2.0F);
  use({square_table(), narrow});
  const auto step = [&](DType type) {
    d_.weight_dtype = type;
    ForwardCost cost(d_.inputs());
    return cost.forward(decode_work(d_.shape, 4, 500)).total();
  };
  const double wide = step(DType::bf16);
  for (const DType type : {DType::fp8, DType::int8, DType::int4, DType::mxfp4})
    EXPECT_LT(step(type), wide) << name(type);
  d_.accelerator.fp8 = FlopsPerSecond(600e12);
  EXPECT_GT(step(DType::fp8), wide);  // as measured
}

// A benchmark reads the same experts again and finds them in the cache; a step, which reads those of all layers, does
// not. Measured: 20 times faster than from memory, entirely because of the cache (log ratio 0). Priced: as from memory.
TEST_F(MeasuredOps, ExpertsAreReadColdWhateverTheBenchmarkFoundInTheCache) {
  d_.shape = shape_named("mixtral-8x7b");
  const auto step = [&](WarmCache cache) {
    KernelTable t = square_table();
    t.op = KernelOp::moe;
    t.metric = {.scale = {1, 1, 1, 1, 1, 1, 1, 0}, .nugget = 0.01, .neighbours = 1, .knee = 0};
    t.sites = {{4096, 14336, 2, 8, 101, 1, 1}};
    t.log_ratio = {0, 0, 0};
    t.cache = cache;
    d_.accelerator.kernels = std::make_shared<const KernelFile>(folder_.write({t}));
    ForwardCost cost(d_.inputs());
    return cost.forward(decode_work(d_.shape, 4, 500)).total();
  };
  EXPECT_EQ(step({Bytes(1e12), 20}), step({}));
}

// Between measured contexts the time of a layer is linear; at measured contexts it is the measured time.
TEST_F(MeasuredOps, DecodeAttentionFollowsTheMeasuredContexts) {
  ForwardCost cost(d_.inputs());
  const auto attention = [&](double context) { return cost.decode_curve(4).time(4 * context, 4 * context); };
  const double at_64 = attention(64), at_1024 = attention(1024);
  const double layers = d_.shape.layers;
  EXPECT_NEAR((at_1024 - at_64) / layers, measured(2, {4, 32, 32, 128}, 1024) - measured(2, {4, 32, 32, 128}, 64),
              1e-9);
  EXPECT_NEAR(attention(544), (at_64 + at_1024) / 2, 1e-9);
}

// A chunk on cached tokens costs the difference of two whole prefills plus the fixed cost.
TEST_F(MeasuredOps, AChunkIsTheDifferenceOfWholePrefills) {
  const auto prefill = [&](std::int64_t tokens, std::int64_t context) {
    const OpPricer pricer(d_.inputs());
    const OpListInputs ops{.shape = &d_.shape,
                           .weight_dtype = d_.weight_dtype,
                           .kv_dtype = d_.kv_dtype,
                           .tp = 1,
                           .pp = 1,
                           .capabilities = {}};
    return pricer.price(prefill_attention_op(ops, {.new_tokens = tokens, .context = context}, false)).total() -
           pricer.kernel_gap();
  };
  const double whole = measured(1, {1, 32, 32, 128}, 1024), cached = measured(1, {1, 32, 32, 128}, 64);
  EXPECT_NEAR(prefill(1024, 0), whole, 1e-12);
  EXPECT_NEAR(prefill(960, 64), 8e-6 + whole - cached, 1e-12);
}

TEST_F(MeasuredOps, SaysWhatLiesBeyondTheMeasurements) {
  ForwardCost cost(d_.inputs());
  (void)cost.forward(decode_work(d_.shape, 4, 500));
  // Products are valid up to 11 585; the LM head has 32 000 columns.
  EXPECT_THAT(cost.beyond_measured(), Contains(HasSubstr("bfloat16 GEMM 32000 x 4096 lies outside what was measured")));
  EXPECT_THAT(cost.beyond_measured(), Not(Contains(HasSubstr("decode beyond"))));
  (void)cost.forward(decode_work(d_.shape, 4, 2000));
  EXPECT_THAT(cost.beyond_measured(), Contains("decode beyond the measured 1024 tokens of context"));
  (void)cost.forward(decode_work(d_.shape, 5, 500));
  EXPECT_THAT(cost.beyond_measured(), Contains("decode beyond the measured 4 sequences"));
  (void)cost.forward({.prefill = std::vector<PrefillSpan>{{2000, 0}}, .sampled = 1});
  EXPECT_THAT(cost.beyond_measured(), Contains("prefill beyond the measured 1024 tokens"));
  EXPECT_THAT(cost.beyond_measured(), Contains("products beyond the measured 256 rows"));
}

TEST_F(MeasuredOps, SaysWhichTypesAndHeadsWereNotMeasured) {
  d_.weight_dtype = DType::int4;
  EXPECT_THAT(ForwardCost(d_.inputs()).beyond_measured(), Contains(HasSubstr("no measured GEMMs in int4")));
  d_.weight_dtype = DType::bf16;
  d_.shape = shape_named("mistral-7b");  // it has 8 KV heads, but 32 were measured
  EXPECT_THAT(ForwardCost(d_.inputs()).beyond_measured(),
              Contains(HasSubstr("8 KV heads of size 128 lies outside what was measured")));
}

// Tables of nvfp4 are fitted against the fp8 peak; the accelerator's own 4-bit peak is for unmeasured products.
TEST_F(MeasuredOps, FourBitFloatsCostWhatWasMeasured) {
  KernelTable nvfp4 = square_table();
  nvfp4.dtype = "nvfp4";
  use({square_table(), nvfp4});
  d_.accelerator.fp8 = FlopsPerSecond(600e12);
  d_.accelerator.fp4 = FlopsPerSecond(1200e12);
  d_.weight_dtype = DType::nvfp4;
  const OpPricer pricer(d_.inputs());
  const KernelTable& t = d_.accelerator.kernels->kernel(1).table();
  ASSERT_EQ(t.dtype, "nvfp4");
  Op op;
  op.kind = OpKind::gemm;
  op.m = 256;
  op.n = op.k = 4096;
  op.flops = 2.0 * 256 * 4096 * 4096;
  op.weight_bytes = 0.5625 * 4096 * 4096;
  op.other_bytes = 2.0 * 256 * (4096 + 4096);
  const KernelKey key{4096, 4096};
  const double expected =
      kernel_roofline(t.op, t.coefficients, {{FlopsPerSecond(600e12), d_.accelerator.memory_bandwidth}},
                      kernel_work(t.op, key, 256, 0.5625)) *
      std::exp(log_ratio_at(t, *d_.accelerator.kernels->kernel(1).row(key), 256));
  EXPECT_NEAR(pricer.price(op).total() - pricer.kernel_gap(), expected, 1e-12);
}

TEST_F(MeasuredOps, NothingIsBeyondWhereNothingWasMeasured) {
  d_.accelerator.kernels = nullptr;
  ForwardCost cost(d_.inputs());
  (void)cost.forward(decode_work(d_.shape, 500, 5000));
  EXPECT_THAT(cost.beyond_measured(), IsEmpty());
}

}  // namespace
}  // namespace plimsoll::model
