// SPDX-License-Identifier: Apache-2.0
#include "validation/machine_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "exec/cpu/probes.h"
#include "exec/engine.h"
#include "model/error.h"
#include "model/forward_cost.h"
#include "model/memory_plan.h"
#include "validation/machine_host.h"
#include "validation/op_samples.h"

namespace plimsoll::validation {

namespace {

using model::OpClass;

constexpr std::size_t kProbeBytes = 256U << 20;   // 8 times the last-level cache of a usual server
constexpr std::int64_t kKvBlocks = 6000, kMostRows = 512, kMostContext = 2048;

// Sums over the ranks' shares of the time: ops are measured per model and number of ranks, in turn.
struct Plan {
  double ops = 0.55, forwards = 0.25;  // of the seconds of a (model, ranks) pair; engines take the rest
};

exec::EngineConfig engine_config(const configs::Catalogue& catalogue, const std::string& model, model::DType dtype, std::int32_t tp) {
  exec::EngineConfig config;
  config.architecture = model::default_architecture(*catalogue.model(model));
  config.tp = tp;
  config.weight_dtype = config.kv_dtype = dtype;
  config.kv_blocks = kKvBlocks;
  config.sequences = 128;
  config.step_rows = kMostRows;
  config.graphs = false;
  return config;
}

// Measured ops of one share, by model and rank.
struct ShareSamples {
  std::vector<OpSample> ops;
  std::vector<AllReduceSample> all_reduces;
  std::vector<std::pair<exec::EngineConfig, std::vector<ForwardSample>>> forwards;
};

class MachineCalibrator {
 public:
  MachineCalibrator(const configs::Catalogue& catalogue, const MachineSettings& settings)
      : catalogue_(catalogue), settings_(settings) {}

  MachineCalibration run() {
    const auto start = std::chrono::steady_clock::now();
    result_.cores = static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency()));
    result_.models = settings_.models;
    result_.dtype = model::name(settings_.dtype);
    result_.interconnect.id = "this-machine";
    result_.interconnect.source = "measured by plimsoll calibrate";
    parts_ = static_cast<double>(settings_.models.size() * settings_.ranks.size()) + 0.3;
    for (const std::int32_t ranks : settings_.ranks) calibrate_share(ranks);
    report("host", 0);
    result_.engine = measure_host(catalogue_, settings_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    result_.seconds = took.count();
    return std::move(result_);
  }

 private:
  void report(const std::string& what, double fraction_of_part) {
    if (settings_.control != nullptr) {
      settings_.control->check_in();
      if (settings_.control->cancelled()) throw Cancelled{};
    }
    if (settings_.progress) settings_.progress(what, std::min(1.0, (done_ + fraction_of_part) / parts_));
  }

  void calibrate_share(std::int32_t ranks) {
    ShareCalibration share;
    share.ranks = ranks;
    const int threads = std::max(result_.cores, ranks);
    share.read_bandwidth = exec::read_bandwidth(threads, kProbeBytes);
    share.multiply_add = exec::fma_peak(threads);
    ShareSamples samples;
    for (const std::string& model : settings_.models) {
      measure(model, ranks, samples);
      done_ += 1;
    }
    PLIMSOLL_CHECK(!samples.ops.empty(), "a grid was measured");
    fit(share, samples);
    check_held_out(share, samples);
    result_.shares.push_back(std::move(share));
  }

  void measure(const std::string& model, std::int32_t ranks, ShareSamples& samples) {
    const exec::EngineConfig config = engine_config(catalogue_, model, settings_.dtype, ranks);
    const auto weights = exec::random_weights(config.architecture, 1);
    const std::string label = fmt::format("{}, {} rank{}", model, ranks, ranks > 1 ? "s" : "");
    report(label, 0);
    exec::Engine engine(config, *weights);
    result_.description = engine.description();
    BenchmarkSettings bench{.most_rows = kMostRows, .most_context = kMostContext,
                            .seconds = settings_.seconds / parts_ * Plan{}.forwards, .control = settings_.control,
                            .progress = [&](double f) { report(label, 0.3 * f); }};
    const std::int64_t tokens = kKvBlocks * config.block_tokens;
    samples.forwards.emplace_back(config, measure_forwards(engine, held_out_forwards(bench, tokens), bench));
    engine.trace_ops();
    bench.seconds = settings_.seconds / parts_ * Plan{}.ops;
    bench.progress = [&](double f) { report(label, 0.3 + 0.7 * f); };
    for (OpSample& sample : measure_ops(engine, benchmark_grid(bench, tokens), bench)) {
      if (sample.op.kind == model::OpKind::all_reduce) samples.all_reduces.push_back({sample.op.other_bytes, sample.seconds});
      else samples.ops.push_back(std::move(sample));
    }
    report(label, 1);
  }

