// SPDX-License-Identifier: Apache-2.0
#include "model/forward_cost.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "model/error.h"
#include "model/memory_plan.h"
#include "model/op_cost.h"
#include "tests/model/shapes.h"

namespace plimsoll::model {
namespace {

double decode_seconds(const Deployment& d, std::int64_t rows, double context) {
  ForwardCost cost(d.inputs());
  return cost.forward(decode_work(d.shape, rows, context)).total();
}

TEST(ForwardCost, WeightReadBoundsOfTheJumpStartPost) {
  // 13.48 GB at 600 and 1555 GB/s take 22.5 and 8.7 ms (embeddings are gathered, so 0.26 GB less are read).
  Deployment d{.shape = shape_named("llama-2-7b"), .accelerator = a10g()};
  EXPECT_NEAR(1e3 * decode_seconds(d, 1, 1), 22.5, 0.6);
  d.accelerator = a100_40();
  EXPECT_NEAR(1e3 * decode_seconds(d, 1, 1), 8.7, 0.25);
  d.tp = 8;  // 1.1 ms, and 66 all-reduces of about 16 us
  EXPECT_NEAR(1e3 * decode_seconds(d, 1, 1), 1.1 + 66 * 0.015, 0.15);
}

TEST(ForwardCost, BatchOneDecodeIsInTheMeasuredRange) {
  // Measured with TGI: 33 ms on an A10G, 16 ms on an A100. Device time with efficiencies of 0.8 must leave time for the
  // host, and a host time like TGI's must not double it.
  Deployment d{.shape = shape_named("llama-2-7b"), .accelerator = with_efficiencies(a10g())};
  EXPECT_GT(decode_seconds(d, 1, 512), 27e-3);
  EXPECT_LT(decode_seconds(d, 1, 512), 33e-3);
  d.accelerator = with_efficiencies(a100_40());
  d.engine = tgi_like_engine();
  EXPECT_GT(decode_seconds(d, 1, 512), 13e-3);
  EXPECT_LT(decode_seconds(d, 1, 512), 19e-3);
}

TEST(ForwardCost, PureDecodeIsTheCurveToTheLastBit) {
  for (const PublishedShape& published : published_shapes()) {
    Deployment d{.shape = published.shape, .accelerator = with_decode_residual(with_efficiencies(a100_40()))};
    d.engine = tgi_like_engine();
    ForwardCost cost(d.inputs());
    for (const std::int64_t rows : {1, 7, 64}) {
      for (const double context : {1.0, 333.3, 5000.0}) {
        const ForwardWork work = decode_work(d.shape, rows, context);
        const DecodeCurve& curve = cost.decode_curve(rows);
        EXPECT_EQ(cost.forward(work).total(), curve.time(work.decode_context, work.decode_context_windowed));
      }
    }
  }
}

// Prices the op list op by op; forward() must give the same total.
double priced_list(const Deployment& d, const ForwardWork& work) {
  const OpPricer pricer(d.inputs());
  const OpList list = make_op_list({.shape = &d.shape,
                                    .weight_dtype = d.weight_dtype,
                                    .kv_dtype = d.kv_dtype,
                                    .tp = d.tp,
                                    .pp = d.pp,
                                    .capabilities = {}},
                                   work);
  double seconds = 0;
  for_each_op(list, [&](const Op& op) {
    if (op.kind != OpKind::decode_attention) {
      seconds += op.count * pricer.price(op).total();
      return;
    }
    const ClassPrices& c = pricer.prices(OpClass::decode_attention);
    seconds += op.count * (c.t0 + op.other_bytes * c.byte_time +
                           p_norm(op.flops * c.flop_time, op.kv_bytes * c.byte_time, c.p).value + pricer.kernel_gap());
  });
  return seconds;
}

TEST(ForwardCost, IsThePricedOpList) {
  for (const PublishedShape& published : published_shapes()) {
    for (const std::int32_t tp : {1, 4}) {
      Deployment d{.shape = published.shape};
      d.tp = tp;
      if (!tp_problem(d.shape, tp).empty()) continue;
      ForwardCost cost(d.inputs());
      const std::array<PrefillSpan, 3> spans{{{100, 0}, {0, 0}, {17, 5000}}};
      ForwardWork work = decode_work(d.shape, 5, 700);
      EXPECT_NEAR(cost.forward(work).total() / priced_list(d, work), 1, 1e-12) << d.shape.id;
      work.prefill = spans;
      work.sampled = 7;
      EXPECT_NEAR(cost.forward(work).total() / priced_list(d, work), 1, 1e-12) << d.shape.id;
    }
  }
}

TEST(ForwardCost, OneRankSpendsNothingOnAllReduces) {
  Deployment d{.shape = shape_named("llama-2-7b")};
  EXPECT_EQ(ForwardCost(d.inputs()).forward(decode_work(d.shape, 8, 100)).allreduce, 0);
  d.tp = 2;
  EXPECT_GT(ForwardCost(d.inputs()).forward(decode_work(d.shape, 8, 100)).allreduce, 0);
}

TEST(ForwardCost, HostOverlapsAsTheEngineSays) {
  Deployment d{.shape = shape_named("llama-2-7b")};
  const double device = decode_seconds(d, 1, 100);
  d.engine.host_step = Seconds(device);
  d.engine.overlap = HostOverlap::none;
  EXPECT_NEAR(decode_seconds(d, 1, 100), 2 * device, 1e-12);
  d.engine.overlap = HostOverlap::p_norm;
  EXPECT_NEAR(decode_seconds(d, 1, 100), std::cbrt(2) * device, 1e-12);
  d.engine.overlap = HostOverlap::full;
  EXPECT_NEAR(decode_seconds(d, 1, 100), device, 1e-12);
  d.engine.host_step = Seconds(3 * device);
  EXPECT_NEAR(decode_seconds(d, 1, 100), 3 * device, 1e-12);
}

TEST(ForwardCost, HostTermsCountLayersSequencesAndRanks) {
  Deployment d{.shape = shape_named("llama-2-7b")};
  EngineProfile engine = ideal_engine();
  engine.overlap = HostOverlap::none;
  engine.host_step = Seconds(1);
  engine.host_layer = Seconds(10);
  engine.host_layer_tp = Seconds(100);
  engine.host_layer_rank = Seconds(1000);
  engine.host_sequence = Seconds(0.1);
  engine.host_token = Seconds(0.01);
  engine.host_prefill = Seconds(0.001);
  d.engine = engine;
  d.tp = 2;
  const PrefillSpan span{20, 0};
  ForwardWork work = decode_work(d.shape, 3, 100);
  work.prefill = {&span, 1};
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(work).host, 1 + 32 * 1110 + 0.4 + 0.23 + 0.001, 1e-9);
  d.engine.cuda_graphs = true;
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(work).host, 1 + 32 * 1110 + 0.4 + 0.23 + 0.001, 1e-9);
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(decode_work(d.shape, 3, 100)).host, 1 + 0.3 + 0.03, 1e-9);
}

