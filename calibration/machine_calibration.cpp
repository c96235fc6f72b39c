// SPDX-License-Identifier: Apache-2.0
#include "calibration/machine_calibration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "calibration/machine_steps.h"
#include "configs/this_machine.h"
#include "model/error.h"
#include "model/memory_plan.h"
#include "sched/metrics_collector.h"

namespace plimsoll::calibration {

namespace {

constexpr std::size_t kProbeBytes = 256U << 20;  // 8 times the last-level cache of a usual server
constexpr std::int64_t kKvBlocks = 6000, kMaxRows = 512, kMaxContext = 2048;
constexpr double kProbeSeconds = 0.5;
constexpr double kTuningSeconds = 8, kTuningPart = 0.08;  // at most, and of the stated time
constexpr double kMaxProbes = 0.8;
constexpr double kCoarseBelow = 15;  // seconds; below this, fewer shapes are measured
// Fractions of the stated time. Each combination of dtype, ranks and model spends kOpsPart of its share on ops,
// kForwardsPart on held-out forwards, and the rest on building the engine. kHostPart is the fraction for the host.
constexpr double kOpsPart = 0.45, kForwardsPart = 0.2, kHostPart = 0.1;

std::string settings_line(const MachineSettings& s) {
  std::vector<std::string> dtypes;
  for (const model::DType dtype : s.dtypes) dtypes.emplace_back(model::name(dtype));
  return fmt::format("{} {} models {} dtypes {} ranks {} seconds {:g}", configs::machine_fingerprint(),
                     s.device == exec::DeviceKind::cuda ? "cuda" : "cpu", fmt::join(s.models, ","),
                     fmt::join(dtypes, ","), fmt::join(s.ranks, ","), s.seconds);
}

class MachineCalibrator {
 public:
  MachineCalibrator(const configs::Catalogue& catalogue, const MachineSettings& settings)
      : catalogue_(catalogue),
        settings_(settings),
        store_(settings.samples.empty() ? SampleStore() : SampleStore(settings.samples, settings_line(settings))),
        parts_(static_cast<double>(settings.models.size() * settings.ranks.size() * settings.dtypes.size()) +
               kHostPart) {}

