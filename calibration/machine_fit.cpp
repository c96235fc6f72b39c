// SPDX-License-Identifier: Apache-2.0
#include "calibration/machine_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "model/error.h"
#include "model/forward_cost.h"

namespace plimsoll::calibration {

namespace {

using model::OpClass;

constexpr std::array<const char*, model::kOpClasses> kClassNames = {"gemm", "moe_gemm", "prefill_attention",
                                                                    "decode_attention", "pointwise"};

// Returns the sums of contexts that the cost model needs. A decode row attends to its context and to itself.
model::ForwardWork work_of(const GridForward& forward, const model::LlmShape& shape,
                           std::vector<model::PrefillSpan>& spans) {
  model::ForwardWork work;
  const double window =
      shape.sliding_window > 0 ? static_cast<double>(shape.sliding_window) : std::numeric_limits<double>::infinity();
  for (const GridForward::Rows& r : forward.prefill)
    for (std::int64_t i = 0; i < r.sequences; ++i) spans.push_back({r.new_tokens, r.context});
  for (const GridForward::Rows& r : forward.decode) {
    work.decode_rows += r.sequences;
    work.decode_context += static_cast<double>(r.sequences * (r.context + 1));
    work.decode_context_windowed +=
        static_cast<double>(r.sequences) * std::min(static_cast<double>(r.context + 1), window);
  }
  work.prefill = spans;
  work.sampled = work.decode_rows + static_cast<std::int64_t>(spans.size());
  return work;
}

// Sets limits: no op may read faster than the bandwidth or compute faster than the peak. The margin covers
// interpolation between the fastest ops and rounding in the file.
void set_limits(ShareCalibration& share, const ShareSamples& samples) {
  const double ranks = share.ranks;
  double bandwidth = share.read_bandwidth / ranks, peak = share.multiply_add / ranks;
  for (const OpSample& sample : samples.ops) {
    bandwidth = std::max(bandwidth, (sample.op.weight_bytes + sample.op.kv_bytes) / sample.seconds);
    peak = std::max(peak, sample.op.flops / sample.seconds);
  }
  constexpr double kMargin = 1.02;
  model::Accelerator& a = share.accelerator;
  a.fp32 = a.fp16 = a.bf16 = FlopsPerSecond(kMargin * peak);
  a.memory_bandwidth = BytesPerSecond(kMargin * bandwidth);
  a.memory = a.memory_visible = Bytes(host_memory_bytes() / ranks);
}

// Classes without a sample keep the estimated values.
void fit_classes(ShareCalibration& share, const ShareSamples& samples) {
  model::Accelerator& a = share.accelerator;
  for (std::size_t i = 0; i < model::kOpClasses; ++i) {
    const auto op_class = static_cast<OpClass>(i);
    std::vector<OpSample> own;
    for (const OpSample& sample : samples.ops)
      if (class_of(sample.op.kind) == op_class) own.push_back(sample);
    if (own.empty()) continue;
    const OpFit fitted = fit_op_class(op_class, own, a.fp32, a.memory_bandwidth);
    a.coefficients[i] = fitted.coefficients;
    share.fits.push_back({kClassNames[i], fitted});
  }
  // Expert products use the same kernel, once per expert.
  auto& moe = a.coefficients[static_cast<std::size_t>(OpClass::moe_gemm)];
  if (!moe.residual) {
    moe = a.coefficients[static_cast<std::size_t>(OpClass::gemm)];
    moe.residual = nullptr;
  }
}

// Gives each kind of pointwise op its own curve and table: an embedding row costs a tenth of a norm row, a sampled row
// ten times a norm row.
void fit_pointwise_kinds(ShareCalibration& share, const ShareSamples& samples) {
  std::map<std::string, std::vector<OpSample>> kinds;
  for (const OpSample& sample : samples.ops)
    if (const auto kind = model::pointwise_kind(sample.op.kind); !kind.empty())
      kinds[std::string(kind)].push_back(sample);
  model::Accelerator& a = share.accelerator;
  for (const auto& [kind, own] : kinds) {
    const OpFit fitted = fit_op_class(OpClass::pointwise, own, a.fp32, a.memory_bandwidth);
    a.pointwise_kinds[kind] = fitted.coefficients;
    share.fits.push_back({kind, fitted});
  }
}

// Predicts the ops only: the forwards were timed on the device, so host times must not be added.
std::vector<double> predictions(const ShareCalibration& share, const exec::EngineConfig& config,
                                const std::vector<ForwardSample>& forwards) {
  model::EngineProfile no_host;
  no_host.overlap = model::HostOverlap::none;
  const model::CostInputs inputs{.shape = &config.architecture.shape,
                                 .accelerator = &share.accelerator,
                                 .interconnect = &share.interconnect,
                                 .engine = &no_host,
                                 .weight_dtype = config.weight_dtype,
                                 .kv_dtype = config.kv_dtype,
                                 .tp = config.tp,
                                 .pp = 1};
  model::ForwardCost cost(inputs);
  std::vector<double> out;
  for (const ForwardSample& sample : forwards) {
    std::vector<model::PrefillSpan> spans;
    out.push_back(cost.forward(work_of(sample.forward, config.architecture.shape, spans)).total());
  }
  return out;
}

double launches_of(const exec::EngineConfig& config, const GridForward& forward) {
  std::vector<model::PrefillSpan> spans;
  const model::OpListInputs inputs{.shape = &config.architecture.shape,
                                   .weight_dtype = config.weight_dtype,
                                   .kv_dtype = config.kv_dtype,
                                   .tp = config.tp,
                                   .pp = 1,
                                   .capabilities = {}};
  double launches = 0;
  model::for_each_op(model::make_op_list(inputs, work_of(forward, config.architecture.shape, spans)),
                     [&](const model::Op& op) { launches += op.launches * op.count; });
  return launches;
}

// Fits the gap between kernels. Tracing launches an op and waits for it alone, whereas in a graph the next op starts
// after a gap. The median over the forwards of (graph - sum of traced ops) / kernels is the gap minus that wait. If the
// result is negative, it is subtracted from every op.
void settle_gaps(ShareCalibration& share, ShareSamples& samples) {
  std::vector<double> gaps;
  for (const auto& [config, forwards] : samples.whole) {
    const std::vector<double> predicted = predictions(share, config, forwards);
    for (std::size_t i = 0; i < forwards.size(); ++i)
      gaps.push_back((forwards[i].seconds - predicted[i]) / launches_of(config, forwards[i].forward));
  }
  if (gaps.empty()) return;
  std::nth_element(gaps.begin(), gaps.begin() + static_cast<std::ptrdiff_t>(gaps.size() / 2), gaps.end());
  const double gap = gaps[gaps.size() / 2];
  share.accelerator.kernel_gap = Seconds(std::max(0.0, gap));
  if (gap >= 0) return;
  constexpr double kMinPart = 0.1;  // a traced op keeps at least this part of its time
  for (OpSample& sample : samples.ops) sample.seconds = std::max(sample.seconds + gap, kMinPart * sample.seconds);
  // The limits depend on the fastest op, which is now faster, so everything is fitted again.
  share.fits.clear();
  set_limits(share, samples);
  fit_classes(share, samples);
  fit_pointwise_kinds(share, samples);
}

}  // namespace

void fit_share(ShareCalibration& share, ShareSamples& samples, const std::string& what) {
  PLIMSOLL_CHECK(!samples.ops.empty(), "a grid was measured");
  model::Accelerator& a = share.accelerator;
  a.id = "this-machine";
  a.calibrated = true;
  a.source = share.read_bandwidth > 0 ? "probes of this machine: read bandwidth and multiply-adds"
                                      : "the fastest ops that were measured";
  a.fit_source = fmt::format("plimsoll calibrate: {} ops of {}", samples.ops.size(), what);
  share.interconnect.id = "this-machine";
  share.interconnect.source = "measured by plimsoll calibrate";
  if (!samples.all_reduces.empty())
    share.interconnect.all_reduce = {{share.ranks, fit_all_reduce(samples.all_reduces)}};
  set_limits(share, samples);
  fit_classes(share, samples);
  fit_pointwise_kinds(share, samples);
  settle_gaps(share, samples);
}

// Predicts forwards that no fit has seen. Users can expect about this error for whole steps.
void check_held_out(ShareCalibration& share, const ShareSamples& samples) {
  std::vector<double> errors;
  for (const auto& [config, forwards] : samples.forwards) {
    const std::vector<double> predicted = predictions(share, config, forwards);
    for (std::size_t i = 0; i < forwards.size(); ++i) errors.push_back(predicted[i] / forwards[i].seconds - 1);
  }
  share.held_out = validation::summarise_errors(std::move(errors));
}

}  // namespace plimsoll::calibration
