// SPDX-License-Identifier: Apache-2.0
// Forwards of a model on a GPU, against the bytes that they must read and against the forecast (cuda_forecast.h). Run
// by scripts/gpu/run. Without a GPU they say what is missing; BM_CudaForecast needs none. $PLIMSOLL_BENCH_MODEL names
// the model of the catalogue (llama-3.1-8b); its weights are random.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "configs/catalogue.h"
#include "configs/hardware_name.h"
#include "exec/backend.h"
#include "exec/engine.h"
#include "model/error.h"
#include "tests/bench/cuda_forecast.h"

namespace plimsoll {
namespace {

constexpr std::int32_t kBlockTokens = 16;
constexpr std::int64_t kBlocks = 20'000;  // 320 000 tokens: 42 GB of an 8B model
constexpr std::int64_t kPrefillRows = 8192;
constexpr std::int64_t kLongContext = 30'000;  // of one sequence among short ones

const configs::Catalogue& catalogue() {
  static const configs::Catalogue loaded(configs::Catalogue::default_root());
  return loaded;
}

std::string model_name() {
  const char* stated = std::getenv("PLIMSOLL_BENCH_MODEL");
  return stated == nullptr ? "llama-3.1-8b" : stated;
}

// The engine of the last benchmark is kept: loading takes seconds, and two of them do not fit on a GPU.
exec::Engine& engine(bool graphs) {
  static std::unique_ptr<exec::Engine> loaded;
  if (loaded && loaded->config().graphs == graphs) return *loaded;
  loaded.reset();
  exec::EngineConfig config;
  config.architecture = model::default_architecture(*catalogue().model(model_name()));
  config.device = exec::DeviceKind::cuda;
  config.kv_blocks = kBlocks;
  config.block_tokens = kBlockTokens;
  config.step_rows = kPrefillRows;
  config.graphs = graphs;
  loaded = std::make_unique<exec::Engine>(config, *exec::random_weights(config.architecture, 1));
  if (!graphs) loaded->trace_ops();
  return *loaded;
}

// A forward with the memory that its input refers to.
struct Step {
  void add_decode(std::int64_t context) {
    exec::DecodeRow row;
    row.slot = static_cast<std::int32_t>(input.decode.size());
    row.token = row.slot + 1;
    row.context = context;
    row.blocks = take_blocks(context + 1);
    input.decode.push_back(row);
    work.decode_rows = ++work.sampled;
    work.decode_context += static_cast<double>(context + 1);
    work.decode_context_windowed = work.decode_context;
  }
  void add_prompt(std::int64_t tokens, std::int64_t vocabulary) {
    for (std::int64_t i = 0; i < tokens; ++i) prompt.push_back(static_cast<std::int32_t>((i * 7919 + 3) % vocabulary));
    exec::PrefillRows rows;
    rows.tokens = prompt;
    rows.blocks = take_blocks(tokens);
    rows.emits = true;
    input.prefill.push_back(rows);
    spans.push_back({.new_tokens = tokens, .context = 0});
    work.prefill = spans;
    ++work.sampled;
  }
  std::span<const std::int32_t> take_blocks(std::int64_t tokens) {
    auto& own = blocks.emplace_back();
    for (std::int64_t covered = 0; covered < tokens; covered += kBlockTokens) own.push_back(next_block++);
    return own;
  }

  exec::ForwardInput input;
  model::ForwardWork work;
  std::vector<model::PrefillSpan> spans;
  std::vector<std::int32_t> prompt;
  std::deque<std::vector<std::int32_t>> blocks;
  std::int32_t next_block = 0;
};

Step decodes(std::int64_t sequences, std::int64_t context) {
  Step step;
  for (std::int64_t i = 0; i < sequences; ++i) step.add_decode(context);
  return step;
}
Step ragged(std::int64_t sequences, std::int64_t context) {
  Step step = decodes(1, kLongContext);
  for (std::int64_t i = 1; i < sequences; ++i) step.add_decode(context);
  return step;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Adds the floor and the forecast if the catalogue has the GPU.
void add_forecast(benchmark::State& state, const std::string& device, const Step& step, double median) {
  for (const configs::Listing& listing : catalogue().list("accelerators")) {
    if (!configs::is_same_device(device, listing.name)) continue;
    const bench::Forecast f =
        bench::forecast(*catalogue().accelerator(listing.name), *catalogue().model(model_name()), step.work);
    state.counters["floor_ms"] = 1e3 * f.floor_s;
    state.counters["forecast_ms"] = 1e3 * f.forecast_s;
    state.counters["of_floor"] = f.floor_s / median;
    state.counters["TB_per_s"] = 1e-12 * f.bytes / median;
    state.counters["TFLOP_per_s"] = 1e-12 * f.flops / median;
    return;
  }
}

// Runs the step alone, then with two in flight: the second is the device's time, the difference what the host adds.
void measure(benchmark::State& state, const Step& step) {
  constexpr int kWarm = 4;  // the first run chooses products, the second is recorded as a graph
  exec::Engine& device = engine(true);
  exec::ForwardOutput output;
  for (int i = 0; i < kWarm; ++i) device.run(step.input, output);
  std::vector<double> times;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    device.run(step.input, output);
    times.push_back(seconds_since(start));
    state.SetIterationTime(times.back());
  }
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  device.start(step.input);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < times.size(); ++i) {
    device.start(step.input);
    device.finish(output);
  }
  state.counters["two_in_flight_ms"] = 1e3 * seconds_since(start) / static_cast<double>(times.size());
  device.finish(output);
  state.counters["median_ms"] = 1e3 * median;
  state.counters["best_ms"] = 1e3 * times.front();
  add_forecast(state, device.device(), step, median);
}

// Op by op, without graphs: the mean microseconds of each op, by its name.
void trace(benchmark::State& state, const Step& step) {
  exec::Engine& device = engine(false);
  exec::ForwardOutput output;
  device.run(step.input, output);
  device.traces().clear();
  for (auto _ : state) device.run(step.input, output);
  std::map<std::string, std::pair<double, int>> ops;
  for (const exec::OpTrace& op : device.traces()) {
    auto& [sum, count] = ops[std::string(model::name(op.op.id))];
    sum += op.measured_s;
    ++count;
  }
  for (const auto& [name, op] : ops) state.counters[name + "_us"] = 1e6 * op.first / op.second;
}

// Skips the benchmark, with the reason, if the GPU is missing or too small.
template <class Run>
void on_gpu(benchmark::State& state, const Run& run) {
  try {
    exec::require_gpu();
    run();
  } catch (const std::exception& error) {
    state.SkipWithError(error.what());
  }
}

void BM_CudaDecode(benchmark::State& state) {
  on_gpu(state, [&] { measure(state, decodes(state.range(0), state.range(1))); });
}
BENCHMARK(BM_CudaDecode)
    ->ArgNames({"sequences", "context"})
    ->ArgsProduct({{1, 2, 4, 8, 16, 32, 64, 128, 256}, {1024}})
    ->Args({1, 16000})
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);

void BM_CudaRagged(benchmark::State& state) {
  on_gpu(state, [&] { measure(state, ragged(state.range(0), state.range(1))); });
}
BENCHMARK(BM_CudaRagged)
    ->ArgNames({"sequences", "context"})
    ->Args({64, 500})
    ->UseManualTime()
    ->Iterations(15)
    ->Unit(benchmark::kMillisecond);

void BM_CudaPrefill(benchmark::State& state) {
  on_gpu(state, [&] {
    Step step;
    step.add_prompt(state.range(0), catalogue().model(model_name())->vocab);
    measure(state, step);
  });
}
BENCHMARK(BM_CudaPrefill)
    ->ArgName("tokens")
    ->Arg(512)
    ->Arg(2048)
    ->Arg(8000)
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

void BM_CudaOps(benchmark::State& state, const std::string& of) {
  on_gpu(state, [&] {
    if (of == "prefill") {
      Step step;
      step.add_prompt(2048, catalogue().model(model_name())->vocab);
      trace(state, step);
    } else {
      trace(state, of == "ragged" ? ragged(64, 500) : decodes(std::stoll(of.substr(of.find('_') + 1)), 1024));
    }
  });
}
BENCHMARK_CAPTURE(BM_CudaOps, decode_1, "decode_1")->Iterations(3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_CudaOps, decode_8, "decode_8")->Iterations(3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_CudaOps, decode_32, "decode_32")->Iterations(3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_CudaOps, decode_256, "decode_256")->Iterations(3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_CudaOps, ragged, "ragged")->Iterations(3)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_CudaOps, prefill, "prefill")->Iterations(2)->Unit(benchmark::kMillisecond);

// The forecast of a step alone, for a GPU of the catalogue: floor and forecast in milliseconds.
void BM_CudaForecast(benchmark::State& state, const std::string& gpu, std::int64_t sequences, std::int64_t tokens) {
  Step step = decodes(sequences, 1024);
  const auto shape = catalogue().model(model_name());
  if (tokens > 0) step.add_prompt(tokens, shape->vocab);
  bench::Forecast f;
  for (auto _ : state) f = bench::forecast(*catalogue().accelerator(gpu), *shape, step.work);
  state.counters["floor_ms"] = 1e3 * f.floor_s;
  state.counters["forecast_ms"] = 1e3 * f.forecast_s;
  state.counters["of_floor"] = f.floor_s / f.forecast_s;
  state.counters["kernels"] = f.kernels;
}
#define PLIMSOLL_FORECAST(gpu, name)                                                 \
  BENCHMARK_CAPTURE(BM_CudaForecast, gpu##_decode_1, name, 1, 0)->Iterations(1);     \
  BENCHMARK_CAPTURE(BM_CudaForecast, gpu##_decode_32, name, 32, 0)->Iterations(1);   \
  BENCHMARK_CAPTURE(BM_CudaForecast, gpu##_decode_256, name, 256, 0)->Iterations(1); \
  BENCHMARK_CAPTURE(BM_CudaForecast, gpu##_prefill_2048, name, 0, 2048)->Iterations(1)
PLIMSOLL_FORECAST(a100, "a100-sxm-80gb");
PLIMSOLL_FORECAST(h100, "h100-sxm");
PLIMSOLL_FORECAST(h200, "h200-sxm");

}  // namespace
}  // namespace plimsoll
