// SPDX-License-Identifier: Apache-2.0
// Properties that must hold for every model, device and engine, tested on random ones.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/decode_attention.h"
#include "model/memory_plan.h"
#include "model/op_list.h"
#include "tests/model/shapes.h"

namespace plimsoll::model {
namespace {

constexpr double kRounding = 1e-12;

double real_in(double low, double high) { return low + (high - low) * *rc::gen::inRange(0, 10001) / 10000.0; }
std::int64_t whole_in(std::int64_t low, std::int64_t high) { return *rc::gen::inRange(low, high + 1); }

// Returns a random table of ratios, however absurd: ForwardCost must satisfy its contract.
std::shared_ptr<const ResidualTable> any_residual(double reach) {
  ResidualTable table;
  for (double x = real_in(0, 1), n = 0; n < 3; ++n, x += real_in(0.5, 3)) table.x.push_back(x);
  for (double y = real_in(4, 8), n = 0; n < 5; ++n, y += real_in(0.3, 2.5)) table.y.push_back(y);
  for (std::size_t i = 0; i < table.x.size() * table.y.size(); ++i) table.log_ratio.push_back(real_in(-reach, reach));
  return std::make_shared<const ResidualTable>(std::move(table));
}

Deployment any_deployment() {
  Deployment d;
  const auto& shapes = published_shapes();
  d.shape = shapes[static_cast<std::size_t>(whole_in(0, std::int64_t(shapes.size()) - 1))].shape;
  d.accelerator = whole_in(0, 1) == 0 ? a10g() : a100_40();
  for (OpCoefficients& c : d.accelerator.coefficients) {
    c = {real_in(0.05, 1), real_in(0.05, 1), real_in(1, 8), Seconds(real_in(0, 20e-6)), nullptr};
    if (whole_in(0, 2) == 0) c.p = 3;
  }
  d.accelerator.kernel_gap = Seconds(real_in(0, 2e-6));
  if (whole_in(0, 1) == 0)
    d.accelerator.graph = {.kernel_gap = Seconds(real_in(0, 2e-6)), .pointwise_t0 = Seconds(real_in(0, 5e-6))};
  d.interconnect = whole_in(0, 1) == 0 ? nvswitch_a100() : pcie_gen4();
  d.engine = whole_in(0, 1) == 0 ? ideal_engine() : tgi_like_engine();
  d.engine.overlap = static_cast<HostOverlap>(whole_in(0, 2));
  d.engine.memory_scale = real_in(0.5, 1.5);
  d.engine.cuda_graphs = whole_in(0, 1) == 0;
  d.engine.host_stream = Seconds(whole_in(0, 1) == 0 ? 0 : real_in(0, 1e-3));
  d.engine.fused_quantisation = Seconds(real_in(0, 1e-5));
  d.tp = std::int32_t(1) << whole_in(0, 3);
  if (!tp_problem(d.shape, d.tp).empty()) d.tp = 1;
  d.pp = std::int32_t(whole_in(1, 3));
  d.weight_dtype = whole_in(0, 1) == 0 ? DType::fp16 : DType::int4;
  d.kv_dtype = whole_in(0, 1) == 0 ? DType::fp16 : DType::fp8;
  return d;
}

Deployment any_deployment_with_residuals() {
  Deployment d = any_deployment();
  for (OpCoefficients& c : d.accelerator.coefficients) c.residual = any_residual(1.5);
  return d;
}

std::vector<PrefillSpan> any_spans() {
  std::vector<PrefillSpan> spans(static_cast<std::size_t>(whole_in(1, 4)));
  for (PrefillSpan& span : spans) span = {whole_in(1, 4096), whole_in(0, 1) * whole_in(0, 8192)};
  return spans;
}

ForwardWork any_work(const LlmShape& shape, const std::vector<PrefillSpan>& spans) {
  ForwardWork work = decode_work(shape, whole_in(0, 300), real_in(1, 10000));
  work.prefill = spans;
  work.sampled = work.decode_rows + whole_in(0, std::int64_t(spans.size()));
  return work;
}

bool all_parts_are_times(const TimeParts& p) {
  const double parts[] = {p.weights, p.kv, p.compute, p.allreduce, p.host, p.other};
  return std::all_of(std::begin(parts), std::end(parts), [](double v) { return v >= -1e-15 && std::isfinite(v); });
}

RC_GTEST_PROP(CostProperties, DecodeIsMonotoneInContextEvenWithAbsurdResiduals, ()) {
  const Deployment d = any_deployment_with_residuals();
  ForwardCost cost(d.inputs());
  const std::int64_t rows = whole_in(1, 300);
  const DecodeCurve& curve = cost.decode_curve(rows);
  double last = 0;
  for (double context = 1; context < 40000; context *= real_in(1.01, 2)) {
    const ForwardWork work = decode_work(d.shape, rows, context);
    const double time = curve.time(work.decode_context, work.decode_context_windowed);
    RC_ASSERT(time >= last * (1 - kRounding));
    last = time;
  }
}

RC_GTEST_PROP(CostProperties, DecodeIsMonotoneInRows, ()) {
  const Deployment d = any_deployment();
  ForwardCost cost(d.inputs());
  const std::int64_t rows = whole_in(1, 300);
  const double context = real_in(1, 8000);
  const double fewer = cost.forward(decode_work(d.shape, rows, context)).total();
  const double more = cost.forward(decode_work(d.shape, rows + whole_in(1, 50), context)).total();
  RC_ASSERT(more >= fewer * (1 - kRounding));
}

// A whole step has slack that would hide a layer below its bound, so the slice is tested by itself.
RC_GTEST_PROP(CostProperties, NoLayerReadsItsCacheFasterThanMemoryBetweenGridPoints, ()) {
  AffineTime affine{real_in(0.1e-6, 20e-6), real_in(0.1e-9, 10e-9), 0};
  affine.bound_slope = affine.slope * real_in(0.2, 1);
  const auto knots = decode_residual_slice(*any_residual(1.5), static_cast<double>(whole_in(1, 64)), affine);
  for (std::size_t i = 0; i + 1 < knots.size(); ++i) {
    const ResidualKnot &left = knots[i], &right = knots[i + 1];
    for (double f = 0; f <= 1; f += 1.0 / 64) {
      const double context = left.context + f * (right.context - left.context);
      const double time = left.time + f * (right.time - left.time);
      RC_ASSERT(time >= affine.bound_slope * context * (1 - 1e-9));
    }
  }
}

RC_GTEST_PROP(CostProperties, PrefillIsMonotoneInTokensAndContext, ()) {
  const Deployment d = any_deployment();
  ForwardCost cost(d.inputs());
  std::vector<PrefillSpan> spans = any_spans();
  ForwardWork work = any_work(d.shape, spans);
  const double less = cost.forward(work).total();
  spans[0].context += whole_in(0, 1000);
  spans[0].new_tokens += whole_in(0, 1000);
  work.prefill = spans;
  RC_ASSERT(cost.forward(work).total() >= less * (1 - kRounding));
}

RC_GTEST_PROP(CostProperties, PartsAreTimesAndOneRankReducesNothing, ()) {
  const Deployment d = any_deployment_with_residuals();
  ForwardCost cost(d.inputs());
  const std::vector<PrefillSpan> spans = any_spans();
  const TimeParts mixed = cost.forward(any_work(d.shape, spans));
  const TimeParts decode = cost.forward(decode_work(d.shape, whole_in(1, 64), real_in(1, 5000)));
  RC_ASSERT(all_parts_are_times(mixed));
  RC_ASSERT(all_parts_are_times(decode));
  if (d.tp == 1 && d.pp == 1) RC_ASSERT(mixed.allreduce == 0.0);
}

// forward() aborts if the bound is violated; here the bound is computed independently from the op list.
RC_GTEST_PROP(CostProperties, NoStepIsFasterThanItsBytes, ()) {
  const Deployment d = any_deployment_with_residuals();
  ForwardCost cost(d.inputs());
  const std::vector<PrefillSpan> spans = any_spans();
  const ForwardWork work = any_work(d.shape, spans);
  double bytes = -d.pp * d.accelerator.last_level_cache.value;
  for_each_op(make_op_list({.shape = &d.shape,
                            .weight_dtype = d.weight_dtype,
                            .kv_dtype = d.kv_dtype,
                            .tp = d.tp,
                            .pp = d.pp,
                            .capabilities = {}},
                           work),
              [&](const Op& op) { bytes += op.count * (op.weight_bytes + op.kv_bytes); });
  RC_ASSERT(cost.forward(work).total() >= bytes / d.accelerator.memory_bandwidth.value * (1 - 1e-9));
}

RC_GTEST_PROP(CostProperties, CurveIsForwardToTheLastBit, ()) {
  const Deployment d = any_deployment_with_residuals();
  ForwardCost cost(d.inputs());
  const std::int64_t rows = whole_in(1, 300);
  const ForwardWork work = decode_work(d.shape, rows, real_in(1, 10000));
  const TimeParts parts = cost.forward(work);
  ForwardCost another(d.inputs());
  RC_ASSERT(parts.total() == another.decode_curve(rows).time(work.decode_context, work.decode_context_windowed));
}

RC_GTEST_PROP(CostProperties, StepsReachTheKinksTheyPromise, ()) {
  const Deployment d = any_deployment_with_residuals();
  ForwardCost cost(d.inputs());
  const auto rows = static_cast<double>(whole_in(1, 64));
  const DecodeCurve& curve = cost.decode_curve(static_cast<std::int64_t>(rows));
  const double context = rows * real_in(1, 6000);
  const double steps = curve.steps_to_kink(context, context, rows, rows);
  RC_ASSERT(steps > 0);
  const double nearest = std::min(curve.next_kink(context), curve.next_windowed_kink(context));
  RC_ASSERT(!(steps * rows > (nearest - context) * (1 + kRounding)));
}

}  // namespace
}  // namespace plimsoll::model