  MachineCalibration run() {
    result_.cores = static_cast<std::int32_t>(std::max(1U, std::thread::hardware_concurrency()));
    result_.models = settings_.models;
    result_.device = on_cpu() ? "cpu" : "cuda";
    if (on_cpu() && settings_.tunes) tune();
    if (on_cpu()) probe_.emplace(result_.cores);
    // Probes before, between and after the measurements show how steady the machine was.
    report("host", 0, false);
    probe();
    result_.engine = measure_host(catalogue_, settings_);
    done_ += kHostPart;
    for (const model::DType dtype : settings_.dtypes)
      for (const std::int32_t ranks : settings_.ranks) calibrate_share(dtype, ranks);
    probe();
    set_rates();
    store_.finish();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    result_.seconds = took.count();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool is_coarse() const { return settings_.seconds < kCoarseBelow; }
  [[nodiscard]] bool on_cpu() const { return settings_.device == exec::DeviceKind::cpu; }

  void report(const std::string& what, double fraction_of_part, bool recalled) {
    if (settings_.control != nullptr) {
      settings_.control->check_in();
      if (settings_.control->cancelled()) throw Cancelled{};
    }
    const double fraction = std::min(1.0, (done_ + fraction_of_part) / parts_);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
    if (settings_.most_seconds > 0 && spent.count() > settings_.most_seconds && fraction < 1)
      throw TimeIsUp{spent.count(), fraction};
    // Recalled samples took no time in this run, so progress reports them separately.
    if (recalled) recalled_ += fraction - last_;
    last_ = fraction;
    if (settings_.progress) settings_.progress(what, fraction, recalled_);
  }

  // Everything after this is measured with the chosen tuning.
  void tune() {
    report("kernels", 0, false);
    const double seconds = std::min(kTuningSeconds, settings_.seconds * kTuningPart);
    const auto check_in = [this] {
      if (settings_.control == nullptr) return;
      settings_.control->check_in();
      if (settings_.control->cancelled()) throw Cancelled{};
    };
    result_.kernels =
        exec::tune_machine(exec::select_kernels(), {.cores = result_.cores, .seconds = seconds, .check_in = check_in});
  }

  // Measures the rates of a quiet machine, to compare later runs with this calibration.
  void probe() {
    if (probe_) rates_.push_back(probe_->rates(is_coarse() ? kProbeSeconds / 5 : kProbeSeconds));
  }

  void set_rates() {
    if (rates_.empty()) return;
    const auto median_of = [&](double exec::SteadyRates::*rate) {
      std::vector<double> values;
      for (const exec::SteadyRates& r : rates_) values.push_back(r.*rate);
      const double middle = sched::quantile(values, 0.5);
      for (double& v : values) v = std::abs(v / middle - 1);
      result_.rates_spread =
          std::max(result_.rates_spread,
                   sched::quantile(values, kMaxProbes));  // a quantile, so that a short burst has no effect
      return middle;
    };
    result_.rates = {median_of(&exec::SteadyRates::read_bandwidth), median_of(&exec::SteadyRates::multiply_add)};
  }

  void calibrate_share(model::DType dtype, std::int32_t ranks) {
    ShareCalibration share;
    share.ranks = ranks;
    share.dtype = dtype;
    if (on_cpu()) {
      // Use all cores: a share is compared with the rates that the machine achieves while all ranks work.
      const int threads = std::max(result_.cores, ranks);
      share.read_bandwidth = exec::read_bandwidth(threads, kProbeBytes);
      share.multiply_add = exec::fma_peak(threads);
    }
    ShareSamples samples;
    for (const std::string& model : settings_.models) {
      probe();
      measure(model, dtype, ranks, samples);
      done_ += 1;
    }
    fit_share(share, samples, fmt::format("{} in {}", fmt::join(settings_.models, ", "), model::name(dtype)));
    check_held_out(share, samples);
    if (!live_.empty()) settle_live(share, live_, result_.engine, catalogue_);
    live_.clear();
    result_.shares.push_back(std::move(share));
  }

  exec::EngineConfig engine_config(const std::string& model, model::DType dtype, std::int32_t tp) const {
    exec::EngineConfig config;
    config.architecture = model::default_architecture(*catalogue_.model(model));
    config.device = settings_.device;
    config.tp = tp;
    config.weight_dtype = dtype;
    config.kv_dtype = dtype == model::DType::fp32 ? dtype : model::DType::bf16;
    config.architecture.shape = model::stored_shape(config.architecture.shape, dtype);
    config.kv_blocks = kKvBlocks;
    config.sequences = 128;
    config.step_rows = kMaxRows;
    if (result_.kernels) config.tuning = result_.kernels->tuning;
    // Whole forwards run as in service, with graphs on a GPU. Single ops are traced without graphs: see measure().
    config.graphs = !on_cpu();
    return config;
  }

  void measure(const std::string& model, model::DType dtype, std::int32_t ranks, ShareSamples& samples) {
    exec::EngineConfig config = engine_config(model, dtype, ranks);
    const auto weights = exec::random_weights(config.architecture, 1);
    const std::string label = fmt::format("{} {}, {} rank{}", model, model::name(dtype), ranks, ranks > 1 ? "s" : "");
    report(label, 0, false);
    std::optional<exec::Engine> engine(std::in_place, config, *weights);
    result_.description = engine->description();
    BenchmarkSettings bench{.most_rows = kMaxRows,
                            .most_context = kMaxContext,
                            .seconds = settings_.seconds / parts_ * kForwardsPart,
                            .coarse = is_coarse(),
                            .control = settings_.control,
                            .progress = [&](double f, bool known) { report(label, 0.3 * f, known); },
                            .store = &store_,
                            .key = fmt::format("{} {} {}", model, model::name(dtype), ranks)};
    const std::int64_t tokens = kKvBlocks * config.block_tokens;
    samples.forwards.emplace_back(config, measure_forwards(*engine, held_out_forwards(bench, tokens), bench));
    probe();
    if (on_cpu()) {
      bench.progress = [&](double f, bool known) { report(label, 0.3 + 0.1 * f, known); };
      live_.emplace_back(model, measure_live(*engine, catalogue_, model, bench));
      probe();
    }
    const std::vector<GridForward> grid = benchmark_grid(bench, tokens);
    if (!on_cpu()) {
      samples.whole.emplace_back(config, measure_whole(*engine, grid, bench));
      // The ops of a graph cannot be timed one by one, so they run on an engine without graphs. Destroy the first
      // engine before, because a GPU may not have room for both.
      config.graphs = false;
      engine.reset();
      engine.emplace(config, *weights);
    }
    engine->trace_ops();
    bench.seconds = settings_.seconds / parts_ * kOpsPart;
    bench.progress = [&](double f, bool known) { report(label, 0.4 + 0.6 * f, known); };
    for (OpSample& sample : measure_ops(*engine, grid, bench)) {
      if (sample.op.kind == model::OpKind::all_reduce)
        samples.all_reduces.push_back({sample.op.other_bytes, sample.seconds});
      else
        samples.ops.push_back(std::move(sample));
    }
    report(label, 1, false);
  }

  // Measures decode forwards as in service, replayed as one graph each. The gaps between kernels are fitted to them.
  std::vector<ForwardSample> measure_whole(exec::Engine& engine, const std::vector<GridForward>& grid,
                                           BenchmarkSettings bench) {
    std::vector<GridForward> decodes;
    for (const GridForward& forward : grid)
      if (forward.prefill.empty()) decodes.push_back(forward);
    bench.key += " graph";
    return measure_forwards(engine, decodes, bench);
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const configs::Catalogue& catalogue_;
  const MachineSettings& settings_;
  SampleStore store_;
  std::optional<exec::SteadyProbe> probe_;
  std::vector<exec::SteadyRates> rates_;
  std::vector<std::pair<std::string, std::vector<double>>> live_;  // live loads of this share's models
  MachineCalibration result_;
  double parts_ = 1, done_ = 0, last_ = 0, recalled_ = 0;
};

}  // namespace

std::string calibration_problem(const MachineCalibration& calibration) {
  constexpr double kWorst = 0.5;  // a quiet machine stays at a few hundredths; docs/calibrate.md
  for (const ShareCalibration& share : calibration.shares) {
    if (share.held_out.count == 0 || share.held_out.median <= kWorst) continue;
    return fmt::format(
        "held-out forwards ({}, {} rank{}) are predicted with a median error of {:.0f} %, more "
        "than {:.0f} %",
        model::name(share.dtype), share.ranks, share.ranks > 1 ? "s" : "", 100 * share.held_out.median, 100 * kWorst);
  }
  return {};
}

MachineCalibration calibrate_machine(const configs::Catalogue& catalogue, const MachineSettings& settings) {
  return MachineCalibrator(catalogue, settings).run();
}

}  // namespace plimsoll::calibration
