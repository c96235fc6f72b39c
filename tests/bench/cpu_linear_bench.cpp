// SPDX-License-Identifier: Apache-2.0
// Linear layers of bench-llama-254m on this CPU, with weights of 16, 8 and 4 bits, as fractions of limits that are
// probed in between. The best of 20 repetitions of each counts. Successive calls use different copies of the weights,
// which together exceed the last-level cache.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "exec/cpu/integer_linear.h"
#include "exec/cpu/kernels.h"
#include "exec/cpu/packed_linear.h"
#include "exec/cpu/probes.h"

namespace plimsoll::exec {
namespace {

void BM_Linear(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(0));
  const std::int64_t rows = state.range(1), n = state.range(2), k = state.range(3);
  const auto bits = static_cast<int>(state.range(4));
  const KernelSet& kernels = select_kernels();
  const IntegerKernels& integers = *runnable_integers(kernels).front();
  ThreadPool pool(threads);
  const double bytes = bits == 16 ? 2 : bits / 8.0 + 2.0 / model::kLoadGroup;  // of a weight
  const auto matrix = bytes * static_cast<double>(n * k);
  const auto copies =
      std::max(std::int64_t{1}, static_cast<std::int64_t>(static_cast<double>(streamed_bytes()) / matrix));
  const FillRows fill = [k](std::int64_t, std::int64_t row, std::int64_t count, float* out) {
    for (std::int64_t i = 0; i < count * k; ++i) out[i] = static_cast<float>((row * k + i) % 251 - 125) * 1e-3F;
  };
  const LinearSpec spec{.n = n, .k = k, .copies = copies};
  std::unique_ptr<IntegerLinear> narrow;
  std::unique_ptr<PackedLinear> wide;
  if (bits == 16)
    wide = std::make_unique<PackedLinear>(kernels, spec, true, fill, pool);
  else
    narrow = std::make_unique<IntegerLinear>(integers, spec, bits, fill, pool);
  Multiplier multiplier(pool);
  IntegerMultiplier integer_multiplier(integers, pool);
  const std::vector<float> x(static_cast<std::size_t>(rows * k), 0.5F);
  std::vector<float> y(static_cast<std::size_t>(rows * n));
  Probe probe(kernels, pool, streamed_bytes());
  double best = 1e9, bandwidth = 0, peak = 0;
  std::int64_t copy = 0;
  for (auto _ : state) {
    bandwidth = std::max(bandwidth, probe.read_once());
    peak = std::max(peak, probe.fma_once());
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < copies; ++i) {  // each copy once, so none is in the cache
      const ProductRows product{.copy = copy++ % copies, .x = x.data(), .y = y.data(), .rows = rows};
      if (wide)
        multiplier.run(*wide, {&product, 1}, nullptr, false);
      else
        integer_multiplier.run(*narrow, {&product, 1}, nullptr, false);
    }
    const double took =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(copies);
    best = std::min(best, took);
    state.SetIterationTime(took);
  }
  const auto elements = static_cast<double>(n * k);
  state.counters["of_read_bandwidth"] = matrix / best / bandwidth;
  state.counters["of_fma_peak"] = 2 * elements * static_cast<double>(rows) / best / peak;
}

void linear_shapes(benchmark::internal::Benchmark* bench) {
  const std::int64_t layers[][2] = {{2048, 1024}, {1024, 1024}, {5632, 1024}, {1024, 2816}, {32000, 1024}};
  for (const std::int64_t threads : {1, 2})
    for (const std::int64_t rows : {1, 4, 16, 64, 128})
      for (const auto& layer : layers)
        for (const std::int64_t bits : {16, 8, 4}) bench->Args({threads, rows, layer[0], layer[1], bits});
}
BENCHMARK(BM_Linear)
    ->ArgNames({"threads", "rows", "n", "k", "bits"})
    ->Apply(linear_shapes)
    ->UseManualTime()
    ->Iterations(20)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace plimsoll::exec