  // No op may read faster than the bandwidth, and none compute faster than the peak. The margin is for interpolation
  // between the fastest ops, and for the rounding of the file.
  void set_limits(ShareCalibration& share, const ShareSamples& samples) const {
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

  void fit(ShareCalibration& share, const ShareSamples& samples) {
    model::Accelerator& a = share.accelerator;
    a.id = "this-machine";
    set_limits(share, samples);
    a.calibrated = true;
    a.source = "probes of this machine: read bandwidth and multiply-adds";
    a.fit_source = fmt::format("plimsoll calibrate: {} ops of {} in {}", samples.ops.size(), fmt::join(settings_.models, ", "), result_.dtype);
    for (std::size_t i = 0; i < model::kOpClasses; ++i) {
      const auto op_class = static_cast<OpClass>(i);
      std::vector<OpSample> own;
      for (const OpSample& sample : samples.ops)
        if (class_of(sample.op.kind) == op_class) own.push_back(sample);
      if (own.empty()) continue;
      const OpFit fitted = fit_op_class(op_class, own, a.fp32, a.memory_bandwidth);
      a.coefficients[i] = fitted.coefficients;
      share.fits.push_back({op_class, fitted});
    }
    // Products of experts are the same kernel, run once for every expert.
    auto& moe = a.coefficients[static_cast<std::size_t>(OpClass::moe_gemm)];
    if (!moe.residual) {
      moe = a.coefficients[static_cast<std::size_t>(OpClass::gemm)];
      moe.residual = nullptr;
    }
    if (!samples.all_reduces.empty())
      result_.interconnect.all_reduce.push_back({share.ranks, fit_all_reduce(samples.all_reduces)});
  }

  void check_held_out(ShareCalibration& share, const ShareSamples& samples) const {
    std::vector<double> errors;
    model::EngineProfile no_host;
    no_host.overlap = model::HostOverlap::none;
    for (const auto& [config, forwards] : samples.forwards) {
      const model::CostInputs inputs{.shape = &config.architecture.shape, .accelerator = &share.accelerator,
                                     .interconnect = &result_.interconnect, .engine = &no_host, .weight_dtype = config.weight_dtype,
                                     .kv_dtype = config.kv_dtype, .tp = config.tp, .pp = 1};
      model::ForwardCost cost(inputs);
      for (const ForwardSample& sample : forwards) errors.push_back(predict(cost, sample.forward, config) / sample.seconds - 1);
    }
    share.held_out = held_out_of(errors);
  }

  static double predict(model::ForwardCost& cost, const GridForward& forward, const exec::EngineConfig& config) {
    std::vector<model::PrefillSpan> spans;
    model::ForwardWork work;
    const double window = config.architecture.shape.sliding_window > 0 ? config.architecture.shape.sliding_window
                                                                       : std::numeric_limits<double>::infinity();
    for (const GridForward::Rows& r : forward.prefill)
      for (std::int64_t i = 0; i < r.sequences; ++i) spans.push_back({r.new_tokens, r.context});
    for (const GridForward::Rows& r : forward.decode) {
      work.decode_rows += r.sequences;
      work.decode_context += static_cast<double>(r.sequences * (r.context + 1));
      work.decode_context_windowed += static_cast<double>(r.sequences) * std::min(static_cast<double>(r.context + 1), window);
    }
    work.prefill = spans;
    work.sampled = work.decode_rows + static_cast<std::int64_t>(spans.size());
    return cost.forward(work).total();
  }

  static HeldOut held_out_of(std::vector<double> errors) {
    HeldOut out;
    out.forwards = static_cast<std::int64_t>(errors.size());
    if (errors.empty()) return out;
    for (double& error : errors) {
      out.bias += error / static_cast<double>(errors.size());
      error = std::abs(error);
      out.mean += error / static_cast<double>(errors.size());
    }
    std::sort(errors.begin(), errors.end());
    out.median = errors[errors.size() / 2];
    out.p90 = errors[std::min(errors.size() - 1, errors.size() * 9 / 10)];
    return out;
  }

  const configs::Catalogue& catalogue_;
  const MachineSettings& settings_;
  MachineCalibration result_;
  double parts_ = 1, done_ = 0;
};

}  // namespace

MachineCalibration calibrate_cpu(const configs::Catalogue& catalogue, const MachineSettings& settings) {
  return MachineCalibrator(catalogue, settings).run();
}

}  // namespace plimsoll::validation