TEST(ForwardCost, HostTimeOfOpsCountsTheListAndGrowsWithTheRanks) {
  // A layer of a decode step of Llama 2 7B runs 2 norms, qkv, rotation, attention, output, up, activation and down: 9;
  // with TP two all-reduces more. Outside the layers: embed, norm, head, sample: 4; with TP two exchanges more.
  Deployment d{.shape = shape_named("llama-2-7b")};
  d.engine = ideal_engine();
  d.engine.overlap = HostOverlap::none;
  d.engine.host_op = Seconds(1);
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(decode_work(d.shape, 3, 100)).host, 32 * 9 + 4, 1e-9);
  d.tp = 4;
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(decode_work(d.shape, 3, 100)).host, 32 * 11 + 6, 1e-9);
  d.engine.host_rank_growth = 0.1;
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(decode_work(d.shape, 3, 100)).host, 1.3 * (32 * 11 + 6), 1e-9);
  // Hosts of other accelerators may differ.
  d.engine.rank_growth_by_accelerator = {{"another", 0.7}, {d.accelerator.id, 0.2}};
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(decode_work(d.shape, 3, 100)).host, 1.6 * (32 * 11 + 6), 1e-9);
}

TEST(ForwardCost, PromptTokensCostHostTimeOnFurtherRanks) {
  Deployment d{.shape = shape_named("llama-2-7b")};
  d.engine = ideal_engine();
  d.engine.overlap = HostOverlap::none;
  d.engine.host_prompt_rank = Seconds(1);
  d.engine.host_rank_growth = 0.5;  // does not affect this term
  d.tp = 4;
  const PrefillSpan span{20, 0};
  ForwardWork work = decode_work(d.shape, 3, 100);
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(work).host, 0, 1e-12);
  work.prefill = {&span, 1};
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(work).host, 20 * 3, 1e-9);
}

