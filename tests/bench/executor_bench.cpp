// SPDX-License-Identifier: Apache-2.0
// Whole forwards of the executor on this CPU, as fractions of the machine's limits at the same time. Every repetition
// also runs a probe of read bandwidth (decode) or of multiply-adds (prefill, large batches). The best value of each
// counts, because neighbours on a shared host only ever slow runs down. The kernels are tuned first, as `calibrate`
// does.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <tuple>

#include "configs/catalogue.h"
#include "exec/cpu/probes.h"
#include "exec/cpu/tuner.h"
#include "exec/engine.h"
#include "model/memory_plan.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kBatch1Context = 64;

// Bits of a weight as an argument of a benchmark.
model::DType dtype_of(std::int64_t bits) {
  return bits == 4 ? model::DType::int4 : bits == 8 ? model::DType::int8 : model::DType::bf16;
}

// Chosen once for each number of threads.
const model::CpuTuning& tuning_of(int threads) {
  constexpr double kSeconds = 4;
  static std::map<int, model::CpuTuning> tunings;
  const auto found = tunings.find(threads);
  if (found != tunings.end()) return found->second;
  return tunings
      .emplace(threads, exec::tune_machine(exec::select_kernels(), {.cores = threads, .seconds = kSeconds}).tuning)
      .first->second;
}

exec::EngineConfig config_of(const std::string& model, int threads, std::int64_t bits) {
  const configs::Catalogue catalogue(configs::Catalogue::default_root());
  exec::EngineConfig config;
  config.architecture = model::default_architecture(*catalogue.model(model));
  config.weight_dtype = dtype_of(bits);
  config.kv_dtype = model::DType::bf16;
  config.kv_blocks = 1024;
  config.sequences = 256;
  config.step_rows = 512;
  config.threads = threads;
  config.tuning = tuning_of(threads);
  return config;
}

// Engines are created once, because drawing the weights takes longer than a benchmark.
exec::Engine& engine_of(const std::string& model, int threads, std::int64_t bits) {
  static std::map<std::tuple<std::string, int, std::int64_t>, std::unique_ptr<exec::Engine>> engines;
  auto& engine = engines[{model, threads, bits}];
  if (!engine) {
    const exec::EngineConfig config = config_of(model, threads, bits);
    engine = std::make_unique<exec::Engine>(config, *exec::random_weights(config.architecture, 1));
  }
  return *engine;
}

// `rows` sequences with `context` cached tokens each, in separate blocks.
struct Decode {
  Decode(std::int64_t rows, std::int64_t context) {
    std::int32_t next = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      auto& own = blocks.emplace_back();
      for (std::int64_t covered = 0; covered < context + 1; covered += 16) own.push_back(next++);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      exec::DecodeRow row;
      row.token = static_cast<std::int32_t>(1 + i);
      row.context = context;
      row.blocks = blocks[static_cast<std::size_t>(i)];
      row.slot = static_cast<std::int32_t>(i);
      input.decode.push_back(row);
    }
  }
  std::vector<std::vector<std::int32_t>> blocks;
  exec::ForwardInput input;
};

double seconds_of(exec::Engine& engine, const exec::ForwardInput& input) {
  exec::ForwardOutput output;
  const auto start = std::chrono::steady_clock::now();
  engine.run(input, output);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One decode step at batch 1: the bytes that it must read divided by its time, as a fraction of the read bandwidth.
void BM_DecodeStep(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const model::DType dtype = dtype_of(state.range(1));
  exec::Engine& engine = engine_of("bench-llama-254m", threads, state.range(1));
  const Decode decode(1, kBatch1Context);
  const model::LlmShape& shape = engine.config().architecture.shape;
  // Without the embedding, where only one row is read.
  const double bytes = model::weight_bytes_per_rank(shape, dtype, 1, 1).value - 2.0 * shape.vocab * shape.hidden;
  double step = 1e9, bandwidth = 0;
  (void)seconds_of(engine, decode.input);
  for (auto _ : state) {
    bandwidth = std::max(bandwidth, exec::read_bandwidth(threads, exec::streamed_bytes()));
    const double took = seconds_of(engine, decode.input);
    step = std::min(step, took);
    state.SetIterationTime(took);
  }
  state.counters["tokens_per_s"] = 1 / step;
  state.counters["step_GB_per_s"] = 1e-9 * bytes / step;
  state.counters["probe_GB_per_s"] = 1e-9 * bandwidth;
  state.counters["of_read_bandwidth"] = bytes / step / bandwidth;
  state.counters["weights_over_cache"] = bytes / static_cast<double>(exec::last_level_cache());
}
BENCHMARK(BM_DecodeStep)
    ->ArgNames({"threads", "bits"})
    ->ArgsProduct({{1, 2}, {16, 8, 4}})
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);

// A step with many decoding rows: flops of the products divided by time, as a fraction of the multiply-add peak.
void BM_BatchedStep(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const std::int64_t rows = state.range(1);
  exec::Engine& engine = engine_of("bench-llama-254m", threads, state.range(2));
  const Decode decode(rows, kBatch1Context);
  const model::LlmShape& shape = engine.config().architecture.shape;
  const double weights = model::active_weight_count(shape) - static_cast<double>(shape.vocab) * shape.hidden;
  const double flops = 2 * weights * static_cast<double>(rows);
  double step = 1e9, peak = 0;
  (void)seconds_of(engine, decode.input);
  for (auto _ : state) {
    peak = std::max(peak, exec::fma_peak(threads));
    const double took = seconds_of(engine, decode.input);
    step = std::min(step, took);
    state.SetIterationTime(took);
  }
  state.counters["GFLOP_per_s"] = 1e-9 * flops / step;
  state.counters["probe_GFLOP_per_s"] = 1e-9 * peak;
  state.counters["of_fma_peak"] = flops / step / peak;
}
BENCHMARK(BM_BatchedStep)
    ->ArgNames({"threads", "rows", "bits"})
    ->ArgsProduct({{1, 2}, {16, 64, 128}, {16, 8, 4}})
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMillisecond);

// A prompt in one forward: flops of the products divided by time, as a fraction of the multiply-add peak.
void BM_Prefill(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const std::int64_t tokens = state.range(1);
  exec::Engine& engine = engine_of("bench-llama-254m", threads, state.range(2));
  const model::LlmShape& shape = engine.config().architecture.shape;
  std::vector<std::int32_t> prompt(static_cast<std::size_t>(tokens), 1), blocks;
  for (std::int32_t i = 0; i < (tokens + 15) / 16; ++i) blocks.push_back(i);
  exec::ForwardInput input;
  exec::PrefillRows rows;
  rows.tokens = prompt;
  rows.blocks = blocks;
  rows.emits = true;
  input.prefill.push_back(rows);
  // All weights but the embedding and the LM head, which only the last row passes through.
  const double weights = model::active_weight_count(shape) - 2.0 * static_cast<double>(shape.vocab) * shape.hidden;
  const double flops = 2 * weights * static_cast<double>(tokens);
  double step = 1e9, peak = 0;
  (void)seconds_of(engine, input);
  for (auto _ : state) {
    peak = std::max(peak, exec::fma_peak(threads));
    const double took = seconds_of(engine, input);
    step = std::min(step, took);
    state.SetIterationTime(took);
  }
  state.counters["GFLOP_per_s"] = 1e-9 * flops / step;
  state.counters["of_fma_peak"] = flops / step / peak;
}
BENCHMARK(BM_Prefill)
    ->ArgNames({"threads", "tokens", "bits"})
    ->ArgsProduct({{1, 2}, {512}, {16, 8, 4}})
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll
