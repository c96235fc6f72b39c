// SPDX-License-Identifier: Apache-2.0
// Linear layers of bench-llama-254m on this CPU, as fractions of limits that are probed in between; the best of 20 of
// each counts. Weights rotate through 256 MiB, 8 times the last-level cache of a usual server.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>

#include "exec/cpu/kernels.h"
#include "exec/cpu/packed_linear.h"
#include "exec/cpu/probes.h"

namespace plimsoll::exec {
namespace {

constexpr std::int64_t kPool = 256 << 20;

void BM_Linear(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const std::int64_t rows = state.range(1), n = state.range(2), k = state.range(3);
  const KernelSet& kernels = select_kernels();
  ThreadPool pool(threads);
  const std::int64_t copies = std::max<std::int64_t>(1, kPool / (2 * n * k));
  const FillRows fill = [k](std::int64_t, std::int64_t row, std::int64_t count, float* out) {
    for (std::int64_t i = 0; i < count * k; ++i) out[i] = static_cast<float>((row * k + i) % 251 - 125) * 1e-3F;
  };
  const PackedLinear weights(kernels, {.n = n, .k = k, .copies = copies, .full_precision = false}, true, fill, pool);
  Multiplier multiplier(kernels, pool);
  const std::vector<float> x(static_cast<std::size_t>(rows * k), 0.5F);
  std::vector<float> y(static_cast<std::size_t>(rows * n));
  Probe probe(kernels, pool, kPool);
  double best = 1e9, bandwidth = 0, peak = 0;
  std::int64_t copy = 0;
  for (auto _ : state) {
    bandwidth = std::max(bandwidth, probe.read_once());
    peak = std::max(peak, probe.fma_once());
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < copies; ++i) {  // each copy once, so none is in the cache
      const ProductRows product{.copy = copy++ % copies, .x = x.data(), .y = y.data(), .rows = rows};
      multiplier.run(weights, {&product, 1}, nullptr, false);
    }
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(copies);
    best = std::min(best, took);
    state.SetIterationTime(took);
  }
  const auto elements = static_cast<double>(n * k);
  state.counters["of_read_bandwidth"] = 2 * elements / best / bandwidth;
  state.counters["of_fma_peak"] = 2 * elements * static_cast<double>(rows) / best / peak;
}

void shapes(benchmark::internal::Benchmark* bench) {
  const std::int64_t layers[][2] = {{2048, 1024}, {1024, 1024}, {5632, 1024}, {1024, 2816}, {32000, 1024}};
  for (const std::int64_t threads : {1, 2})
    for (const std::int64_t rows : {1, 4, 16, 64, 128})
      for (const auto& layer : layers) bench->Args({threads, rows, layer[0], layer[1]});
}
BENCHMARK(BM_Linear)
    ->ArgNames({"threads", "rows", "n", "k"})
    ->Apply(shapes)
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plimsoll::exec