// Launches of a third of the device's time are hidden behind it. Output time is added, also in prefills.
TEST(ForwardCost, SerialOutputIsNotHidden) {
  Deployment d{.shape = shape_named("llama-2-7b")};
  d.engine = ideal_engine();
  const double device = decode_seconds(d, 2, 100);
  d.engine.overlap = HostOverlap::full;
  d.engine.host_layer = Seconds(device / 3 / d.shape.layers);
  d.engine.host_sequence = Seconds(0.25 * device);
  EXPECT_NEAR(decode_seconds(d, 2, 100), device, 1e-12);
  d.engine.serial_output = true;
  EXPECT_NEAR(decode_seconds(d, 2, 100), 1.5 * device, 1e-12);
  const PrefillSpan span{20, 0};
  ForwardWork work = decode_work(d.shape, 2, 100);
  work.prefill = {&span, 1};
  EXPECT_NEAR(ForwardCost(d.inputs()).forward(work).host, 0.75 * device, 1e-12);
}

// One thread block reads a head's 2 * 128 * 2 bytes per token: 10 000 tokens at 5.12 GB/s take 1 ms per layer. For few
// sequences this holds for any TP degree and batch; there are 32 layers. Without the limit, memory decides.
TEST(ForwardCost, AThreadBlockAHeadLimitsAttentionOfFewSequences) {
  Deployment d{.shape = shape_named("llama-2-7b"), .accelerator = a100_40()};
  const double free = decode_seconds(d, 1, 10000) - decode_seconds(d, 1, 1);
  EXPECT_LT(free, 0.010);
  d.engine.attention_stream = BytesPerSecond(5.12e9);
  const double limited = decode_seconds(d, 1, 10000) - decode_seconds(d, 1, 1);
  EXPECT_NEAR(limited, 0.032, 0.001);
  EXPECT_NEAR(decode_seconds(d, 2, 10000) - decode_seconds(d, 2, 1), limited, 0.1 * limited);
  d.tp = 8;
  EXPECT_NEAR(decode_seconds(d, 1, 10000) - decode_seconds(d, 1, 1), 0.032, 0.001);
  d.tp = 1;  // with many sequences, memory decides again
  const double many = decode_seconds(d, 64, 10000) - decode_seconds(d, 64, 1);
  d.engine.attention_stream = BytesPerSecond(0);
  EXPECT_NEAR(many, decode_seconds(d, 64, 10000) - decode_seconds(d, 64, 1), 0.01 * many);
}

TEST(ForwardCost, ConstantEnginesNeedNoDevice) {
  EngineProfile engine = ideal_engine();
  engine.constant = ConstantCost{Seconds(0.5), Seconds(0.01), {}};
  CostInputs in;
  in.engine = &engine;
  const PrefillSpan span{20, 0};
  ForwardWork prefill;
  prefill.prefill = {&span, 1};
  prefill.sampled = 1;
  ForwardWork decode;
  decode.decode_rows = decode.sampled = 2;
  EXPECT_DOUBLE_EQ(ForwardCost(in).forward(prefill).total(), 0.51);
  EXPECT_DOUBLE_EQ(ForwardCost(in).forward(decode).total(), 0.01);
  engine.constant = ConstantCost{.batch = Seconds(0.25)};
  EXPECT_DOUBLE_EQ(ForwardCost(in).forward(prefill).total(), 0.25);
  EXPECT_DOUBLE_EQ(ForwardCost(in).forward(decode).total(), 0);
}

TEST(ForwardCost, EngineScalesMultiplyEfficienciesUpToTheSpecification) {
  Deployment d{.shape = shape_named("llama-2-7b"), .accelerator = a100_40()};
  const double full = decode_seconds(d, 1, 1000);
  d.engine.memory_scale = 0.5;
  EXPECT_NEAR(decode_seconds(d, 1, 1000) / full, 2, 0.02);
  d.engine.memory_scale = 1.5;
  EXPECT_EQ(decode_seconds(d, 1, 1000), full);
}

// The kernel for one row reads at 0.8 of the bandwidth, the other at 0.2. Arithmetic costs next to nothing here, so the
// matrices take four times as long for two rows as for one, and no longer for three.
TEST(ForwardCost, AKernelForOneRowServesOneRowOnly) {
  Deployment d{.shape = shape_named("llama-2-7b"), .accelerator = a100_40()};
  d.accelerator.fp16 = FlopsPerSecond(1e18);
  OpCoefficients& gemm = d.accelerator.coefficients[static_cast<std::size_t>(OpClass::gemm)];
  gemm.memory_efficiency = 0.2;
  gemm.one_row_memory = 0.8;
  const auto weights = [&](std::int64_t rows) {
    ForwardCost cost(d.inputs());
    return cost.forward(decode_work(d.shape, rows, 1)).weights;
  };
  EXPECT_NEAR(weights(2) / weights(1), 4, 0.04);
  EXPECT_NEAR(weights(3) / weights(2), 1, 0.01);
  gemm.one_row_memory = 0;
  EXPECT_NEAR(weights(2) / weights(1), 1, 0.01);
}

TEST(ForwardCost, RefusesWhatTheDeviceCannotDo) {
  Deployment d{.shape = shape_named("llama-2-7b")};
  d.accelerator.bf16 = FlopsPerSecond(0);
  d.weight_dtype = DType::bf16;
  EXPECT_THROW(ForwardCost(d.inputs()), InputError);
  d.weight_dtype = DType::fp16;
  d.tp = 5;
  EXPECT_THROW(ForwardCost(d.inputs()), InputError);
  d.tp = 1;
  d.pp = 33;
  EXPECT_THROW(ForwardCost(d.inputs()), InputError);
}

TEST(ForwardCost, ThePartsTellWhereTheTimeGoes) {
  Deployment d{.shape = shape_named("llama-2-7b")};
  const TimeParts small = ForwardCost(d.inputs()).forward(decode_work(d.shape, 1, 100));
  EXPECT_GT(small.weights, 0.8 * small.total());
  const TimeParts large = ForwardCost(d.inputs()).forward(decode_work(d.shape, 64, 2000));
  EXPECT_GT(large.kv, 0.5 * large.total());
  const PrefillSpan span{4000, 0};
  ForwardWork prefill;
  prefill.prefill = {&span, 1};
  prefill.sampled = 1;
  const TimeParts compute = ForwardCost(d.inputs()).forward(prefill);
  EXPECT_GT(compute.compute, 0.8 * compute.total());
}

TEST(ForwardCost, WindowedLayersCostLessAtLongContext) {
  LlmShape global = shape_named("mistral-7b");
  global.sliding_window = 0;
  Deployment windowed{.shape = shape_named("mistral-7b")}, full{.shape = global};
  EXPECT_EQ(decode_seconds(windowed, 16, 3000), decode_seconds(full, 16, 3000));
  EXPECT_LT(decode_seconds(windowed, 16, 30000), 0.5 * decode_seconds(full, 16, 30000));
}

TEST(ForwardCost, StagesAddHopsNotSpeed) {
  Deployment d{.shape = shape_named("llama-2-70b")};
  const double one = decode_seconds(d, 4, 100);
  d.pp = 2;
  EXPECT_NEAR(decode_seconds(d, 4, 100) - one, 10e-6 + 4 * 8192 * 2 / 300e9 + 1e-6, 1e-9);
}

}  // namespace
}  // namespace plimsoll::model
