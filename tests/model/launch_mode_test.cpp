// SPDX-License-Identifier: Apache-2.0
// How the way in which an engine runs a step affects its kernels. Covers replayed graphs, norms inside all-reduces,
// fused quantisation, own kernels, narrow caches, and a front end's host time.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "model/graph_sizes.h"
#include "model/host_time.h"
#include "model/op_cost.h"
#include "tests/model/kernels.h"
#include "tests/model/shapes.h"

namespace plimsoll::model {
namespace {

constexpr double kExact = 1e-12;

Deployment llama(std::int32_t tp = 1) {
  Deployment d;
  d.shape = shape_named("llama-2-7b");
  d.tp = tp;
  return d;
}

double decode_seconds(const Deployment& d, std::int64_t rows = 4) {
  return ForwardCost(d.inputs()).forward(decode_work(d.shape, rows, 100)).total();
}

// 32 layers of 4 products, 4 pointwise ops and attention; before them embedding, after them norm, head, sampling.
TEST(GraphReplay, SavesTheGapOfEveryKernelAndTheFixedTimeOfPointwiseOnes) {
  constexpr double kKernels = 32 * 9 + 4, kPointwise = 32 * 4 + 3;
  Deployment d = llama();
  d.engine.cuda_graphs = true;
  const double before = decode_seconds(d);
  EXPECT_DOUBLE_EQ(d.accelerator.kernel_gap.count(), 1e-6);
  d.accelerator.graph = {.kernel_gap = Seconds(0.25e-6), .pointwise_t0 = Seconds(1e-6)};
  EXPECT_NEAR(decode_seconds(d), before - kKernels * 0.75e-6 - kPointwise * 4e-6, kExact);
}

TEST(GraphReplay, LeavesEagerStepsAlone) {
  Deployment d = llama();
  const std::vector<PrefillSpan> spans{{.new_tokens = 64, .context = 0}};
  ForwardWork prefill;
  prefill.prefill = spans;
  prefill.sampled = 1;
  const auto seconds = [&] { return ForwardCost(d.inputs()).forward(prefill).total(); };
  d.engine.cuda_graphs = true;
  const double prefill_before = seconds();
  d.accelerator.graph = {.kernel_gap = Seconds(0), .pointwise_t0 = Seconds(0)};
  EXPECT_EQ(seconds(), prefill_before);
  d.engine.cuda_graphs = false;
  const double decode = decode_seconds(d);
  d.accelerator.graph.reset();
  EXPECT_EQ(decode, decode_seconds(d));
}

// vLLM 0.12 with 256 sequences and a large budget: 1, 2, 4, eights up to 248, sixteens from 256 to 512. Larger steps
// run without a graph.
std::vector<std::int64_t> vllm_sizes(std::int64_t max_running, std::int64_t step_tokens) {
  return graph_sizes(GraphRule::vllm, {max_running, step_tokens, Bytes(80e9), 1});
}

TEST(GraphSizes, FollowVllm) {
  const std::vector<std::int64_t> sizes = vllm_sizes(256, 8192);
  for (const auto& [tokens, rows] :
       {std::pair(1, 1), {3, 4}, {5, 8}, {9, 16}, {250, 256}, {256, 256}, {257, 272}, {512, 512}, {513, 0}})
    EXPECT_EQ(graph_rows(sizes, tokens), rows) << tokens;
  EXPECT_EQ(vllm_sizes(4, 2048), (std::vector<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(vllm_sizes(100, 6), (std::vector<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(graph_rows({}, 3), 0);
}

// Lists of the products' own defaults, written out. 24 GB on two GPUs: SGLang captures up to 24; on four up to 80.
TEST(GraphSizes, FollowTheOtherProducts) {
  const auto sglang = [](double gigabytes, std::int32_t tp, std::int64_t running = 4096) {
    return graph_sizes(GraphRule::sglang, {running, 8192, Bytes(gigabytes * 1e9), tp});
  };
  EXPECT_EQ(sglang(24, 2), (std::vector<std::int64_t>{1, 2, 4, 8, 12, 16, 24}));
  EXPECT_EQ(sglang(24, 4).back(), 80);
  EXPECT_EQ(sglang(80, 2).back(), 256);
  EXPECT_EQ(sglang(80, 8).back(), 512);
  EXPECT_EQ(sglang(80, 8, 10), (std::vector<std::int64_t>{1, 2, 4, 8}));
  for (const auto& [rows, graph] : {std::pair(13, 16), {17, 24}, {257, 272}, {500, 512}, {513, 0}})
    EXPECT_EQ(graph_rows(sglang(141, 8), rows), graph) << rows;
  const std::vector<std::int64_t> trtllm = graph_sizes(GraphRule::trtllm, {2048, 8192, Bytes(80e9), 1});
  EXPECT_EQ(trtllm.size(), 19);  // 1, 2, 4 and sixteen eights
  EXPECT_EQ(trtllm.back(), 128);
  EXPECT_EQ(graph_sizes(GraphRule::tgi, {2048, 8192, Bytes(80e9), 1}), (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32}));
  EXPECT_TRUE(graph_sizes(GraphRule::off, {2048, 8192, Bytes(80e9), 1}).empty());
}

// Only vLLM captures steps with prompts: 5 prompt tokens beside 4 decodes run as they are elsewhere.
TEST(GraphSizes, PadStepsWithPromptsOnlyInVllm) {
  Deployment d = llama();
  const auto mixed = [&] {
    const PrefillSpan prompt{.new_tokens = 5, .context = 0};
    ForwardWork work = decode_work(d.shape, 4, 500);
    work.prefill = {&prompt, 1};
    ForwardCost cost(d.inputs());
    return cost.forward(work).total();
  };
  const double plain = mixed();
  d.engine.graph_sizes = {16};
  EXPECT_GT(mixed(), plain);
  d.engine.graphs_hold_prompts = false;
  EXPECT_EQ(mixed(), plain);
}

// A step of 9 rows runs the products of 16, but attends with 9 and samples 9; one of 16 is not padded; one of 17 runs
// as without graphs.
TEST(GraphSizes, PadTheProductsOfAStep) {
  Deployment d = llama();
  d.engine.cuda_graphs = true;
  d.engine.host_op = Seconds(1e-6);
  const double nine = decode_seconds(d, 9), sixteen = decode_seconds(d, 16);
  d.engine.graph_sizes = {8, 16};
  EXPECT_EQ(decode_seconds(d, 16), sixteen);
  EXPECT_GT(decode_seconds(d, 9), nine);
  EXPECT_LT(decode_seconds(d, 9), sixteen);
  const double beyond = decode_seconds(d, 17);
  d.engine.cuda_graphs = false;
  EXPECT_EQ(decode_seconds(d, 17), beyond);
}

// Padding never saves time, and the larger of two steps never costs less.
TEST(GraphSizes, StepsGrowWithTheirRows) {
  Deployment d = llama();
  d.engine.cuda_graphs = true;
  Deployment padded = d;
  padded.engine.graph_sizes = vllm_sizes(256, 8192);
  double last = 0;
  for (std::int64_t rows = 1; rows <= 64; ++rows) {
    const double seconds = decode_seconds(padded, rows);
    EXPECT_GE(seconds, decode_seconds(d, rows)) << rows;
    EXPECT_GE(seconds, last) << rows;
    last = seconds;
  }
}

// Two all-reduces per layer include the norms that follow them: only the memory traffic of these norms remains.
TEST(FusedNorm, CostsItsTrafficAlone) {
  Deployment d = llama(2);
  d.interconnect.all_reduce = {
      {.ranks = 2, .segments = {{Seconds(5e-6), BytesPerSecond(1e11)}}, .kernel = "own", .points = {}}};
  d.engine.all_reduce_kernel = "own";
  const double before = decode_seconds(d);
  d.interconnect.all_reduce.front().fuses_norm = true;
  EXPECT_NEAR(decode_seconds(d), before - 32 * 2 * (5e-6 + 1e-6), kExact);
  d.tp = 1;
  const double alone = decode_seconds(d);
  d.interconnect.all_reduce.clear();
  EXPECT_EQ(decode_seconds(d), alone);
}

// With norms before and behind attention and MLP, only those behind follow an all-reduce: as many as without the
// others.
TEST(FusedNorm, LeavesTheNormsBeforeASandwichAlone) {
  Deployment d = llama(2);
  d.interconnect.all_reduce = {{.ranks = 2,
                                .segments = {{Seconds(5e-6), BytesPerSecond(1e11)}},
                                .kernel = "own",
                                .points = {},
                                .fuses_norm = true}};
  const auto saved = [&] {
    d.engine.all_reduce_kernel = "other";
    d.interconnect.all_reduce.front().fuses_norm = false;
    const double before = decode_seconds(d);
    d.interconnect.all_reduce.front().fuses_norm = true;
    d.engine.all_reduce_kernel = "own";
    return before - decode_seconds(d);
  };
  const double two = saved();
  d.shape.norms = 4;
  EXPECT_NEAR(saved(), two, kExact);
}

TEST(AllReduceKernel, CanDifferByLink) {
  EngineProfile engine;
  engine.all_reduce_kernel = "everywhere";
  engine.all_reduce_by_link["nvswitch-b200"] = "there";
  EXPECT_EQ(engine.all_reduce_on("nvswitch-b200"), "there");
  EXPECT_EQ(engine.all_reduce_on("nvswitch-h100"), "everywhere");
}

class EngineKernels : public ::testing::Test {
 protected:
  EngineKernels() {
    d_ = llama();
    d_.accelerator.fp8 = FlopsPerSecond(624e12);
    d_.accelerator.kernel_gap = Seconds(0);
    d_.weight_dtype = DType::fp8;
    d_.accelerator.kernels = std::make_shared<const KernelFile>(folder_.write({square_table(), fp8_table()}));
  }
  static KernelTable fp8_table() {
    KernelTable table = square_table();
    table.dtype = "fp8";
    return table;
  }
  [[nodiscard]] double product(bool quantised, std::int64_t width = 4096) const {
    Op op{.kind = OpKind::gemm, .m = 16, .n = width, .k = width};
    op.flops = 32.0 * static_cast<double>(width * width);
    op.weight_bytes = static_cast<double>(width * width) * (quantised ? 1 : 2);
    op.other_bytes = 64.0 * static_cast<double>(width);
    op.quantised = quantised;
    return OpPricer(d_.inputs()).price(op).total();
  }
  KernelFolder folder_;
  Deployment d_;
};

TEST_F(EngineKernels, FusedQuantisationShortensNarrowProductsOnly) {
  const double narrow = product(true), wide = product(false);
  d_.engine.fused_quantisation = Seconds(1e-6);
  EXPECT_NEAR(product(true), narrow - 1e-6, kExact);
  EXPECT_EQ(product(false), wide);
}

// At best, weights are read at the fastest rate measured for cold weights, and no product becomes free.
TEST_F(EngineKernels, FusedQuantisationLeavesTheTimeToReadTheWeights) {
  const double narrow = product(true), least = 4096.0 * 4096 / (0.9 * 1555e9);
  d_.engine.fused_quantisation = Seconds(1);
  EXPECT_NEAR(product(true), std::max(0.4 * narrow, least), kExact);
}

TEST_F(EngineKernels, ScalesOfATypeApplyToItsProductsAlone) {
  const double narrow = product(true), wide = product(false);
  d_.engine.product_scales[DType::fp8] = {.compute = 0.5, .memory = 0.5};
  EXPECT_GT(product(true), narrow);
  EXPECT_EQ(product(false), wide);
  d_.weight_dtype = DType::fp16;
  EXPECT_EQ(product(true), (d_.engine.product_scales.clear(), product(true)));
}

// From 16 rows on, a kernel writes the 4096 x 4096 weights in 16 bits (2 bytes) after it has read them (here 1 byte),
// at the rate of pointwise ops. Then the product of 16-bit weights runs.
TEST_F(EngineKernels, UnpackedWeightsPassTheMemoryTwiceMore) {
  const double narrow = product(true), wide = product(false);
  const ClassPrices copy = OpPricer(d_.inputs()).prices(OpClass::pointwise);
  d_.engine.product_scales[DType::fp8].unpacked_from = 17;
  EXPECT_EQ(product(true), narrow);
  d_.engine.product_scales[DType::fp8].unpacked_from = 16;
  EXPECT_NEAR(product(true), wide + copy.t0 + 4096.0 * 4096 * 3 * copy.byte_time, kExact);
  EXPECT_EQ(product(false), wide);
}

// int4 has no table here: its products take the 16-bit kernel, and without any tables the roofline.
TEST_F(EngineKernels, ScalesOfATypeApplyWithoutItsTablesToo) {
  d_.weight_dtype = DType::int4;
  for (const bool tables : {true, false}) {
    if (!tables) d_.accelerator.kernels = nullptr;
    d_.engine.product_scales.clear();
    const double before = product(true), wide = product(false);
    d_.engine.product_scales[DType::int4] = {.compute = 0.5, .memory = 0.5};
    EXPECT_GT(product(true), 1.2 * before) << tables;
    EXPECT_EQ(product(false), wide) << tables;
  }
}

TEST_F(EngineKernels, OwnKernelsGoFirstWhereTheyHaveTheType) {
  const double narrow = product(true), wide = product(false);
  KernelTable own = fp8_table();
  for (float& ratio : own.log_ratio) ratio += 0.5F;
  d_.accelerator.own_kernels["the server"] = std::make_shared<const KernelFile>(
      folder_.write(kernel_file_bytes({"test", "a test", "2026-11-22"}, {own}), "test.own.kernels"));
  EXPECT_EQ(product(true), narrow);
  d_.engine.own_kernels = "the server";
  EXPECT_NEAR(product(true) / narrow, std::exp(0.5), 1e-3);
  EXPECT_EQ(product(false), wide);
}

// A front end shares the host with the engine: its times are added to those of the engine if the study states it.
TEST(FrontEndHostTime, AddsToStepsOfStudiesThatStateIt) {
  Deployment d = llama();
  d.engine.overlap = HostOverlap::none;
  d.engine.front_ends[FrontEnd::dynamo] = {.step = Seconds(1e-3), .sequence = Seconds(1e-5)};
  CostInputs inputs = d.inputs();
  const ForwardWork work = decode_work(d.shape, 4, 100);
  const double alone = ForwardCost(inputs).forward(work).total();
  inputs.front_end = FrontEnd::dynamo;
  EXPECT_NEAR(ForwardCost(inputs).forward(work).total(), alone + 1e-3 + 4e-5, kExact);
}

// The engine's attention takes as long over an 8-bit cache as over a 16-bit one. Wider caches stay what they are.
TEST(NarrowCache, IsReadAsOneOf16BitsIfTheEngineSaysSo) {
  Deployment d = llama();
  const std::vector<PrefillSpan> spans{{.new_tokens = 64, .context = 1000}};
  const auto seconds = [&](DType cache, bool as_16_bits) {
    d.kv_dtype = cache;
    d.engine.cache_read_as_16_bits = as_16_bits;
    ForwardWork work = decode_work(d.shape, 64, 1000);
    const double decode = ForwardCost(d.inputs()).forward(work).total();
    work.prefill = spans;
    return std::pair(decode, ForwardCost(d.inputs()).forward(work).total());
  };
  EXPECT_LT(seconds(DType::fp8, false).first, seconds(DType::bf16, false).first);
  EXPECT_EQ(seconds(DType::fp8, true), seconds(DType::bf16, false));
  EXPECT_EQ(seconds(DType::fp32, true), seconds(DType::fp32, false));
}

}  // namespace
}  // namespace plimsoll::model
